"""Our NUTS against CmdStan's: the same law, and the same effective sample size a gradient."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import models, results
from stanadapt.compare import _disagreement
from stanadapt.efficiency import efficiency

# program, data, seeds: as many as bring the error of the ratio down to 5 %
CASES = [
    ("neal", "neal", 8),
    ("eight_schools_noncentered", "eight_schools", 32),
    ("logistic", "pima", 6),
    ("logistic", "german", 6),
]


def runs(target, draw, seeds):
    """All draws, and of each run the smallest bulk ESS a gradient of sampling."""
    found, rates = [], []
    for seed in range(1, seeds + 1):
        fit = draw(target, seed=seed, show_progress=False)
        columns = results.columns(fit)
        steps = results.dataset(fit, "sample_stats")["n_steps"].values
        found.append(columns)
        rates.append(np.nanmin(efficiency(columns).ess_bulk) / steps.sum())
    return {name: np.concatenate([f[name] for f in found]) for name in found[0]}, np.array(rates)


@pytest.mark.slow
@pytest.mark.cmdstan
@pytest.mark.filterwarnings("ignore:.*come from trajectories that")
@pytest.mark.parametrize(("program", "data", "seeds"), CASES)
def test_as_good_as_cmdstan(program, data, seeds):
    """The ratio of efficiencies has an error of 5 %, so 15 % are three of it."""
    target = sa.Target(*models.find(program, data), backend="cmdstan")
    ours, our_rates = runs(target, lambda *a, **k: sa.sample(*a, "nuts", **k), seeds)
    theirs, their_rates = runs(
        target, lambda *a, **k: sa.reference(*a, engine="cmdstan", **k), seeds
    )
    spread = [rates.std(ddof=1) / rates.mean() for rates in (our_rates, their_rates)]
    ratio, error = our_rates.mean() / their_rates.mean(), np.hypot(*spread) / np.sqrt(seeds)
    print(f"{program} {data}: ESS a gradient, ours to CmdStan's: {ratio:.3f} +- {error:.3f}")
    assert error < 0.06
    assert abs(ratio - 1) < 0.15
    # some hundred columns of means and of sds: five errors are exceeded with probability 1e-4
    assert max(_disagreement(efficiency(ours), efficiency(theirs))) < 5
