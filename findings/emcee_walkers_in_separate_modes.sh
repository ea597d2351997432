#!/bin/sh
# emcee 3.1.6: `integrated_time`, which `get_autocorr_time` calls, takes correlations around the mean of
# each walker, and then their average. Walkers that never leave the mode in which they began have the
# time of that mode, and a chain of fifty such times seems long enough.
# Seen: 32 walkers of 2,000 independent draws, half of them around -10 and half around 10: time .967, that
# is, 66,177 effective draws; all around 0: the same number. ArviZ 0.23.4: bulk ESS 50 and R-hat 1.67
# with two modes, 64,824 and 1.00 with one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    emcee==3.1.6 arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import numpy as np
from emcee.autocorr import integrated_time

steps, walkers = 2_000, 32
one_mode = np.random.default_rng(1).normal(size=(steps, walkers))
two_modes = one_mode + np.where(np.arange(walkers) < walkers / 2, -10.0, 10.0)
times, sizes = [], []
for name, chain in (("one mode", one_mode), ("two modes", two_modes)):
    times.append(float(integrated_time(chain[:, :, None])[0]))
    sizes.append(float(az.ess(chain.T)))
    r_hat = float(az.rhat(chain.T))
    print(f"{name}: time {times[-1]:.4f}, so {steps * walkers / times[-1]:,.0f} effective draws;", end=" ")
    print(f"ArviZ: bulk ESS {sizes[-1]:,.0f}, R-hat {r_hat:.2f}")
assert abs(times[0] - times[1]) < 1e-9 and abs(times[0] - 1) < 0.05
assert sizes[0] > 50_000 and sizes[1] < 60 and r_hat > 1.5
PY
