"""Runs under random limits: their result has equal draws of all chains, and no draw is lost.

A run may end by its length, by a time limit, by the user's function, which stops it or fails, or
by Ctrl-C at a random moment: at any call of a Python function of the package. Whatever ends it, the
result is a fit with the first draws of each chain of the run that nothing ended, or, if there was
no draw yet, an error with a code.
"""

import contextlib
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stanadapt as sa
from stanadapt import results

PACKAGE = str(Path(sa.__file__).parent)
PROGRAM = """
parameters { vector[2] x; real<lower=0> s; }
model { x ~ normal([3, -1000], [0.01, 200]); s ~ lognormal(0, 1); }
generated quantities { real twice = 2 * s; real z = normal_rng(s, 1); }
"""
LENGTHS = {"rwm": 20_000, "nuts": 4_000}  # of the longest runs
# codes of a run that ended before its first draw
WITHOUT_DRAWS = {"no_draws", "interrupted"}


class Limits(NamedTuple):
    """Arguments of a run, and what ends it.

    Arguments:
        Those of `sample`.
    ends_at
        Number of the call of the progress function at which that returns True or fails.
    fails
        Whether it fails.
    signal_at
        Number of the call of a Python function at which Ctrl-C is pressed, counted from the first
        call of the progress function.
    kept
        Whether the run is kept in a folder.
    """

    arguments: dict[str, Any]
    ends_at: int | None
    fails: bool
    signal_at: int | None
    kept: bool


def limits(seed: int) -> Limits:
    """Return random limits."""
    rng = np.random.default_rng([seed, 33])
    chains = int(rng.integers(1, 6))
    long, sampler = rng.random() < 0.6, str(rng.choice(list(LENGTHS)))
    arguments: dict[str, Any] = {
        "sampler": sampler,
        "chains": chains,
        "parallel_chains": int(rng.integers(1, chains + 2)),
        "iter_warmup": int(rng.integers(0, 120)),
        "iter_sampling": LENGTHS[sampler] if long else int(rng.integers(3, 60)),
        "thin": int(rng.choice([1, 1, 3])),
        "seed": int(rng.integers(0, 1000)),
        "save_warmup": bool(rng.random() < 0.2),
        "standardize": bool(rng.random() < 0.3),
    }
    if rng.random() < 0.3:
        arguments["max_minutes"] = float(10 ** rng.uniform(-6, -2.3))
    if rng.random() < 0.2:
        arguments["inits"] = "pathfinder"
    ends_at = int(rng.geometric(0.3)) if long or rng.random() < 0.3 else None
    return Limits(
        arguments,
        ends_at,
        bool(rng.random() < 0.2),
        # most moments between the last draw and the judging are among the first
        int(10 ** rng.uniform(0, rng.choice([1.8, 3.7]))) if rng.random() < 0.5 else None,
        bool(rng.random() < 0.2),
    )


