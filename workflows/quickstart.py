"""The README's example: one model, one adaptive sampler, Stan's NUTS, and a table of both.

    python workflows/quickstart.py            # four chains each
    python workflows/quickstart.py --quick    # two short chains: does it run?

The results go to output/quickstart, to be opened with `stanadapt.load` or ArviZ itself.
"""

import argparse
from pathlib import Path

import stanadapt as sa
from stanadapt import models

OUTPUT = Path("output/quickstart")
QUICK = {"chains": 2, "iter_warmup": 500, "iter_sampling": 500}


def main() -> None:
    """Sample, compare, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="two short chains: does it run?")
    plan = QUICK if parser.parse_args().quick else {"chains": 4}

    program, data = models.find("logistic", "pima")
    target = sa.Target(program, data)
    fit = sa.sample(target, "gad_mala", seed=2026, **plan)
    nuts = sa.reference(target, seed=2026, **plan)
    sa.compare({"gad_mala": fit, "nuts": nuts})
    print("Saved", sa.save(fit, OUTPUT / "gad_mala.nc"), "and", sa.save(nuts, OUTPUT / "nuts.nc"))


if __name__ == "__main__":
    main()
