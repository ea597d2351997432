"""A target of a Stan program as a fixture that all tests of a file share."""

import pytest

import stanadapt as sa


def shared_target(program, data=None, **options):
    """Return a fixture: the target is made when the first test asks for it."""

    @pytest.fixture(scope="module")
    def target():
        return sa.Target(program, data, **options)

    return target