class Watcher:
    """The progress function of a run: it remembers the draws, and presses Ctrl-C.

    draws
        The most draws that all chains had when it was called.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.calls, self.draws, self.left = limits, 0, 0, limits.signal_at
        self.pressed = False

    def __call__(self, progress: Any) -> bool:
        self.calls += 1
        if not progress.task:
            self.draws = max(self.draws, progress.draws)
            if self.left is not None and not self.pressed:
                sys.setprofile(self._profile)
        if self.calls == self.limits.ends_at:
            if self.limits.fails:
                raise ArithmeticError("of the progress function")
            return True
        return False

    def _profile(self, frame: Any, event: str, argument: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if frame.f_code.co_name == "<genexpr>":  # Python ignores what is raised where it is closed
            return
        assert self.left is not None
        self.left -= 1
        if self.left == 0:
            sys.setprofile(None)
            self.pressed = True
            signal.raise_signal(signal.SIGINT)


def run(target: sa.Target, limits: Limits, folder: str | None = None) -> tuple[Any, Watcher]:
    """Return the fit, or the exception in its place, and what the progress function saw."""
    watcher = Watcher(limits)
    kept = {"run": folder} if limits.kept else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sa.sample(target, **limits.arguments, **kept, show_progress=watcher), watcher
    except (sa.StanadaptError, KeyboardInterrupt) as error:
        return error, watcher
    finally:
        sys.setprofile(None)


def faults(target: sa.Target, seed: int) -> list[str]:
    """Run under random limits, and return what is wrong with the result."""
    chosen = limits(seed)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(OSError):
        outcome, watcher = run(target, chosen, os.path.join(folder, "run"))
        after = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        found = [] if before == after else [f"handlers of signals: {after}"]
        if isinstance(outcome, BaseException):
            found += _faults_without_fit(outcome, watcher)
        else:
            found += _faults_of_fit(target, chosen, outcome, watcher, folder)
    return [f"seed {seed}: {fault} ({chosen})" for fault in found]


def _faults_without_fit(error: BaseException, watcher: Watcher) -> list[str]:
    if watcher.draws:
        return [f"{watcher.draws} draws are lost: {error!r}"]
    if isinstance(error, KeyboardInterrupt):
        return [] if watcher.pressed else ["KeyboardInterrupt without Ctrl-C"]
    if error.code not in WITHOUT_DRAWS:  # type: ignore[attr-defined]
        return [f"an unexpected error: {error!r}"]
    return []


def _faults_of_fit(
    target: sa.Target, chosen: Limits, fit: Any, watcher: Watcher, folder: str
) -> list[str]:
    found, arguments = [], chosen.arguments
    posterior, stats = (results.dataset(fit, name) for name in ("posterior", "sample_stats"))
    draws = posterior.sizes["draw"]
    planned = -(-arguments["iter_sampling"] // arguments["thin"])
    kept = np.atleast_1d(results.attribute(fit, "chains_kept")).tolist()
    # a chain without draws is left out; after Ctrl-C also one that has far fewer than others
    of_all = arguments["chains"] ** 2 * watcher.draws
    if len(kept) < arguments["chains"] and len(kept) ** 2 * draws < of_all:
        found.append(f"the chains {kept} alone")
    if not (watcher.draws if len(kept) == arguments["chains"] else 1) <= draws <= planned:
        found.append(f"{draws} draws, {watcher.draws} seen")
    if (len(kept), draws) != (posterior.sizes["chain"], stats.sizes["draw"]):
        found.append(f"draws and statistics differ: {posterior.sizes}, {stats.sizes}")
    for dataset in (posterior, stats):
        for name, values in dataset.data_vars.items():
            if values.dtype.kind == "f" and np.isnan(values.values).any():
                found.append(f"{name} has NaN")
    if fit.attrs["verdict"] == "not judged" and not watcher.pressed:
        found.append("not judged")
    if draws < planned and not (watcher.pressed or results.from_json(fit, "note_codes", [])):
        found.append("fewer draws, and no reason")
    again = sa.load(sa.save(fit, os.path.join(folder, "fit.nc")))
    if not results.dataset(again, "posterior").equals(posterior):
        found.append("the file has other draws")
    return found + _differing_draws(target, chosen, posterior, [number - 1 for number in kept])


def _differing_draws(
    target: sa.Target, chosen: Limits, posterior: Any, kept: list[int]
) -> list[str]:
    """Compare with a run of that length that nothing ends."""
    length = posterior.sizes["draw"] * chosen.arguments["thin"]
    changed = {"iter_sampling": length, "parallel_chains": 1}
    plain = {**chosen.arguments, **changed}
    plain.pop("max_minutes", None)
    whole, _ = run(target, Limits(plain, None, False, None, False))
    if isinstance(whole, BaseException):
        return [f"the run without limits fails: {whole!r}"]
    theirs = results.dataset(whole, "posterior").isel(chain=kept)
    same = all(np.array_equal(theirs[name], posterior[name]) for name in posterior.data_vars)
    return [] if same else ["draws differ from those of a run without limits"]
