#!/bin/sh
# ArviZ 0.23.4: `from_cmdstan` reads no file of a program with a complex parameter (in Stan since
# 2.28). CmdStan names its columns z.real and z.imag, and what follows the point is taken for an
# index.
# Seen: ValueError, "invalid literal for int() with base 10: 'real'".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import tempfile
from pathlib import Path

import arviz as az

HEADER = "# model = m\n# method = sample\n#   sample\n#     num_samples = 2\n#     num_warmup = 1000\n"
path = Path(tempfile.mkdtemp(), "m_1.csv")
path.write_text(HEADER + "lp__,accept_stat__,z.real,z.imag\n-1,0.9,0.1,0.2\n-1,0.8,0.3,0.4\n")
try:
    az.from_cmdstan(str(path))
    raise SystemExit("no error")
except ValueError as error:
    print(error)
    assert "'real'" in str(error)
PY
