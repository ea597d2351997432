"""A-NICE-MC: proposals from a trained volume-preserving network."""
