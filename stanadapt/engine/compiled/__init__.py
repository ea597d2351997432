"""Pieces of compiled code, and how they are compiled and cached."""
