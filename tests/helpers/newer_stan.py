"""Make a folder that the tests of the native backend can use as a CmdStan of Stan 2.35.

The registry's CmdStan is 2.27. Since then Stan has changed its random generator, moved its JSON
reader and gained a function that unconstrains arrays. httpstan's wheel contains the headers, stanc
and TBB of Stan 2.35, which suffice to compile programs but not to sample. In .ci/test-newer-stan,
`python tests/helpers/newer_stan.py FOLDER` makes the folder; CMDSTAN is then set to it.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# The registry has two wheels of this version for this platform: without the digest, pip's choice
# depends on the order of the listing.
WHEEL = (
    "httpstan==4.13.0 "
    "--hash=sha256:db96f12cacea0ae8efb6bddbf3061c3536b3503187befda936c6a36c1da7124d\n"
)
MAKEFILE = """CMDSTAN_VERSION := 2.35.0
CXX := g++
O := 3
FLAGS := -std=c++17 -pthread -D_REENTRANT -DBOOST_DISABLE_ASSERTS -O3 -I httpstan/include
COMPILE.cpp = $(CXX) $(FLAGS) $(if $(STAN_THREADS),-DSTAN_THREADS) -c
LINK.cpp = $(CXX) $(FLAGS)
LDLIBS = -Wl,-rpath,$(CURDIR)/httpstan/lib
TBB_TARGETS = httpstan/lib/libtbb.so.2
print-% : ; @echo $* = $($*)
"""


def make(folder: Path) -> None:
    """Download the wheel with this digest from the registry, and create the folder."""
    with tempfile.TemporaryDirectory() as download:
        requirements = Path(download, "requirements.txt")
        requirements.write_text(WHEEL)
        choice = ["--only-binary=:all:", "--python-version=3.11", "--platform=manylinux2014_x86_64"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *choice]
        subprocess.run([*command, "--dest", download, "--requirement", requirements], check=True)
        (wheel,) = Path(download).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    (folder / "bin").mkdir()
    stanc = (folder / "httpstan" / "stanc").read_bytes()
    for name, content in (("stanc", stanc), ("stansummary", b"#!/bin/sh\n")):
        (folder / "bin" / name).write_bytes(content)
        (folder / "bin" / name).chmod(0o755)
    (folder / "makefile").write_text(MAKEFILE)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
