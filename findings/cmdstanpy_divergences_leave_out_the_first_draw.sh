#!/bin/sh
# CmdStanPy 1.3.2: `divergences` and `max_treedepths` leave out the first draw of each chain. They are counted
# in the rows of the file after the first, as if it were the line with names. A chain that diverged there
# alone has none, no warning is printed, and `method_variables()["divergent__"]` has one more.
# Seen: four draws, of which the first diverged and reached the largest tree depth: 0 and 0, and all four: 3
# and 3.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    cmdstanpy==1.3.2 stanio==0.5.1 pandas==3.1.1 numpy==2.4.6
"$folder/env/bin/python" - "$folder" <<'PY'
import sys
from pathlib import Path

import cmdstanpy

FILE = """# stan_version_major = 2
# stan_version_minor = 36
# stan_version_patch = 0
# model = m_model
# method = sample (Default)
#   sample
#     num_samples = 4
#     num_warmup = 100
#     save_warmup = 0 (Default)
#     thin = 1 (Default)
#     adapt
#       engaged = 1 (Default)
#     algorithm = hmc (Default)
#       hmc
#         engine = nuts (Default)
#           nuts
#             max_depth = 10 (Default)
#         metric = diag_e (Default)
#         stepsize = 1 (Default)
#     num_chains = 1 (Default)
# id = 1
# random
#   seed = 1
lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,x
# Adaptation terminated
# Step size = 1
# Diagonal elements of inverse mass matrix:
# 1
{rows}#  Elapsed Time: 0.1 seconds (Warm-up)
#                0.1 seconds (Sampling)
#                0.2 seconds (Total)
"""


def read(flags):
    """Return what is counted in a chain whose draws diverge at the deepest tree where a flag is set."""
    rows = "".join(f"-1,0.9,1,{10 if flag else 2},3,{flag},1,0.5\n" for flag in flags)
    path = Path(sys.argv[1], "m_1.csv")
    path.write_text(FILE.format(rows=rows))
    fit = cmdstanpy.from_csv(str(path))
    recorded = fit.method_variables()["divergent__"]
    assert recorded.ravel().tolist() == list(flags)
    return int(recorded.sum()), int(fit.divergences[0]), int(fit.max_treedepths[0])


for flags, counted in (((1, 0, 0, 0), 0), ((1, 1, 1, 1), 3), ((0, 0, 0, 1), 1)):
    found = read(flags)
    print(f"{flags}: recorded {found[0]}, divergences {found[1]}, max_treedepths {found[2]}")
    assert found == (sum(flags), counted, counted)
PY
