"""Normal proposals of a network, trained by REINFORCE: do they learn to jump between two modes?

    python -m workflows.learned.reinforce --quick    # does it run?
    python -m workflows.learned.reinforce            # five networks, two minutes

The text on A-NICE-MC says that such a proposal fails where theirs does not. The proposal is
normal(x + shift(x), scale(x)), with shift and scale by a network of one hidden layer. The reward of
a proposal is its acceptance probability times the squared distance, in standard deviations of the
target: the expected squared jump. Its gradient is estimated by the score, with the mean reward as a
baseline (Williams, 1992, Machine Learning 8), and Adam takes the steps. Chains then move by
Metropolis-Hastings with the trained proposal, next to random walks of the best fixed scale.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from workflows import record, terminal
from workflows.conclude import Results, conclude, text_table
from workflows.learned.known_moments_ess import ess_known_moments
from workflows.pictures import plt, saved

NAME = "learned/reinforce"
CAPTION = (
    "Two Gaussians of equal weight at (-5, 0) and (5, 0) with standard deviation 0.5, as in the "
    "paper's table 1. Jump: mean squared distance of a move in standard deviations of the target. "
    "Crossings: moves from one mode to the other per 1,000 iterations. Effective draws per 1,000, "
    "by the paper's definition, of the worse coordinate: A-NICE-MC has 355 in the paper. The "
    "best jump of a random walk is inside a mode, and the best local change of a network's "
    "proposal is, too: a proposal that lands in the other mode is never seen, and not rewarded."
)
MEANS, SD = np.array([[-5.0, 0.0], [5.0, 0.0]]), 0.5
TARGET_SD = np.array([np.sqrt(25.0 + SD**2), SD])
HIDDEN, BATCH, STEPS, RATE = 64, 256, 5000, 2e-3
REPEATS, CHAINS, DRAWS = 5, 4, 5000
QUICK_STEPS, QUICK_DRAWS = 50, 200
SCALES = np.geomspace(0.1, 16.0, 23)  # of random walks, in units of SD
# Adam's decay of both moments, and what keeps it from dividing by 0
DECAY, SMALLEST = (0.9, 0.999), 1e-8


def log_density(x: np.ndarray) -> np.ndarray:
    """Return the log density of points, shape (point, 2), up to a constant."""
    away = x[:, None, :] - MEANS
    return logsumexp(-0.5 * np.sum(away**2, axis=2) / SD**2, axis=1)


class Proposal(NamedTuple):
    """Normal proposals: a network with one hidden layer gives shifts and log scales.

    first, first_bias, second, second_bias
        Weights, of inputs in units of TARGET_SD; outputs are two shifts, in these units, and two
        log scales.
    """

    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray

    def outputs(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the hidden layer, shifts and log scales."""
        hidden = np.tanh((x / TARGET_SD) @ self.first + self.first_bias)
        out = hidden @ self.second + self.second_bias
        return hidden, out[:, :2] * TARGET_SD, out[:, 2:]

    def log_q(self, x: np.ndarray, to: np.ndarray) -> np.ndarray:
        """Return the log density of proposals from x."""
        _, shift, log_scale = self.outputs(x)
        z = (to - x - shift) / np.exp(log_scale)
        return np.sum(-0.5 * z**2 - log_scale, axis=1)

    def score(self, x: np.ndarray, to: np.ndarray, weights: np.ndarray) -> "Proposal":
        """Return the gradient of the weighted mean of log q with respect to all weights."""
        hidden, shift, log_scale = self.outputs(x)
        z = (to - x - shift) / np.exp(log_scale)
        by_output = np.concatenate([z / np.exp(log_scale) * TARGET_SD, z**2 - 1.0], axis=1)
        by_output *= weights[:, None] / len(x)
        by_hidden = (by_output @ self.second.T) * (1.0 - hidden**2)
        return Proposal(
            (x / TARGET_SD).T @ by_hidden, by_hidden.sum(axis=0),
            hidden.T @ by_output, by_output.sum(axis=0),
        )  # fmt: skip


def begin(rng: np.random.Generator) -> Proposal:
    """Return a proposal that is nearly a random walk of scale SD."""
    first = rng.normal(size=(2, HIDDEN))
    second = 0.01 * rng.normal(size=(HIDDEN, 4))
    return Proposal(first, np.zeros(HIDDEN), second, np.array([0.0, 0.0, *np.log([SD, SD])]))


