"""What the daemon needs of the operating system: directories, files, descriptors, the service manager."""
