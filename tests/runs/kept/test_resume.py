"""A run that ended anywhere continues draw for draw, whichever sampler it is of."""

import json
import os
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version

import filelock
import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.engine import chain as chain_module
from stanadapt.errors import StanadaptError
from stanadapt.runs import checkpoint
from stanadapt.runs import folder as folder_module
from stanadapt.samplers import registered
from stanadapt.samplers.tempering import Extended, ReferenceDistribution
from stanadapt.targets.stan import checked_data
from tests.helpers.codes import raises, raises_in, warns
from tests.helpers.driven_runs import SMALL_CHUNKS, Crash, Crashing, crash, resume_with, sample_with
from tests.helpers.sampler_settings import FASTER, VARIANTS
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.short_runs import assert_same_draws, assert_same_fit
from tests.helpers.stan_target import shared_target

pytestmark = pytest.mark.filterwarnings("ignore")
# scales of 1e-3 to 50, a parameter that is bounded, and quantities that are drawn
PROGRAM = """
parameters { vector[3] x; real<lower=0> s; }
model { x ~ normal([1, -20, 0], [1e-3, 50, 2]); s ~ gamma(3, x[3]^2 + 1); }
generated quantities { real y_rep = normal_rng(x[1], s); real z = gamma_rng(0.3, 1); }
"""
LENGTH = {"chains": 3, "iter_warmup": 150, "iter_sampling": 60, "seed": 5}
CASES = [(n, chosen) for n in registered() for chosen in (VARIANTS.get(n, [{}])[0], {})[:1]]
THREADED = [("parallel_tempering", {"swaps": "energy_rings"}), ("pseudo_extended", {})]


target = shared_target(PROGRAM)


def draw(target, case, parts=(), **changes):
    name, settings = case
    chosen = {**LENGTH, **FASTER.get(name, {}), **settings, **changes}
    return sample_with(dict(parts), target, name, **chosen)


def draw_crashing(after, target, case, **changes):
    with pytest.raises(Crash):
        draw(target, case, crash(after), **changes)


resume = sa.resume


# others are slow: each compiles a sampler in another process
QUICK_CRASHES = {("whitened_hmc", 40), ("gad_mala", 40)}


def marks_of(name, after):
    """Every sampler crashes while it draws; in `make soak` also at the beginning and the end."""
    if (name, after) in QUICK_CRASHES:
        return []
    return [pytest.mark.slow] if after == 40 else [pytest.mark.soak]


@pytest.mark.parametrize(
    ("case", "after"),
    [
        pytest.param(case, after, id=f"{case[0]}-{after}", marks=marks_of(case[0], after))
        for case in CASES
        for after in (2, 40, 75)
    ],
)
def test_a_crash_changes_no_draw(target, case, after, tmp_path):
    whole = draw(target, case, save_warmup=True)
    draw_crashing(after, target, case, save_warmup=True, run=tmp_path / "run")
    assert_same_fit(resume(tmp_path / "run"), whole)


@pytest.mark.slow
@pytest.mark.parametrize("case", THREADED, ids=lambda case: case[0])
def test_a_crash_of_chains_with_several_threads(target, case, tmp_path):
    whole = draw(target, case, threads_per_chain=2)
    draw_crashing(50, target, case, threads_per_chain=2, run=tmp_path / "run")
    assert_same_fit(resume(tmp_path / "run"), whole)


def test_two_crashes_and_a_longer_run(target, tmp_path):
    case, run = ("whitened_hmc", {}), tmp_path / "run"
    long = draw(target, case, iter_sampling=900, thin=2)
    draw_crashing(60, target, case, thin=2, run=run)
    with pytest.raises(Crash):
        resume_with(crash(5), run)
    resume(run, parallel_chains=1)
    assert_same_fit(resume(run, iter_sampling=900), long)


