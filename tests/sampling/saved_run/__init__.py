"""Tests of runs on disk."""
