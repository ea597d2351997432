"""Random names, labels and attributes: a result keeps them, or they are refused with a code before.

Variables, dimensions and groups collide with each other, with statistics and with reserved names;
labels are of every kind that pandas, NumPy and Python have; names and attributes are any text.
Nothing may fail after the draws: what was accepted is built, written, read and compared.
"""

import datetime
import decimal
import enum
import fractions
import json
import os
import tempfile
import uuid
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.results.labels import arrays, data_groups, make_labels, phase_groups
from stanadapt.results.rehearsal import rehearse
from stanadapt.results.storable import as_text

DRAWS = (2, 3)
STATISTICS = ("lp", "energy", "diverging")
# codes of what is refused before a draw
REFUSED = {"wrong_labels", "reserved_name", "result_refused"}
VARIABLES = (
    "theta", "x", "y", "y_rep", "log_lik", "lp", "energy", "position", "theta_dim_0", "theta_dim_1",
    "x_dim_0", "x_dim_0_", "chain", "draw", "pseudo", "sample", "posterior", "coords", "dims",
    "index", "data", "T", "values", "sizes", "attrs", "y_rep_rep", "_rep", "log_lik_dim_0",
)  # fmt: skip
ODD = (
    "", " ", ".", "..", "a/b", "/", "a.b", "\0", "a\0b", "\udce9", "\N{SNOWMAN}", "e\u0301",
    "\u00e9", "\n", "\t", "'", '"', "\\", "a" * 300, "None", "0", "-1", "nan", "NaN", "_",
    "__init__", "self", "_FillValue", "_ARRAY_DIMENSIONS", "CLASS", "DIMENSION_LABELS",
    "\U0001f600", "\u202e", "\ufffd",
)  # fmt: skip


class Color(enum.Enum):
    """Labels that are members of an enumeration."""

    RED = 1
    BLUE = 2


