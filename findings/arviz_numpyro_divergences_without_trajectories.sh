#!/bin/sh
# ArviZ 0.23.4 with numpyro 0.22.0: a fit of `SA`, which has no trajectories, has the statistic
# `diverging`, False for every draw. A count of divergences finds a clean record of what does not
# exist: `from_numpyro` takes the field from the sampler's extra fields, in which numpyro puts it by
# default.
# Seen: sample_stats has `diverging` alone, with the sum 0, for 200 draws.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet arviz==0.23.4 numpyro==0.22.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SA, MCMC


def model():
    numpyro.sample("x", dist.Normal(0, 1))


mcmc = MCMC(SA(model), num_warmup=100, num_samples=100, num_chains=2,
            chain_method="sequential", progress_bar=False)
mcmc.run(jax.random.PRNGKey(0))
stats = az.from_numpyro(mcmc).sample_stats
print(list(stats.data_vars), int(stats.diverging.sum()), stats.diverging.size)
assert list(stats.data_vars) == ["diverging"]
assert stats.diverging.size == 200 and not stats.diverging.any()
PY
