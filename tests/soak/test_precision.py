"""Gains of expectations, and whether their errors are honest, over ten seeds of eleven programs."""

import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows.benchmarks import precision_programs
from workflows.benchmarks.precision_tables import KINDS, of_fit, of_fits, quantities

# least medians of gains of means, sds and 5 % quantiles
GAINS = {
    "logistic/pima": (2000, 200, 300), "linear": (1e4, 1e4, 200), "student_t": (1e4, 500, 150),
    "logistic/german": (1000, 100, 100), "negative_binomial": (1e4, 1000, 50),
    "weibull": (1e4, 500, 30), "autoregressive": (1e4, 500, 30), "galaxies": (300, 20, 1),
    "eight_schools_centered": (20, 2, 1), "eight_schools_noncentered": (8, 4, 4),
    "t_and_gamma": (1e4, 2, 20),
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")  # evaluations that fail
@pytest.mark.parametrize("name", GAINS)
def test_gains_and_errors_over_seeds(name):
    own = name in precision_programs.PROGRAMS
    found = precision_programs.find(name) if own else bundled.find(*name.split("/"))
    target, fits = sa.Target(*found), []
    for seed in range(1, 11):
        fit = sa.sample(target, seed=seed)
        fits.append(of_fit(fit, target, quantities(fit)).assign(program=name, seed=seed))
    (line,) = of_fits(pd.concat(fits).assign(refused=None))[0].to_dict("records")
    assert [line[kind] > least for kind, least in zip(KINDS, GAINS[name], strict=False)] == [
        True
    ] * 3
    # of few parameters, whose draws are the same: three standard errors of 30 estimates
    assert min(line[f"{kind} < 2"] for kind in KINDS) > 0.83
    # a ratio of variances of ten equal estimates lies between 0.15 and 6.5 in 99 % of cases
    assert min(line[f"{kind}, lowest"] for kind in KINDS) > 0.2
