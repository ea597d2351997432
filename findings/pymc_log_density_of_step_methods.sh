#!/bin/sh
# PyMC 5.28.0: `sample_stats.lp` is the log density only if NUTS is the last step method. If another
# one follows, it is 0 for every draw, without a word; discrete parameters make PyMC choose such an
# order by itself.
# Seen: NUTS and Metropolis: lp is 0; Metropolis and NUTS: lp is that of the model; a Categorical, with
# steps that PyMC chose: 0.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    pymc==5.28.0 arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import logging

import numpy as np
import pymc as pm

logging.getLogger("pymc").setLevel(logging.ERROR)


def recorded(discrete, *steps):
    with pm.Model() as model:
        x = pm.Normal("x")
        y = pm.Categorical("y", [0.2, 0.3, 0.5]) if discrete else pm.Normal("y", x)
        step = [make([{"x": x, "y": y}[name]]) for make, name in steps] or None
        fit = pm.sample(20, tune=20, chains=1, cores=1, random_seed=1, progressbar=False, step=step)
        density = model.compile_logp()
    draws = fit.posterior.isel(chain=0)
    true = [float(density({name: draws[name].values[i] for name in "xy"})) for i in range(20)]
    return fit.sample_stats.lp.values[0], np.array(true)


lp, true = recorded(False, (pm.Metropolis, "y"), (pm.NUTS, "x"))
print(lp[:2], true[:2])
np.testing.assert_allclose(lp, true)
for given in ((False, (pm.NUTS, "x"), (pm.Metropolis, "y")), (True,)):
    lp, true = recorded(*given)
    print(lp[:2], true[:2])
    assert not lp.any() and true.all()
PY