class Opaque:
    """A label of a class that nothing else knows."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __str__(self) -> str:
        return f"opaque {self.number}"


RESERVED = {"chain", "draw", "pseudo"}
Maker = Callable[[int, np.random.Generator], Any]
LABELS: tuple[Maker, ...] = (
    lambda n, rng: [f"label {i}" for i in range(n)],
    lambda n, rng: list(range(n)),
    lambda n, rng: rng.normal(size=n),
    lambda n, rng: rng.normal(size=n).astype(np.float16),
    lambda n, rng: [float("nan")] * n,
    lambda n, rng: [float("inf"), -0.0, 1e308, 5e-324, 0.1][:n],
    lambda n, rng: rng.integers(0, 2, n).astype(bool),
    lambda n, rng: rng.integers(-(2**62), 2**62, n),
    lambda n, rng: [2**64 + i for i in range(n)],
    lambda n, rng: np.arange(n, dtype=np.uint64) + np.uint64(2**63),
    lambda n, rng: rng.normal(size=n) + 1j,
    lambda n, rng: [None] * n,
    lambda n, rng: [pd.NA] * n,
    lambda n, rng: [pd.NaT] * n,
    lambda n, rng: [1, "a", None, 2.5, True][:n],
    lambda n, rng: pd.date_range("1999-12-31", periods=n),
    lambda n, rng: pd.date_range("1999-12-31", periods=n, tz="Asia/Kolkata"),
    lambda n, rng: [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)] * n,
    lambda n, rng: [datetime.date(2020, 2, 28 - i % 20) for i in range(n)],
    lambda n, rng: [datetime.time(i % 24) for i in range(n)],
    lambda n, rng: pd.timedelta_range("1s", periods=n),
    lambda n, rng: np.arange(n).astype("datetime64[Y]"),
    lambda n, rng: np.arange(n).astype("timedelta64[D]"),
    lambda n, rng: pd.period_range("2020-01", periods=n, freq="Q"),
    lambda n, rng: pd.interval_range(0, n, periods=n) if n else [],
    lambda n, rng: pd.Categorical([f"c{i % 2}" for i in range(n)]),
    lambda n, rng: pd.Categorical(pd.date_range("2020", periods=n)),
    lambda n, rng: pd.MultiIndex.from_arrays([range(n), list("abcdefg")[:n]]),
    lambda n, rng: [(i, "a") for i in range(n)],
    lambda n, rng: [[i, ["b"]] for i in range(n)],
    lambda n, rng: [{"a": i} for i in range(n)],
    lambda n, rng: [{i} for i in range(n)],
    lambda n, rng: [b"\xff\x00a"] * n,
    lambda n, rng: [ODD[int(rng.integers(len(ODD)))] for _ in range(n)],
    lambda n, rng: [Opaque(i) for i in range(n)],
    lambda n, rng: [Color.RED, Color.BLUE] * n,
    lambda n, rng: [decimal.Decimal(i) / 3 for i in range(n)],
    lambda n, rng: [fractions.Fraction(i, 3) for i in range(n)],
    lambda n, rng: [uuid.UUID(int=i) for i in range(n)],
    lambda n, rng: pd.Series([f"s{i}" for i in range(n)], index=range(5, 5 + n)),
    lambda n, rng: pd.array([1, None, 3, 4, 5, 6][:n], dtype="Int64"),
    lambda n, rng: pd.array([f"p{i}" for i in range(n)], dtype="string"),
    lambda n, rng: xr.DataArray([f"x{i}" for i in range(n)], dims=["z"]),
    lambda n, rng: np.array([f"u{i}" for i in range(n)], dtype=object),
    lambda n, rng: (f"g{i}" for i in range(n)),
    lambda n, rng: dict.fromkeys(range(n)).keys(),
    lambda n, rng: dict.fromkeys(range(n), "v"),
    lambda n, rng: "a" * n,
    lambda n, rng: n,
    lambda n, rng: np.zeros((n, 2)),
    lambda n, rng: np.ma.masked_array(np.arange(n), [True] * n),
    lambda n, rng: np.array([(i, 1.0) for i in range(n)], dtype=[("a", int), ("b", float)]),
    lambda n, rng: None,
    lambda n, rng: Opaque(n),
)  # fmt: skip
ATTRIBUTES: tuple[Any, ...] = (
    1, 2.5, True, None, "text", "", "a\0b", "\udce9", "\N{SNOWMAN}" * 50, 2**70, -(2**63), 1j, [],
    [1, 2], ["a", "b"], [1, "a"], [[1], [2, 3]], (1, 2), {}, {"a": 1}, {1: {2}}, {3}, b"\xff",
    b"", np.float32(1), np.int8(1), np.bool_(True), np.datetime64("2020-01-01"), np.arange(3),
    np.zeros((2, 2)), np.empty(0), np.array(["a", "b"]), np.array([None, 1], dtype=object),
    np.array("a"), np.array([True, False]), datetime.date(2020, 1, 1), datetime.timedelta(1),
    pd.Timestamp("2020"), pd.NaT, pd.NA, float("nan"), float("inf"), [None], [float("nan")],
    Color.RED, Opaque(1), decimal.Decimal(1), range(3), object, np.array([2**63], np.uint64),
    np.float16(0.5), np.longdouble(1), np.array([1 + 1j]), "x" * 100_000,
)  # fmt: skip


class Case(NamedTuple):
    """A program's variables with their shapes, labels, data, and further attributes."""

    shapes: dict[str, tuple[int, ...]]
    parameters: list[str]
    labels: dict[str, dict]
    data: dict[str, np.ndarray]
    attributes: dict[Any, Any]


def case(seed: int) -> Case:
    """Return random names, labels and attributes, of which about half can be kept."""
    rng = np.random.default_rng([seed, 34])

    def one(values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    def shape() -> tuple[int, ...]:
        return tuple(int(n) for n in rng.choice([0, 1, 2, 3, 4], size=one([0, 1, 1, 2, 3])))

    variables = VARIABLES if rng.random() < 0.1 else [v for v in VARIABLES if v not in RESERVED]
    shapes = {one(variables): shape() for _ in range(rng.integers(1, 6))}
    data = {one(variables): np.ones(shape()).tolist() for _ in range(rng.integers(0, 4))}
    every = {**{name: np.shape(x) for name, x in data.items()}, **shapes}
    dims: dict[str, Any] = {}
    for name, size in every.items():
        if rng.random() < 0.6:
            count = len(size) if rng.random() < 0.99 else len(size) + 1
            new = [f"{name}_{i}" for i in range(count)]
            odd = rng.random() < 0.1
            dims[name] = [one([*ODD, *VARIABLES, *every]) if odd else new[i] for i in range(count)]
    coords = {}
    for name, own in dims.items():
        for dim, size in zip(own, every[name], strict=False):
            if rng.random() < 0.7:
                coords[dim] = one(LABELS)(size if rng.random() < 0.99 else size + 1, rng)
    labels: dict[str, dict] = {"dims": dims, "coords": coords}
    for field in ("posterior_predictive", "log_likelihood"):
        if rng.random() < 0.3:
            named = one(list(shapes)) if rng.random() < 0.9 else "none"
            labels[field] = {one([*every, "new", one(ODD)]): named}
    attributes: dict[Any, Any] = {}
    for _ in range(rng.integers(0, 4)):
        attributes[one([*ODD, *VARIABLES, "note"])] = one(ATTRIBUTES)
    moved = {name for field in labels for name in labels[field].values() if isinstance(name, str)}
    shapes["mu"] = shape()  # a program has parameters
    parameters = ["mu", *(name for name in shapes if name not in moved and rng.random() < 0.5)]
    return Case(shapes, parameters, labels, arrays(json.dumps(data)), attributes)


def faults(seed: int) -> tuple[list[str], str]:
    """Return what is wrong with the result of a random case, and the code if it was refused."""
    chosen = case(seed)
    try:
        labels = make_labels(chosen.labels, chosen.shapes, chosen.data, chosen.parameters)
        groups = _groups(chosen, labels, np.zeros((1, 1)))
        rehearse(groups, chosen.attributes)
    except sa.StanadaptError as error:
        expected = error.code in REFUSED
        return [] if expected else [f"seed {seed}: {error!r}"], str(error.code)
    except Exception as error:
        return [f"seed {seed}: {error!r} in place of a refusal"], ""
    try:
        # labels may be a generator, which the first case has used up
        found = _faults_of_order(case(seed), labels) + _faults_of_fit(chosen, labels)
    except Exception as error:
        found = [f"after the draws: {error!r}"]
    return [f"seed {seed}: {fault}" for fault in found], ""


def _draws(shapes: dict[str, tuple[int, ...]], leading: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=(*leading, *shape)) for name, shape in shapes.items()}


