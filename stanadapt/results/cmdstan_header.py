"""The comments of CmdStan's CSV files: the header, the adaptation block and the elapsed time.

Readers depend on their layout: CmdStan's `stansummary` counts characters and lines, cmdstanr and
CmdStanPy look for "name = value". Its own entries are followed by those of this package: the
sampler, the statistics without record, and the names of the parameters.
"""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stanadapt.results.arviz_object import decoded

# Stan's name of each sampler statistic, ArviZ's name, and its type
STATISTICS = {
    "lp__": ("lp", np.float64),
    "accept_stat__": ("acceptance_rate", np.float64),
    "stepsize__": ("step_size", np.float64),
    "treedepth__": ("tree_depth", np.int64),
    "n_leapfrog__": ("n_steps", np.int64),
    "divergent__": ("diverging", bool),
    "energy__": ("energy", np.float64),
}
# statistics that are 0 for a sampler without trees, trajectories and divergences
ZERO_WITHOUT = ("treedepth__", "n_leapfrog__", "divergent__")
DEFAULT_DEPTH = 10  # CmdStan's
# our own entries, and the attributes that they record. None has the name of one of CmdStan's, such
# as `engine`: readers would take it for that
RECORDED = {
    "sampler": "sampler", "stan_engine": "engine", "exact": "exact", "settings": "settings",
    "program_hash": "program_hash", "data_hash": "data_hash", "stan_program": "program",
    "stan_data": "data", "integers": "integers",
}  # fmt: skip
TEXTS = ("stan_program", "stan_data")
# attributes by which a sampler describes how its draws are to be judged
JUDGED = (
    "acceptance_target", "acceptance_range", "fixed_trajectories", "hard_edges", "share_at_edges",
    "share_without_gradient", "check_failed", "cut_tails", "unsettled", "warmup_cut_short",
    "every_iteration", "density_raised",
)  # fmt: skip
FIRST_LINE = b"# stan_version_major"
VERSION = ("major", "minor", "patch")
# "?" precedes a default, which CmdStan marks where a value equals it; arguments that the sampler
# does not have are at their defaults
HEADER = """\
stan_version_major = {major}
stan_version_minor = {minor}
stan_version_patch = {patch}
model = {file.model}_model
method = sample (Default)
  sample
    num_samples = {file.num_samples}?1000
    num_warmup = {file.num_warmup}?1000
    save_warmup = {save_warmup}?0
    thin = {file.thin}?1
    adapt
      engaged = {engaged}?1
      gamma = 0.05 (Default)
      delta = {delta}?0.8
      kappa = 0.75 (Default)
      t0 = 10 (Default)
      init_buffer = 75 (Default)
      term_buffer = 50 (Default)
      window = 25 (Default)
    algorithm = hmc (Default)
      hmc
        engine = nuts (Default)
          nuts
            max_depth = {depth}?{DEFAULT_DEPTH}
        metric = diag_e (Default)
        metric_file =  (Default)
        stepsize = 1 (Default)
        stepsize_jitter = 0 (Default)
    num_chains = 1 (Default)
id = {file.number}?1
data
  file =  (Default)
init = 2 (Default)
random
  seed = {seed}
output
  file = {file.model}_{file.number}.csv
  diagnostic_file =  (Default)
  refresh = 100 (Default)
  sig_figs = 17
  profile_file = profile.csv (Default)
num_threads = 1 (Default)
"""
ADAPTATION = """\
Adaptation terminated
Step size = {step:.6g}
Diagonal elements of inverse mass matrix:
{metric}
"""
ELAPSED = """\

 Elapsed Time: {warmup} seconds (Warm-up)
               {sampling} seconds (Sampling)
               {total} seconds (Total)

"""


