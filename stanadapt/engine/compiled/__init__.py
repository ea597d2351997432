"""Pieces of compiled code, and the machinery that compiles and caches them."""