def _groups(chosen: Case, labels: Any, stats: np.ndarray) -> results.Groups:
    draws = _draws(chosen.shapes, stats.shape)
    named = dict.fromkeys(STATISTICS, stats)
    return phase_groups(labels, "", draws, named) | data_groups(labels, chosen.data)


def _faults_of_order(chosen: Case, labels: Any) -> list[str]:
    """Compare text and numbers with the labels that were given, one by one."""
    found = []
    for dim, given in chosen.labels["coords"].items():
        made = labels.coords[dim]
        if isinstance(made, np.ndarray):  # dates, of which pandas has many kinds
            continue
        one_by_one = given.values if isinstance(given, xr.DataArray) else given
        wrong = [
            (one, other)
            for one, other in zip(list(one_by_one), made, strict=True)
            if other != (as_text(one) if isinstance(other, str) else one)
            and not (other != other and one != one)
        ]
        found += [f"labels of {dim!r}: {wrong[0]}"] if wrong else []
    return found


def _faults_of_fit(chosen: Case, labels: Any) -> list[str]:
    """Build, write and read the result of a run, and compare."""
    groups = _groups(chosen, labels, np.zeros(DRAWS))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = results.build(groups, chosen.attributes)
        again = sa.load(sa.save(fit, os.path.join(folder, "fit.nc")))
    found = []
    group_of = {name: ("posterior", name) for name in chosen.shapes}
    for group in ("posterior_predictive", "log_likelihood"):
        group_of |= {own: (group, new) for new, own in getattr(labels, group).items()}
    for name, values in _draws(chosen.shapes, DRAWS).items():
        group, own = group_of[name]
        if group not in results.group_names(again):
            found.append(f"the group {group} of {name} is lost")
            continue
        held = results.dataset(again, group)
        if own not in held.data_vars or not np.array_equal(held[own].values, values):
            found.append(f"{name} is lost or differs")
            continue
        asked = chosen.labels["dims"].get(name)
        if asked is not None and list(held[own].dims[2:]) != list(asked):
            found.append(f"{name} has the dimensions {held[own].dims}, not {asked}")
        for dim in asked or ():
            found += _faults_of_labels(dim, labels.coords.get(dim), held)
    lost = {as_text(name) for name in chosen.attributes} - set(again.attrs)
    return found + [f"the attribute {name!r} is lost" for name in sorted(lost)]


def _faults_of_labels(dim: str, wanted: Any, held: xr.Dataset) -> list[str]:
    if wanted is None or not len(wanted):
        return []
    theirs, ours = held[dim].values, np.asarray(wanted)
    kinds = theirs.dtype.kind, ours.dtype.kind
    if kinds[1] == "f":
        same = np.array_equal(theirs.astype(float), ours, equal_nan=True)
    elif kinds[1] in "mM":
        same = np.array_equal(theirs.astype(np.int64), ours.astype(np.int64))
    else:
        same = [as_text(label) for label in theirs] == [as_text(label) for label in ours]
    return [] if same else [f"labels of {dim!r}: {theirs!r}, not {ours!r}"]
