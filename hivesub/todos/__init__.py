"""Todos: built when a run ends, kept on disk, and delivered to each sink."""
