"""Studies made of several runs."""
