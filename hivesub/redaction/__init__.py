"""What keeps secrets out of all that is shown."""
