"""Stan's own NUTS, as the reference."""