@pytest.mark.slow
def test_a_pseudo_extension_is_given_again(target, tmp_path):
    reference = ReferenceDistribution([1.0, -20.0, 0.0, 0.0], [1e-2, 150.0, 6.0, 3.0])
    extended = Extended(target, 3, reference_distribution=reference)
    whole = draw(extended, ("nuts", {}), save="pseudo")
    draw_crashing(50, extended, ("nuts", {}), save="pseudo", run=tmp_path / "run")
    with raises("run_needs_target", "Extended", "target"):
        resume(tmp_path / "run")
    with raises("run_mismatch", "pseudo-extension"):
        resume(tmp_path / "run", target=target)
    assert_same_fit(resume(tmp_path / "run", target=extended), whole)


@pytest.mark.thorough
def test_prior_data_are_kept(tmp_path):
    program = """
    data { int n; vector[n] y; }
    parameters { real m; } model { m ~ normal(0, 30); y ~ normal(m, 5); }
    """
    target = sa.Target(program, {"n": 2, "y": [40.0, 45.0]})
    prior = {"prior_data": {"n": 0, "y": []}, "threads_per_chain": 1}
    whole = draw(target, ("parallel_tempering", {}), **prior)
    draw_crashing(30, target, ("parallel_tempering", {}), run=tmp_path / "run", **prior)
    assert_same_fit(resume(tmp_path / "run"), whole)


def test_a_run_that_suffices_ends_and_one_that_does_not_grows(target, tmp_path):
    run = tmp_path / "run"
    draw(target, ("nuts", {}), iter_warmup=500, run=run)
    wanted = 1500.0
    fit = resume(run, until_ess=wanted)
    found = efficiency(results.columns(fit, wanted=results.parameters(fit)))
    assert min(found.ess_bulk.min(), found.ess_tail.min()) > wanted
    assert found.r_hat.max() < 1.01
    assert results.dataset(fit, "posterior").sizes["draw"] < 60_000
    again = resume(run, until_ess=0.5 * wanted)
    assert_same_fit(again, fit)


def finished_run(target, path):
    with np.errstate(all="ignore"):
        draw(target, ("nuts", {}), run=path)
    return path


