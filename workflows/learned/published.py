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
    "heart": {"A-NICE-MC": (1251.16 / 5, 3204.0), "HMC": (5000.0 / 5, 1005.03)},
    "australian": {"A-NICE-MC": (1015.75 / 5, 1857.37), "HMC": (1345.82 / 5, 289.11)},
}
# Their HMC: 40 + 1 leapfrogs with unit mass, of these steps, which were tuned by hand for each.
HMC_LEAPFROGS = 41
# the same by our `hmc`, whose warm-up must tune nothing
HMC = {
    "leapfrogs": HMC_LEAPFROGS, "target_accept": 0.999, "learning_rate": 1e-9, "standardize": False,
}  # fmt: skip
HMC_PLANE_STEP = 0.1
HMC_STEPS = {"german": 0.005, "heart": 0.01, "australian": 0.0115}
# Sizes of their networks, critics and runs for regressions, the same for all data. A coupling of
# theirs that moves x has two hidden layers; ours all have one.
PAPER_SIZES = {
    "width": 400, "critic_width": 800, "from_noise": 16, "auxiliary": 50, "chains": 32,
    "draws": 5000, "rehearse_every": 500,
}  # fmt: skip
