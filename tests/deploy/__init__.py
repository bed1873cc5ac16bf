"""The daemon where it is deployed: under a service manager, in a container, below launchers and on a cluster."""
