"""Gaussian process classification of Glass: the real example of Sejdinovic et al. (2014).

    python -m workflows.kameleon.glass --quick            # does it run?
    python -m workflows.kameleon.glass                    # half an hour on two idle cores
    python -m workflows.kameleon.glass --methods          # the benchmark and the noise only
    python -m workflows.kameleon.glass --convention 2     # theta as in the paper's text

The likelihood is estimated, so all chains are pseudo-marginal: 9 parameters, and one importance
sample per evaluation; the authors' code averages 100, which makes their target almost exact.
An evaluation takes 5 ms if CmdStan is installed, ten times that if not.

The benchmark, one long run of Adaptive Metropolis, comes first. It is saved and reused by later
runs; to redo it, remove the file. Then the noise of the estimate is measured and the methods are
run, all from theta = 0 as in the paper: "ours" is kameleon with its defaults, KAMH-LS is kameleon
with preset=sejdinovic2014 and the authors' bandwidth, KAMH-LS-3 with the bandwidth they intended.
Posterior means are compared with our earlier ones, and distances to the benchmark are drawn over
iterations, as in the paper's figure, which has no numbers.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.results import arviz_module
from workflows import conclude, record, terminal
from workflows.gad.methods import Length
from workflows.kameleon import glass_curves, glass_noise

NAME = "kameleon/glass"
FEATURES = ("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe")
# our earlier implementation: 20,000 iterations at M = 5, ESS 145 to 530; mean and sd by convention
EARLIER = {
    1: (
        np.array([-1.61, -1.78, -0.24, -2.22, -2.26, -2.62, -1.33, -2.72, -3.00]),
        np.array([1.02, 1.23, 0.31, 1.09, 1.20, 1.19, 1.33, 1.08, 1.11]),
    ),
    2: (
        np.array([2.13, 1.91, -0.06, 2.66, 2.31, 2.63, 1.15, 3.32, 3.51]),
        np.array([1.13, 1.36, 0.61, 1.23, 1.36, 1.39, 1.42, 1.33, 1.24]),
    ),
}
# largest distance of a mean from the earlier one, in sd: about three standard errors of the latter
TOLERANCE = 0.25
# both start from covariance I, as in the paper's code: L = initial_scale / sqrt(9), multiplied by
# s = 1 if s is learned, and by 2.38 / sqrt(9) if not
PRESET = {"preset": "sejdinovic2014"}
AM_LS = ("am", {**PRESET, "initial_scale": 2.38})
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ours": ("kameleon", {}),
    "KAMH-LS": ("kameleon", {**PRESET, "bandwidth": 23.0}),
    "KAMH-LS-3": ("kameleon", {**PRESET, "bandwidth": 3.05}),
    "AM-LS": AM_LS,
    "AM-FS": ("am", {"tune_scale": False, "initial_scale": 3.0}),
}
FULL, BENCHMARK, CHAINS = Length(5_000, 10_000), Length(5_000, 40_000), 4
QUICK, QUICK_BENCHMARK, QUICK_CHAINS = Length(20, 20), Length(40, 40), 2
NOISE = {"positions": 20, "draws": 50}  # draws per seed, and of the noise of a move
QUICK_NOISE = {"positions": 2, "draws": 3}
CAPTION = (
    "KAMH-LS has bandwidth 23, as in the authors' code: an artifact of their heuristic, which was "
    "applied to the transposed draws. It is so large that proposals hardly depend on the position: "
    "they are those of Adaptive Metropolis. KAMH-LS-3 has 3.05, the result of the median heuristic "
    "in convention 1. AM-LS, AM-FS: Adaptive Metropolis, with the scale tuned to acceptance rate "
    "0.234 and with a fixed scale. After warm-up nothing adapts; the authors' AM kept adapting. "
    "Deviation: (mean - earlier mean) / earlier sd; standard errors of the earlier means are 0.06 "
    "to 0.08 sd in convention 1, 0.04 to 0.06 in convention 2. Seconds: warm-up and sampling, "
    "summed over chains, as many at a time as there are cores; they depend on the load "
    "of the machine."
)


def run(target: sa.Target, method: str, length: Length, chains: int, seed: int) -> Any:
    """Run one method from theta = 0; its warm-up is saved too."""
    sampler, settings = SAMPLERS[method]
    return sa.sample(
        target, sampler, chains=chains, seed=seed, save_warmup=True,
        iter_warmup=length.warmup, iter_sampling=length.draws,
        inits={"theta": [0.0] * glass_noise.DIM}, standardize=False, **settings,
    )  # fmt: skip


def benchmark(target: sa.Target, folder: Path, options: argparse.Namespace) -> tuple[Any, Path]:
    """Read the benchmark, or run it: AM-LS, longer and with another seed."""
    length = QUICK_BENCHMARK if options.quick else BENCHMARK
    settings = f"convention{options.convention}_M{options.samples}_{length.draws}"
    path = folder / f"benchmark_{settings}.nc"
    if path.is_file():
        fit = sa.load(path)
        if fit.attrs["program_hash"] == target.program.hash:
            print(f"Benchmark: {path}")
            return fit, path
    fit = run(target, "AM-LS", length, CHAINS, options.seed + 1000)
    if fit.attrs["interrupted"]:
        raise SystemExit("interrupted before the benchmark was done.")
    return fit, sa.save(fit, path)


def measure_noise(
    target: sa.Target, draws: np.ndarray, options: argparse.Namespace
) -> dict[str, pd.DataFrame]:
    """Tables of the noise of the estimate, by M and by rho; draws have shape (chain, draw, 9)."""
    plan = QUICK_NOISE if options.quick else NOISE
    pooled = draws.reshape(-1, glass_noise.DIM)
    positions = pooled[np.linspace(0, len(pooled) - 1, plan["positions"]).astype(int)]
    count, convention, seed = plan["draws"], options.convention, options.seed
    center, sd = EARLIER[convention][0], pooled.std(axis=0)
    levels = glass_noise.levels(convention, center, positions, count, seed)
    one = target if options.samples == 1 else glass_noise.bound(convention, 1)
    ratios = glass_noise.ratios(one, convention, positions, sd, count, seed)
    return {"noise": levels, "noise_of_ratios": ratios}


def run_all(
    target: sa.Target, folder: Path, options: argparse.Namespace
) -> tuple[dict[str, Any], list[str]]:
    """Run and save the methods in turn; failed ones are noted, and Ctrl-C keeps those done."""
    fits, notes, length = {}, [], Length(options.warmup, options.draws)
    for method in options.methods:
        print(f"{method}:", file=sys.stderr)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                fit = run(target, method, length, options.chains, options.seed)
            except sa.StanadaptError as error:
                notes.append(f"{method} failed: {' '.join(str(error).split())}")
                if error.code == "interrupted":
                    break
                continue
        if fit.attrs["interrupted"]:
            notes.append(f"interrupted during {method}, which was left out.")
            break
        fits[method] = fit
        sa.save(fit, folder / f"{method}.nc")
        messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        notes += [f"{method}: {message}" for message in messages]
    return fits, notes


def by_coordinate(fits: dict[str, Any], convention: int) -> pd.DataFrame:
    """Compare means and sds with earlier ones; one row per method and coordinate."""
    arviz, (means, sds), rows = arviz_module(), EARLIER[convention], []
    for method, fit in fits.items():
        for d, name in enumerate(FEATURES):
            x = fit["posterior"]["theta"].values[..., d]
            rows.append({
                "method": method, "theta": f"{d + 1} ({name})", "mean": x.mean(), "sd": x.std(),
                "earlier mean": means[d], "earlier sd": sds[d],
                "deviation": (x.mean() - means[d]) / sds[d],
                "R-hat": float(arviz.rhat(x)), "bulk ESS": float(arviz.ess(x, method="bulk")),
            })  # fmt: skip
    return pd.DataFrame(rows)


def by_method(fits: dict[str, Any], coordinates: pd.DataFrame) -> pd.DataFrame:
    """One row per method."""
    rows = []
    for method, fit in fits.items():
        lines = coordinates[coordinates["method"] == method]
        ess = lines["bulk ESS"]
        seconds = record.seconds_of(fit)
        stats = fit["sample_stats"]["acceptance_rate"].values
        rows.append({
            "method": method, "chains": len(stats),
            "warm-up + draws": f"{fit.attrs['iter_warmup']:,} + {fit.attrs['iter_sampling']:,}",
            "acceptance": stats.mean(), "largest R-hat": lines["R-hat"].max(),
            "ESS min": ess.min(), "ESS median": ess.median(), "ESS max": ess.max(),
            "seconds": seconds, "min ESS/s": ess.min() / max(seconds, 1e-9),
            "largest deviation": lines["deviation"].abs().max(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def too_far(coordinates: pd.DataFrame) -> list[str]:
    """One message per mean that is too far from the earlier one."""
    far = coordinates[~(coordinates["deviation"].abs() <= TOLERANCE)]
    return [
        f"{line['method']}: the mean of theta {line['theta']} is {line['deviation']:+.2f} sd from "
        f"the earlier mean, more than {TOLERANCE}."
        for _, line in far.iterrows()
    ]


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if value != value:
        return ""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of a table as text, unknown ones as blanks."""
    return table.astype(object).map(_text)


