#!/bin/sh
# ArviZ 0.23.4 with zarr 3.1.6: `to_zarr` and `from_zarr` refuse the zarr that pip installs beside
# it, although xarray writes the same groups with it. Only zarr below 3 works; nothing pins it.
# Seen: ImportError, "Found zarr>=3, which is not supported"; xarray.Dataset.to_zarr works.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 zarr==3.1.6 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import tempfile
from pathlib import Path

import arviz as az
import numpy as np

folder = Path(tempfile.mkdtemp())
fit = az.from_dict({"x": np.zeros((2, 10))})
try:
    fit.to_zarr(str(folder / "fit.zarr"))
    raise SystemExit("no error")
except ImportError as error:
    print(error)
    assert "zarr>=3" in str(error)
fit.posterior.to_zarr(folder / "posterior.zarr", group="posterior")
print("xarray wrote it")
PY
