"""The engine: the protocol of samplers, the density, chains, and compiled pieces."""