def show(table: pd.DataFrame) -> None:
    """Print a table."""
    conclude.show(None, as_text(table), width=150)


def markdown(tables: dict[str, pd.DataFrame], notes: Iterable[str]) -> str:
    """Compose the whole Markdown file."""
    parts = [f"# {NAME}", CAPTION, glass_noise.NOTE, glass_curves.NOTE]
    for title, table in tables.items():
        parts += [f"## {title}", conclude.markdown_table(as_text(table), 0)]
    listed = [f"- {note}" for note in notes]
    return "\n\n".join([*parts, *(["## Notes", "\n".join(listed)] if listed else [])]) + "\n"


def _options() -> argparse.Namespace:
    quick, positive = f"{QUICK.warmup} + {QUICK.draws} iterations", terminal.positive
    parser = terminal.usual_parser(__doc__, f"{NAME}, or {NAME}_2", quick)
    parser.add_argument("--convention", type=int, choices=[1, 2], default=1, help="of theta")
    parser.add_argument(
        "--samples", type=positive, default=1, help="M, importance samples; default: 1"
    )
    parser.add_argument(
        "--methods", nargs="*", choices=list(SAMPLERS), default=list(SAMPLERS), metavar="METHOD",
        help=f"any of {', '.join(SAMPLERS)}; default: all",
    )  # fmt: skip
    parser.add_argument("--chains", type=positive, help=f"default: {CHAINS}, quick {QUICK_CHAINS}")
    parser.add_argument("--warmup", type=positive, help=f"default: {FULL.warmup}")
    parser.add_argument("--draws", type=positive, help=f"per chain; default: {FULL.draws}")
    options = parser.parse_args()
    length, chains = (QUICK, QUICK_CHAINS) if options.quick else (FULL, CHAINS)
    options.chains = options.chains or chains
    options.warmup = options.warmup or length.warmup
    options.draws = options.draws or length.draws
    return options


