"""The seed and the row of one repeat."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.studies.repeats.rows import COLUMNS, compile_first, make_row, repeat_seed
from tests.helpers import made_up_fits


def test_seeds_depend_on_both_numbers_and_suit_cmdstan():
    seeds = [repeat_seed(seed, repeat) for seed in range(20) for repeat in range(1, 51)]
    assert len(set(seeds)) == 1000
    assert 0 <= min(seeds) < max(seeds) < 2**31 - 1
    assert max(seeds) > 2**30  # the whole range


def test_a_row_has_the_costs_of_a_comparison_and_wall_time():
    clock = iter([10.0, 13.0]).__next__
    fit = made_up_fits.fit(1, seconds=2.0, gradients=5000, compile_seconds=7.5)
    row = make_row("a", 2, 9, lambda seed: fit, None, 7.0, quiet=True, clock=clock)
    line = sa.compare({"a": fit}).iloc[0]
    assert tuple(row) == COLUMNS
    assert row["wall_seconds"] == pytest.approx(2.5)  # 3, and half a second compiled
    assert row["seconds"] == pytest.approx(2.0)
    assert row["ess_per_second"] == pytest.approx(row["ess_bulk_min"] / 2.0)
    assert row["ess_per_gradient"] == pytest.approx(row["ess_bulk_min"] / 5000)
    assert row["ess_bulk_min"] == line["ess_bulk_min"]
    assert (row["sampler"], row["repeat"], row["seed"], row["verdict"]) == ("a", 2, 9, "fine")


def test_errors_are_measured_in_standard_deviations_of_the_reference():
    draws = made_up_fits.draws(1)
    shifted = draws | {"a": draws["a"] + 0.25 * draws["a"].std(ddof=1), "c": 1.5 * draws["c"]}
    fit, reference = made_up_fits.fit(1, posterior=shifted), made_up_fits.fit(1, posterior=draws)
    row = make_row("a", 1, 9, lambda seed: fit, ["a"], 0.0, quiet=True, reference=reference)
    assert row["error_mean"] == pytest.approx(0.25)
    assert row["error_sd"] == pytest.approx(0.0, abs=1e-12)
    row = make_row("a", 1, 9, lambda seed: fit, None, 0.0, quiet=True, reference=reference)
    assert row["error_sd"] == pytest.approx(0.5)
    assert np.isnan(make_row("a", 1, 9, lambda seed: fit, None, 0.0, quiet=True)["error_mean"])


def test_only_the_requested_variables_count():
    fit = made_up_fits.in_another_mode(1)
    assert make_row("a", 1, 9, lambda seed: fit, ["a"], 0.0, quiet=True)["r_hat_max"] > 1.5
    assert make_row("a", 1, 9, lambda seed: fit, ["b"], 0.0, quiet=True)["r_hat_max"] < 1.05


def test_the_run_that_compiles_is_brief_and_reports_no_failure():
    options_used = {}

    def draw(**options):
        options_used.update(options)
        raise sa.StanadaptError("no_draws", "all chains stopped.")

    compile_first(draw, iter_warmup=20)
    lengths = [options_used[name] for name in ("iter_warmup", "iter_sampling", "thin")]
    assert lengths == [20, 4, 1]
    compile_first(draw, iter_warmup=None)
    assert options_used["iter_warmup"] == 60


def test_ctrl_c_while_compiling_is_no_failure():
    with pytest.raises(KeyboardInterrupt):
        compile_first(lambda **options: made_up_fits.fit(1, interrupted=True), None)
