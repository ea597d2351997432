"""Tests of simulation-based calibration."""