def main() -> None:
    """Run or read the benchmark, measure the noise, run the methods, compare, write."""
    began, options = time.perf_counter(), _options()
    # the conventions have different posteriors: one must not overwrite the results of the other
    name = NAME if options.convention == 1 else f"{NAME}_{options.convention}"
    folder = record.folder(name, options.out)
    target = glass_noise.bound(options.convention, options.samples)
    fit, path = benchmark(target, folder, options)
    benchmark_draws = fit["posterior"]["theta"].values
    tables = measure_noise(target, benchmark_draws, options)
    for table in tables.values():
        show(table)
    fits, notes = run_all(target, folder, options)
    compared = {**fits, "benchmark": fit}
    coordinates = by_coordinate(compared, options.convention)
    tables |= {"methods": by_method(compared, coordinates), "coordinates": coordinates}
    paths = [path, *(folder / f"{method}.nc" for method in fits)]
    if fits:
        tables["curves"] = glass_curves.curves(fits, glass_curves.benchmark(benchmark_draws))
        title = f"Glass, convention {options.convention}, M = {options.samples}"
        curves, error = tables["curves"], glass_curves.benchmark_error(coordinates)
        paths.append(glass_curves.draw(curves, title, options.warmup, error, folder / "glass.png"))
    if options.quick:
        notes.insert(0, conclude.QUICK_NOTE)
    else:
        notes += too_far(coordinates)
    for table in list(tables.values())[2:]:
        show(table)
    settings = {
        **vars(options),
        "noise": QUICK_NOISE if options.quick else NOISE,
        "samplers": {method: json.loads(fit.attrs["settings"]) for method, fit in compared.items()},
        "seconds_in_all": time.perf_counter() - began,
    }
    paths += _written(folder, tables, notes, settings)
    print("\n".join([CAPTION, *notes, "Results:", *(f"  {path}" for path in paths)]))


def _written(
    folder: Path, tables: dict[str, pd.DataFrame], notes: list[str], settings: dict[str, Any]
) -> list[Path]:
    """Write every table as CSV, all in one Markdown file, and the settings."""
    paths = []
    for name, table in tables.items():
        paths.append(folder / f"glass_{name}.csv")
        table.to_csv(paths[-1], index=False)
    paths.append(folder / "glass.md")
    paths[-1].write_text(markdown(tables, notes), encoding="utf-8")
    content = {**settings, "caption": CAPTION, "notes": notes}
    return [*paths, record.write_settings(folder / "glass.json", content)]


if __name__ == "__main__":
    main()
