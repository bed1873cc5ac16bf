"""What the daemon costs, beside its peers and beside the limits of what it is built on. `python -m bench` prints it.

Nothing here is asserted: numbers are for people, and `docs/explanation/performance.md` keeps the last table.
"""
