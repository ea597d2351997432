#!/bin/sh
# ArviZ 1.3.0 (arviz-stats 1.3.3), Python 3.12 or later: without `prob`, the tail effective sample size
# of a dataset is that of the 11 % and 89 % quantiles. The probability of the default credible interval,
# 0.89, is used as a quantile: neither the 5 % and 95 % of the paper (Vehtari et al., 2021) and of ArviZ
# 0.23, nor the ends of a central interval of 89 %, 5.5 % and 94.5 %.
# Seen: 246.6 by default, 246.6 for (0.11, 0.89), 470.2 for (0.05, 0.95), 454.9 for (0.055, 0.945).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet arviz==1.3.0 arviz-stats==1.3.3 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import numpy as np

rng = np.random.default_rng(1)
noise, x = rng.normal(size=(4, 1000)), np.zeros((4, 1000))
for t in range(1, 1000):
    x[:, t] = 0.9 * x[:, t - 1] + noise[:, t]
draws = az.from_dict({"posterior": {"x": x}})


def tail(**options):
    return round(float(az.ess(draws, method="tail", **options)["x"]), 1)


found = [tail(), tail(prob=(0.11, 0.89)), tail(prob=(0.05, 0.95)), tail(prob=(0.055, 0.945))]
print(found)
assert found[0] == found[1]
assert found[0] not in found[2:]
PY
