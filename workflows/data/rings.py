"""Data of rings.stan and its moments by quadrature, which `make_data` writes."""

import itertools
import math

VARIANCE = 0.02  # of the energy ((r - k) / 0.2)^2 of Song, Zhao and Ermon (2017)
# Simpson's rule has errors far below the digits that are written, in which C libraries agree
STEPS, DIGITS = 20_000, 12
OUTSIDE = 1.5  # beyond the outermost radius: 10 standard deviations


def ring5():
    return {"K": 5, "radii": [1, 2, 3, 4, 5], "variance": VARIANCE}


def simpson(values, step):
    """Integral of an odd number of equidistant values."""
    ends, odd, even = values[0] + values[-1], values[1:-1:2], values[2:-1:2]
    return math.fsum([ends, *(4 * v for v in odd), *(2 * v for v in even)]) * step / 3


def moments_of_ring(radius, variance, low, high):
    """Integrals over low < r < high of r^0, r^1 and r^2 times the density, in the plane."""
    step = (high - low) / STEPS
    grid = [low + i * step for i in range(STEPS + 1)]
    density = [
        2 * math.pi * r * math.exp(-((r - radius) ** 2) / (2 * variance)) for r in grid
    ]  # fmt: skip
    return [simpson([p * r**k for p, r in zip(density, grid, strict=True)], step) for k in range(3)]


def moments_by_ring(content):
    """`moments_of_ring` of each, which ends half-way to its neighbors."""
    radii = content["radii"]
    middles = [(one + other) / 2 for one, other in itertools.pairwise(radii)]
    borders = [0.0, *middles, radii[-1] + OUTSIDE]
    return [
        moments_of_ring(radius, content["variance"], low, high)
        for radius, (low, high) in zip(radii, itertools.pairwise(borders), strict=True)
    ]


def rounded(number):
    return float(f"{number:.{DIGITS}g}")


def known_moments():
    """Means and standard deviations, the log evidence, and the share of each ring."""
    moments = moments_by_ring(ring5())
    mass, first, second = (math.fsum(column) for column in zip(*moments, strict=True))
    mean, square = first / mass, second / mass
    sd = rounded(math.sqrt(square / 2))
    return {
        "ring5": {
            "origin": "quadrature in polar coordinates",
            "mean": {"x": [0, 0], "radius": rounded(mean)},
            "sd": {"x": [sd, sd], "radius": rounded(math.sqrt(square - mean**2))},
            "log_evidence": rounded(math.log(mass)),
            "shares": [rounded(ring[0] / mass) for ring in moments],
        }
    }


FILES = {"rings/ring5.json": ring5, "rings/known_moments.json": known_moments}
