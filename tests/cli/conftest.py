"""Fixtures of the tests of the command line."""

from tests.helpers.command_line import files

__all__ = ["files"]
