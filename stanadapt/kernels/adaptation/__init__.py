"""Rules that tune step sizes, scales and metrics during warm-up."""
