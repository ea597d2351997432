#!/bin/sh
# numpyro 0.22.0: `effective_sample_size` is negative for chains whose draws alternate around the mean,
# as trajectories of half a period make them: the sum of autocorrelations is below 1/2, and nothing
# bounds its inverse. `print_summary` then shows a negative n_eff beside a good R-hat. ArviZ 0.23.4 and
# BlackJAX 1.7 have a bound, n log10(n).
# Seen: autoregression with -0.9: below -60,000 for 4,000 draws; ArviZ 14408; with -0.5 13,800 and
# 12,800.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    numpyro==0.22.0 arviz==0.23.4 \
    jax==0.10.2 jaxlib==0.10.2 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import numpy as np
from numpyro.diagnostics import effective_sample_size


def autoregression(rho):
    x = np.zeros((4, 1000))
    noise = np.random.default_rng(0).normal(size=x.shape)
    for t in range(1, 1000):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    return x


for rho in (-0.5, -0.9):
    x = autoregression(rho)
    theirs, arviz = float(effective_sample_size(x)), float(az.ess(x, method="mean"))
    print(rho, "numpyro", theirs, "ArviZ", arviz, "n log10(n)", 4000 * np.log10(4000))
    if rho == -0.5:
        assert abs(theirs / arviz - 1) < 0.1
    else:
        assert theirs < -4000 < 14000 < arviz < 14500
PY