def move(
    proposal: Proposal, x: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Propose from each point; return proposals, acceptance probabilities, and where chains are."""
    _, shift, log_scale = proposal.outputs(x)
    to = x + shift + np.exp(log_scale) * rng.normal(size=x.shape)
    log_ratio = log_density(to) - log_density(x) + proposal.log_q(to, x) - proposal.log_q(x, to)
    accepted = np.exp(np.minimum(log_ratio, 0.0))
    return to, accepted, np.where((rng.uniform(size=len(x)) < accepted)[:, None], to, x)


def start(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return exact draws: training has what a chain would have at best."""
    return MEANS[rng.integers(0, 2, count)] + SD * rng.normal(size=(count, 2))


def train(steps: int, rng: np.random.Generator) -> tuple[Proposal, list[tuple[int, float, float]]]:
    """Return the trained proposal, and step, mean reward and mean acceptance along the way."""
    proposal, curve = begin(rng), []
    slope, square = ([np.zeros_like(w) for w in proposal] for _ in range(2))
    for step in range(1, steps + 1):
        x = start(BATCH, rng)
        to, accepted, _ = move(proposal, x, rng)
        reward = accepted * np.sum(((to - x) / TARGET_SD) ** 2, axis=1)
        gradient = proposal.score(x, to, reward - reward.mean())
        weights = []
        for i, (weight, g) in enumerate(zip(proposal, gradient, strict=True)):
            slope[i] = DECAY[0] * slope[i] + (1.0 - DECAY[0]) * g
            square[i] = DECAY[1] * square[i] + (1.0 - DECAY[1]) * g**2
            unbiased = slope[i] / (1.0 - DECAY[0] ** step)
            size = np.sqrt(square[i] / (1.0 - DECAY[1] ** step)) + SMALLEST
            weights.append(weight + RATE * unbiased / size)
        proposal = Proposal(*weights)
        if step % max(1, steps // 100) == 0:
            curve.append((step, float(reward.mean()), float(accepted.mean())))
    return proposal, curve


def sample(
    proposal: Proposal, draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of chains, shape (chain, draw, 2), and acceptance probabilities."""
    x, found, rates = start(CHAINS, rng), [], []
    for _ in range(draws):
        _, accepted, x = move(proposal, x, rng)
        found.append(x)
        rates.append(accepted)
    return np.stack(found, axis=1), np.stack(rates, axis=1)


def measured(method: str, repeat: int, x: np.ndarray, rates: np.ndarray) -> dict[str, Any]:
    """Return what the chains of one repeat show."""
    side = x[:, :, 0] > 0.0
    jump = np.mean(np.sum((np.diff(x, axis=1) / TARGET_SD) ** 2, axis=2))
    ess = ess_known_moments(x, np.zeros(2), TARGET_SD).min()
    return {
        "method": method, "repeat": repeat, "acceptance": rates.mean(), "jump": jump,
        "crossings": 1000.0 * np.mean(side[:, 1:] != side[:, :-1]),
        "ess_per_1000": 1000.0 * ess / x.shape[1],
    }  # fmt: skip


def random_walk(scale: float) -> Proposal:
    """Return a proposal without shifts, of one scale."""
    zero = begin(np.random.default_rng(0))
    bias = np.array([0.0, 0.0, *np.log([scale, scale])])
    return zero._replace(second=np.zeros_like(zero.second), second_bias=bias)


def best_walk(draws: int, rng: np.random.Generator) -> Proposal:
    """Return the random walk whose moves are longest, among those of SCALES."""
    walks = [random_walk(SD * scale) for scale in SCALES]
    jumps = [measured("", 0, *sample(walk, draws, rng))["jump"] for walk in walks]
    return walks[int(np.argmax(jumps))]


def repeats(count: int, steps: int, draws: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train and sample; one row per method and repeat, and the rewards during training."""
    rows, curves = [], []
    for repeat in range(count):
        rng = np.random.default_rng([seed, repeat])
        proposal, curve = train(steps, rng)
        curves += [(repeat, *point) for point in curve]
        methods = {
            "by REINFORCE": proposal, "untrained": begin(rng),
            "random walk": best_walk(draws // 5, rng),
        }  # fmt: skip
        for method, chosen in methods.items():
            rows.append(measured(method, repeat, *sample(chosen, draws, rng)))
    columns = ["repeat", "step", "reward", "acceptance"]
    return pd.DataFrame(rows), pd.DataFrame(curves, columns=columns)


def summary(rows: pd.DataFrame) -> list[dict[str, str]]:
    """Return lines of text: means over repeats, and in brackets standard deviations."""
    lines = []
    for method, part in rows.groupby("method", sort=False):
        numbers = part[["acceptance", "jump", "crossings", "ess_per_1000"]]
        mean, sd = numbers.mean(), numbers.std()
        lines.append({
            "method": str(method),
            **{name: f"{mean[name]:.3g} ({sd[name]:.2g})" for name in numbers},
        })  # fmt: skip
    return lines


def draw(path: Path, rows: pd.DataFrame, curves: pd.DataFrame) -> Path:
    """Draw rewards during training, and the crossings of each method."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for _, part in curves.groupby("repeat"):
        axes[0].plot(part["step"], part["reward"], lw=1)
    axes[0].set(xlabel="step of training", ylabel="mean squared jump, in variances", ylim=(0, None))
    for place, (_, part) in enumerate(rows.groupby("method", sort=False)):
        axes[1].plot(np.full(len(part), place), part["crossings"], "o", alpha=0.6)
    axes[1].set_xticks(range(rows["method"].nunique()), list(rows["method"].unique()))
    axes[1].set(ylabel="crossings per 1,000 iterations", ylim=(-0.5, None))
    return saved(figure, path)


def main() -> None:
    """Train, sample, print, write, draw."""
    began = time.perf_counter()
    args = terminal.usual_parser(__doc__, NAME, "two repeats, few steps").parse_args()
    folder = record.folder(NAME, args.out)
    count, steps, draws = (2, QUICK_STEPS, QUICK_DRAWS) if args.quick else (REPEATS, STEPS, DRAWS)
    rows, curves = repeats(count, steps, draws, args.seed)
    curve_file = folder / "reinforce_curves.csv"
    curves.to_csv(curve_file, index=False)
    figure = draw(folder / "reinforce.png", rows, curves)
    table = text_table(summary(rows))
    results = Results({"Two modes": table}, [rows], [], [curve_file, figure])
    conclude(NAME, args, results, CAPTION, began)


if __name__ == "__main__":
    main()
