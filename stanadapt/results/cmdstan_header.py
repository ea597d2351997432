"""The comments of CmdStan's CSV files: the header, the adaptation block and the elapsed time.

Readers depend on their layout: CmdStan's `stansummary` counts characters and lines, cmdstanr and
CmdStanPy look for "name = value". Its own entries are followed by those of this package: the
sampler, the statistics without record, and the names of the parameters.
"""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DEFAULT_DEPTH = 10  # CmdStan's
# attributes by which a sampler describes how its draws are to be judged
JUDGED = (
    "acceptance_target", "acceptance_range", "fixed_trajectories", "hard_edges", "share_at_edges",
    "share_without_gradient", "unsettled", "warmup_cut_short",
)  # fmt: skip
FIRST_LINE = b"# stan_version_major"
# an entry of the header, as CmdStan writes it: indentation, name, value, its default
Entry = tuple[int, str, Any, Any]


class File(NamedTuple):
    """One chain of a fit, with the attributes of the fit.

    model, number, chain
        Name of the program; number of the chain in the run, from 1; and in the fit, from 0.
    columns, parameters, absent
        Names of all columns, of the parameters, and of statistics without record.
    draws, warmup_draws
        Numbers of rows.

    """

    attributes: Mapping[str, Any]
    model: str
    number: int
    chain: int
    columns: Sequence[str]
    parameters: Sequence[str]
    absent: Sequence[str]
    draws: int
    warmup_draws: int

    @property
    def thin(self) -> int:
        """Iterations per draw."""
        return int(self.attributes.get("thin") or 1)

    @property
    def num_samples(self) -> int:
        """Iterations of sampling, of which the draws are the thinned ones."""
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
    stan = stan_version(file.attributes)
    lines = [
        f"stan_version_{part} = {number}"
        for part, number in zip(("major", "minor", "patch"), stan, strict=True)
    ]
    lines += [f"model = {file.model}_model", "method = sample (Default)"]
    lines += [_line(*entry) for entry in _entries(file)]
    if any(stan):
        lines.append(f"stanc_version = stanc3 v{'.'.join(map(str, stan))}")
    return [*lines, "stancflags = ", *_record(file), *_remarks(file)]


def _line(indentation: int, name: str, value: Any, default: Any) -> str:
    if value is None:
        return f"{' ' * indentation}{name}"
    suffix = " (Default)" if value == default else ""
    return f"{' ' * indentation}{name} = {value}{suffix}"


