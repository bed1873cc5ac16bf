"""The whole daemon with the real claude, against a scripted model on loopback."""
