#!/bin/sh
# ArviZ 0.23.4 with numpyro 0.22.0: a fit of `HMC`, which builds no trees, has the statistic
# `tree_depth`. `from_numpyro` computes it from the number of steps, as 1 + floor(log2(steps)):
# trajectories of 10 steps have "depth" 4.
# Seen: n_steps 10 and tree_depth 4 for every draw.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 numpyro==0.22.0 \
    jax==0.10.2 jaxlib==0.10.2 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMC, MCMC


def model():
    numpyro.sample("x", dist.Normal(0, 1))


kernel = HMC(model, step_size=0.1, num_steps=10, trajectory_length=None, adapt_step_size=False)
mcmc = MCMC(kernel, num_warmup=10, num_samples=50, progress_bar=False)
mcmc.run(jax.random.PRNGKey(0), extra_fields=("num_steps",))
stats = az.from_numpyro(mcmc).sample_stats
print(np.unique(stats.n_steps), np.unique(stats.tree_depth))
assert np.unique(stats.n_steps).tolist() == [10]
assert np.unique(stats.tree_depth).tolist() == [4]
PY
