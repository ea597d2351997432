"""The banana and the flower in the plane: figure 10 of Nemeth et al. (2019).

    python -m workflows.tempering.curved --quick    # does it run?
    python -m workflows.tempering.curved            # a few minutes

The paper shows draws only; here the exact moments are shown with our estimates. The paper's
extended target, with inverse temperatures uniform on (0, 1) and no reference distribution, is
improper in two dimensions: here they are uniform on (0.01, 1), which makes it proper.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows import record
from workflows.conclude import Results, conclude, text_table
from workflows.tempering import study
from workflows.tempering.published import CURVED
from workflows.tempering.runs import STAN, Chain, Method, pseudo, recipe
from workflows.tempering.scatter import save, scatter

NAME = "tempering/curved"
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
    study.EQUAL + study.SPREAD_OF + "'error': root mean square error over repeats and moments, "
    "each error in units of the exact moment (of 10 if that is 0)."
)


class Curved(NamedTuple):
    """A program, and the number of pseudo-samples that the paper uses for it."""

    program: str
    paper_count: int


TARGETS = (Curved("banana", 3), Curved("flower", 2))


def methods(curved: Curved) -> dict[str, Method]:
    """All methods by name."""
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
    """The exact moments above our estimates."""
    exact = CURVED[curved.program]
    lines = [study.truth(exact, 2)]
    for name, group in rows.groupby("method", sort=False):
        lines.append(
            {
                "method": name, "from": "here", "repeats": str(len(group)),
                **{moment: study.spread(group[moment], 2) for moment in exact},
                "error": f"{error(curved, group):.3f}", **study.shown_costs(group),
            }
        )  # fmt: skip
    return text_table(lines)


def main() -> None:
    """Run both targets, print, write, draw."""
    began = time.perf_counter()
    args = study.options(__doc__, 200_000, 10, (1_000, 2))
    folder, results = record.folder(NAME, args.out), Results({}, [], [], [])
    budget = study.budget_of(args, quick_warmup=400)
    for number, curved in enumerate(TARGETS):
        target = sa.Target(*bundled.find(curved.program, "two_dim"))
        every = study.chosen(args, methods(curved), QUICK_METHODS)
        chains, notes = study.run_all(target, every, budget, args.seed, number)
        results.notes.extend(f"{curved.program}: {note}" for note in notes)
        if chains:
            rows = study.rows(chains, lambda chain, of=curved: measured(of, chain))
            results.parts.append(rows)
            results.sections[curved.program] = table(curved, rows)
            shown = {name: repeats[0].vector()[:SHOWN] for name, repeats in chains.items()}
            path = folder / f"{curved.program}.png"
            title = f"{curved.program}: one chain"
            results.figures.extend(
                [
                    save(folder / f"{curved.program}_draws.csv", shown, in_a_row=True),
                    scatter(path, shown, title, line=True),
                ]
            )
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
