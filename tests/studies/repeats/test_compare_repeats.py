"""Repeats on a real target: seeds, rows, measures, and the contents of the folder."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptWarning, codes_of
from stanadapt.studies.repeats.rows import COLUMNS, compile_first, make_row, repeat_seed
from stanadapt.targets.stan import bundled
from tests.helpers import made_up_fits
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

SHORT = {"chains": 2, "iter_warmup": 60, "iter_sampling": 100}
SAMPLERS = {"rwm": {"initial_scale": 0.7}, "hmc": {}}
schools = shared_target(*bundled.find("eight_schools_noncentered"))


@pytest.fixture(scope="module")
def found(schools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeats")
    result = sa.compare_repeats(
        schools, SAMPLERS, repeats=3, seed=5, stan_nuts="none", run=folder, **SHORT
    )
    return result, folder


def test_every_sampler_has_every_repeat_and_its_row(found, schools):
    rows = found[0].rows
    assert list(rows.columns) == ["target", *COLUMNS]
    assert rows["sampler"].tolist() == ["rwm", "hmc"] * 3
    assert rows["repeat"].tolist() == [1, 1, 2, 2, 3, 3]
    assert rows["seed"].tolist() == [repeat_seed(5, i) for i in (1, 1, 2, 2, 3, 3)]
    assert rows.loc[rows["sampler"] == "rwm", "ess_bulk_min"].nunique() == 3
    assert not found[0].interrupted
    rows = found[0].rows
    row = rows[(rows["sampler"] == "rwm") & (rows["repeat"] == 2)].iloc[0]
    with pytest.warns(sa.ConvergenceWarning):
        fit = sa.sample(schools, "rwm", seed=int(row["seed"]), **SAMPLERS["rwm"], **SHORT)
    line = sa.compare({"rwm": fit}).iloc[0]
    for name in ("ess_bulk_min", "ess_tail_min", "r_hat_max", "densities", "draws", "verdict"):
        assert row[name] == line[name], name
    assert row["verdict"] != "fine"
    assert found[0].summary.loc["rwm", "fine"] == 0


def test_the_files_hold_the_same_table(found):
    result, folder = found
    assert {path.name for path in folder.iterdir()} == {
        "repeats.csv", "repeats.json", "repeats.pdf", "summary.tex",
    }  # fmt: skip
    csv = pd.read_csv(folder / "repeats.csv", keep_default_na=False, na_values=["nan"])
    assert csv["seed"].tolist() == result.rows["seed"].tolist()
    np.testing.assert_allclose(csv["r_hat_max"], result.rows["r_hat_max"])
    content = json.loads((folder / "repeats.json").read_text())
    assert (content["format"], content["schema"]) == ("stanadapt repeats", 3)
    assert content["settings"]["seed"] == 5
    assert content["settings"]["iter_warmup"] == 60
    assert content["samplers"]["rwm"]["initial_scale"] == 0.7
    assert {"stanadapt", "numpy", "numba"} <= content["versions"].keys()
    (target,) = content["targets"].values()
    assert len(target["program_hash"]) == len(target["data_hash"]) == 16
    assert [row["ess_bulk_min"] for row in content["rows"]] == result.rows["ess_bulk_min"].tolist()
    assert (folder / "summary.tex").read_text() == result.to_latex()


def test_the_result_prints_its_summary(found, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text, messages = repr(found[0]), found[0].messages
    assert "0 of 3" in text
    assert codes_of(messages) == ["intervals", "doubtful_repeats", "doubtful_repeats"]
    assert messages[0] in text
    table = text.split(messages[0])[0].split("no room")[0]
    assert max(map(len, map(str.rstrip, table.splitlines()))) <= 80


def test_stans_nuts_takes_part(schools):
    with pytest.warns(StanadaptWarning) as warned:
        found = sa.compare_repeats(
            schools, ["rwm"], repeats=2, seed=5, stan_nuts="stanli", chains=1, iter_sampling=50,
            iter_warmup=60,
        )  # fmt: skip
    assert sum("stanli" in str(one.message) for one in warned) == 1  # not in every repeat
    assert list(found.summary.index) == ["nuts", "rwm"]
    assert found.rows["draws"].tolist() == [50, 50] * 2
    assert found.origin["samplers"]["nuts"] == {"engine": "stanli"}


def test_the_workers_of_an_executor_run_the_chains(found, schools):
    """The table is the same except for seconds."""

    class Counting(ThreadPoolExecutor):
        sent = 0

        def submit(self, *arguments):
            self.sent += 1
            return super().submit(*arguments)

    with Counting(2) as executor:
        there = sa.compare_repeats(
            schools, {"rwm": SAMPLERS["rwm"]}, repeats=3, seed=5, stan_nuts="none",
            executor=executor, **SHORT,
        )  # fmt: skip
    assert executor.sent >= 3 * SHORT["chains"]
    rows = found[0].rows
    rows = rows[rows["sampler"] == "rwm"]
    for name in ("seed", "ess_bulk_min", "r_hat_max", "densities", "verdict"):
        assert there.rows[name].tolist() == rows[name].tolist(), name


def test_engines_seeds_and_compilation(schools):
    with raises("unknown_backend", "stan_nuts", "auto, cmdstan, stanli, none", "'foo'"):
        sa.compare_repeats(schools, ["rwm"], stan_nuts="foo")
    seeds = [repeat_seed(seed, repeat) for seed in range(20) for repeat in range(1, 51)]
    assert len(set(seeds)) == 1000
    assert 0 <= min(seeds) < max(seeds) < 2**31 - 1
    assert max(seeds) > 2**30  # the whole range
    with pytest.raises(KeyboardInterrupt):
        compile_first(lambda **options: made_up_fits.fit(1, interrupted=True), None)


def test_rows_have_costs_errors_and_the_requested_variables():
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
    fit = made_up_fits.in_another_mode(1)
    assert make_row("a", 1, 9, lambda seed: fit, ["a"], 0.0, quiet=True)["r_hat_max"] > 1.5
    assert make_row("a", 1, 9, lambda seed: fit, ["b"], 0.0, quiet=True)["r_hat_max"] < 1.05


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
