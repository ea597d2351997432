"""Properties of maps of phase space: moves (position, momentum) -> (position, momentum)."""

import numpy as np


def jacobian_determinant(move, position, momentum, h=1e-6):
    """Of a move, by central differences."""
    z, n = np.concatenate([position, momentum]), len(position)
    columns = []
    for unit in np.eye(2 * n):
        ends = [np.concatenate(move(*np.split(z + sign * h * unit, 2))) for sign in (1, -1)]
        columns.append((ends[0] - ends[1]) / (2 * h))
    return np.linalg.det(np.array(columns).T)
