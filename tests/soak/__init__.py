"""What takes too long for every day: `make soak`."""
