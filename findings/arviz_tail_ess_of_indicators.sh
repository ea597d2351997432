#!/bin/sh
# ArviZ 0.23.4 and 1.3.0 (arviz-stats 1.3.3), Python 3.12: the tail effective sample size of an event
# and that of its complement differ, for the same draws. Tails are the events "at or below the 5 %
# quantile" and "at or below the 95 % quantile". If the rare value of an indicator is its lower one,
# both quantiles are the upper value, every draw is at or below it, and an event that is constant
# counts as if all draws were independent.
# Seen: chains that visit the rare state once each, for 40 of 1,000 draws: bulk ESS 103; tail ESS 103 if
# the rare state is 1, and 4000 if it is 0.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/env"
cat >"$folder/tail.py" <<'PY'
import arviz as az
import numpy as np
import xarray as xr

rare = np.zeros((4, 1000))
for chain in range(4):
    rare[chain, 100 + 200 * chain : 140 + 200 * chain] = 1.0
states = {"rare": rare, "common": 1.0 - rare}
draws = xr.Dataset({name: (("chain", "draw"), values) for name, values in states.items()})
bulk, tail = (az.ess(draws, method=method) for method in ("bulk", "tail"))
for name in states:
    print(name, "bulk", round(float(bulk[name])), "tail", round(float(tail[name])))
PY
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore "$folder/tail.py" | tee "$folder/old"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==1.3.0 arviz-stats==1.3.3 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore "$folder/tail.py" | tee "$folder/new"
for printed in "$folder/old" "$folder/new"; do
    grep -qx "rare bulk 103 tail 103" "$printed"
    grep -qx "common bulk 103 tail 4000" "$printed"
done