def _entries(file: File) -> list[Entry]:
    """Return CmdStan's arguments; those that the sampler does not have are at their defaults."""
    warmup, seed = file.num_warmup, file.attributes.get("seed", 0)
    settings = _settings(file.attributes)
    delta = settings.get("adapt_delta", settings.get("target_accept"))
    # the target of the trajectories that a sampler chose, if it chooses them
    delta = file.attributes.get("acceptance_target", delta)
    trees = "treedepth__" not in file.absent
    return [
        (2, "sample", None, None),
        (4, "num_samples", file.num_samples, 1000),
        (4, "num_warmup", warmup, 1000),
        (4, "save_warmup", int(file.warmup_draws > 0), 0),
        (4, "thin", file.thin, 1),
        (4, "adapt", None, None),
        (6, "engaged", int(warmup > 0), 1),
        (6, "gamma", 0.05, 0.05),
        (6, "delta", delta if trees and isinstance(delta, float) else 0.8, 0.8),
        (6, "kappa", 0.75, 0.75),
        (6, "t0", 10, 10),
        (6, "init_buffer", 75, 75),
        (6, "term_buffer", 50, 50),
        (6, "window", 25, 25),
        (4, "algorithm", "hmc", "hmc"),
        (6, "hmc", None, None),
        (8, "engine", "nuts", "nuts"),
        (10, "nuts", None, None),
        (12, "max_depth", settings.get("max_treedepth", DEFAULT_DEPTH), DEFAULT_DEPTH),
        (8, "metric", "diag_e", "diag_e"),
        (8, "metric_file", "", ""),
        (8, "stepsize", 1, 1),
        (8, "stepsize_jitter", 0, 0),
        (4, "num_chains", 1, 1),
        (0, "id", file.number, 1),
        (0, "data", None, None),
        (2, "file", "", ""),
        (0, "init", 2, 2),
        (0, "random", None, None),
        (2, "seed", seed, None),
        (0, "output", None, None),
        (2, "file", f"{file.model}_{file.number}.csv", "output.csv"),
        (2, "diagnostic_file", "", ""),
        (2, "refresh", 100, 100),
        (2, "sig_figs", 17, -1),
        (2, "profile_file", "profile.csv", "profile.csv"),
        (0, "num_threads", 1, 1),
    ]


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
    """Return entries that CmdStan does not have, from which `load` restores the fit.

    None has the name of one of CmdStan's, such as `engine`: readers would take it for that.
    """
    entries = {"written_by": f"stanadapt {version('stanadapt')}"}
    kept = {"sampler": "sampler", "stan_engine": "engine", "exact": "exact", "settings": "settings"}
    entries |= {
        name: str(file.attributes[attribute])
        for name, attribute in kept.items()
        if attribute in file.attributes
    }
    judged = {name: file.attributes[name] for name in JUDGED if name in file.attributes}
    entries["judged_from"] = json.dumps(judged, default=_plain) if judged else ""
    entries |= {"parameters": " ".join(file.parameters), "not_recorded": " ".join(file.absent)}
    return [f"{name} = {_one_line(value)}" for name, value in entries.items() if value]


def _plain(value: Any) -> Any:
    """Return an array or a number of NumPy as one of Python, for JSON."""
    return value.tolist()


def _one_line(text: str) -> str:
    """Return text as one line without "=", at which readers split; JSON keeps its meaning."""
    try:
        # in JSON, "=" occurs in strings only
        return json.dumps(json.loads(text)).replace("=", r"\u003d")
    except ValueError:
        return " ".join(text.replace("=", " ").split())


def _remarks(file: File) -> list[str]:
    remarks = []
    zeros = [name for name in file.absent if name in ("treedepth__", "n_leapfrog__", "divergent__")]
    unknown = [name for name in file.absent if name not in zeros]
    if zeros:
        remarks.append(
            f"Columns of zeros, since the sampler has no such statistic: {', '.join(zeros)}"
        )
    if unknown:
        remarks.append(f"Columns of nan, since the sampler has no record: {', '.join(unknown)}")
    if _metric(file) is None:
        remarks.append("The metric below is ones, since the fit does not record that of the run")
    return remarks


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
    return [
        "Adaptation terminated",
        f"Step size = {step:.6g}",
        "Diagonal elements of inverse mass matrix:",
        ", ".join(f"{element:.6g}" for element in metric),
    ]


def elapsed_lines(file: File) -> list[str]:
    """Return the times of the chain, 0 if they are not recorded."""
    warmup, sampling = (_seconds(file, name) for name in ("warmup_seconds", "sampling_seconds"))
    return [
        "",
        f" Elapsed Time: {_fixed(warmup)} seconds (Warm-up)",
        f"               {_fixed(sampling)} seconds (Sampling)",
        f"               {_fixed(warmup + sampling)} seconds (Total)",
        "",
    ]


def _seconds(file: File, name: str) -> float:
    times = np.atleast_1d(file.attributes.get(name, 0.0))
    kept = np.size(file.attributes.get("chains_kept", ()))
    # our samplers record the time of every chain, also of those that were left out
    place = file.number - 1 if times.size > kept else file.chain
    try:
        return float(times[place])
    except (IndexError, TypeError, ValueError):
        return 0.0


def _fixed(seconds: float) -> str:
    """Return seconds as readers expect them: digits without an exponent."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
