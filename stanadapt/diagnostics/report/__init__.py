"""A comparison as one HTML file, with pictures: which sampler to use, and whether to trust it."""
