"""The workflows: each runs with --quick, and what they do with failures and odd chains is right."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import models

WORKFLOWS = Path(__file__).parents[1] / "workflows"
WRITTEN = {
    "quickstart": ["quickstart/gad_mala.nc", "quickstart/nuts.nc"],
    "gad_gaussians": ["gad_gaussians/figure_1.png", "gad_gaussians/figure_2.png"],
    "gad_neal": ["gad_neal/gad_neal.md", "gad_neal/gad_neal.csv", "gad_neal/gad_neal.json"],
    "gad_logistic": ["gad_logistic/gad_logistic.md", "gad_logistic/gad_logistic_caravan.png"],
}


@pytest.fixture
def repeats(monkeypatch):
    """The module, found as a script beside it finds it."""
    monkeypatch.syspath_prepend(WORKFLOWS)
    import repeats

    return repeats


@pytest.mark.slow
@pytest.mark.parametrize("script", WRITTEN)
def test_quick_run_writes_its_files(script, tmp_path):
    """In an empty folder, where the output belongs."""
    command = [sys.executable, WORKFLOWS / f"{script}.py", "--quick"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in WRITTEN[script]:
        assert (tmp_path / "output" / name).stat().st_size > 0
        assert name in done.stdout


def test_failed_repeats_are_counted_apart_and_told(repeats, monkeypatch):
    real = repeats.draw

    def fails_at_times(method, target, length, seed, *rest):
        if method == "MALA" and length.draws > 1 and next(failing):
            raise sa.StanadaptError("sampling", "planted.", "Stan's own words")
        return real(method, target, length, seed, *rest)

    failing = iter([False, True, True])
    monkeypatch.setattr(repeats, "draw", fails_at_times)
    targets = {"ripley": sa.Target(*models.find("logistic", "ripley"))}
    jobs = [repeats.Job("ripley", "MALA", i, repeats.Length(50, 50)) for i in range(3)]
    rows, notes = repeats.run(jobs, targets, 1, "auto")
    line = repeats.summary(rows).loc["ripley", "MALA"]
    assert (line["repeats"], line["failed"]) == (1, 2)
    assert line["ess_min"] == rows["ess_min"][0] > 0
    assert len(notes) == 1
    assert "2 of 3 repeats failed" in notes[0]
    assert "Stan's own words" in notes[0]


def test_ctrl_c_keeps_what_was_done(repeats, monkeypatch):
    real = repeats.draw

    def interrupted(method, target, length, seed, *rest):
        if length.draws > 1 and next(stopping):
            raise sa.StanadaptError("sampling", "interrupted during warm-up after 3 iterations")
        return real(method, target, length, seed, *rest)

    stopping = iter([False, True])
    monkeypatch.setattr(repeats, "draw", interrupted)
    targets = {"ripley": sa.Target(*models.find("logistic", "ripley"))}
    jobs = [repeats.Job("ripley", "RWM", i, repeats.Length(50, 50)) for i in range(3)]
    rows, notes = repeats.run(jobs, targets, 1, "auto")
    assert len(rows) == 1
    assert notes == ["interrupted after 1 of 3 chains."]


def test_seeds_suit_cmdstan_and_differ(repeats):
    """CmdStan 2.27 refuses seeds from 2**31 on."""
    targets = {"ripley": sa.Target(*models.find("logistic", "ripley"))}
    jobs = [repeats.Job("ripley", "RWM", i, repeats.Length(5, 5)) for i in range(12)]
    rows, _ = repeats.run(jobs, targets, 1, "auto")
    assert rows["seed"].is_unique
    assert rows["seed"].between(0, 2**31 - 1).all()


def test_columns_without_a_usable_estimate(repeats):
    still, alternating = np.ones(100), np.tile([1.0, -1.0], 50)
    alternating = alternating + 0.1 * np.random.default_rng(1).standard_normal(100)
    assert repeats._ess(still, repeats._bulk) == 1
    assert repeats._ess(alternating, lambda x: -3010.0) == 100
    assert repeats._ess(alternating, lambda x: 40.0) == 40
