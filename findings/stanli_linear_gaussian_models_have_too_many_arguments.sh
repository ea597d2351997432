#!/bin/sh
# stanli 0.24.0: its translator accepts a program with Stan's gaussian_dlm_obs, but no model can be
# bound, whatever the data: an operation has room for six arguments, and this density has seven,
# data included. A normal density in its place is bound.
# Seen: stan_to_mir returns the program; RuntimeError ("stanli compile: gaussian_dlm_obs takes 7
# arguments and an op holds 6").
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet stanli==0.24.0 numpy==2.4.6
cd "$folder"
env/bin/python - <<'PY'
import stanli

assert stanli.__version__ == "0.24.0"
PROGRAM = """
data { int<lower=1> T; matrix[1, T] y; }
parameters { real<lower=0> noise; }
model { %s; }
"""
LINEAR = PROGRAM % "y ~ gaussian_dlm_obs([[1]], [[0.9]], [noise]', [[0.5]], [0]', [[4]])"
DATA = {"T": 3, "y": [[0.3, -0.2, 0.5]]}
assert stanli.stan_to_mir(LINEAR)
assert stanli.Model(stan_code=PROGRAM % "y[1] ~ normal(0, noise)", data=DATA).n_unconstrained == 1
try:
    stanli.Model(stan_code=LINEAR, data=DATA)
except RuntimeError as error:
    print(error)
    assert "gaussian_dlm_obs takes 7 arguments and an op holds 6" in str(error)
else:
    raise SystemExit("it is bound")
PY
