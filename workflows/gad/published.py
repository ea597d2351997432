"""The published and earlier numbers on gradient-based adaptation, and their effective sample size.

`PUBLISHED`: the tables of Titsias and Dellaportas (2019), "Gradient-based Adaptive Markov Chain
Monte Carlo", NeurIPS; 20,000 kept draws per chain, their MATLAB code on their machine.
`MEASURED`: one run each of our first, short gadMALAf implementation at the paper's settings, from
the notes that stanadapt was built from; ArviZ's bulk ESS, on a machine with two cores.
"""

from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """One row of a table of the paper; ESS over the coordinates of one chain, means of ten runs.

    seconds, min_ess_per_second, per_second_sd
        Of the paper's own runs: ess_min divided by seconds, and its standard deviation.
    """

    seconds: float
    acceptance: float
    ess_min: float
    ess_median: float
    ess_max: float
    min_ess_per_second: float
    per_second_sd: float


class Measured(NamedTuple):
    """An earlier measurement of ours: bulk ESS over coordinates, and seconds of the whole run."""

    bulk_min: float
    bulk_median: float
    bulk_max: float
    seconds: float


# Tables 1 and 2. The paper gives the acceptance rate of NUTS only as "above 0.7", and of tables 3
# (Ripley), 4 (Pima), 5 (Heart), 6 (German) and 7 (digits) the captions without numbers.
PUBLISHED = {
    "neal": {
        "gadMALAf": Row(8.7, 0.556, 1413.4, 1987.4, 2580.8, 161.70, 15.07),
        "gadMALAe": Row(10.0, 0.541, 922.2, 2006.3, 2691.1, 92.34, 7.11),
        "gadRWM": Row(7.0, 0.254, 27.5, 66.9, 126.9, 3.95, 0.66),
        "AM": Row(2.3, 0.257, 8.7, 48.6, 829.1, 3.71, 0.87),
        "RWM": Row(2.2, 0.261, 2.9, 8.4, 2547.6, 1.31, 0.06),
        "MALA": Row(3.1, 0.530, 2.9, 10.0, 12489.2, 0.95, 0.03),
        "HMC-20": Row(49.7, 0.694, 306.1, 1537.8, 19732.4, 6.17, 3.35),
        "NUTS": Row(360.5, np.nan, 18479.6, 20000.0, 20000.0, 51.28, 1.64),
    },
    "caravan": {
        "gadMALAf": Row(23.1, 0.621, 228.1, 750.3, 1114.7, 9.94, 2.64),
        "gadMALAe": Row(95.1, 0.494, 66.6, 508.3, 1442.7, 0.70, 0.16),
        "gadRWM": Row(22.6, 0.234, 5.3, 34.3, 104.5, 0.23, 0.06),
        "AM": Row(20.0, 0.257, 3.2, 11.8, 62.5, 0.16, 0.01),
        "RWM": Row(15.3, 0.242, 3.0, 9.3, 52.5, 0.20, 0.03),
        "MALA": Row(22.8, 0.543, 4.4, 28.3, 326.0, 0.19, 0.05),
        "HMC-10": Row(225.5, 0.711, 248.3, 2415.7, 19778.7, 1.10, 0.12),
        "NUTS": Row(1412.1, np.nan, 7469.5, 20000.0, 20000.0, 5.29, 0.38),
    },
    "australian": {
        "gadMALAf": Row(8.1, 0.569, 3485.9, 4262.9, 4784.0, 443.97, 76.13),
        "gadMALAe": Row(13.5, 0.540, 3034.9, 4234.3, 4836.3, 227.61, 29.87),
        "gadRWM": Row(7.7, 0.253, 288.0, 423.0, 515.0, 38.68, 9.53),
        "AM": Row(4.4, 0.261, 310.9, 410.1, 507.2, 70.21, 6.23),
        "RWM": Row(3.4, 0.252, 31.3, 312.6, 495.2, 9.16, 3.12),
        "MALA": Row(7.0, 0.524, 138.4, 2388.1, 3818.8, 20.22, 5.14),
        "HMC-5": Row(37.0, 0.700, 1048.1, 3510.3, 14809.7, 28.06, 11.69),
        "NUTS": Row(41.3, np.nan, 2995.2, 20000.0, 20000.0, 72.86, 7.31),
    },
}
REPEATS = 10  # the published numbers are averages over these

MEASURED = {
    "neal": {"gadMALAf": Measured(1394, 2010, 2753, 0.54)},
    "ripley": {"gadMALAf": Measured(8114, 9461, 9473, 0.16)},
    "pima": {"gadMALAf": Measured(5802, 6171, 6543, 0.32)},
    "german": {"gadMALAf": Measured(2944, 3490, 3889, 0.72)},
    "australian": {"gadMALAf": Measured(3617, 4410, 4791, 0.46)},
    "heart": {"gadMALAf": Measured(3845, 4361, 4781, 0.21)},
    "caravan": {"gadMALAf": Measured(211, 837, 1311, 8.8)},
}

# Figure 1: the entropy weight after 20,000 iterations, by target acceptance rate.
ENTROPY_WEIGHTS = {0.25: 7.4, 0.4: 2.2}


def ess_of_chain(draws: np.ndarray) -> float:
    """Return the effective sample size of one chain, shape (draw,), by Geyer's monotone sequence.

    The estimator of the tables of Titsias and Dellaportas (2019): the chain is neither split
    nor rank-normalized, so that a poorly mixing chain has a higher value here than in ArviZ.
    Source: Geyer (1992), Practical Markov chain Monte Carlo, section 3.3.
    """
    n = len(draws)
    centered = draws - draws.mean()
    spectrum = np.fft.rfft(centered, 2 * n)
    covariance = np.fft.irfft(spectrum * spectrum.conj())[:n] / n
    if covariance[0] <= 0:
        return np.nan
    even = n // 2 * 2
    pairs = covariance[0:even:2] + covariance[1:even:2]
    negative = pairs <= 0
    pairs = pairs[: np.argmax(negative)] if negative.any() else pairs
    total = np.minimum.accumulate(pairs).sum()
    # limited as in Stan, since the value for an antithetic chain has no upper bound
    time = max((2 * total - covariance[0]) / covariance[0], 1 / np.log10(n))
    return float(n / time)
