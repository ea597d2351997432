"""Warm-up in which all chains learn scales, correlations and step size together."""
