"""Jumps between modes: repelling_attracting."""
