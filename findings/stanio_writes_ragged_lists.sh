#!/bin/sh
# stanio 0.5.1, which writes data for CmdStanPy and BridgeStan: a ragged list is written without a
# word, though Stan has no ragged arrays. The mistake is found by CmdStan at the earliest, after the
# compilation, and then without the place in the data.
# Seen: the list is written as it is; numpy refuses the same one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet stanio==0.5.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import numpy as np
import stanio

text = stanio.dump_stan_json({"x": [[1, 2], [3]]})
print(text)
assert text.replace(" ", "") == '{"x":[[1,2],[3]]}'
try:
    np.array([[1, 2], [3]])
    raise SystemExit("no error")
except ValueError as error:
    print("numpy:", error)
PY
