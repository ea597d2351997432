"""Figures of a learned kernel proposal: ellipses of R(y) on contours of the density."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stanadapt as sa
from stanadapt.samplers.kameleon import kameleon, kernel_proposal
from stanadapt.samplers.kameleon.history import History, covariance, draw_columns
from stanadapt.targets.stan import bundled
from workflows.pictures import plt, saved

ITERATIONS, QUICK_ITERATIONS = 40_000, 500  # of warm-up, and of sampling
GRID, QUICK_GRID = 200, 50  # points along each axis
LEVELS = (-8.0, -2.0, -0.5)  # of the log density, relative to its largest value
# with a third coordinate: with two, as in ring.json, Stan 2.27 rejects the empty x[3 : N]
RING = {"N": 3, "radius": 3.5, "variance": 0.05}
NEAR, FAR = "tab:blue", "tab:red"
CAPTION = (
    "Left the paper's form (settings `PUBLISHED`), right ours (the defaults). Grey: contours of "
    "the density at x[3], x[4], ... = 0. Dots: the subsample of one chain's draws; R(y) is "
    "the proposal covariance made from it, with the scale and the bandwidth that the chain had "
    "learned. Ellipses: one standard deviation of R(y) in x[1] and x[2] at the crosses y, blue on "
    "the target, red if no chain has been there. There the paper's proposals shrink toward gamma; "
    "ours keep the spread of the nearest past draws."
)


class Scene(NamedTuple):
    """A target to draw.

    program, data
        Names of a bundled program and of its data set, or the data.
    bandwidth
        For the paper's form: the authors' choice.
    near, far
        Positions in the first two coordinates, shape (n, 2): on the target, and off it.
    corner
        Largest x[1] and x[2] of the figure, and smallest x[2].
    """

    program: str
    data: str | dict[str, Any]
    bandwidth: float
    near: np.ndarray
    far: np.ndarray
    corner: tuple[float, float, float]


def _polar(radius: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def _scenes() -> list[Scene]:
    across = np.array([-20.0, -14.0, -7.0, 0.0, 7.0, 14.0, 20.0])
    petals, turns = np.arange(0, 2 * np.pi, np.pi / 12), np.arange(0, 2 * np.pi, np.pi / 4)
    return [
        Scene(
            "banana", "strong", 10.0, np.column_stack([across, 0.1 * (across**2 - 100)]),
            np.array([[-21.0, -14.0], [0.0, 26.0], [21.0, -14.0]]), (32.0, 42.0, -24.0),
        ),
        Scene(
            "flower", "flower", 5.0, _polar(10 + 6 * np.cos(6 * petals), petals),
            _polar(np.full(3, 19.0), np.array([0.5, 2.5, 4.5]) * np.pi / 3), (23.0, 23.0, -23.0),
        ),
        Scene(
            "ring", RING, 1.0, _polar(np.full(8, 3.5), turns),
            np.array([[0.0, 0.0], [5.6, 0.0], [-5.6, 0.0]]), (7.0, 7.0, -7.0),
        ),
    ]  # fmt: skip


class Learned(NamedTuple):
    """Ingredients of proposals: the subsample, the covariance F, and the learned s."""

    subsample: kernel_proposal.Subsample
    floor: np.ndarray
    scale: float


def learn(target: sa.Target, settings: kameleon.Settings, iterations: int, seed: int) -> Learned:
    """Run a chain from 0 and take a subsample of its draws."""
    fit = sa.sample(
        target, settings, chains=1, iter_warmup=iterations, iter_sampling=iterations, seed=seed,
        inits=np.zeros(target.dim), show_progress=False, standardize=False,
    )  # fmt: skip
    draws = np.ascontiguousarray(fit["posterior"]["x"].values[0])
    scale, bandwidth = (
        float(fit["sample_stats"][name].values[0, -1]) for name in ("step_size", "bandwidth")
    )
    subsample = kernel_proposal.no_points(target.dim, settings.subsample, bandwidth)
    past = History(draws, len(draws), 1, len(draws))
    n = draw_columns(past, subsample.points, np.random.default_rng(seed))
    subsample = subsample._replace(count=n, bandwidth=bandwidth)
    kernel_proposal.place_landmarks(subsample)
    floor = np.eye(target.dim)
    if settings.whiten:
        covariance(draws, floor)
    return Learned(subsample, floor, scale)


def ellipse(settings: kameleon.Settings, learned: Learned, position: np.ndarray) -> np.ndarray:
    """Points on the contour of R(y) at one standard deviation in x[1], x[2]; shape (2, n)."""
    y = np.zeros(len(learned.floor))
    y[:2] = position
    local = kernel_proposal.unused_local(len(y))
    kernel_proposal.measure(settings, learned.subsample, y, local)
    kernel_proposal.factorize(local, learned.floor, settings.gamma, learned.scale)
    angle = np.linspace(0, 2 * np.pi, 100)
    # the leading block of a Cholesky factor is the factor of the leading block
    circle = np.array([np.cos(angle), np.sin(angle)])
    return position[:, np.newaxis] + np.tril(local.factor[:2, :2]) @ circle


def _target(scene: Scene) -> sa.Target:
    if isinstance(scene.data, str):
        return sa.Target(*bundled.find(scene.program, scene.data))
    return sa.Target(bundled.available()[scene.program].path, scene.data)


def _density(
    target: sa.Target, scene: Scene, points: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    right, top, bottom = scene.corner
    x1, x2 = np.linspace(-right, right, points), np.linspace(bottom, top, points)
    position, values = np.zeros(target.dim), np.empty((points, points))
    for i, j in np.ndindex(points, points):
        position[:2] = x1[j], x2[i]
        values[i, j] = target.value(position)
    return x1, x2, values - values.max()


def _panel(
    axes: Any, density: tuple, settings: kameleon.Settings, scene: Scene, learned: Learned
) -> None:
    axes.contour(*density, levels=LEVELS, colors="0.55", linewidths=0.8, linestyles="solid")
    points = learned.subsample.points[:, : learned.subsample.count]
    axes.plot(points[0], points[1], ".", color="0.75", ms=2, zorder=0)
    for color, positions in ((NEAR, scene.near), (FAR, scene.far)):
        axes.plot(positions[:, 0], positions[:, 1], "x", color=color, ms=4)
        for position in positions:
            axes.plot(*ellipse(settings, learned, position), color=color, lw=1.1)
    right, top, bottom = scene.corner
    axes.set(xlim=(-right, right), ylim=(bottom, top), aspect="equal", xlabel="x[1]", ylabel="x[2]")
    width = learned.subsample.bandwidth
    form = "ours" if settings.normalize_weights else "paper's form"
    title = f"{scene.program}, {form}: bandwidth {width:.2g}, s = {learned.scale:.2g}"
    axes.set_title(title, fontsize=10)


def draw(path: Path, seed: int, quick: bool) -> Path:
    """Draw the strongly twisted banana, the flower and the ring, both forms side by side."""
    scenes, iterations = _scenes(), QUICK_ITERATIONS if quick else ITERATIONS
    figure, panels = plt.subplots(len(scenes), 2, figsize=(12, 17), layout="constrained")
    for row, scene in zip(panels, scenes, strict=True):
        target = _target(scene)
        density = _density(target, scene, QUICK_GRID if quick else GRID)
        published = kameleon.PUBLISHED._replace(bandwidth=scene.bandwidth)
        for axes, settings in zip(row, (published, kameleon.Settings()), strict=True):
            learned = learn(target, settings, iterations, seed)
            _panel(axes, density, settings, scene, learned)
    figure.suptitle("One standard deviation of proposals: blue on the target, red far from it")
    return saved(figure, path, 130)
