"""The README's example: one model, the default sampler, Stan's NUTS, estimates, a table, a report.

    python -m workflows.quickstart            # four chains each
    python -m workflows.quickstart --quick    # two short chains: does it run?

The results go to output/quickstart: report.html is for a browser; the fits can be opened with
`stanadapt.load` or with ArviZ itself.
"""

import argparse
import shlex
import sys
from pathlib import Path

import stanadapt as sa
from stanadapt.targets.stan import bundled

OUTPUT = Path("output/quickstart")
QUICK = {"chains": 2, "iter_warmup": 500, "iter_sampling": 500}


def main() -> None:
    """Sample, compare, save, report."""
    parser = argparse.ArgumentParser(
        "python -m workflows.quickstart", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--out", type=Path, default=OUTPUT, help=f"folder; default: {OUTPUT}")
    parser.add_argument("--quick", action="store_true", help="two short chains: does it run?")
    options = parser.parse_args()
    plan = QUICK if options.quick else {"chains": 4}

    program, data = bundled.find("logistic", "pima")
    target = sa.Target(program, data)
    fit = sa.sample(target, seed=2026, save_warmup=True, **plan)
    nuts = sa.stan_nuts(target, seed=2026, save_warmup=True, **plan)
    fits = {"stanadapt": fit, "nuts": nuts}
    print(sa.summary(fit), "\n")
    print(sa.expectations(fit, target), "\n")
    table = sa.compare(fits)
    print(table)
    paths = [sa.save(fit, options.out / "stanadapt.nc"), sa.save(nuts, options.out / "nuts.nc")]
    print("Saved", *paths)
    command = shlex.join(["python", "-m", "workflows.quickstart", *sys.argv[1:]])
    print("Report", sa.report(fits, options.out / "report.html", table=table, command=command))


if __name__ == "__main__":
    main()
