"""Clients that are not our own: each lists the tools, starts a subagent, asks for its status and interrupts it."""
