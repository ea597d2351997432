"""Data of boltzmann.stan and its exact moments, which `make_data` writes.

The systems of 28 spins are those that the code of Graham and Storkey (2017) draws with the seed
201702; Nemeth et al. (2019) use the first and the tenth. A relaxation adds a diagonal D to the
weights W: the D that makes W + D positive semidefinite with the smallest possible largest
eigenvalue. The square root Q of W + D differs from the authors' for three reasons.

- The problem is solved more exactly here. Their solver stopped at a largest eigenvalue of 11.7998
  for system 10, but 11.7963 can be reached; their diagonals differ from ours by up to 0.06, and
  by 0.12 for system 1. This changes the log evidence of system 10 by 0.012 and of system 1 by
  0.003.
- At the solution the largest eigenvalue is multiple, so that its eigenvectors can be rotated; and
  three eigenvalues of system 10, and four of system 1, are zero. Slightly inside the boundary, by
  `INSIDE`, all eigenvalues are distinct, and the eigenvectors are the same on every machine. The
  authors' solver left similar ones, and they kept 26 and 27 columns: so do we, although 25 and 24
  would do. The columns cut off change W by less than 1e-4; the moments are those of the Q that is
  written.
- The sign of an eigenvector is arbitrary: here its largest entry is positive.
"""

import json
from functools import cache
from typing import NamedTuple

import numpy as np

SPINS = 28
SEED = 201702
COLUMNS = {"system_1": 27, "system_10": 26}
INSIDE = 1e-4  # final weight of the barrier: up to a factor, the distance from the boundary
DIGITS = 6  # decimals of the numbers written
# Another linear algebra library may round an entry of Q the other way, by 1e-6
TOLERANCE = 1e-5
BLOCK = 1024  # rows of the table of states held at a time: 128 MB


def orthogonal(rng, size):
    """A uniformly distributed random orthogonal matrix, from Householder reflections.

    Stewart (1980), "The efficient generation of random orthogonal matrices with an application to
    condition estimators". The systems depend on the order of the random numbers.
    """
    matrix, signs = np.eye(size), np.ones(size)
    for first in range(size - 2, -1, -1):
        normal = rng.randn(size - first)
        signs[first] = -np.sign(normal[0])
        length = np.sqrt(normal @ normal)
        normal[0] -= signs[first] * length
        reflected = np.outer(normal, normal @ matrix[first:]) / (-signs[first] * length * normal[0])
        matrix[first:] -= reflected
    signs[-1] = 1 if rng.rand() > 0.5 else -1
    return signs[:, None] * matrix


@cache
def systems():
    """Weights and biases of the ten systems, in the order of the random numbers."""
    rng = np.random.RandomState(SEED)  # not a newer generator: the published systems use this one
    drawn = []
    for _ in range(10):
        vectors = orthogonal(rng, SPINS)
        weights = (vectors * 6 * np.tanh(2 * rng.randn(SPINS))) @ vectors.T
        np.fill_diagonal(weights, 0)
        drawn.append(((weights + weights.T) / 2, 0.1 * rng.randn(SPINS)))
    return drawn


def newton_step(weights, point, barrier):
    """Newton step for t / barrier - log det(t I - W - D) - log det(W + D) at the point (t, D).

    Returns the step and its length in the norm of the Hessian.
    """
    shifted = weights + np.diag(point[1:])
    above = np.linalg.inv(point[0] * np.eye(len(shifted)) - shifted)
    below = np.linalg.inv(shifted)
    gradient = np.r_[1 / barrier - np.trace(above), np.diag(above) - np.diag(below)]
    hessian = np.empty((len(point), len(point)))
    hessian[0, 0] = np.sum(above**2)
    hessian[0, 1:] = hessian[1:, 0] = -np.sum(above**2, axis=0)
    hessian[1:, 1:] = above**2 + below**2
    step = -np.linalg.solve(hessian, gradient)
    return step, np.sqrt(-gradient @ step)


def relaxed(weights, inside=INSIDE):
    """Return W + D with the D that minimizes its largest eigenvalue and keeps it semidefinite."""
    lowest, highest = np.linalg.eigvalsh(weights)[[0, -1]]
    point = np.r_[highest - lowest + 2, np.full(len(weights), 1 - lowest)]
    for barrier in barriers(inside):
        for _ in range(200):
            step, length = newton_step(weights, point, barrier)
            point = point + step / (1 + length)  # with this damping no step leaves the region
            if length < 1e-6:  # after that step the error is about 1e-12
                break
        else:
            raise ArithmeticError(f"Newton's method stopped at a step of length {length}")
    return weights + np.diag(point[1:])


def barriers(last):
    """Yield decreasing weights of the barrier, from 1; each problem starts at the last solution."""
    weight = 1.0
    while weight > last:
        yield weight
        weight /= 5
    yield last


def square_root(matrix, columns):
    """Q with `columns` columns and Q Q' close to the matrix; the widest direction comes first."""
    values, vectors = np.linalg.eigh(matrix)
    root = (vectors * np.sqrt(values))[:, ::-1][:, :columns]
    largest = root[np.argmax(np.abs(root), axis=0), np.arange(columns)]
    return root * np.sign(largest)


def rounded(values):
    return np.round(values, DIGITS).tolist()


