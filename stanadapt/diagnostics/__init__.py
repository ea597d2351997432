"""Diagnostics of fits: verdict, comparison, efficiency, modes."""
