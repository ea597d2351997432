"""Three integrators of Hamiltonian dynamics, and why samplers take the leapfrog.

    python -m workflows.learned.integrators --quick    # does it run?
    python -m workflows.learned.integrators            # a few seconds

On a harmonic oscillator and on the posterior of a Stan program: trajectories in phase space; the
error in the energy against the step size, of order 1, 1 and 2; and the factor by which a step
changes volumes. The Metropolis correction assumes that moves preserve volumes and are reversible:
Euler's method violates both, so that no acceptance by the energy alone makes it exact.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.conclude import Results, conclude, text_table
from workflows.pictures import plt, saved

NAME = "learned/integrators"
PROGRAM = "eight_schools_noncentered"
# length of trajectories for the energy error: a quarter of the oscillator's period
LENGTH = 0.25 * 2.0 * np.pi
STEPS_SHOWN, STEP_SHOWN = 60, 0.3
HALVINGS, QUICK_HALVINGS = 9, 5
DIFFERENCE = 1e-6
CAPTION = (
    "Energy error: largest |H - H(start)| over a trajectory of a fixed length, mean over starts; "
    "order: slope of its logarithm against that of the step size, over the smallest three. "
    f"Volume: determinant of the Jacobian of one step of {STEP_SHOWN}, by differences, at one "
    "start; samplers need 1. Return: distance to the start, relative to the distance traveled, "
    "after five steps, a momentum turned round, and five steps more; 0 if a move is its own "
    "reverse."
)

Gradient = Callable[[np.ndarray], np.ndarray]
Step = Callable[[Gradient, np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]


def euler(gradient: Gradient, q: np.ndarray, p: np.ndarray, step: float) -> tuple:
    """Move position and momentum, both from their old values; `gradient` is of -log density."""
    return q + step * p, p - step * gradient(q)


def symplectic_euler(gradient: Gradient, q: np.ndarray, p: np.ndarray, step: float) -> tuple:
    """Move the position by the new momentum."""
    p = p - step * gradient(q)
    return q + step * p, p


def leapfrog(gradient: Gradient, q: np.ndarray, p: np.ndarray, step: float) -> tuple:
    """Half a kick, a whole move, half a kick."""
    p = p - 0.5 * step * gradient(q)
    q = q + step * p
    return q, p - 0.5 * step * gradient(q)


METHODS: dict[str, Step] = {
    "Euler": euler,
    "symplectic Euler": symplectic_euler,
    "leapfrog": leapfrog,
}


class System(NamedTuple):
    """A potential energy with its gradient, and starts (position, momentum), each of shape (dim,).

    longest_step
        From which steps are halved.
    """

    name: str
    energy: Callable[[np.ndarray], float]
    gradient: Gradient
    starts: list[tuple[np.ndarray, np.ndarray]]
    longest_step: float


def oscillator(starts: int, rng: np.random.Generator) -> System:
    """U = q^2 / 2."""
    begun = [(rng.standard_normal(1), rng.standard_normal(1)) for _ in range(starts)]
    return System(
        "oscillator", lambda q: 0.5 * float(q @ q), lambda q: q, begun, LENGTH / 4
    )  # fmt: skip


def program(starts: int, rng: np.random.Generator) -> System:
    """U = -log density of a bundled Stan program, on the unconstrained scale."""
    target = sa.Target(*bundled.find(PROGRAM, None), show_progress=False)
    begun = [
        (0.5 * rng.standard_normal(target.dim), rng.standard_normal(target.dim))
        for _ in range(starts)
    ]
    return System(
        PROGRAM, lambda q: -target.value(q), lambda q: -target.evaluate(q)[1], begun, LENGTH / 8
    )


def trajectory(
    step: Step, system: System, start: tuple, size: float, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions and momenta, shape (count + 1, dim), and the energy, shape (count + 1,)."""
    q, p = start
    positions, momenta = [q], [p]
    for _ in range(count):
        q, p = step(system.gradient, q, p, size)
        positions.append(q)
        momenta.append(p)
    energies = [
        system.energy(a) + 0.5 * float(b @ b) for a, b in zip(positions, momenta, strict=True)
    ]
    return np.array(positions), np.array(momenta), np.array(energies)


def energy_errors(step: Step, system: System, halvings: int) -> tuple[np.ndarray, np.ndarray]:
    """Step sizes, and the mean over starts of the largest error of the energy."""
    counts = 2 ** np.arange(halvings)
    sizes, errors = system.longest_step / counts, []
    for size in sizes:
        count = int(np.ceil(LENGTH / size))
        paths = [trajectory(step, system, start, size, count)[2] for start in system.starts]
        errors.append(np.mean([np.abs(path - path[0]).max() for path in paths]))
    return sizes, np.array(errors)


