"""Compiled parts of the fits of conditionals: what is done for each fit, number and draw.

Exponentials, means and products of matrices stay in NumPy, so that results are those of array
operations to the last bit. Arrays of draws have a row of zeros at the end, which is that of an
absent driver, -1.
"""

import numpy as np

from stanadapt.engine.compiled.jit import jit

# numbers of a fit
PARAMETERS = 8
COLUMNS = range(PARAMETERS)
A, B, S, C, D, E, W, Q = COLUMNS
LARGEST_EXPONENT = 60.0
# the least improvement as a share; a fit ends after this many iterations with less
LEAST_GAIN, PATIENCE = 1e-4, 7
# of the logarithms a and c and the slopes b and s in one iteration
LONGEST_STEP = 2.0
SMALLEST = 1e-300


@jit
def exponents(
    numbers: np.ndarray, scale: np.ndarray, second: np.ndarray, z: np.ndarray, out: np.ndarray
) -> None:
    """Write a + b z_k + s z_h of each fit and draw to `out`, within limits."""
    for i in range(len(numbers)):
        a, b, s, z_k, z_h = numbers[i, A], numbers[i, B], numbers[i, S], z[scale[i]], z[second[i]]
        for t in range(out.shape[1]):
            exponent = a + b * z_k[t] + s * z_h[t]
            if exponent > LARGEST_EXPONENT:  # written so that NaN stays NaN
                exponent = LARGEST_EXPONENT
            elif exponent < -LARGEST_EXPONENT:
                exponent = -LARGEST_EXPONENT
            out[i, t] = exponent


@jit
def residuals(
    numbers: np.ndarray, coordinate: np.ndarray, location: np.ndarray, z: np.ndarray,
    gradients: np.ndarray, learned: np.ndarray, own: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    """Write (g + P (x - m)) / sqrt(P) to `out`; `learned` and `own` are both parts of P."""
    for i in range(len(numbers)):
        d, e, w, q, p_0, p_1 = (
            numbers[i, D], numbers[i, E], numbers[i, W], numbers[i, Q], own[i], learned[i],
        )  # fmt: skip
        x, g, z_l = z[coordinate[i]], gradients[coordinate[i]], z[location[i]]
        for t in range(out.shape[1]):
            precision = p_0 + p_1[t]
            center = e + (w + q * z_l[t]) * z_l[t]
            mean = (p_0 * d + p_1[t] * center) / precision
            root = np.sqrt(precision)
            out[i, t] = root * (x[t] - mean) + g[t] / root


@jit
def slopes(
    rows: np.ndarray, numbers: np.ndarray, free: np.ndarray, coordinate: np.ndarray,
    scale: np.ndarray, second: np.ndarray, location: np.ndarray, z: np.ndarray,
    gradients: np.ndarray, learned: np.ndarray, own: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    """Write the derivatives of the residuals of some rows, shape (row, PARAMETERS, draw)."""
    for r in range(len(rows)):
        i = rows[r]
        d, e, w, q, p_0, p_1 = (
            numbers[i, D], numbers[i, E], numbers[i, W], numbers[i, Q], own[i], learned[i],
        )  # fmt: skip
        x, g, to = z[coordinate[i]], gradients[coordinate[i]], out[r]
        z_k, z_h, z_l = z[scale[i]], z[second[i]], z[location[i]]
        for t in range(out.shape[2]):
            precision = p_0 + p_1[t]
            center = e + (w + q * z_l[t]) * z_l[t]
            root = np.sqrt(precision)
            half = 0.5 * (x[t] - g[t] / precision + (p_0 * d + p_1[t] * center) / precision)
            by_log, by_mean = p_1[t] * ((half - center) / root), -p_1[t] / root
            to[A, t], to[B, t], to[S, t] = by_log, by_log * z_k[t], by_log * z_h[t]
            to[C, t], to[D, t] = p_0 * ((half - d) / root), -p_0 / root
            to[E, t], to[W, t], to[Q, t] = by_mean, by_mean * z_l[t], by_mean * z_l[t] * z_l[t]
        for number in range(PARAMETERS):
            for t in range(0 if free[i, number] else out.shape[2]):
                to[number, t] = 0.0


@jit
def damp(
    normal: np.ndarray, right: np.ndarray, free: np.ndarray, damping: np.ndarray,
    enlarged: np.ndarray, sides: np.ndarray,
) -> None:  # fmt: skip
    """Copy normal equations and enlarge their diagonal; without finite ones, no step follows."""
    for i in range(len(normal)):
        largest, finite = -np.inf, True
        for n in range(PARAMETERS):
            largest = max(largest, normal[i, n, n])
        for n in range(PARAMETERS):
            size, sides[i, n] = normal[i, n, n], right[i, n]
            added = damping[i] * size + 1e-9 * largest
            added += 1.0 if size <= 0.0 or not free[i, n] else 0.0
            for m in range(PARAMETERS):
                enlarged[i, n, m] = normal[i, n, m]
            enlarged[i, n, n] += added + SMALLEST
            finite &= np.isfinite(sides[i, n])
            for m in range(PARAMETERS):
                finite &= np.isfinite(enlarged[i, n, m])
        if not finite:
            for n in range(PARAMETERS):
                sides[i, n] = 0.0
                for m in range(PARAMETERS):
                    enlarged[i, n, m] = 1.0 if m == n else 0.0


@jit
def move(numbers: np.ndarray, steps: np.ndarray, free: np.ndarray, out: np.ndarray) -> None:
    """Write the numbers minus steps of limited length to `out`."""
    for i in range(len(numbers)):
        for n in range(PARAMETERS):
            step = -steps[i, n, 0] * free[i, n]
            if n <= C and step > LONGEST_STEP:
                step = LONGEST_STEP
            elif n <= C and step < -LONGEST_STEP:
                step = -LONGEST_STEP
            out[i, n] = numbers[i, n] + step


@jit
def accept(
    places: np.ndarray, values: np.ndarray, numbers: np.ndarray, best: np.ndarray,
    damping: np.ndarray, idle: np.ndarray, better: np.ndarray,
) -> None:  # fmt: skip
    """Move each fit to the place that was tried if F is smaller there, and set its damping."""
    for i in range(len(numbers)):
        gained, factor, better[i] = 0.0, 5.0, values[i] < best[i]
        if better[i]:
            gained, factor, best[i] = best[i] - values[i], 0.2, values[i]
            for n in range(PARAMETERS):  # as a whole row, it takes ten times as long to compile
                numbers[i, n] = places[i, n]
        damping[i] = min(max(factor * damping[i], 1e-9), 1e9)
        idle[i] = 0 if gained > LEAST_GAIN * best[i] else idle[i] + 1
