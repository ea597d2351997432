"""Fixtures that tests of several backends share."""

from tests.helpers.cached_builds import root
from tests.helpers.fake_cmdstan import computer

__all__ = ["computer", "root"]