class File(NamedTuple):
    """One chain of a fit, with the attributes of the fit."""

    attributes: Mapping[str, Any]
    # model, number, chain: name of the program; number of the chain in the run, from 1; and in the
    # fit, from 0
    model: str
    number: int
    chain: int
    # columns, parameters, absent: names of all columns, of the parameters, and of statistics
    # without record
    columns: Sequence[str]
    parameters: Sequence[str]
    absent: Sequence[str]
    # draws, warmup_draws: numbers of rows
    draws: int
    warmup_draws: int

    @property
    def thin(self) -> int:
        """Iterations per draw."""
        return int(self.attributes.get("thin") or 1)

    @property
    def num_samples(self) -> int:
        """Sampling iterations before thinning."""
        return self._iterations("iter_sampling", self.draws)

    @property
    def num_warmup(self) -> int:
        """Iterations of warm-up; readers expect a saved warm-up to have as many, thinned."""
        if self.warmup_draws:
            return self._iterations("iter_warmup", self.warmup_draws)
        return int(self.attributes.get("iter_warmup") or 0)

    def _iterations(self, name: str, rows: int) -> int:
        # a run that was interrupted or extended has other lengths than the plan
        planned = int(self.attributes.get(name) or 0)
        return planned if -(-planned // self.thin) == rows else rows * self.thin


def is_stan_csv(path: Path) -> bool:
    """Whether a file begins as CmdStan's CSV files do."""
    try:
        with path.open("rb") as file:
            return file.read(len(FIRST_LINE)) == FIRST_LINE
    except OSError:
        return False


def header_lines(file: File) -> list[str]:
    """Return the lines above the names of the columns, without "# "."""
    stan, settings = stan_version(file.attributes), _settings(file.attributes)
    delta = settings.get("adapt_delta", settings.get("target_accept"))
    # the target of the trajectories that a sampler chose, if it chooses them
    delta = file.attributes.get("acceptance_target", delta)
    has_trees = "treedepth__" not in file.absent
    text = HEADER.format(
        file=file, DEFAULT_DEPTH=DEFAULT_DEPTH, **dict(zip(VERSION, stan, strict=True)),
        save_warmup=int(file.warmup_draws > 0), engaged=int(file.num_warmup > 0),
        delta=delta if has_trees and isinstance(delta, float) else 0.8,
        depth=settings.get("max_treedepth", DEFAULT_DEPTH), seed=file.attributes.get("seed", 0),
    )  # fmt: skip
    text = re.sub(r"= (.+)\?\1$", r"= \1 (Default)", text, flags=re.MULTILINE)
    lines = re.sub(r"\?[\d.]+$", "", text, flags=re.MULTILINE).splitlines()
    if any(stan):
        lines.append(f"stanc_version = stanc3 v{'.'.join(map(str, stan))}")
    return [*lines, "stancflags = ", *_record(file), *_remarks(file)]


def _settings(attributes: Mapping[str, Any]) -> dict[str, Any]:
    try:
        settings = json.loads(attributes.get("settings", "{}"))
    except (TypeError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}


def stan_version(attributes: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the version of Stan that computed the density; zeros if it is not recorded."""
    recorded = " ".join(str(attributes.get(name, "")) for name in ("engine", "backend_version"))
    found = re.search(r"stan\D{0,9}(\d+)\.(\d+)\.(\d+)", recorded, re.IGNORECASE)
    if found is None or "stanli" in found[0].lower():
        return 0, 0, 0
    return int(found[1]), int(found[2]), int(found[3])


def _record(file: File) -> list[str]:
    """Return entries that CmdStan does not have, from which `load` restores the fit."""
    entries = {"written_by": f"stanadapt {version('stanadapt')}"}
    entries |= {
        name: str(file.attributes[attribute])
        for name, attribute in RECORDED.items()
        if attribute in file.attributes
    }
    # texts come back unchanged, in one line, since their hashes are compared
    entries |= {name: json.dumps(entries[name]) for name in TEXTS if name in entries}
    judged = {name: file.attributes[name] for name in JUDGED if name in file.attributes}
    plain = json.dumps(judged, default=lambda array: array.tolist())  # or a number of NumPy
    entries["judged_from"] = plain if judged else ""
    entries |= {"parameters": " ".join(file.parameters), "not_recorded": " ".join(file.absent)}
    return [f"{name} = {_one_line(value)}" for name, value in entries.items() if value]


def _one_line(text: str) -> str:
    """Return text as one line without "=", at which readers split; JSON keeps its meaning."""
    if text[0] in '[{"':  # a hash may look like a number, even one that is too large for a float
        with contextlib.suppress(ValueError):
            # in JSON, "=" occurs in strings only
            return json.dumps(json.loads(text)).replace("=", r"\u003d")
    return " ".join(text.replace("=", " ").split())


def _remarks(file: File) -> list[str]:
    """Say which numbers in the file are no record."""
    derived = "treedepth__" in file.absent and "n_leapfrog__" not in file.absent
    own = ("treedepth__",) if derived else ()
    zeros = ", ".join(name for name in file.absent if name in ZERO_WITHOUT and name not in own)
    unknown = ", ".join(name for name in file.absent if name not in ZERO_WITHOUT)
    remarks = {
        f"Columns of zeros, since the sampler has no such statistic: {zeros}": bool(zeros),
        f"Columns of nan, since the sampler has no record: {unknown}": bool(unknown),
        "The metric below is ones, since the fit does not record that of the run": _metric(file)
        is None,
    }
    return [text for text, holds in remarks.items() if holds]


def _metric(file: File) -> list[float] | None:
    """Return the diagonal of the inverse metric that a fit of Stan's NUTS records."""
    try:
        rows = json.loads(file.attributes.get("inverse_metric", "null"))
        return [float(x) for x in rows[file.chain]]
    except (TypeError, ValueError, IndexError):
        return None


def adaptation_lines(file: File, draws: np.ndarray) -> list[str]:
    """Return the block between warm-up and draws; the step size is that of the first draw."""
    step = draws[0, list(file.columns).index("stepsize__")] if len(draws) else np.nan
    metric = _metric(file)
    if metric is None:
        own = {*file.parameters}
        elements = [name for name in file.columns if re.split("[.:]", name)[0] in own]
        metric = [1] * max(len(elements), 1)
    shown = ", ".join(f"{element:.6g}" for element in metric)
    return ADAPTATION.format(step=step, metric=shown).splitlines()


def elapsed_lines(file: File) -> list[str]:
    """Return the times of the chain, 0 if they are not recorded."""
    warmup, sampling = (_seconds(file, name) for name in ("warmup_seconds", "sampling_seconds"))
    # digits without an exponent, as readers expect them
    fixed = (f"{seconds:.3f}" for seconds in (warmup, sampling, warmup + sampling))
    shown = [text.rstrip("0").rstrip(".") for text in fixed]
    return ELAPSED.format(warmup=shown[0], sampling=shown[1], total=shown[2]).splitlines()


def _seconds(file: File, name: str) -> float:
    times = np.atleast_1d(decoded(file.attributes.get(name, 0.0)))
    kept = np.size(decoded(file.attributes.get("chains_kept", ())))
    # our samplers record the time of every chain, also of those that were left out
    place = file.number - 1 if times.size > kept else file.chain
    try:
        return float(times[place])
    except (IndexError, TypeError, ValueError):
        return 0.0
