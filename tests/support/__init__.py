"""What several layers of tests share: the daemon in a process of its own, and an agent that calls it."""
