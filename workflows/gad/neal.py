"""Neal's 100-dimensional Gaussian: the table of Titsias and Dellaportas (2019), every method.

    python -m workflows.gad.neal --quick        # does it run?
    python -m workflows.gad.neal --repeats 5    # a few minutes

Standard deviations 0.01, 0.02, ..., 1, no correlation. Each repeat is one chain of 20,000 + 20,000
iterations (NUTS: 500 + 20,000) from x0 ~ N(0, I), the same x0 for all methods of a repeat.
"""

from workflows.gad import study

CAPTION = (
    "NUTS has the paper's unit metric and 500 + 20,000 iterations; the other methods 20,000 + "
    "20,000."
)


def main() -> None:
    """Run the study."""
    options = study.parser(__doc__).parse_args()
    study.conduct("gad/neal", {"neal": ("neal", None)}, options, CAPTION)


if __name__ == "__main__":
    main()
