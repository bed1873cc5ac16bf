"""The command `hivesub`, for a person at a shell: an MCP client of the daemon, as an agent is one. `main` reads the
command line, `daemon` calls, `show` draws, `follow` watches, `demo` plays.
"""
