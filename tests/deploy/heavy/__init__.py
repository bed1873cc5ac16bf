"""What needs packages of Debian and, for the most part, root: `tox -e deploy`."""
