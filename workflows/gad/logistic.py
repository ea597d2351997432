"""Bayesian logistic regression: the tables of Titsias and Dellaportas (2019), every method.

    python -m workflows.gad.logistic --quick
    python -m workflows.gad.logistic --data ripley pima german --repeats 3
    python -m workflows.gad.logistic --data caravan --methods gadMALAf

Each repeat is one chain of 20,000 + 20,000 iterations from x0 ~ N(0, I), the same x0 for all
methods of a repeat. A gradient of Caravan (5822 rows) is expensive: there the methods with several
gradients per iteration have a budget, see `BUDGETS`; `--full` gives them the paper's length.
"""

from workflows.gad import study
from workflows.gad.methods import NAMES, Length

DATA = ("ripley", "pima", "german", "caravan")

# HMC: as many gradients as MALA takes in 20,000 + 20,000 iterations. NUTS: Stan's default length.
BUDGETS = {
    ("caravan", "HMC-5"): Length(4_000, 4_000),
    ("caravan", "HMC-10"): Length(2_000, 2_000),
    ("caravan", "HMC-20"): Length(1_000, 1_000),
    ("caravan", "NUTS"): Length(1_000, 1_000),
}
QUICK_BUDGETS = {("caravan", method): Length(50, 50) for method in NAMES}
BUDGETED = (
    "Caravan: HMC has fewer iterations (40,000 gradients in all), NUTS 1,000 + 1,000: their ESS is "
    "that of fewer draws, not comparable with the other rows; `--full` runs 20,000 + 20,000."
)
CAPTION = (
    "w ~ N(0, I), standardized inputs, an intercept. We know the paper's rows for Caravan only; "
    "'earlier' are our own earlier measurements."
)


def main() -> None:
    """Run the study."""
    parser = study.parser(__doc__)
    parser.add_argument(
        "--data", nargs="+", choices=DATA, default=DATA, metavar="DATA",
        help=f"one or more of {', '.join(DATA)}; default: all",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="no smaller budget on Caravan")
    options = parser.parse_args()
    targets = {data: ("logistic", data) for data in options.data}
    budgeted = "caravan" in options.data and not options.full
    caption = f"{CAPTION} {BUDGETED}" if budgeted else CAPTION
    budgets = BUDGETS if budgeted else {}
    study.conduct(
        "gad/logistic", targets, options, caption, QUICK_BUDGETS if options.quick else budgets
    )


if __name__ == "__main__":
    main()
