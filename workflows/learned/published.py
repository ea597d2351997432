"""Published numbers on learned proposals, as data.

Song, Zhao and Ermon (2017), "A-NICE-MC: Adversarial Training for MCMC", NIPS: effective draws per
1000 and per second. `PLANE`: their table 1, means of five runs, 1000 draws. `REGRESSIONS`: their
table 2, given there per 5000 draws. Seconds are those of their GPU and do not include training.
"""

PLANE = {
    "ring": {"A-NICE-MC": (1000.0, 128_205.0), "HMC": (1000.0, 121_212.0)},
    "mog2": {"A-NICE-MC": (355.39, 50_409.0), "HMC": (1.0, 78.0)},
    "mog6": {"A-NICE-MC": (320.03, 40_768.0), "HMC": (1.0, 39.0)},
    "ring5": {"A-NICE-MC": (155.57, 19_325.0), "HMC": (0.43, 29.0)},
}
REGRESSIONS = {
    "german": {"A-NICE-MC": (926.49 / 5, 1289.03), "HMC": (2178.0 / 5, 216.17)},
}
