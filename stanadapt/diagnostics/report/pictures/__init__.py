"""The pictures of a report, one idea a file: each has a function `draw`."""
