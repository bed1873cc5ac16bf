"""The official conformance suite, against the daemon and against a server with every feature on the same mount.

`suite` runs it and reads what it found, `applicable.toml` says which of its scenarios ask for something that the daemon
does not offer, and why; `everything` is the server with every feature, `packages` brings the suite and other clients.
"""