class TestOfAFinishedRun:
    """What is read from its folder, and what is refused."""

    @pytest.fixture(scope="class")
    def finished(self, target, tmp_path_factory):
        return finished_run(target, tmp_path_factory.mktemp("kept") / "run")

    @pytest.fixture
    def run(self, finished, tmp_path):
        return shutil.copytree(finished, tmp_path / "run")

    def test_the_draws_can_be_read_without_stan(self, target, run):
        whole = draw(target, ("nuts", {}))
        fit = sa.load(run)
        assert_same_draws(fit, whole, ("posterior", "posterior_predictive", "sample_stats"))
        for name, x in results.dataset(whole, "sample_stats").items():
            assert results.dataset(fit, "sample_stats")[name].dtype == x.dtype
        assert fit.attrs["interrupted"] == 0
        assert fit.attrs["verdict"] == whole.attrs["verdict"]

    def test_what_is_known_at_the_start_is_read_too(self, target, run):
        attributes = sa.load(run).attrs
        for name in ("backend_reason", "backend_version", "density_check"):
            assert attributes[name] == getattr(target, name)
        assert attributes["exact"] == 1

    @staticmethod
    def set_back(run, number, **changes):
        """Let a chain of a folder be where it was earlier; `rows` are those of sampling."""
        folder = folder_module.RunFolder.open(run)
        arrays = checkpoint.newest(folder, 3)[number - 1]
        summary = checkpoint.summary_of(arrays)
        summary["rows"]["sampling"] = changes.pop("rows", 0)
        text = json.dumps({**summary, "done": 50, **changes})
        arrays[checkpoint.SUMMARY] = np.frombuffer(text.encode(), np.uint8)
        folder.write_arrays(checkpoint.chain_file(number - 1), arrays)

    @pytest.mark.parametrize("rows", [0, 3])
    def test_a_chain_that_is_far_behind_does_not_hide_the_others(self, run, rows):
        self.set_back(run, 2, rows=rows)
        fit = sa.load(run)
        assert results.dataset(fit, "posterior")["s"].shape == (2, 60)
        assert list(results.attribute(fit, "chains_kept")) == [1, 3]
        assert fit.attrs["interrupted"] == 1
        assert "chains_too_short" in fit.attrs["note_codes"]

    def test_chains_that_were_stopped_are_left_out(self, run):
        self.set_back(run, 2, rows=40, stopped=True)
        fit = sa.load(run)
        assert list(results.attribute(fit, "chains_kept")) == [1, 3]
        assert fit.attrs["interrupted"] == 0
        assert "chains_too_short" not in fit.attrs.get("note_codes", "")

    def test_what_each_chain_has_done_is_said_if_none_has_draws(self, run):
        for number in (1, 2):
            self.set_back(run, number, done=10 * number)
        self.set_back(run, 3, rows=40, stopped=True)
        with raises("no_draws_yet", "chain 1 has done 10 ", "chain 2 has done 20 ", "chain 3 was"):
            sa.load(run)
        for number in (1, 2):
            self.set_back(run, number, rows=40, stopped=True)
        with raises("no_draws", run, "inits") as caught:
            sa.load(run)
        assert "later" not in caught.value.message

    def test_changing_a_result_does_not_change_the_folder(self, run):
        fit = resume(run)
        before = results.dataset(fit, "posterior")["s"].values.copy()
        results.dataset(fit, "posterior")["s"].values[:] = 0.0
        np.testing.assert_array_equal(results.dataset(sa.load(run), "posterior")["s"], before)

    def test_a_second_run_is_not_written_over_it(self, target, run):
        with raises_in("files", "stanadapt.resume"):
            draw(target, ("nuts", {}), run=run)
        (run / "run.json").unlink()
        with raises_in("files", "run"):
            draw(target, ("nuts", {}), run=run)
        with raises_in("files", run):
            resume(run)

    @pytest.mark.parametrize(("name", "old", "new", "fact"), [
        ("program.stan", "50", "51", "program"),
        ("run.json", f'"format": {folder_module.FORMAT}', '"format": 9', "format 9"),
        ("run.json", '"sampler": "nuts"', '"sampler": "mine"', "mine"),
        ("run.json", '"sampler": "nuts"', '"sampler": "rwm"', "rwm"),
        ("run.json", '"sampler_hash": "', '"sampler_hash": "0', "nuts"),
        ("run.json", "{", "", "run.json"),
    ])  # fmt: skip
    def test_what_differs_is_named(self, run, name, old, new, fact):
        text = (run / name).read_text()
        assert old in text
        (run / name).write_text(text.replace(old, new, 1))
        with pytest.raises(StanadaptError, match=fact) as caught:
            resume(run)
        assert caught.value.stage == ("settings" if "format" not in old and new else "files")

    def test_other_versions_are_reported(self, run):
        manifest = json.loads((run / "run.json").read_text())
        manifest["versions"]["numba"] = "0.1"
        (run / "run.json").write_text(json.dumps(manifest))
        fit = resume(run)
        assert any("numba 0.1" in note for note in json.loads(fit.attrs["notes"]))
        assert "other_versions" in fit.attrs["note_codes"]

    def test_states_of_another_version_are_refused_with_both_versions(self, run):
        kept = results.dataset(sa.load(run), "posterior")["s"].values
        text = (run / "run.json").read_text()
        (run / "run.json").write_text(text.replace('"stanadapt": "', '"stanadapt": "0.0.', 1))
        held = folder_module.RunFolder.open(run).read_arrays("start.npz")
        np.savez(run / "start.npz", **{**held, "tree": np.zeros(1, np.uint8)})
        with raises(
            "run_unreadable", "began with stanadapt 0.0.", f"this is {version('stanadapt')}"
        ):
            resume(run)
        np.testing.assert_array_equal(results.dataset(sa.load(run), "posterior")["s"], kept)

    def test_another_target_is_refused(self, run):
        other = sa.Target(PROGRAM.replace("50", "51"))
        with raises("run_mismatch", "program"):
            resume(run, target=other)

    @pytest.mark.parametrize(("limit", "fact"), [
        ({"iter_sampling": 59}, "60"), ({"iter_sampling": 59}, "stanadapt.load"),
        ({"until_ess": -1}, "-1"), ({"max_minutes": "2"}, "2"),
    ])  # fmt: skip
    def test_what_is_no_limit_of_a_longer_run(self, run, limit, fact):
        with raises("out_of_range", *limit, fact):
            resume(run, **limit)

    @pytest.mark.parametrize("name", ["chains.npz", "start.npz", "sampling_stats.npy"])
    @pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", None])
    def test_a_damaged_file_is_said_to_be_one(self, run, name, damage):
        path = run / name
        for own in run.glob("chain_*.npz"):
            own.unlink()
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage(path.read_bytes()))
        with raises_in("files", name):
            resume(run)

    def test_one_process_at_a_time(self, run):
        with filelock.FileLock(run / "lock"), raises_in("files", run):
            resume(run)
        assert sa.load(run) is not None


