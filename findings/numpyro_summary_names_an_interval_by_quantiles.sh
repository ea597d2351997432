#!/bin/sh
# numpyro 0.22.0: the columns "5.0%" and "95.0%" of `print_summary` are not these quantiles. They are the
# ends of the shortest interval with 90 % of the draws, which are the quantiles only if the posterior is
# symmetric. For a scale whose density is largest at 0, "5.0%" is about the smallest draw, and twice as
# many draws as the name says lie above "95.0%".
# Seen: exponential draws: columns 0.00 and 2.27, quantiles 0.05 and 2.92; no draw is below "5.0%", and 10 %
# are above "95.0%". Normal draws: -1.64 and 1.58, and -1.63 and 1.59.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    numpyro==0.22.0 jax==0.10.2 jaxlib==0.10.2 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import numpy as np
from numpyro.diagnostics import summary

rng = np.random.default_rng(1)
draws = {"scale": rng.exponential(size=(4, 1000)), "mean": rng.normal(size=(4, 1000))}
found = {}
for name, row in summary(draws, prob=0.9).items():
    x, low, high = draws[name], float(row["5.0%"]), float(row["95.0%"])
    quantiles = np.quantile(x, [0.05, 0.95])
    found[name] = np.abs(quantiles - [low, high]).max(), (x < low).mean(), (x > high).mean()
    print(f"{name}: columns {low:.2f} {high:.2f}, quantiles {quantiles.round(2)}, "
          f"share below {found[name][1]:.4f}, above {found[name][2]:.3f}")
assert found["mean"][0] < 0.1
assert found["scale"][0] > 0.6 and found["scale"][1] < 0.001 and found["scale"][2] > 0.09
PY
