#!/bin/sh
# CmdStanPy 1.3.2: `from_csv` numbers chains by the position of their files, not by the `id` that CmdStan
# writes into each. Files 3 and 4 alone become chains 1 and 2; twelve sorted names (1, 10, 11, 12, 2, ...) are
# numbered 1 to 12; and a folder is read in the order of the file system's list, which is another one on
# another disk. Draws, divergences and step sizes by chain then belong to other chains than those that CmdStan
# reported, without a word. Means over all chains are not affected.
# Seen: of twelve files with sorted names, that with `id = 2` is chain 5 of `chain_ids`, and a warning of
# divergences names chain 5.
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
# id = {id}
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


def read(files):
    """Return the ids of files in the order of chains, by a column with them, and the fit."""
    fit = cmdstanpy.from_csv(files)
    return [int(x) for x in fit.draws()[0, :, fit.column_names.index("x")]], fit


files = {}
for id in range(1, 13):
    rows = f"-1,0.9,1,2,3,{int(id == 2)},1,{id}\n" * 4
    files[id] = Path(sys.argv[1], f"m_{id}.csv")
    files[id].write_text(FILE.format(id=id, rows=rows))

ids, fit = read(sorted(str(path) for path in files.values()))
print("sorted names:", ids, "are", fit.chain_ids, "divergences", fit.divergences.tolist())
assert ids == [1, 10, 11, 12, 2, 3, 4, 5, 6, 7, 8, 9]
assert fit.chain_ids == list(range(1, 13))
assert fit.divergences.astype(bool).tolist().index(True) + 1 == 5
ids, fit = read([str(files[3]), str(files[4])])
print("two files:", ids, "are", fit.chain_ids)
assert (ids, fit.chain_ids) == ([3, 4], [1, 2])
print("the folder:", read(sys.argv[1])[0])
PY
