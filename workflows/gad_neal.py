"""Neal's 100-dimensional Gaussian: the table of Titsias and Dellaportas (2019), every method.

    python workflows/gad_neal.py --quick        # does it run?
    python workflows/gad_neal.py --repeats 5    # a few minutes

Standard deviations 0.01, 0.02, ..., 1, no correlation. Each repeat is one chain of 20,000 + 20,000
iterations from x0 ~ N(0, I), the same x0 for all methods of a repeat.
"""

import study

CAPTION = (
    "NUTS here is Stan's with its diagonal metric adapted, which suits this target exactly; the "
    "paper's NUTS kept a unit metric, and `reference()` cannot switch the adaptation off: compare "
    "that row with the paper's only with this in mind."
)


def main() -> None:
    """Run the study."""
    options = study.parser(__doc__).parse_args()
    study.conduct("gad_neal", {"neal": ("neal", None)}, options, CAPTION)


if __name__ == "__main__":
    main()
