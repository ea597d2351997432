"""Does memory grow with gradients, or with targets that are made and dropped?

    python -m tests.soak.memory_growth

Prints megabytes; the exit code is 1 if they grew by more than ten.
"""

import argparse
import gc
import sys

import numpy as np
import psutil

import stanadapt as sa
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import value_and_gradient

PROGRAM = "data {{ int n; }} parameters {{ vector[n] x; }} model {{ x ~ normal(0, {scale}); }}"
MOST = 10.0  # megabytes


@jit
def evaluate(density, position, gradient, times):
    """Evaluate a density so often; every third time where it throws."""
    for i in range(times):
        position[0] = np.nan if i % 3 == 0 else 0.1
        value_and_gradient(density, position, gradient)


def megabytes():
    """Of this process."""
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


def target(scale):
    """A program of its own for each scale."""
    return sa.Target(PROGRAM.format(scale=scale), {"n": 50}, show_progress=False)


def growth(what, do):
    """Megabytes by which doing something again and again grows, after a first tenth."""
    do(0.1)
    before = megabytes()
    do(1.0)
    grown = megabytes() - before
    print(f"{what}: {grown:+.1f} MB", flush=True)
    return grown


def main():
    """Measure both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gradients", type=int, default=10**7)
    parser.add_argument("--targets", type=int, default=1000)
    chosen = parser.parse_args()
    kept = target(1)
    density, position, gradient = kept.density(), np.zeros(50), np.empty(50)

    def gradients(share):
        evaluate(density, position, gradient, int(share * chosen.gradients))

    def targets(share):
        for i in range(int(share * chosen.targets)):
            target(2 + i % 20).density()

    grown = growth(f"{chosen.gradients:,} gradients", gradients)
    return int(max(grown, growth(f"{chosen.targets:,} targets", targets)) > MOST)


if __name__ == "__main__":
    sys.exit(main())
