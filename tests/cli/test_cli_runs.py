"""Commands on a run that is kept on disk."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from tests.helpers.command_line import TINY, call


def test_a_run_is_kept_watched_and_made_longer(files):
    run = ["sample", "my.stan", "-d", "my.json", "-s", "rwm", "--run", "run"]
    call(*run, "-o", "one.nc", *TINY)
    assert "holds a run already" in call(*run, "-o", "two.nc", *TINY, status=1)
    watched = call("watch", "run", "--once")
    draws = results.dataset(sa.load("one.nc"), "posterior")
    count = draws.sizes["draw"]
    assert f"{count} per chain" in watched
    call("resume", "run", "--iter-sampling", str(3 * count), "-o", "longer.nc", "--quiet")
    longer = results.dataset(sa.load("longer.nc"), "posterior")
    assert longer.sizes["draw"] == 3 * count
    np.testing.assert_array_equal(longer["x"][:, :count], draws["x"])


def test_folders_without_a_run(files):
    for command in (["watch", "run", "--once"], ["resume", "run", "-o", "fit.nc"]):
        assert "holds no run that can be resumed" in call(*command, status=1)


@pytest.mark.usefixtures("files")
def test_a_reference_that_is_none():
    wrong = ["sample", "my.stan", "-d", "my.json", "-s", "smc", "--reference", "pathfindr"]
    found = call(*wrong, *TINY, status=1)
    assert "'pathfinder', an earlier fit or approximation, or its file, got 'pathfindr'" in found
