"""Read chains from CSV files, of CmdStan or of `cmdstan_csv`, as the groups of a fit."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.results.arviz_object import Fit, Groups, build, shapes, variables
from stanadapt.results.cmdstan_header import JUDGED, RECORDED, STATISTICS, TEXTS, is_stan_csv
from stanadapt.results.files import as_path, read_text
from stanadapt.results.join import require_different
from stanadapt.results.labels import make_labels, phase_groups

ADAPTED = "# Adaptation terminated"
SECONDS = re.compile(r"([\d.]+) seconds \((Warm-up|Sampling)\)")
# entries in which the files of one run agree
FIXED = "fixed_param"
SHARED = ("model", "num_samples", "save_warmup", "thin", "program_hash", "data_hash", "sampler",
          "stan_engine", "settings")  # fmt: skip


class Chain(NamedTuple):
    """The contents of a file: entries, names of columns, rows of both phases, seconds of each."""

    path: Path
    entries: dict[str, str]
    names: list[str]
    warmup: np.ndarray
    draws: np.ndarray
    seconds: dict[str, float]


def chains_in(folder: Path) -> list[Path]:
    """Return the CSV files of CmdStan in a folder."""
    return [path for path in sorted(folder.glob("*.csv")) if is_stan_csv(path)]


def load_csv(paths: Sequence[Any]) -> Fit:
    """Return the fit, not judged yet: each file holds a chain.

    Variables and groups have the names that a run without labels gives them. Labels, data and
    variables without elements are not in such files. "no_chains_in_csv": a file is not that of a
    chain, or is incomplete. "fits_do_not_join": it is not of the same run as the others.
    """
    chains = sorted((_read(as_path(path)) for path in paths), key=lambda one: _number(one, "id"))
    first = chains[0]
    for other in chains[1:]:
        _require_same_run(first, other)
    paths = [f"file {number} ({chain.path})" for number, chain in enumerate(chains, 1)]
    require_different(dict(zip(paths, [chain.draws for chain in chains], strict=True)))
    parameters = first.entries.get("parameters", "").split()
    groups = _phase("", chains, parameters)
    # a warm-up ends when it has learned enough: those of several jobs may differ in length
    if {len(chain.warmup) for chain in chains} == {len(first.warmup) or -1}:
        groups |= _phase("warmup_", chains, parameters)
    return build(groups, _attributes(chains, parameters))


def _error(path: Path, reason: str) -> StanadaptError:
    return StanadaptError("no_chains_in_csv", f"{path} {reason}.")


def _read(path: Path) -> Chain:
    lines = read_text(path, "CSV file").splitlines()
    comments = [line for line in lines if line.startswith("#")]
    rows = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
    entries = _entries(comments)
    if "model" not in entries or not rows:
        raise _error(
            path, "is not a CSV file of CmdStan: its header names no model, or it is empty"
        )
    if entries.get("method") != "sample":
        raise _error(
            path, f"was written by CmdStan's method {entries.get('method')}, and contains no chain"
        )
    names = lines[rows[0]].strip().split(",")
    ends = [number for number, line in enumerate(lines) if line.startswith(ADAPTED)]
    # the sampler for fixed parameters neither warms up nor adapts
    warmup = sum(number < ends[0] for number in rows[1:]) if ends else 0
    if not ends and entries.get("save_warmup") == "1" and entries.get("algorithm") != FIXED:
        # without adaptation, nothing marks the end of warm-up
        samples, thin = (_whole(path, entries, name) for name in ("num_samples", "thin"))
        warmup = max(len(rows) - 1 - -(-samples // thin), 0)
    values = _numbers(path, [lines[number] for number in rows[1:]], len(names))
    seconds = {phase: float(time) for time, phase in SECONDS.findall("\n".join(comments))}
    if not seconds:
        raise _error(
            path, "is incomplete: it has no elapsed time at its end. Wait for the end of the run"
        )
    return Chain(path, entries, names, values[:warmup], values[warmup:], seconds)


def _entries(comments: Sequence[str]) -> dict[str, str]:
    """Return the header by name; the first entry of several, since files have names too."""
    found: dict[str, str] = {}
    for line in comments:
        name, equals, value = line.lstrip("# ").partition("=")
        if equals:
            found.setdefault(name.strip(), value.strip().removesuffix("(Default)").strip())
    return {name: {"true": "1", "false": "0"}.get(value, value) for name, value in found.items()}


def _numbers(path: Path, rows: Sequence[str], columns: int) -> np.ndarray:
    """Return rows as numbers with every bit."""
    short = [row for row in rows if row.count(",") != columns - 1]
    if short:
        raise _error(path, f"is damaged: a row has {short[0].count(',') + 1} of {columns} columns")
    if not rows:
        return np.empty((0, columns))
    try:
        return np.loadtxt(rows, delimiter=",", dtype=np.float64, ndmin=2, comments=None)
    except ValueError as error:
        raise _error(path, f"is damaged: {error}") from None


def _require_same_run(first: Chain, other: Chain) -> None:
    for name in SHARED:
        if first.entries.get(name) != other.entries.get(name):
            raise StanadaptError(
                "fits_do_not_join",
                f"{other.path} does not belong to the run of {first.path}: {name} is "
                f"{other.entries.get(name)} there and {first.entries.get(name)} here.",
            )
    if first.names != other.names:
        raise _error(other.path, f"has other columns than {first.path}")
    if first.draws.shape != other.draws.shape:
        raise _error(
            other.path, f"has {len(other.draws)} draws, and {first.path} {len(first.draws)}"
        )


def _number(chain: Chain, name: str, default: int = 0) -> int:
    return _whole(chain.path, chain.entries, name, default)


def _whole(path: Path, entries: Mapping[str, str], name: str, default: int = 1) -> int:
    try:
        return int(entries.get(name, default))
    except ValueError:
        reason = f"is damaged: {name} is {entries[name]!r}, not a whole number"
        raise _error(path, reason) from None


def _phase(prefix: str, chains: Sequence[Chain], parameters: Sequence[str]) -> Groups:
    first = chains[0]
    rows = np.stack([chain.warmup if prefix else chain.draws for chain in chains])
    own = [i for i, name in enumerate(first.names) if not name.endswith("__")]
    names = [first.names[i] for i in own]
    unknown = first.entries.get("not_recorded", "").split()
    if first.entries.get("algorithm") == FIXED:  # which writes zeros
        unknown += ["lp__", "accept_stat__"]
    stats = {
        STATISTICS.get(name, (name.removesuffix("__"), float))[0]: rows[..., i].astype(
            STATISTICS.get(name, (name, np.float64))[1]
        )
        for i, name in enumerate(first.names)
        if name.endswith("__") and name not in unknown
    }
    labels = make_labels(None, shapes(names), {}, parameters)
    integers = _from_json(first, "integers", [])
    return phase_groups(labels, prefix, variables(names, rows[..., own], integers), stats)


def _attributes(chains: Sequence[Chain], parameters: Sequence[str]) -> dict[str, Any]:
    """Return the attributes that a fit of `stan_nuts`, or of the sampler that is named, has."""
    first = chains[0]
    entries = first.entries
    stan = [_number(first, f"stan_version_{part}") for part in ("major", "minor", "patch")]
    attributes: dict[str, Any] = {
        "inference_library": "stanadapt" if "written_by" in entries else "CmdStan",
        "model": entries["model"].removesuffix("_model"),
        "sampler": entries.get("sampler") or entries.get("engine") or entries.get("algorithm"),
        "iter_warmup": _number(first, "num_warmup", 1000),
        "iter_sampling": _number(first, "num_samples", 1000),
        "thin": _number(first, "thin", 1),
        "seed": _number(first, "seed"),
        "exact": _number(first, "exact", 1),
        "warmup_seconds": [chain.seconds.get("Warm-up", 0.0) for chain in chains],
        "sampling_seconds": [chain.seconds.get("Sampling", 0.0) for chain in chains],
        "chains_kept": [_number(chain, "id", i + 1) for i, chain in enumerate(chains)],
        "interrupted": False,
    }
    if len(set(attributes["chains_kept"])) < len(chains):  # one process of CmdStan ran them all
        attributes["chains_kept"] = list(range(1, len(chains) + 1))
    if parameters:
        attributes["parameters"] = list(parameters)
    if "written_by" in entries:
        if "stan_engine" in entries:
            attributes["engine"] = entries["stan_engine"]
        if "settings" in entries:
            settings = entries["settings"]
            with contextlib.suppress(ValueError):  # in the header, "=" is an escape sequence
                settings = json.dumps(json.loads(settings))
            attributes["settings"] = settings
        for name in ("program_hash", "data_hash", "integers"):
            if name in entries:
                attributes[name] = entries[name]
        attributes |= {
            RECORDED[name]: _from_json(first, name, "") for name in TEXTS if name in entries
        }
        judged = _from_json(first, "judged_from", {})
        attributes |= {name: judged[name] for name in JUDGED if name in judged}
    else:
        delta = float("nan")
        with contextlib.suppress(ValueError):
            delta = float(entries.get("delta", "nan"))
        attributes["engine"] = f"cmdstan {'.'.join(map(str, stan))}"
        attributes["settings"] = json.dumps(
            {"adapt_delta": delta, "max_treedepth": _number(first, "max_depth", 10)}
        )
    return attributes


def _from_json(chain: Chain, name: str, default: Any) -> Any:
    """Return an entry of this package, of the type of `default`, which stands for a missing one."""
    if name not in chain.entries:
        return default
    try:
        value = json.loads(chain.entries[name])
    except ValueError:
        value = None
    if not isinstance(value, type(default)):
        raise _error(chain.path, f"is damaged: {name} in its header is not as it was written")
    return value
