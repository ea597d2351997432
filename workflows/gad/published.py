"""The published and earlier numbers on gradient-based adaptation, as data.

`PUBLISHED`: the tables of Titsias and Dellaportas (2019), "Gradient-based Adaptive Markov Chain
Monte Carlo", NeurIPS; 20,000 kept draws per chain, their MATLAB code on their machine.
`MEASURED`: one run each of our first, short gadMALAf implementation at the paper's settings, from
the notes that stanadapt was built from; ArviZ's bulk ESS, on a machine with two cores.
"""

from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """One row of a table of the paper; ESS over the coordinates of one chain.

    min_ess_per_second
        ess_min divided by the seconds of the paper's own run.

    """

    acceptance: float
    ess_min: float
    ess_median: float
    ess_max: float
    min_ess_per_second: float


class Measured(NamedTuple):
    """An earlier measurement of ours: bulk ESS over coordinates, and seconds of the whole run."""

    bulk_min: float
    bulk_median: float
    bulk_max: float
    seconds: float


# The paper gives the acceptance rate of NUTS only as "above 0.7". Rows that its tables have and our
# notes on it lack are in `UNKNOWN`.
PUBLISHED = {
    "neal": {
        "gadMALAf": Row(0.556, 1413, 1987, 2581, 161.7),
        "gadMALAe": Row(0.541, 922, 2006, 2691, 92.3),
        "gadRWM": Row(0.254, 27.5, 66.9, 126.9, 3.95),
        "AM": Row(0.257, 8.7, 48.6, 829.1, 3.71),
        "RWM": Row(0.261, 2.9, 8.4, 2548, 1.31),
        "MALA": Row(0.530, 2.9, 10.0, 12489, 0.95),
        "HMC-20": Row(0.694, 306, 1538, 19732.4, 6.17),
        "NUTS": Row(np.nan, 18480, 20000, 20000, 51.3),
    },
    "caravan": {
        "gadMALAf": Row(0.621, 228, 750, 1115, 9.94),
        "gadMALAe": Row(0.494, 66.6, 508.3, 1443, 0.70),
        "gadRWM": Row(0.234, 5.3, 34.3, 104.5, 0.23),
        "NUTS": Row(np.nan, 7470, 20000, 20000, 5.29),
    },
    "australian": {
        "gadMALAf": Row(0.569, 3486, 4263, 4784, 444),
        "gadMALAe": Row(0.540, 3035, 4234, 4836, 228),
        "gadRWM": Row(0.253, 288, 423, 515, 38.7),
        "AM": Row(0.261, 311, 410, 507, 70.2),
        "HMC-5": Row(0.700, 1048, 3510, 14810, 28.1),
        "NUTS": Row(np.nan, 2995, 20000, 20000, 72.9),
    },
}
REPEATS = 10  # of which the published numbers are averages
# rows of tables 1 and 2, and whole tables (3: Ripley, 4: Pima, 5: Heart, 6: German), that our notes
# on the paper lack
UNKNOWN = {
    "caravan": ("AM", "RWM", "MALA", "HMC-10"),
    "australian": ("RWM", "MALA"),
    "ripley": (), "pima": (), "heart": (), "german": (), "digits": (),
}  # fmt: skip

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