def order(sizes: np.ndarray, errors: np.ndarray) -> float:
    """Slope of log error against log size, over the three smallest sizes."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(errors[-3:]), 1)[0])


def volume(step: Step, system: System, size: float) -> float:
    """Determinant of the Jacobian of a step, by central differences."""
    start = np.concatenate(system.starts[0])
    dim = len(start) // 2

    def moved(z: np.ndarray) -> np.ndarray:
        return np.concatenate(step(system.gradient, z[:dim], z[dim:], size))

    columns = [
        (moved(start + DIFFERENCE * e) - moved(start - DIFFERENCE * e)) / (2 * DIFFERENCE)
        for e in np.eye(2 * dim)
    ]
    return float(np.linalg.det(np.array(columns)))


def distance_back(step: Step, system: System, size: float, count: int = 5) -> float:
    """Distance from the start after going there and back, over the distance traveled."""
    positions, momenta, _ = trajectory(step, system, system.starts[0], size, count)
    back, _, _ = trajectory(step, system, (positions[-1], -momenta[-1]), size, count)
    traveled = np.linalg.norm(positions[-1] - positions[0])
    return float(np.linalg.norm(back[-1] - positions[0]) / traveled)


def measured(system: System, halvings: int) -> pd.DataFrame:
    """Return one row per method and step size; numbers that do not depend on it are repeated."""
    rows = []
    for name, step in METHODS.items():
        sizes, errors = energy_errors(step, system, halvings)
        of_method = {
            "system": system.name, "method": name, "order": order(sizes, errors),
            "volume": volume(step, system, STEP_SHOWN),
            "return": distance_back(step, system, STEP_SHOWN),
        }  # fmt: skip
        rows += [
            {**of_method, "step": size, "energy error": error}
            for size, error in zip(sizes, errors, strict=True)
        ]
    return pd.DataFrame(rows)


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line per system and method, as text."""
    first = rows.drop_duplicates(["system", "method"])
    return text_table(
        [
            {
                "system": line["system"], "method": line["method"],
                "order": f"{line['order']:.2f}", "volume": f"{line['volume']:.6f}",
                "return": f"{line['return']:.1e}",
            }
            for _, line in first.iterrows()
        ]
    )  # fmt: skip


def draw(path: Path, systems: list[System], rows: pd.DataFrame) -> Path:
    """Above: trajectories of the first coordinate in phase space; below: errors of the energy."""
    figure, axes = plt.subplots(2, len(systems), figsize=(9, 8), layout="constrained")
    for column, system in enumerate(systems):
        phase, errors = axes[:, column]
        for name, step in METHODS.items():
            q, p, _ = trajectory(step, system, system.starts[0], STEP_SHOWN, STEPS_SHOWN)
            inside = np.abs(q[:, 0]) + np.abs(p[:, 0]) < 20
            phase.plot(q[inside, 0], p[inside, 0], "o-", ms=2, lw=0.7, label=name)
            mine = rows[(rows["system"] == system.name) & (rows["method"] == name)]
            label = f"{name}: order {mine['order'].iloc[0]:.2f}"
            errors.loglog(mine["step"], mine["energy error"], "o-", ms=3, label=label)
        phase.set(
            title=f"{system.name}: {STEPS_SHOWN} steps of {STEP_SHOWN}",
            xlabel="position (first coordinate)", ylabel="momentum",
        )  # fmt: skip
        errors.set(xlabel="step size", ylabel="energy error")
        phase.legend(frameon=False, fontsize=8, loc="upper right")
        errors.legend(frameon=False, fontsize=8)
    return saved(figure, path, 120)


def main() -> None:
    """Measure, print, write, draw."""
    began = time.perf_counter()
    args = terminal.usual_parser(__doc__, NAME, "few step sizes").parse_args()
    folder, rng = record.folder(NAME, args.out), np.random.default_rng(args.seed)
    starts, halvings = (2, QUICK_HALVINGS) if args.quick else (10, HALVINGS)
    systems = [oscillator(starts, rng), program(starts, rng)]
    rows = pd.concat([measured(system, halvings) for system in systems], ignore_index=True)
    figure = draw(folder / "integrators.png", systems, rows)
    results = Results({"Integrators": table(rows)}, [rows], [], [figure])
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
