"""What the operator sets: names, defaults and checks of the daemon's options."""
