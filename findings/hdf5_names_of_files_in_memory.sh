#!/bin/sh
# h5py 3.16.0 with HDF5 2.0.0, below netCDF files of ArviZ: a file with driver="core" and
# backing_store=False is never on the disk, and yet no second one of its name can be made in the same
# process while it is open, as by two threads that each build a result. A file on the disk of that
# name is a third one: "w" leaves it as it is, and "a" begins with its contents.
# Seen: OSError ("unable to truncate a file which is already open"); another name is accepted; the
# file on the disk has ["kept"] before and after.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet h5py==3.16.0 numpy==2.4.6
cd "$folder"
env/bin/python - <<'PY'
from pathlib import Path

import h5py

assert (h5py.__version__, h5py.version.hdf5_version) == ("3.16.0", "2.0.0")
memory = {"driver": "core", "backing_store": False}
with h5py.File("fit", "w", **memory), h5py.File("other", "w", **memory):
    assert not Path("fit").exists()
    try:
        h5py.File("fit", "w", **memory)
    except OSError as error:
        print(error)
        assert "already open" in str(error)
    else:
        raise SystemExit("a second file in memory of the same name")
with h5py.File("disk", "w") as file:
    file["kept"] = 1
for mode, contents in (("w", []), ("a", ["kept"])):
    with h5py.File("disk", mode, **memory) as file:
        assert list(file) == contents
        file["new"] = 2
    with h5py.File("disk", "r") as file:
        print(mode, list(file))
        assert list(file) == ["kept"]
PY
