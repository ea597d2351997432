"""Short trials of several samplers, and a recommendation."""
