#!/bin/sh
# numpyro 0.22.0 with ArviZ 0.23.4: observations under `numpyro.handlers.mask`, as those that pad series
# of different lengths, are observations of `loo` and `waic`. `log_likelihood` returns 0 for them: the
# estimate stays as it is, but its standard error is that of a sample with as many certain outcomes.
# WAIC gives no warning; that of `loo` is about its Pareto k.
# Seen: 50 observations: elpd -66.3, standard error 5.0. With 50 masked ones beside them: -66.3 and 8.3,
# of "100 data points"; with 200: -66.3 and 9.7.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 numpyro==0.22.0 \
    jax==0.10.2 jaxlib==0.10.2 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import log_likelihood

rng = np.random.default_rng(1)
seen = rng.normal(1.0, 1.0, 50)
draws = rng.normal(seen.mean(), 50**-0.5, size=(4, 1000))  # of the posterior with a flat prior


def model(y, is_seen):
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    with numpyro.plate("rows", len(y)), numpyro.handlers.mask(mask=is_seen):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


found = []
for masked in (0, 50, 200):
    y, is_seen = np.append(seen, np.zeros(masked)), np.arange(50 + masked) < 50
    values = log_likelihood(model, {"mean": jnp.array(draws)}, y, is_seen, batch_ndims=2)["y"]
    fit = az.from_dict({"mean": draws}, log_likelihood={"y": np.asarray(values)})
    loo, waic = az.loo(fit), az.waic(fit)
    found.append((loo.elpd_loo, loo.se, waic.elpd_waic, waic.se))
    print(masked, "masked:", np.round(found[-1], 2), loo.n_data_points, "data points")
    assert loo.n_data_points == 50 + masked and not waic.warning
found = np.array(found)
np.testing.assert_allclose(found[:, [0, 2]], -66.27, atol=0.05)
np.testing.assert_allclose(found[:, [1, 3]].T, [[4.97, 8.28, 9.75]] * 2, atol=0.05)
PY
