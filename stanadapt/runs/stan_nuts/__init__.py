"""Stan's own NUTS, with which our samplers are compared."""