NOISY = """
parameters { real x; vector[2] u; }
transformed parameters { real a = 100 + x; real b = -100 + x; vector[2] c = [a, b]'; }
model { u ~ std_normal(); target += normal_lpdf(x | 0, 1) + 0.3 * sum(u); }
"""
NOISY_OPTIONS = {"noise": "u", "rho": 0.5, "exclude": ["b", "c"], "backend": "stanli"}


class TestTargetThatIsGivenAgain:
    """Its options change draws, or columns, or names alone."""

    @pytest.fixture(scope="class")
    def finished(self, tmp_path_factory):
        run = tmp_path_factory.mktemp("noisy") / "run"
        draw(sa.Target(NOISY, **NOISY_OPTIONS), ("rwm", {}), run=run)
        return run

    @pytest.fixture
    def run(self, finished, tmp_path):
        return shutil.copytree(finished, tmp_path / "run")

    @pytest.mark.parametrize(
        ("changed", "facts"),
        [
            ({"exclude": ["a", "c"]}, ["exclude", "a, c", "b, c"]),  # as many columns
            ({"exclude": "b"}, ["exclude", "b, c"]),
            ({"exclude": ()}, ["exclude", "none", "b, c"]),
            ({"rho": 0.25}, ["rho", "0.25", "0.5"]),
            ({"noise": (), "rho": 0.5}, ["noise", "none", "u"]),
        ],
    )
    def test_it_has_the_same_draws_and_columns(self, run, changed, facts):
        other = sa.Target(NOISY, **NOISY_OPTIONS | changed)
        with raises("run_mismatch", *facts):
            resume(run, target=other, iter_sampling=70)
        assert results.dataset(sa.load(run), "posterior").sizes["draw"] == 60

    def test_names_to_exclude_come_in_any_order(self, run):
        same = sa.Target(NOISY, **NOISY_OPTIONS | {"exclude": ["c", "b"]})
        assert set(results.dataset(resume(run, target=same), "posterior")) == {"x", "a"}

    def test_its_labels_are_those_of_the_folder_from_then_on(self, tmp_path):
        program = "parameters { vector[2] x; } model { x ~ normal(0, 1); }"
        quiet = {"backend": "stanli"}
        draw(sa.Target(program, **quiet), ("rwm", {}), run=tmp_path / "run")
        named = sa.Target(program, dims={"x": ["k"]}, coords={"k": ["p", "q"]}, **quiet)
        for fit in (resume(tmp_path / "run", target=named), sa.load(tmp_path / "run")):
            draws = results.dataset(fit, "posterior")["x"]
            assert draws.dims == ("chain", "draw", "k")
            assert list(draws["k"].values) == ["p", "q"]

    def test_arrays_of_another_run_are_refused(self, run):
        path = run / "sampling_constrained.npy"
        np.save(path, np.load(path)[:, :, :1])
        with raises("run_unreadable", path.name, "1"):
            resume(run)

    def test_columns_of_another_run_are_refused(self, run):
        manifest = json.loads((run / "run.json").read_text())
        manifest["columns"].reverse()
        (run / "run.json").write_text(json.dumps(manifest))
        with raises("run_mismatch", "columns"):
            resume(run)


