#!/bin/sh
# xarray 2026.9.0 with h5netcdf 1.8.2: a list of one element among the attributes comes back from a
# file as a scalar, and a list of strings of one element as a string. Code that loops over an
# attribute with one entry per chain works for two chains and fails for one.
# Seen: [1.5, 2.5] is an array again, [1.5] is 1.5, and ["a"] is "a", whose length is that of the
# text.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    xarray==2026.9.0 h5netcdf==1.8.2 h5py==3.16.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

path = Path(tempfile.mkdtemp(), "fit.nc")
data = xr.Dataset({"x": ("draw", [0.0])})
data.attrs = {"two": [1.5, 2.5], "one": [1.5], "names": ["chain one"]}
data.to_netcdf(path, engine="h5netcdf")
with xr.open_dataset(path, engine="h5netcdf") as back:
    print({name: back.attrs[name] for name in data.attrs})
    assert np.shape(back.attrs["two"]) == (2,)
    assert np.shape(back.attrs["one"]) == ()
    assert back.attrs["names"] == "chain one"
PY
