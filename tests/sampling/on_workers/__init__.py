"""Tests of chains that run on the workers of an executor."""