@pytest.mark.thorough
def test_draws_that_are_not_exact_are_judged_so_from_the_folder(target, tmp_path):
    draw(target, ("ula", {}), run=tmp_path / "run", standardize=False)
    fit = sa.load(tmp_path / "run")
    assert fit.attrs["exact"] == 0
    assert "not_exact" in fit.attrs["verdict_codes"]


def test_a_full_disk_is_an_error_before_the_first_draw(target, tmp_path, monkeypatch):
    def full(number, start, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_module.os, "posix_fallocate", full)
    with raises_in("files", "No space left"):
        draw(target, ("nuts", {}), run=tmp_path / "run")
    assert not list((tmp_path / "run").glob("*.npy"))


def test_checkpoints_that_cannot_be_written_cost_no_draw(target, tmp_path):
    class Refused(checkpoint.WriteCheckpoints):
        def state_of(self, chain):
            if chain.n_done:
                raise OSError("the disk was taken away.")
            return super().state_of(chain)

    whole = draw(target, ("nuts", {}))
    fit = draw(target, ("nuts", {}), {"make_keeper": Refused}, run=tmp_path / "run")
    np.testing.assert_array_equal(
        results.dataset(fit, "posterior")["x"], results.dataset(whole, "posterior")["x"]
    )
    assert any("the disk was taken away" in note for note in json.loads(fit.attrs["notes"]))


