"""Our NUTS against CmdStan's: same distribution, same effective sample size per gradient."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.compare import disagreement
from stanadapt.diagnostics.mixing import efficiency, measure_mixing
from stanadapt.targets.stan import bundled
from tests.helpers.seldom_parameters import soak_except

# program, data, and the number of seeds that reduces the error of the ratio to 5 %
CASES = soak_except(
    {("logistic", "pima", 6)},
    [
        ("neal", "neal", 8),
        ("eight_schools_noncentered", "eight_schools", 32),
        ("logistic", "pima", 6),
        ("logistic", "german", 6),
    ],
)


def runs(target, draw, seeds):
    """All draws, and per run the smallest bulk ESS per gradient of sampling."""
    draws, rates = [], []
    for seed in range(1, seeds + 1):
        fit = draw(target, seed=seed)
        columns = results.columns(fit)
        steps = results.dataset(fit, "sample_stats")["n_steps"].values
        draws.append(columns)
        moving = {name: x for name, x in columns.items() if np.ptp(x) > 0.0}
        bulk = [mixed.ess_bulk for mixed in measure_mixing(moving).values()]
        rates.append(np.min(bulk) / steps.sum())
    return {name: np.concatenate([d[name] for d in draws]) for name in draws[0]}, np.array(rates)


@pytest.mark.slow
@pytest.mark.cmdstan
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
@pytest.mark.parametrize(("program", "data", "seeds"), CASES)
def test_as_good_as_cmdstan(program, data, seeds):
    """The ratio of efficiencies has a standard error of 5 %: 15 % is three of them."""
    target = sa.Target(*bundled.find(program, data), backend="cmdstan")
    ours, our_rates = runs(target, lambda *a, **k: sa.sample(*a, "nuts", **k), seeds)
    theirs, their_rates = runs(
        target, lambda *a, **k: sa.stan_nuts(*a, backend="cmdstan", **k), seeds
    )
    spread = [rates.std(ddof=1) / rates.mean() for rates in (our_rates, their_rates)]
    ratio, error = our_rates.mean() / their_rates.mean(), np.hypot(*spread) / np.sqrt(seeds)
    print(f"{program} {data}: ESS per gradient, ours to CmdStan's: {ratio:.3f} +- {error:.3f}")
    assert error < 0.06
    assert abs(ratio - 1) < 0.15
    # for some hundred means and sds, one exceeds five standard errors with probability 1e-4
    assert max(disagreement(efficiency(ours), efficiency(theirs))) < 5
