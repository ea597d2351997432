"""Chains that are advanced by the workers of an executor, on this machine or on others."""
