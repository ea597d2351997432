"""The pseudo-extended density, which any sampler can use as its target."""
