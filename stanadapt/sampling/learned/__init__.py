"""Networks that propose moves: trained here, sampled with by `nice`."""
