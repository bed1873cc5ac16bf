"""A server with every feature that the conformance suite asks for, on the mount that the daemon's own servers are on.

The suite prescribes the names, the URIs and, where a check reads them, the texts. `content` answers at once, `asking`
asks the client something, `streams` sends something before its answer; `mount` serves them.
"""
