"""The banana and the flower in the plane: figure 10 of Nemeth et al. (2019).

    python workflows/tempering_curved.py --quick    # does it run?
    python workflows/tempering_curved.py            # a few minutes

The paper shows draws only; beside ours stand the exact moments. Its extended target, with
temperatures flat on (0, 1) and no reference, is improper in two dimensions: redone here on
(0.01, 1), which is proper.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import record
import tempering_study as study
from tempering_figures import scatter
from tempering_published import CURVED
from tempering_runs import STAN, Chain, Method, pseudo, recipe

import stanadapt as sa
from stanadapt import models

SCRIPT = "tempering_curved"
SHOWN = 10_000  # draws of the first chain, as in the paper
MOMENTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "E x1": lambda x: x[:, 0],
    "E x2": lambda x: x[:, 1],
    "E x1^2": lambda x: x[:, 0] ** 2,
    "E x2^2": lambda x: x[:, 1] ** 2,
    "Var x1": lambda x: (x[:, 0] - x[:, 0].mean()) ** 2,
    "Var x2": lambda x: (x[:, 1] - x[:, 1].mean()) ** 2,
    "E |x|": lambda x: np.linalg.norm(x, axis=1),
}
QUICK_METHODS = ("our NUTS", "parallel_tempering", "pseudo_extended, N = 2")
CAPTION = (
    study.EQUAL + study.SPREAD_OF + "The last column of numbers: root mean over repeats and "
    "moments of the squared error, each in units of the exact moment (of 10 where that is 0)."
)


class Curved(NamedTuple):
    """A program, and the paper's number of pseudo-samples for it."""

    program: str
    paper_count: int


TARGETS = (Curved("banana", 3), Curved("flower", 2))


def methods(curved: Curved) -> dict[str, Method]:
    """All of them by name."""
    count = curved.paper_count
    return {
        "Stan's NUTS": Method(STAN),
        "our NUTS": Method("nuts"),
        f"paper's recipe, N = {count}": recipe(count, between=(0.01, 1.0)),
        "parallel_tempering": Method("parallel_tempering"),
        **{f"pseudo_extended, N = {n}": pseudo(n) for n in (2, 5)},
    }


def measured(curved: Curved, chain: Chain) -> dict[str, float | str]:
    """The moments of one repeat."""
    x = chain.vector()
    means = {name: float(MOMENTS[name](x).mean()) for name in CURVED[curved.program]}
    return {"target": curved.program, **means}


def error(curved: Curved, rows: pd.DataFrame) -> float:
    """Root mean square of all errors, in units of the moments."""
    exact = pd.Series(CURVED[curved.program])
    relative = (rows[exact.index] - exact) / exact.where(exact != 0, 10.0)
    return float(np.sqrt((relative**2).to_numpy().mean()))


def table(curved: Curved, rows: pd.DataFrame) -> pd.DataFrame:
    """The truth above ours."""
    exact = CURVED[curved.program]
    lines = [{"method": "truth", "from": "exact"} | {k: f"{v:.2f}" for k, v in exact.items()}]
    for name, group in rows.groupby("method", sort=False):
        lines.append(
            {
                "method": name, "from": "here", "repeats": str(len(group)),
                **{moment: study.spread(group[moment], 2) for moment in exact},
                "error": f"{error(curved, group):.3f}", **study.shown_costs(group),
            }
        )  # fmt: skip
    return study.text_table(lines)


def main() -> None:
    """Run both targets, print, write, draw."""
    began = time.perf_counter()
    chosen = study.options(__doc__, 200_000, 10, (1_000, 2))
    folder, results = record.folder(SCRIPT, chosen.out), study.Results({}, [], [], [])
    cost = study.budget(chosen, quick_warmup=400)
    for place, curved in enumerate(TARGETS):
        target, every = sa.Target(*models.find(curved.program, "two_dim")), methods(curved)
        if chosen.quick:
            every = {name: every[name] for name in QUICK_METHODS}
        found, notes = study.run_all(target, every, cost, chosen.seed, place)
        results.notes.extend(f"{curved.program}: {note}" for note in notes)
        if found:
            rows = study.rows(found, lambda chain, of=curved: measured(of, chain))
            results.parts.append(rows)
            results.sections[curved.program] = table(curved, rows)
            shown = {name: chains[0].vector()[:SHOWN] for name, chains in found.items()}
            path = folder / f"{curved.program}.png"
            results.pictures.append(scatter(path, shown, f"{curved.program}: one chain"))
    study.conclude(SCRIPT, chosen, results, CAPTION, began)


if __name__ == "__main__":
    main()
