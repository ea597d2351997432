"""Proposals that were learned before a run."""
