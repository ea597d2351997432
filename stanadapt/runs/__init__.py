"""From a target and a sampler to an ArviZ object."""
