#!/bin/sh
# ArviZ 0.23.4: an infinite draw does not show in R-hat, nor in the bulk and tail effective sample
# sizes, since ranks of infinite draws are ordinary numbers. A nan does: all become nan. A posterior
# mean that is infinite then stands beside a good R-hat.
# Seen: with one draw of +inf among 4,000: R-hat 1.00, ESS above 3,000, mean inf; with nan, both nan.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import numpy as np

x = np.random.default_rng(0).normal(size=(4, 1000))
for value in (np.inf, np.nan):
    x[0, 10] = value
    print(value, "mean", x.mean(), "r_hat", az.rhat(x), "ess", az.ess(x), az.ess(x, method="tail"))
    good = az.rhat(x) < 1.01 and az.ess(x) > 3000 and az.ess(x, method="tail") > 3000
    assert good == np.isinf(value)
PY
