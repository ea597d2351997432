"""A-NICE-MC in the plane: ring, two and six Gaussians, five rings, against NUTS and tempering.

    python -m workflows.learned.nice_2d --quick    # does it run?
    python -m workflows.learned.nice_2d            # trains four networks: see the README

Song, Zhao and Ermon (2017), "A-NICE-MC: Adversarial Training for MCMC", table 1. Needs JAX:
pip install 'stanadapt[learn]'. Networks are kept in the folder of the results, and read from there
the next time, unless --train is given; seconds and densities of their training are counted.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.animation import FuncAnimation, PillowWriter

import stanadapt as sa
from stanadapt import results
from stanadapt.samplers.nice import Network, train_nice
from stanadapt.targets.stan import bundled
from workflows import record, terminal
from workflows.conclude import Results, conclude, text_table
from workflows.learned.costs import COSTS, MISTUNED, Learning, line, of_network, published
from workflows.learned.known_moments_ess import ess_known_moments
from workflows.learned.published import HMC, HMC_PLANE_STEP, PLANE
from workflows.pictures import plt, saved
from workflows.tempering.runs import STAN, collected_warnings, own_seed

NAME = "learned/nice_2d"
SHOWN, FRAMES = ("nice as published", "Stan's NUTS"), 200
CHAINS, WARMUP, DRAWS, QUICK_DRAWS = 4, 1000, 5000, 200
QUICK_TRAINING = {
    "iterations": 10, "rehearse_every": 5, "draws": 200, "width": 16, "critic_width": 16,
}  # fmt: skip
CAPTION = (
    "ESS: the smallest over the coordinates (of five rings: of the radius), by the authors' "
    "definition with exact moments (workflows.learned.known_moments_ess); a chain in one of "
    "two modes has one effective draw. 'regions': modes or rings that every chain visited, and "
    "the largest difference of a region's share from the truth, over chains together, in standard "
    "errors. 'nice as published' has no local moves. The published HMC is that of the paper's "
    f"code, 40 + 1 leapfrogs of {HMC_PLANE_STEP:g}. {COSTS} {MISTUNED}"
)


class Plane(NamedTuple):
    """A target in the plane.

    scored
        Function from x to the statistics to compare, shape (chain, draw, statistic).
    regions
        Function from x to the region of each draw, numbered from 0.
    training
        Settings of `train_nice`.
    """

    program: str
    data: str
    scored: Any
    mean: np.ndarray
    sd: np.ndarray
    regions: Any
    shares: np.ndarray
    training: dict[str, Any]


def radius(x: np.ndarray) -> np.ndarray:
    return np.hypot(x[..., 0], x[..., 1])


def sector(x: np.ndarray, count: int) -> np.ndarray:
    """Return the number of the sector of the plane, the first around the first axis."""
    turn = np.arctan2(x[..., 1], x[..., 0]) / (2 * np.pi)
    return np.round(turn * count).astype(int) % count


def planes() -> dict[str, Plane]:
    """The targets of the paper, with exact moments (stan_models/*/known_moments.json)."""
    rings = np.array([0.0666675, 0.1333225, 0.1999837, 0.2666450, 0.3333813])

    def ring(x: np.ndarray) -> np.ndarray:
        return np.clip(np.round(radius(x)).astype(int), 1, 5) - 1

    def both(x: np.ndarray) -> np.ndarray:
        return x

    def even(count: int) -> tuple[Any, np.ndarray]:
        return lambda x: sector(x, count), np.full(count, 1 / count)

    zero, wide = np.zeros(2), {"width": 128}
    return {
        "ring": Plane("ring", "nice", both, zero, np.full(2, 1.456022), *even(4), wide),
        "mog2": Plane("mixture", "mog2", both, zero, np.array([5.024938, 0.5]), *even(2), wide),
        "mog6": Plane("mixture", "mog6", both, zero, np.full(2, 3.570714), *even(6), wide),
        "ring5": Plane(
            "rings", "ring5", lambda x: radius(x)[..., None], np.array([3.673417]),
            np.array([1.251703]), ring, rings, wide,
        ),
    }  # fmt: skip


def known(plane: Plane) -> dict[str, Any]:
    """Moments as `stan_models` has them."""
    path = bundled.ROOT / plane.program / "known_moments.json"
    return json.loads(path.read_text())[plane.data]


METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "nice": ("nice", {}),
    "nice as published": ("nice", {"preset": "song2017"}),
    "nice, untrained": ("nice", {}),
    "parallel_tempering": ("parallel_tempering", {}),
    "Stan's NUTS": (STAN, {}),
    "HMC as published": ("hmc", {**HMC, "step_size": HMC_PLANE_STEP * np.sqrt(2)}),
}


def trained(
    target: sa.Target, plane: Plane, path: Path, args: argparse.Namespace, number: int
) -> Network:
    """Read the network of an earlier run, or train one and keep it."""
    if path.exists() and not args.train:
        return Network.load(path)
    settings = {**plane.training, "iterations": args.iterations}
    if args.quick:
        settings = QUICK_TRAINING
    network = train_nice(
        target, seed=own_seed(args.seed, number, 99), show_progress=not args.quick, **settings
    )
    network.save(path)
    about = network.description
    print(
        f"{target.name} {plane.data}: trained in {about['seconds']:.0f} s with "
        f"{about['n_density']:,} densities; best at step {about['step']}"
    )
    return network


def draw(target: sa.Target, method: str, network: Any, draws: int, seed: int) -> Any:
    sampler, settings = METHODS[method]
    plan = {
        "chains": CHAINS, "iter_warmup": min(WARMUP, draws), "iter_sampling": draws, "seed": seed,
        "show_progress": False,
    }  # fmt: skip
    if sampler == STAN:
        return sa.stan_nuts(target, **plan)
    if method.startswith("nice") and "untrained" not in method:
        settings = {**settings, "network": network}
    return sa.sample(target, sampler, **plan, **settings)


def regions(plane: Plane, x: np.ndarray) -> tuple[int, float]:
    """Regions that every chain visited; the largest distance of a share, in standard errors.

    Errors are those of the means of chains' halves.
    """
    halves, count = np.array_split(plane.regions(x), 2, axis=1), len(plane.shares)
    inside = np.stack([[np.mean(half == k, axis=1) for half in halves] for k in range(count)])
    visited = int(np.sum(inside.sum(axis=1).min(axis=1) > 0))
    parts = inside.reshape(count, -1)
    error = parts.std(axis=1, ddof=1) / np.sqrt(parts.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        return visited, float(np.nanmax(np.abs(parts.mean(axis=1) - plane.shares) / error))


def compared(
    name: str, plane: Plane, args: argparse.Namespace, folder: Path, number: int
) -> tuple[pd.DataFrame, pd.DataFrame, list[str], dict[str, np.ndarray]]:
    """Train and sample by every method; a table of text, one of numbers, messages, and draws."""
    target = sa.Target(*bundled.find(plane.program, plane.data), show_progress=False)
    network = trained(target, plane, folder / f"{name}.npz", args, number)
    draws = QUICK_DRAWS if args.quick else DRAWS
    lines, rows, notes, shown = [], [], [], {}
    for index, method in enumerate(METHODS):
        seed = own_seed(args.seed, number, index)
        with collected_warnings() as messages:
            fit = draw(target, method, network, draws, seed)
        notes += [f"{name}, {method}: {message}" for message in messages]
        x = results.dataset(fit, "posterior")["x"].values
        ess = ess_known_moments(plane.scored(x), plane.mean, plane.sd).min() * CHAINS
        uses = method.startswith("nice") and "untrained" not in method
        text, numbers = line(method, fit, float(ess), of_network(network) if uses else Learning())
        visited, distance = regions(plane, x)
        text["regions"] = f"{visited} of {len(plane.shares)}, {distance:.1f}"
        lines.append(text)
        rows.append({"target": name, **numbers, "regions": visited, "share_error": distance})
        shown[method] = x
    lines += [published(method, "paper", *values) for method, values in PLANE[name].items()]
    return text_table(lines), pd.DataFrame(rows), notes, shown


def picture(path: Path, shown: dict[str, dict[str, np.ndarray]]) -> Path:
    """Draw the first 500 draws of one chain: a line from each to the next shows the jumps."""
    figure, axes = plt.subplots(
        len(SHOWN), len(shown), figsize=(3 * len(shown), 6), squeeze=False, sharex="col",
        sharey="col", layout="constrained",
    )  # fmt: skip
    for column, (name, fits) in enumerate(shown.items()):
        for row, method in enumerate(SHOWN):
            x = fits[method][0, :500]
            axes[row, column].plot(x[:, 0], x[:, 1], "-", lw=0.2, color="0.6")
            axes[row, column].plot(x[:, 0], x[:, 1], ".", ms=2)
            axes[row, column].set(title=f"{name}: {method}", aspect="equal")
    return saved(figure, path, 120)


def animation(path: Path, shown: dict[str, dict[str, np.ndarray]]) -> Path:
    """Draw the same draws one after the other, as an animated GIF; the last 20 are joined."""
    cells = [(n, m, fits[m][0]) for n, fits in shown.items() for m in SHOWN]
    figure, axes = plt.subplots(
        len(shown), len(SHOWN), figsize=(6, 3 * len(shown)), squeeze=False, layout="constrained"
    )
    artists = []
    for panel, (name, method, x) in zip(axes.ravel(), cells, strict=True):
        panel.set(
            title=f"{name}: {method}", aspect="equal",
            xlim=(x[:, 0].min(), x[:, 0].max()), ylim=(x[:, 1].min(), x[:, 1].max()),
        )  # fmt: skip
        artists.append((panel.plot([], [], ".", ms=2)[0], panel.plot([], [], "-", lw=0.6)[0], x))

    def frame(number: int) -> list:
        for points, path_of, x in artists:
            points.set_data(*x[: number + 1].T)
            path_of.set_data(*x[max(0, number - 20) : number + 1].T)
        return [artist for points, path_of, _ in artists for artist in (points, path_of)]

    length = min(FRAMES, *(len(x) for *_, x in artists))
    FuncAnimation(figure, frame, frames=length, blit=True).save(path, PillowWriter(fps=20), dpi=80)
    plt.close(figure)
    return path


def main() -> None:
    """Train, sample, compare."""
    began = time.perf_counter()
    parser = terminal.usual_parser(__doc__, NAME, "tiny lengths")
    parser.add_argument("--targets", nargs="+", choices=list(planes()), help="default: all")
    parser.add_argument(
        "--iterations", type=terminal.positive, default=2000, help="of training; default: 2000"
    )
    parser.add_argument("--train", action="store_true", help="train again")
    parser.add_argument("--animate", action="store_true", help="write draws.gif too")
    args = parser.parse_args()
    folder = record.folder(NAME, args.out)
    names = args.targets or (["mog2"] if args.quick else list(planes()))
    sections, parts, notes, shown = {}, [], [], {}
    for name, plane in planes().items():
        if name in names:
            number = list(planes()).index(name)
            sections[name], rows, messages, shown[name] = compared(
                name, plane, args, folder, number
            )
            parts.append(rows)
            notes += messages
    figures = [picture(folder / "draws.png", shown)]
    if args.animate:
        figures.append(animation(folder / "draws.gif", shown))
    conclude(NAME, args, Results(sections, parts, notes, figures), CAPTION, began)


if __name__ == "__main__":
    main()
