"""The command `hivesub`, for a person at a shell. Where it asks a daemon it is an MCP client, as an agent is one.

`main` puts the commands together: `runs` has those that ask a daemon, `local` and `service` the others; `group` and
`given` read the command line. These are light, and load what does the work: `asking` and `daemon` call, `show`, `table`
and `follow` draw, `doctor` looks, `units` writes units, `demo` plays.
"""
