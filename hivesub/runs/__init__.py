"""Runs and their subagents: turns toward a goal, signals, reports. Starts turns through `ITurnSpawner` alone."""
