#!/bin/sh
# ArviZ 0.23.4, SciPy 1.17.1 and scikit-learn 1.9.1: a kernel density estimate with the bandwidth
# "silverman" or "scott" is another one in each. ArviZ's "scott" is 1.06 sd n^(-1/5), which is SciPy's
# "silverman"; ArviZ's "silverman" is 0.9 min(sd, IQR / 1.34) n^(-1/5). scikit-learn takes SciPy's
# factor for the bandwidth itself, without the standard deviation of the data: whoever changes units
# has another shape.
# Seen: 1,000 normal draws with sd 100: ArviZ 26.6 ("scott") and 22.6 ("silverman"), SciPy 25.1 and
# 26.6, scikit-learn 0.25 and 0.27; its density then has 309 modes, and one in units of the sd.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 scikit-learn==1.9.1 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import numpy as np
from scipy.stats import gaussian_kde, norm
from sklearn.neighbors import KernelDensity

n = 1_000
draws = 100.0 * norm.ppf((np.arange(n) + 0.5) / n)
np.random.default_rng(1).shuffle(draws)
sd, (low, high) = draws.std(), np.quantile(draws, [0.25, 0.75])
shrink = n**-0.2
found = {}
for rule in ("scott", "silverman"):
    arviz = az.kde(draws, bw=rule, bw_return=True)[2]
    scipy = float(np.sqrt(gaussian_kde(draws, bw_method=rule).covariance.item()))
    sklearn = KernelDensity(bandwidth=rule).fit(draws[:, None]).bandwidth_
    in_sd = KernelDensity(bandwidth=rule).fit(draws[:, None] / sd).bandwidth_
    found[rule] = arviz, scipy, sklearn
    print(rule, "ArviZ", round(arviz, 2), "SciPy", round(scipy, 2), "scikit-learn", round(sklearn, 2))
    assert sklearn == in_sd and abs(sklearn * sd / scipy - 1) < 0.01
assert abs(found["scott"][0] / found["silverman"][1] - 1) < 0.01
assert abs(found["scott"][0] / (1.06 * sd * shrink) - 1) < 1e-9
assert abs(found["silverman"][0] / (0.9 * min(sd, (high - low) / 1.34) * shrink) - 1) < 1e-9


def modes(unit):
    at = np.linspace(-3 * sd, 3 * sd, 20_000)[:, None]
    fitted = KernelDensity(bandwidth="silverman").fit(draws[:, None] / unit)
    slopes = np.sign(np.diff(fitted.score_samples(at / unit)))
    return int((np.diff(slopes) < 0).sum())


print("modes of scikit-learn's density:", modes(1.0), "and in units of the sd:", modes(sd))
assert modes(1.0) > 100 and modes(sd) == 1
PY