def test_files_and_links_are_no_folders_for_a_run(target, tmp_path):
    (tmp_path / "run").write_text("mine")
    with raises_in("files", "run"):
        draw(target, ("nuts", {}), run=tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with raises("folder_not_empty", "choose a new one"):
        sa.sample(target, run=tmp_path / "link")


@pytest.mark.thorough
@pytest.mark.parametrize(("phase", "number"), slow_except(
    [("warm-up", signal.SIGTERM), ("sampling", signal.SIGINT)],
    [(phase, n) for phase in ("warm-up", "sampling") for n in (signal.SIGINT, signal.SIGTERM)],
))  # fmt: skip
def test_an_interrupted_run_names_resume(target, phase, number, tmp_path, monkeypatch):
    whole, run = draw(target, ("nuts", {})), tmp_path / "run"
    pressed, noticed = threading.Event(), threading.Event()

    class Threads(ThreadPoolExecutor):
        def shutdown(self, *arguments, **options):
            noticed.set()
            super().shutdown(*arguments, **options)

    monkeypatch.setattr(chain_module, "ThreadPoolExecutor", Threads)

    class Pressing(Crashing):
        def chunk_done(self, chain):
            super().chunk_done(chain)
            reached = chain.n_done > 50 if phase == "warm-up" else chain.sampling.rows > 7
            if reached and not pressed.is_set():
                pressed.set()
                os.kill(os.getpid(), number)
            if pressed.is_set():
                assert noticed.wait(60)  # by the main thread, which has told all threads to stop

    parts = {**SMALL_CHUNKS, "make_keeper": partial(Pressing, 10**9)}
    if phase == "warm-up":
        with raises("interrupted", "stanadapt.resume"):
            draw(target, ("nuts", {}), parts, run=run)
    else:
        fit = draw(target, ("nuts", {}), parts, run=run)
        assert fit.attrs["interrupted"] == 1
        assert any("stanadapt.resume" in sentence for sentence in sa.diagnose(fit).messages)
    assert_same_fit(resume(run), whole)


MEAN = "data { real m; } parameters { real x; } model { x ~ normal(m, 1); }"


DATA_OF_EVERY_RANK = """
data { int n; vector[2] file; matrix[0, 2] none; } parameters { real x; }
model { x ~ normal(mean(file), n); }
"""


def test_large_data_are_kept_as_arrays(monkeypatch, tmp_path):
    data, options = {"n": 2, "file": [1.5, 2.5], "none": np.zeros((0, 2))}, {**LENGTH, "chains": 1}
    small, large = tmp_path / "small", tmp_path / "large"
    sa.sample(sa.Target(DATA_OF_EVERY_RANK, data), "nuts", **options, run=small)
    monkeypatch.setattr(checked_data, "LARGE", 2)
    with ThreadPoolExecutor(1) as executor:
        sa.sample(
            sa.Target(DATA_OF_EVERY_RANK, data), "nuts", **options, run=large, executor=executor
        )
    assert (small / "data.json").exists()
    assert (large / "data.npz").exists()
    assert not (large / "data.json").exists()
    for read in (sa.load, partial(sa.resume, iter_sampling=70)):
        here, there = read(small), read(large)
        assert_same_draws(here, there)
        assert here["constant_data"].equals(there["constant_data"])
        assert here.attrs["data_hash"] == there.attrs["data_hash"]


def test_files_that_have_changed_since_a_run_began(tmp_path):
    """Sampling into the folder says what differs; resuming says that it draws from the old."""
    program, data, run = tmp_path / "m.stan", tmp_path / "m.json", tmp_path / "run"
    program.write_text(MEAN)
    data.write_text('{"m": 0}')
    options = {**LENGTH, "iter_sampling": 20}

    def sample(sampler="nuts"):
        made = sa.Target(program, data)
        return sa.sample(made, sampler, **options, run=run)

    old = sample()
    data.write_text('{ "m": 0.0 }')  # the same numbers
    with raises("run_exists", "same program, data and sampler", "resume"):
        sample()
    longer = sa.resume(run, iter_sampling=30)
    assert not any("changed" in note for note in results.from_json(longer, "notes", []))
    data.write_text('{"m": 9}')
    with raises("run_exists", "another data set", "old run"):
        sample()
    with raises("run_exists", "another sampler (nuts there, mala here)"):
        sample("mala")
    with warns("file_changed_since", "m.json", "old data"):
        longer = sa.resume(run, iter_sampling=40)
    assert any("m.json" in note for note in results.from_json(longer, "notes", []))
    np.testing.assert_array_equal(longer["posterior"]["x"][:, :20], old["posterior"]["x"])
    program.write_text(MEAN.replace("1)", "2)"))
    with raises("run_exists", "another program"):
        sample()
    with warns("file_changed_since", "m.stan", "old program"):
        sa.resume(run, iter_sampling=50)
    program.unlink()
    data.unlink()
    longer = sa.resume(run, iter_sampling=60)
    assert not any("changed" in note for note in results.from_json(longer, "notes", []))
    (run / "data.json").write_text('{"m": 1}')
    with raises("run_mismatch", "data"):
        sa.resume(run)
    manifest = run / "run.json"  # of an earlier release, which this one does not resume
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 5}))
    with raises("run_exists", "format 5", "another folder") as refused:
        sa.sample(sa.Target(MEAN, {"m": 9}), "nuts", **options, run=run)
    assert "resume" not in refused.value.message


@pytest.mark.slow
def test_a_run_records_that_short_chains_share_starts(target, tmp_path):
    """Nested R-hat depends on it: with the user's starts, and with few draws, they do not."""
    short = {**LENGTH, "chains": 32, "iter_warmup": 10, "iter_sampling": 8}
    run = tmp_path / "run"
    fit = sa.sample(target, "rwm", **short, run=run)
    longer = sa.resume(run, iter_sampling=9)
    for each in (fit, sa.load(sa.save(fit, tmp_path / "fit.nc")), longer, sa.load(run)):
        assert results.attribute(each, "superchains") == 16
    starts = {"x": [1.0, -20.0, 0.0], "s": 2.0}
    for changed in ({"inits": starts}, {"iter_sampling": 7}):
        assert "superchains" not in sa.sample(target, "rwm", **short | changed).attrs