@cache
def boltzmann(name):
    weights, biases = systems()[int(name.removeprefix("system_")) - 1]
    root = square_root(relaxed(weights), COLUMNS[name])
    return {"D": COLUMNS[name], "n": SPINS, "Q": rounded(root), "b": rounded(biases)}


def all_states(spins):
    """All states of the spins, one per row of -1 and 1."""
    return 1.0 - 2.0 * ((np.arange(2**spins)[:, None] >> np.arange(spins)) & 1)


class Halves(NamedTuple):
    """The states of both halves of the spins, whose pairs index a table of all states.

    of_rows, of_columns
        Terms of log weights within a half.
    pull
        What the spins of the first half do to each of the second, for each row.
    bound
        Upper bound of all log weights, not so far above the largest that `exp` underflows.
    """

    rows: np.ndarray
    columns: np.ndarray
    of_rows: np.ndarray
    of_columns: np.ndarray
    pull: np.ndarray
    bound: float

    @classmethod
    def of(cls, weights, biases):
        half = len(biases) // 2
        rows, columns = all_states(half), all_states(len(biases) - half)
        of_rows = 0.5 * np.sum(rows @ weights[:half, :half] * rows, axis=1) + rows @ biases[:half]
        of_columns = 0.5 * np.sum(columns @ weights[half:, half:] * columns, axis=1)
        of_columns += columns @ biases[half:]
        pull = rows @ weights[:half, half:]
        bound = np.max(of_rows + np.abs(pull).sum(axis=1)) + of_columns.max()
        return cls(rows, columns, of_rows, of_columns, pull, bound)

    def weights_of(self, block):
        """Return the weights of the states in some rows, divided by exp(bound)."""
        table = self.pull[block] @ self.columns.T
        table += self.of_columns
        table += self.of_rows[block, None] - self.bound
        return np.exp(table, out=table)


def spin_moments(weights, biases):
    """Log of the sum of exp(s' W s / 2 + b' s) over all states, E s and E s s'.

    One half of the spins indexes the rows of a table, the other half its columns. A matrix product
    fills a block of rows with the interactions between the halves.
    """
    halves = Halves.of(weights, biases)
    rows, columns = halves.rows, halves.columns
    in_rows, in_columns = np.empty(len(rows)), np.zeros(len(columns))
    across = np.zeros((rows.shape[1], columns.shape[1]))
    for first in range(0, len(rows), BLOCK):
        block = slice(first, first + BLOCK)
        table = halves.weights_of(block)
        in_rows[block] = table.sum(axis=1)
        in_columns += table.sum(axis=0)
        across += rows[block].T @ (table @ columns)
    total = in_rows.sum()
    mean = np.r_[in_rows @ rows, in_columns @ columns] / total
    second = np.block(
        [
            [(rows.T * in_rows) @ rows, across],
            [across.T, (columns.T * in_columns) @ columns],
        ]
    )
    return halves.bound + np.log(total), mean, second / total


def exact(content):
    """Return E x = Q' E s, Cov x = Q' Cov(s) Q + I for W = Q Q', and the log evidence.

    The diagonal of W only adds a constant.
    """
    root, biases = np.array(content["Q"]), np.array(content["b"])
    log_sum, mean, second = spin_moments(root @ root.T, biases)
    covariance = root.T @ (second - np.outer(mean, mean)) @ root + np.eye(content["D"])
    log_evidence = log_sum + 0.5 * content["D"] * np.log(2 * np.pi) - content["n"] * np.log(2)
    return root.T @ mean, covariance, log_evidence


def moments(content):
    """Return what `known_moments.json` holds of a system."""
    mean, covariance, log_evidence = exact(content)
    return {
        "origin": "exact: sums over the 2^28 states of the spins",
        "mean": {"x": rounded(mean)},
        "sd": {"x": rounded(np.sqrt(np.diag(covariance)))},
        "log_evidence": rounded(log_evidence),
    }


def independent_draws(content, count, rng):
    """Draw x from the relaxation itself, shape (count, D): a state of the spins, then Q' s + noise.

    The state is drawn by its exact probability, the first half of its spins before the second.
    """
    root, biases = np.array(content["Q"]), np.array(content["b"])
    halves = Halves.of(root @ root.T, biases)
    blocks = [slice(first, first + BLOCK) for first in range(0, len(halves.rows), BLOCK)]
    in_rows = np.concatenate([halves.weights_of(block).sum(axis=1) for block in blocks])
    counts = rng.multinomial(count, in_rows / in_rows.sum())
    states = []
    for row in np.flatnonzero(counts):
        weights = halves.weights_of(slice(row, row + 1))[0]
        chosen = rng.choice(len(weights), counts[row], p=weights / weights.sum())
        first = np.broadcast_to(halves.rows[row], (counts[row], halves.rows.shape[1]))
        states.append(np.hstack([first, halves.columns[chosen]]))
    spins = rng.permutation(np.concatenate(states))
    return spins @ root + rng.standard_normal((count, content["D"]))


def known_moments(folder):
    """Moments of the systems as the files in a folder hold them.

    Not of the Q that this machine computes: an entry that is rounded the other way, by 1e-6, moves
    a mean of system 1 by 1.3e-5.
    """
    return {n: moments(json.loads((folder / f"{n}.json").read_text())) for n in COLUMNS}


FILES = {
    "boltzmann/system_1.json": lambda: boltzmann("system_1"),
    "boltzmann/system_10.json": lambda: boltzmann("system_10"),
}
