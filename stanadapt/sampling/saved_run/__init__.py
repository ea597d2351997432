"""Runs on disk: what a folder holds, and how a run goes on from it."""
