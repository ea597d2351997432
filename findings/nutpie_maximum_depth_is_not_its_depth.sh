#!/bin/sh
# nutpie 0.16.8: `maxdepth_reached` is not `depth == maxdepth`. A tree of the largest depth that
# turned around by itself is not marked, so counting depths, as with Stan's treedepth__, finds far
# more saturated trees than there are.
# Seen: with maxdepth=4, 66 draws of depth 4, of which 29 are marked; all of these took 15 steps.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    nutpie==0.16.8 arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import nutpie
import numpy as np
from nutpie.compiled_pyfunc import from_pyfunc


def make_logp():
    def logp(x):
        v, rest = x[0], x[1:]
        scaled = rest * rest * np.exp(-v)
        value = -v * v / 18 - 0.5 * np.sum(scaled) - v * len(rest) / 2
        return value, np.append(-v / 9 + 0.5 * np.sum(scaled) - len(rest) / 2, -rest * np.exp(-v))
    return logp


def make_expand(*_):
    return lambda x: {"x": x}


model = from_pyfunc(4, make_logp, make_expand, [np.dtype("float64")], [(4,)], ["x"])
fit = nutpie.sample(model, draws=300, tune=300, chains=2, cores=1, seed=1, maxdepth=4,
                    progress_bar=False)
stats = fit["sample_stats"]
deepest, marked = stats["depth"].values == 4, stats["maxdepth_reached"].values
print("depth 4:", deepest.sum(), "marked:", marked.sum(),
      "steps of marked ones:", np.unique(stats["n_steps"].values[marked]))
assert 0 < marked.sum() < deepest.sum()
PY
