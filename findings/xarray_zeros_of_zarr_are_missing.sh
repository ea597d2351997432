#!/bin/sh
# zarr 3.1.6 and xarray 2026.9.0: draws that zarr wrote in its format 2 lose their zeros in xarray. Zarr
# gives every array a fill value, 0 or False, for chunks that were never written; xarray takes it for the
# mark of missing values, and means leave these out. In format 3 it does not, nor of files of its own.
# Seen: counts with mean 1.04 have mean 1.61, and divergences of 35 % of the draws are 100 %, without a
# warning; in format 3 both are right.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    zarr==3.1.6 numcodecs==0.16.6 xarray==2026.9.0 numpy==2.4.6
cd "$folder"
env/bin/python -W error - <<'PY'
import numpy as np
import xarray as xr
import zarr

counts = np.random.default_rng(1).poisson(1.0, size=(4, 100))
draws = {"count": counts, "diverging": counts == 0}
dims = ("chain", "draw")
right = [values.mean() for values in draws.values()]


def means(path):
    with xr.open_zarr(path, consolidated=False) as fit:
        return [float(fit[name].mean()) for name in draws]


for version in (2, 3):
    group = zarr.open_group(f"zarr_{version}", mode="w", zarr_format=version)
    for name, values in draws.items():
        names = {"dimension_names": dims} if version == 3 else {}
        array = group.create_array(name, data=values, **names)
        assert array.fill_value == 0 and (array[:] == values).all()
        if version == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = dims
    own = xr.Dataset({name: (dims, values) for name, values in draws.items()})
    own.to_zarr(f"xarray_{version}", zarr_format=version, consolidated=False)
    found = means(f"zarr_{version}")
    print("format", version, "mean of draws", right, "in xarray", found)
    assert means(f"xarray_{version}") == right
    assert found == (right if version == 3 else [counts[counts > 0].mean(), 1.0])
PY
