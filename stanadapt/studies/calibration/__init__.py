"""Simulation-based calibration."""
