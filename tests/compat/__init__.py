"""Clients of the daemon that are not our own, and the releases of claude that it meets; `table` tells which work."""
