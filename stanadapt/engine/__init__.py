"""What every sampler is made of: the protocol, the chain, the density, compiled pieces."""
