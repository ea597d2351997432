"""Adaptation while every proposal is rejected: a claim of Titsias and Dellaportas (2019), a figure.

    python -m workflows.gad.rejections           # half a minute
    python -m workflows.gad.rejections --quick

Neal's Gaussian, from its mode, with a proposal of standard deviation 0.1 in all coordinates, ten
times that of the narrowest: no proposal is accepted at first. gadRWM and gadMALAf learn from the
rejected proposals. Adaptive Metropolis (with the fixed scale of Haario and others, and with the
tuned scale of the paper) sees one position only, and its L keeps its shape until a proposal is
accepted. The shape is L[1,1] / L[100,100], which is 1 at the start and 0.01 if L is learned.
"""

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.points import RANDOM_WALK_SCALE
from stanadapt.targets.stan import bundled
from workflows import conclude, record, terminal
from workflows.gad import figures

NAME = "gad/rejections"
WIDTH, DIM = 0.1, 100
# one run for each length, with the same seed: runs that differ in length alone share their moves
LENGTHS = (0, *range(50, 1001, 50), *range(1_250, 5_001, 250))
QUICK = (0, 50, 100)
# the scale in front of L is fixed, so that L alone changes
FIXED = {"tune_scale": False, "initial_scale": WIDTH * DIM / RANDOM_WALK_SCALE}
START = {"initial_scale": WIDTH * np.sqrt(DIM)}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "gadRWM": ("gad_rwm", START),
    "gadMALAf": ("gad_mala", START),
    "AM, fixed scale": ("am", FIXED),
    "AM, tuned scale": ("am", START),
}
CAPTION = (
    "Neal's Gaussian from its mode, proposals of standard deviation 0.1 in all coordinates at the "
    "start: L[1,1] / L[100,100] is 0.01 if L is learned, and 1 as long as nothing is. `accepted` "
    "counts proposals accepted so far; learning rates are the samplers' own."
)


def measure(method: str, length: int, seed: int) -> dict[str, Any]:
    """Run a method for `length` iterations of warm-up; return the shape of L and acceptances."""
    sampler, settings = METHODS[method]
    fit = sa.sample(
        sa.Target(*bundled.find("neal", None)), sampler, chains=1, iter_warmup=length,
        iter_sampling=10, seed=seed, inits=np.zeros((1, DIM)), save_warmup=True,
        show_progress=False, standardize=False, save_factor=True, **settings,
    )  # fmt: skip
    factor = results.dataset(fit, "proposal_factor")["factor"].values[0]
    accepted = 0
    if length:
        accepted = int(results.dataset(fit, "warmup_sample_stats")["accepted"].sum())
    return {
        "method": method, "iterations": length, "accepted": accepted,
        "narrowest": factor[0, 0], "widest": factor[-1, -1], "shape": factor[0, 0] / factor[-1, -1],
    }  # fmt: skip


def main() -> None:
    """Run all methods, draw, print, write."""
    options = terminal.usual_parser(__doc__, NAME, f"{len(QUICK)} lengths").parse_args()
    began, folder = time.perf_counter(), record.folder(NAME, options.out)
    lengths = QUICK if options.quick else LENGTHS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ten draws are no fit
        table = pd.DataFrame(
            [measure(method, length, options.seed) for method in METHODS for length in lengths]
        )
    text = table.map(lambda value: f"{value:.4g}" if isinstance(value, float) else str(value))
    conclude.show("Adaptation while proposals are rejected", text)
    path = folder / "rejections.csv"
    table.to_csv(path, index=False, float_format="%.5g")
    settings = {**vars(options), "caption": CAPTION}
    paths = [path, *figures.draw_rejections(folder, folder)]
    conclude.finish(folder / "rejections.json", settings, paths, began)


if __name__ == "__main__":
    main()
