"""Bayesian logistic regression: the tables of Titsias and Dellaportas (2019), every method.

    python -m workflows.gad.logistic --quick
    python -m workflows.gad.logistic --data ripley pima german --repeats 3
    python -m workflows.gad.logistic --data caravan --methods gadMALAf
    python -m workflows.gad.logistic --data-file mine.csv --classes yes no

Each repeat is one chain of 20,000 + 20,000 iterations from x0 ~ N(0, I), the same x0 for all
methods of a repeat. A gradient of Caravan (5822 rows) is expensive: there the methods with several
gradients per iteration have a budget, see `BUDGETS`; `--full` gives them the paper's length.
`--data-file` takes a table of your own: its inputs are standardized as those of the bundled data.
"""

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows.gad import own_data, study
from workflows.gad.methods import NAMES, Length

DATA = ("ripley", "pima", "heart", "german", "caravan")

# HMC: as many gradients as MALA takes in 20,000 + 20,000 iterations
BUDGETS = {
    ("caravan", "HMC-5"): Length(4_000, 4_000),
    ("caravan", "HMC-10"): Length(2_000, 2_000),
    ("caravan", "HMC-20"): Length(1_000, 1_000),
    ("caravan", "NUTS"): Length(500, 1_000),
}
QUICK_BUDGETS = {("caravan", method): Length(50, 50) for method in NAMES}
BUDGETED = (
    "Caravan: HMC has fewer iterations (40,000 gradients in all), NUTS 500 + 1,000: their ESS is "
    "that of fewer draws, not comparable with the other rows; `--full` runs 20,000 + 20,000, and "
    "500 + 20,000 of NUTS."
)
CAPTION = (
    "w ~ N(0, I), inputs standardized column by column, an intercept. NUTS has the paper's unit "
    "metric and 500 + 20,000 iterations. The paper has no numbers for Ripley, Pima, Heart and "
    "German; 'earlier' are our own earlier measurements."
)


def main() -> None:
    """Run the study."""
    parser = study.parser(__doc__)
    parser.add_argument(
        "--data", nargs="+", choices=DATA, metavar="DATA",
        default=[name for name in DATA if name in bundled.require("logistic").data],
        help=f"one or more of {', '.join(DATA)}; default: all, caravan only if it was fetched "
        "(python -m workflows.data.make_data --fetch)",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="no smaller budget on Caravan")
    own_data.add_options(parser)
    options = parser.parse_args()
    targets: dict[str, tuple[str, str | None] | sa.Target] = {
        data: ("logistic", data) for data in options.data
    }
    caption, budgets = CAPTION, {}
    if options.data_file is not None:
        table = own_data.read(options)
        name = options.data_file.name.split(".")[0]
        program, _ = bundled.find("logistic", DATA[0])
        targets = {name: sa.Target(program, own_data.data_of(table))}
        caption = own_data.note(table, options.data_file)
    elif "caravan" in options.data:
        if options.quick:
            budgets = QUICK_BUDGETS
        elif not options.full:
            caption, budgets = f"{CAPTION} {BUDGETED}", BUDGETS
    study.conduct("gad/logistic", targets, options, caption, budgets)


if __name__ == "__main__":
    main()
