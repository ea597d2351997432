"""Data of mixture.stan and its exact moments, which `make_data` writes.

Everything is computed with the standard library from sums, products and square roots, which round
in the same way on every machine.
"""

import math
import random

# Kou, Zhou and Wong (2006), "Equi-energy sampler with applications in statistical inference and
# statistical mechanics", section 3.4
TWENTY = [
    [2.18, 5.76], [8.67, 9.59], [4.24, 8.48], [8.41, 1.68], [3.93, 8.82],
    [3.25, 3.47], [1.70, 0.50], [4.59, 5.60], [6.91, 5.81], [6.87, 5.40],
    [5.41, 2.65], [2.70, 7.88], [4.98, 3.70], [1.14, 2.39], [8.33, 9.50],
    [4.93, 1.50], [1.83, 0.09], [2.26, 0.31], [5.54, 6.86], [1.69, 8.11],
]  # fmt: skip
MODES, DIMENSIONS = 8, 20
# centers differ in at least 8 of 20 coordinates, and so have distances of at least 5 sqrt(8) = 14.1
HALF_SIDE, LEAST_SIDES_APART = 2.5, 8


def mixture(weights, means, sds):
    return {"D": len(means[0]), "K": len(means), "weights": weights, "means": means, "sds": sds}


def one_dim():
    return mixture([0.5, 0.5], [[-1], [1]], [math.sqrt(0.1), math.sqrt(0.02)])


def twenty():
    return mixture([1] * 20, TWENTY, [0.1] * 20)


def distances():
    """Distances of the centers from (5, 5)."""
    return [math.sqrt((first - 5) ** 2 + (second - 5) ** 2) for first, second in TWENTY]


def twenty_sd():
    return mixture([1 / d for d in distances()], TWENTY, [d / 20 for d in distances()])


def twenty_variance():
    return mixture([1 / d for d in distances()], TWENTY, [math.sqrt(d / 20) for d in distances()])


def corners():
    """Corners of a cube around zero, drawn one by one and corners if far from the earlier ones.

    They use `random()` alone, which Python guarantees to reproduce from a seed in all versions.
    """
    rng, corners = random.Random(20), []
    while len(corners) < MODES:
        corner = [HALF_SIDE if rng.random() < 0.5 else -HALF_SIDE for _ in range(DIMENSIONS)]
        sides = [sum(a != b for a, b in zip(corner, other, strict=True)) for other in corners]
        if all(side >= LEAST_SIDES_APART for side in sides):
            corners.append(corner)
    return corners


def eight():
    return mixture(list(range(1, MODES + 1)), corners(), [1] * MODES)


def eight_widths():
    """`eight` with other widths: narrow and wide ones among the heavy and the light modes."""
    return mixture(list(range(1, MODES + 1)), corners(), [1, 0.2, 2, 0.5, 0.3, 1.5, 0.2, 0.7])


def mog2():
    """The two Gaussians of Song, Zhao and Ermon (2017), like `mog6`."""
    return mixture([1] * 2, [[5, 0], [-5, 0]], [0.5] * 2)


def mog6():
    high = 2.5 * math.sqrt(3)
    centers = [[5, 0], [2.5, high], [-2.5, high], [-5, 0], [-2.5, -high], [2.5, -high]]
    return mixture([1] * 6, centers, [0.5] * 6)


def moments(content):
    """Mean and standard deviation of each coordinate, by the law of total variance."""
    weights, widths = content["weights"], content["sds"]
    total = math.fsum(weights)
    means, sds = [], []
    for column in zip(*content["means"], strict=True):
        mean = math.fsum(w * m for w, m in zip(weights, column, strict=True)) / total
        spread = [
            w * ((m - mean) ** 2 + s**2) for w, m, s in zip(weights, column, widths, strict=True)
        ]
        means.append(mean)
        sds.append(math.sqrt(math.fsum(spread) / total))
    return {
        "origin": "exact: sums over the components",
        "mean": {"x": means},
        "sd": {"x": sds},
        "log_evidence": 0,
    }


DATA = {
    "one_dim": one_dim,
    "twenty": twenty,
    "twenty_sd": twenty_sd,
    "twenty_variance": twenty_variance,
    "eight": eight,
    "eight_widths": eight_widths,
    "mog2": mog2,
    "mog6": mog6,
}


def known_moments():
    return {name: moments(make()) for name, make in DATA.items()}


FILES = {
    **{f"mixture/{name}.json": make for name, make in DATA.items()},
    "mixture/known_moments.json": known_moments,
}
