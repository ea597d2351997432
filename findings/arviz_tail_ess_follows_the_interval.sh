#!/bin/sh
# ArviZ 1.3.0 (arviz-stats 1.3.3), Python 3.12: the tail effective sample size of a dataset follows the
# setting for credible intervals, `stats.ci_prob`: p and 1 - p are its quantiles. Whoever asks for
# intervals of 50 % has the effective sample size of the median for that of the tails. In ArviZ 0.23.4
# the tails are those of 5 and 95 %, whatever `stats.hdi_prob` is.
# Seen: chains that go to their lower 8 % once each: 88 with 0.23.4 for all intervals; with 1.3.0, 88 for
# 0.95, 74 for 0.89, and 615 for 0.5, which is that of the median.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/env"
cat >"$folder/tail.py" <<'PY'
import arviz as az
import numpy as np
import xarray as xr

rng = np.random.default_rng(0)
values = rng.normal(size=(4, 1000))
# Each chain is below -1.4 once, for 80 draws on end; all other draws are independent.
low = values < -1.4
values[low] = rng.choice(values[~low], size=low.sum())
for chain in range(4):
    start = 200 * chain + 100
    values[chain, start : start + 80] = -1.4 - np.abs(rng.normal(size=80))
draws = xr.Dataset({"x": (("chain", "draw"), values)})


def tail():
    return round(float(az.ess(draws, method="tail")["x"]))


setting = "stats.ci_prob" if az.__version__.startswith("1.") else "stats.hdi_prob"
for interval in (0.95, 0.89, 0.5):
    with az.rc_context({setting: interval}):
        print("interval", interval, "tail", tail())
print("median", round(float(az.ess(values, method="median"))))
PY
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore "$folder/tail.py" | tee "$folder/old"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==1.3.0 arviz-stats==1.3.3 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore "$folder/tail.py" | tee "$folder/new"
for interval in 0.95 0.89 0.5; do
    grep -qx "interval $interval tail 88" "$folder/old"
done
grep -qx "interval 0.95 tail 88" "$folder/new"
grep -qx "interval 0.89 tail 74" "$folder/new"
grep -qx "interval 0.5 tail 615" "$folder/new"
grep -qx "median 615" "$folder/new"
