"""Fixtures of the tests of runs."""

from tests.helpers.fake_cmdstan import computer

__all__ = ["computer"]
