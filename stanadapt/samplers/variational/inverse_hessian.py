"""The inverse Hessian that the last steps of an L-BFGS path tell, as a factor of low rank.

From pairs of steps S and falls of the gradient Y, in columns, and a diagonal alpha,

    H = diag(alpha) + beta gamma beta^T,  beta = [diag(alpha) Y, S],
    gamma = [[0, -R^-1], [-R^-T, R^-T (D + Y^T diag(alpha) Y) R^-1]],

R being the upper triangle of S^T Y and D its diagonal. With diag(alpha)^(-1/2) beta = Q T (QR) and
the eigenvalues and vectors of I + T gamma T^T = V Lambda V^T, H = L L^T with

    L = diag(alpha)^(1/2) (I + Q V (Lambda^(1/2) - I) V^T Q^T),

a symmetric root between the scales: no triangular factor, whose transpose could be taken by
mistake, is needed.

References
----------
Byrd, Nocedal and Schnabel (1994), Mathematical Programming 63; Zhang, Carpenter, Gelman and Vehtari
(2022), Pathfinder, JMLR 23, algorithms 3 and 4.

"""

import numpy as np
from scipy.linalg import solve_triangular

# eigenvalues of a positive definite matrix that rounding has made smaller
LEAST = 1e-14


def low_rank_factor(scale: np.ndarray, steps: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Factor L of H, stored as in `metric_factor`.

    Parameters
    ----------
    scale
        alpha, shape (dim,), positive.
    steps, slopes
        Rows s and y, oldest first, shape (pair, dim), with y's > 0.

    """
    n, root = len(scale), np.sqrt(scale)
    if not len(steps):
        return root[None].copy()
    s, y = (steps / root).T, (slopes * root).T
    # H does not change when a pair is multiplied by a number: sizes fall along a path
    size = np.sqrt(np.linalg.norm(s, axis=0) * np.linalg.norm(y, axis=0))
    s, y = s / size, y / size
    upper = np.triu(s.T @ y)
    inverse = solve_triangular(upper, np.eye(len(upper)))
    corner = inverse.T @ (np.diag(np.diag(upper)) + y.T @ y) @ inverse
    gamma = np.block([[np.zeros_like(upper), -inverse], [-inverse.T, corner]])
    basis, triangle = np.linalg.qr(np.hstack([y, s]))
    middle = np.eye(len(triangle)) + triangle @ gamma @ triangle.T
    values, vectors = np.linalg.eigh(0.5 * (middle + middle.T))
    directions = basis @ vectors
    factor = np.zeros((1 + len(values), n + 1))
    factor[0, :n], factor[1:, :n] = root, directions.T
    factor[1:, n] = np.sqrt(np.maximum(values, LEAST * values.max())) - 1.0
    return factor
