"""The README's example: one model, the default sampler, Stan's NUTS, and a table of both.

    python -m workflows.quickstart            # four chains each
    python -m workflows.quickstart --quick    # two short chains: does it run?

The results go to output/quickstart; open them with `stanadapt.load` or with ArviZ itself.
"""

import argparse
from pathlib import Path

import stanadapt as sa
from stanadapt.targets.stan import bundled

OUTPUT = Path("output/quickstart")
QUICK = {"chains": 2, "iter_warmup": 500, "iter_sampling": 500}


def main() -> None:
    """Sample, compare, save."""
    parser = argparse.ArgumentParser(
        "python -m workflows.quickstart", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--out", type=Path, default=OUTPUT, help=f"folder; default: {OUTPUT}")
    parser.add_argument("--quick", action="store_true", help="two short chains: does it run?")
    options = parser.parse_args()
    plan = QUICK if options.quick else {"chains": 4}

    program, data = bundled.find("logistic", "pima")
    target = sa.Target(program, data)
    fit = sa.sample(target, seed=2026, **plan)
    nuts = sa.stan_nuts(target, seed=2026, **plan)
    sa.compare({"stanadapt": fit, "nuts": nuts})
    paths = [sa.save(fit, options.out / "stanadapt.nc"), sa.save(nuts, options.out / "nuts.nc")]
    print("Saved", *paths)


if __name__ == "__main__":
    main()
