"""Table 1 of Nemeth et al. (2019) by the paper's own recipe, for each number of pseudo-samples.

    python -m workflows.tempering.recipe_table --quick                 # does it run?
    python -m workflows.tempering.recipe_table                         # the paper's lengths: hours
    python -m workflows.tempering.recipe_table --counts 2 --repeats 12
    python -m workflows.tempering.recipe_table --counts 10 20 --draws 10000 --repeats 6

NUTS on the joint density of N pseudo-samples and their inverse temperatures, which are uniform on
(0.001, 1); one pseudo-sample is drawn per iteration, by weight. The paper's rows of scenario (b)
belong to the target with variance d / 20. `mixture` has the rivals, at equal cost.
"""

import argparse
import time

import pandas as pd

from workflows import terminal
from workflows.conclude import Results, conclude, text_table
from workflows.tempering import study
from workflows.tempering.mixture import SCENARIOS, Known, measured, published
from workflows.tempering.published import ITERATIONS, MOMENTS, TABLE
from workflows.tempering.runs import Chain, Length, own_seed, recipe, run_length

NAME = "tempering/recipe_table"
COUNTS = (2, 5, 10, 20)
TARGETS = ("twenty", "twenty_variance")
WARMUP, REPEATS = 5_000, 20
QUICK, QUICK_REPEATS, QUICK_COUNTS = Length(50, 50), 2, (2, 5)
CAPTION = (
    "A repeat is one chain. In brackets: the standard deviation over repeats. 'paper': table 1, "
    f"{ITERATIONS:,} draws after warm-up. Unlike the authors' programs, ours have no box around "
    "the target, whose tails do not need one."
)


def method_name(count: int) -> str:
    """Return the name of a row."""
    return f"paper's recipe, N = {count}"


def _numbers(known: Known, scenario: str, count: int, chain: Chain) -> dict[str, float | str]:
    found = {"scenario": scenario, "pseudo_samples": count, **measured(known, chain)}
    del found["log_evidence"]  # the recipe has no estimate
    return found


def run_all(args: argparse.Namespace) -> tuple[pd.DataFrame, list[str]]:
    """Run every target with every N; one row per chain, and messages. After Ctrl-C: those done."""
    parts, notes = [], []
    length = QUICK if args.quick else Length(args.warmup, args.draws)
    jobs = [(name, count) for name in args.scenarios for count in args.counts]
    try:
        for scenario, count in terminal.each(jobs, lambda job: f"{job[0]} {method_name(job[1])}"):
            known, seed = Known(scenario), own_seed(args.seed, TARGETS.index(scenario), count)
            chains, messages = run_length(known.target, recipe(count), length, args.repeats, seed)
            rows = study.rows(
                {method_name(count): chains},
                lambda chain, of=(known, scenario, count): _numbers(*of, chain),
            )
            parts.append(rows)
            notes += [f"{scenario}, N = {count}: {message}" for message in messages]
    except KeyboardInterrupt:
        notes.append(f"interrupted after {len(parts)} of {len(jobs)} jobs.")
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(), notes


def table(scenario: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the truth, our rows, and the paper's."""
    lines = [study.truth(dict(zip(MOMENTS, Known(scenario).moments, strict=True)), 3)]
    for count, group in rows.groupby("pseudo_samples"):
        lines.append(
            {
                "method": method_name(count), "from": "here", "repeats": str(len(group)),
                **{moment: study.spread(group[moment], 3) for moment in MOMENTS},
                "draws": f"{group['draws'].mean():,.0f}",
                "gradients / draw": f"{group['gradients'].sum() / group['draws'].sum():,.0f}",
            }
        )  # fmt: skip
    names = [f"PE{count}" for count in COUNTS]
    lines += [published(name, "paper", TABLE[scenario][name]) for name in names]
    return text_table(lines)


def _options() -> argparse.Namespace:
    parser = terminal.usual_parser(__doc__, NAME, "tiny lengths")
    parser.add_argument(
        "--counts", nargs="+", type=int, choices=COUNTS, metavar="N",
        help=f"numbers of pseudo-samples, of {', '.join(map(str, COUNTS))}; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--scenarios", nargs="+", choices=TARGETS, default=TARGETS, metavar="SCENARIO",
        help=f"of {', '.join(TARGETS)}; default: both",
    )  # fmt: skip
    parser.add_argument(
        "--draws", type=terminal.positive, default=ITERATIONS, help="the paper's: 50,000"
    )
    parser.add_argument(
        "--warmup", type=terminal.positive, default=WARMUP, help=f"default: {WARMUP:,}"
    )
    parser.add_argument(
        "--repeats", type=terminal.positive, help=f"chains; the paper's and the default: {REPEATS}"
    )
    args = parser.parse_args()
    args.counts = args.counts or (QUICK_COUNTS if args.quick else COUNTS)
    args.repeats = args.repeats or (QUICK_REPEATS if args.quick else REPEATS)
    return args


def main() -> None:
    """Run, print, write."""
    began = time.perf_counter()
    args = _options()
    rows, notes = run_all(args)
    sections: dict[str, pd.DataFrame] = {}
    if len(rows):
        sections = {SCENARIOS[name]: table(name, part) for name, part in rows.groupby("scenario")}
    conclude(NAME, args, Results(sections, [rows] if len(rows) else [], notes, []), CAPTION, began)


if __name__ == "__main__":
    main()
