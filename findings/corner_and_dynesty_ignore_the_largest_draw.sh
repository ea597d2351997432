#!/bin/sh
# corner 2.3.0 and dynesty 3.1.0: a quantile of weighted draws, as in the titles of their plots, does not
# depend on the weight of the largest draw. Weights are summed without the last one, and divided by that
# sum. The smallest draw counts, so that the quantiles of -x are not those of x.
# Seen: draws 1, 2, ..., 101, of which the largest has 99 % of the weight: median 51, as if it had none;
# if the smallest has 99 %, the median is 1.5. numpy.quantile (2.4.6) with weights gives 101 and 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    corner==2.3.0 dynesty==3.1.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import corner
import numpy as np
from dynesty import utils

draws = np.arange(1.0, 102.0)


def medians(weights):
    one = np.quantile(draws, 0.5, weights=weights, method="inverted_cdf")
    two, three = (f(draws, [0.5], weights=weights)[0] for f in (corner.quantile, utils.quantile))
    return [round(float(m), 2) for m in (one, two, three)]


for largest in (0.0, 1.0, 9_900.0):
    weights = np.r_[np.ones(100), largest]
    found = medians(weights)
    share = largest / weights.sum()
    print(f"largest draw with {share:.0%} of the weight: NumPy, corner, dynesty {found}")
    assert found[1:] == [51.0, 51.0]
assert found[0] == 101.0
found = medians(np.r_[9_900.0, np.ones(100)])
print(f"smallest draw with 99%: {found}")
assert found[0] == 1.0 and found[1] == found[2] == 1.5
PY
