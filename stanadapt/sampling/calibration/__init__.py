"""Simulation-based calibration: are the posteriors of simulated data those of their parameters?"""
