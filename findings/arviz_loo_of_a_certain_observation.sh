#!/bin/sh
# ArviZ 0.23.4 and 1.3.0 (arviz-stats 1.3.3), Python 3.12: `loo` where the log likelihood of one of the
# observations is the same at every draw, as that of an outcome which is certain. ArviZ 0.23.4 counts it
# with a warning about Pareto k; 1.3.0 raises a ValueError, so that all other observations have no
# estimate either.
# Seen: elpd -49.3 of 50 observations with 0.23.4; with 1.3.0, "All tail values are the same".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/env"
cat >"$folder/loo.py" <<'PY'
import arviz as az
import numpy as np

rng = np.random.default_rng(0)
values = rng.normal(-1.0, 0.1, size=(4, 500, 50))
values[:, :, 7] = 0.0
groups = {"posterior": {"x": rng.normal(size=(4, 500))}, "log_likelihood": {"y": values}}
new = az.__version__.startswith("1.")
fit = az.from_dict(groups) if new else az.from_dict(**groups)
try:
    found = az.loo(fit)
    print("elpd", round(float(found.elpd if new else found.elpd_loo), 1))
except ValueError as error:
    print("raised", error)
PY
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore "$folder/loo.py" | tee "$folder/old"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==1.3.0 arviz-stats==1.3.3 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore "$folder/loo.py" | tee "$folder/new"
grep -q "^elpd -49.3" "$folder/old"
grep -q "^raised All tail values are the same" "$folder/new"
