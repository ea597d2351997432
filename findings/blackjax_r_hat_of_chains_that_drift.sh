#!/bin/sh
# BlackJAX 1.7: `potential_scale_reduction` compares whole chains. Chains that drift side by side, as
# those that are still on their way after a warm-up that was too short, have an R-hat below 1. ArviZ
# splits chains in halves, numpyro 0.22.0 has one function of each kind, and `gelman_rubin` is that
# without halves.
# Seen: four chains that drift from -3 to 3 have R-hat 1.00 in BlackJAX and in numpyro's `gelman_rubin`,
# 2.0 in its `split_gelman_rubin`, and 1.7 in ArviZ.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    blackjax==1.7 numpyro==0.22.0 arviz==0.23.4 \
    jax==0.10.2 jaxlib==0.10.2 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import numpy as np
from blackjax.diagnostics import potential_scale_reduction
from numpyro.diagnostics import gelman_rubin, split_gelman_rubin

x = np.linspace(-3, 3, 1000) + 0.3 * np.random.default_rng(0).normal(size=(4, 1000))
found = {f.__name__: float(f(x)) for f in (potential_scale_reduction, gelman_rubin, az.rhat)}
found["split_gelman_rubin"] = float(split_gelman_rubin(x))
print(found)
assert found["potential_scale_reduction"] < 1.01
assert found["gelman_rubin"] < 1.01
assert min(found["rhat"], found["split_gelman_rubin"]) > 1.5
PY
