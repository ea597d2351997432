"""Langevin samplers: mala, ula, and sgld with its mini-batches."""
