"""Targets of sampling: Stan programs with data, and distributions built from them."""
