"""Short trials of several samplers, and which one they recommend."""
