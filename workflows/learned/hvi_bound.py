"""Hamiltonian variational inference: its bound against the number of transitions.

    python -m workflows.learned.hvi_bound --quick    # does it run?
    python -m workflows.learned.hvi_bound

On the correlated Gaussian with known values, and on a bundled program: the lower bound on the
log evidence for paths of more and more transitions, the evidence by the weights of the paths, and
variances from exact and from raw draws.
"""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.conclude import Results, conclude
from workflows.pictures import plt, saved

NAME = "learned/hvi_bound"
PROGRAM = "eight_schools_noncentered"
CORRELATED = """
parameters { vector[2] x; }
model { target += -0.5 * (x[1]^2 - 1.8 * x[1] * x[2] + x[2]^2) / 0.19; }
"""
LOG_EVIDENCE = float(np.log(2.0 * np.pi * np.sqrt(0.19)))
# of the Gaussian, with the best linear-Gaussian reverse, steps of 0.25 and 3 leapfrogs
KNOWN = {0: 0.177, 1: 0.734, 2: 0.885, 3: 0.946, 4: 0.973, 8: 0.998}
STEPS = {"step_size": 0.25 / np.sqrt(0.19), "leapfrogs": 3, "standardize": False}
QUICK, FULL = (1, 3), (1, 2, 3, 4, 8)
CAPTION = (
    "bound: mean log weight of the paths of all chains, at most the log evidence, with its Monte "
    "Carlo error; without transitions, that of mean-field ADVI; known: with the best reverse "
    "model, on the Gaussian. log evidence: log of the mean weight. sd: largest and smallest ratio "
    "of standard deviations of draws to those of the reference (the truth, or Stan's algorithm in "
    "this package), of exact draws and of raw ones."
)


def targets() -> dict[str, sa.Target]:
    """The Gaussian and the bundled program."""
    return {
        "correlated Gaussian": sa.Target(CORRELATED, show_progress=False),
        PROGRAM: sa.Target(*bundled.find(PROGRAM, None), show_progress=False),
    }


def spread(fit: Any) -> np.ndarray:
    """Standard deviation of each parameter."""
    names = list(fit["posterior"].data_vars)[: 1 if "x" in fit["posterior"] else 3]
    values = [fit["posterior"][name].values for name in names]
    return np.concatenate([np.atleast_1d(v.std(axis=(0, 1))) for v in values])


def measured(name: str, target: sa.Target, args: tuple, seed: int, draws: int) -> pd.DataFrame:
    """One row per number of transitions."""
    quiet: dict[str, Any] = {"seed": seed, "show_progress": False}
    gaussian, rows = name == "correlated Gaussian", []
    truth = (
        np.ones(2) if gaussian else spread(sa.sample(target, "nuts", target_accept=0.95, **quiet))
    )
    rows.append({"target": name, "transitions": 0, **without_transitions(target, gaussian, quiet)})
    for transitions in args:
        settings = {"transitions": transitions, "iter_sampling": draws, "paths": 20_000, **quiet}
        settings |= STEPS if gaussian else {}
        began = time.perf_counter()
        with warnings.catch_warnings():  # chains of short paths stay for long, raw ones are biased
            warnings.simplefilter("ignore")
            fit = sa.sample(target, "hvi", **settings)
            raw = sa.sample(target, "hvi", exact=False, **settings)
        ratios, raw_ratios = spread(fit) / truth, spread(raw) / truth
        rows.append(
            {
                "target": name, "transitions": transitions,
                "bound": fit.attrs["bound"], "error": fit.attrs["bound_error"],
                "known": KNOWN.get(transitions, np.nan) if gaussian else np.nan,
                "log evidence": fit.attrs["log_evidence"],
                "its error": fit.attrs["log_evidence_error"],
                "acceptance": float(fit["sample_stats"]["acceptance_rate"].mean()),
                "sd low": ratios.min(), "sd high": ratios.max(),
                "raw low": raw_ratios.min(), "raw high": raw_ratios.max(),
                "verdict": fit.attrs["verdict"], "seconds": time.perf_counter() - began,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def without_transitions(target: sa.Target, gaussian: bool, quiet: dict[str, Any]) -> dict[str, Any]:
    """The bound of the approximation that paths start from."""
    with warnings.catch_warnings():  # that it is a bad one is the point
        warnings.simplefilter("ignore")
        fit = sa.approximate(target, "advi", algorithm="meanfield", draws=20_000, **quiet)
    weights = (fit["sample_stats"]["lp"] - fit["sample_stats"]["lp_approx"]).values
    return {
        "bound": weights.mean(), "error": weights.std() / np.sqrt(weights.size),
        "known": KNOWN[0] if gaussian else np.nan,
    }  # fmt: skip


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """As text: three digits, and two of errors."""
    forms = dict.fromkeys(["bound", "known", "log evidence", "error", "its error"], "{:.4f}")
    forms |= dict.fromkeys(["sd low", "sd high", "raw low", "raw high", "acceptance"], "{:.2f}")
    forms |= {"seconds": "{:.0f}"}
    shown = rows.copy().astype(object)
    for column, form in forms.items():
        shown[column] = ["" if v != v else form.format(v) for v in rows[column]]
    return shown.fillna("").astype(str)


def draw(path: Path, rows: pd.DataFrame) -> Path:
    """The bound and the evidence against the number of transitions."""
    names = list(dict.fromkeys(rows["target"]))
    figure, axes = plt.subplots(1, len(names), figsize=(9, 3.6), layout="constrained")
    for axis, name in zip(axes, names, strict=True):
        mine = rows[rows["target"] == name]
        at, errors = mine["transitions"], 2 * mine[["error", "its error"]].to_numpy().T
        axis.errorbar(at, mine["bound"], errors[0], fmt="o-", label="bound")
        axis.errorbar(at, mine["log evidence"], errors[1], fmt="s", label="log evidence")
        if mine["known"].notna().any():
            axis.plot(at, mine["known"], "k_", ms=14, label="known bound")
            axis.axhline(LOG_EVIDENCE, color="k", lw=0.7)
        axis.set(title=name, xlabel="transitions", ylabel="log evidence")
        axis.legend(frameon=False, fontsize=8)
    return saved(figure, path, 120)


def main() -> None:
    """Sample, print, write, draw."""
    began = time.perf_counter()
    args = terminal.usual_parser(__doc__, NAME, "short runs").parse_args()
    folder = record.folder(NAME, args.out)
    transitions, draws = (QUICK, 500) if args.quick else (FULL, 5000)
    parts = [
        measured(name, target, transitions, args.seed, draws) for name, target in targets().items()
    ]
    rows = pd.concat(parts, ignore_index=True)
    figure = draw(folder / "hvi_bound.png", rows)
    results = Results({"Hamiltonian variational inference": table(rows)}, [rows], [], [figure])
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
