"""Prints the lower bound of each dependency in pyproject.toml as a constraint for pip."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for requirement in [*project["dependencies"], *project["optional-dependencies"]["zarr"]]:
    name, bound = re.match(r"([\w-]+)[>=]=([\d.]+)", requirement).groups()
    print(f"{name}=={bound}")
