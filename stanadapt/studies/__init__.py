"""Studies that consist of several runs: advice, approximations, calibration, repeats, reports."""
