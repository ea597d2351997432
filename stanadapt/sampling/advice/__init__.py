"""Which sampler for this posterior? Short trials, and what they say."""
