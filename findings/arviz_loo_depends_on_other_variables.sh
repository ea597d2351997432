#!/bin/sh
# ArviZ 0.23.4: `loo` smooths the tails of importance weights over more or fewer draws by a relative
# efficiency, which is the mean over all variables of the posterior, those that no weight depends on too:
# generated quantities that are drawn anew each time, and constants, such as an element of a Cholesky factor,
# which count as independent draws. With the same log likelihoods, a Pareto k then passes or fails the limit by
# what else was stored, and so do estimates that are compared between models. `reff=` sets it; R's loo computes
# one for each observation, from its likelihoods.
# Seen: k = 0.73, with a warning, by the mean alone, whose relative efficiency is 0.04; 0.66 with twelve
# predictions beside it and 0.69 with a constant, both without a warning; with the same `reff`, 0.73 for all.
# In ArviZ 1.3.0, other variables change k as well.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 numpy==2.4.6 scipy==1.17.1 pandas==3.1.1
"$folder/env/bin/python" - <<'PY'
import warnings

import arviz as az
import numpy as np

rng = np.random.default_rng(1)
shape = chains, draws, observed = 4, 500, 12
noise = rng.normal(size=(chains, draws))
mu = noise.copy()
for t in range(1, draws):
    mu[:, t] = 0.9 * mu[:, t - 1] + np.sqrt(1.0 - 0.9**2) * noise[:, t]
mu *= 0.3
y = np.r_[3.6, rng.normal(size=observed - 1)]
log_likelihood = -0.5 * (y - mu[..., None]) ** 2 - 0.5 * np.log(2.0 * np.pi)


def loo(reff=None, **others):
    """Return the largest k, the estimate, and whether ArviZ warns."""
    fit = az.from_dict(posterior={"mu": mu, **others}, log_likelihood={"y": log_likelihood})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = az.loo(fit, pointwise=True, reff=reff)
    warned = any("Pareto" in str(each.message) for each in caught)
    return round(float(found.pareto_k.max()), 3), round(float(found.elpd_loo), 4), warned


predictions, one = rng.normal(size=shape), np.ones((chains, draws))
efficiency = float(az.ess(mu, method="mean")) / (chains * draws)
alone, beside, constant = loo(), loo(y_new=predictions), loo(one=one)
print("relative efficiency of mu:", round(efficiency, 3))
print("mu alone", alone, "and predictions", beside, "and a constant", constant)
assert alone[0] > 0.7 > max(beside[0], constant[0])
assert (alone[2], beside[2], constant[2]) == (True, False, False)
assert len({alone[1], beside[1], constant[1]}) == 3
assert alone == loo(efficiency) == loo(efficiency, y_new=predictions) == loo(efficiency, one=one)
PY
