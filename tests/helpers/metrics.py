"""Factors L of metrics for the awkward target, as compiled code stores them."""

import numpy as np

# dense and diagonal are close to the target's covariance, and trajectories circle; unit is not
METRICS = {
    "dense": np.array([[0.8, 0.0, 0.0], [0.1, 0.3, 0.0], [-0.5, 2.8, 2.9]]),
    "diagonal": np.array([[0.8, 0.25, 3.0]]),
    "unit": np.ones((1, 3)),
}
