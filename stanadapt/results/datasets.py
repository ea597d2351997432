"""Groups of a result as xarray datasets: names of dimensions that collide with nothing.

A dataset has one name space for variables and dimensions. A variable with the name of a dimension
would become its coordinate, and be dropped from the draws without a word.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

Names = Mapping[str, Sequence[str]]


def draws_dataset(
    arrays: Mapping[str, np.ndarray],
    dims: Names | None = None,
    coords: Mapping[str, Any] | None = None,
    leading: tuple[str, ...] = ("chain", "draw"),
) -> xr.Dataset:
    """Return arrays by variable as a dataset, in which every dimension has coordinates.

    Each array begins with the dimensions `leading`. `dims` names the others by variable; dimension
    i of a variable without names is called `default_dimension(variable, i)`. `coords` has labels by
    dimension; other dimensions are numbered from 0.
    """
    dims, coords, sizes = dims or {}, coords or {}, dict[str, int]()
    named = {}
    for name in sorted(arrays, key=lambda name: name not in dims):  # given names come first
        array = arrays[name]
        wanted = (*leading, *dims.get(name, ()))
        if not _fit(wanted, array.shape, sizes, arrays):
            own = enumerate(array.shape[len(leading) :])
            taken = {*arrays, *leading}
            wanted = leading + tuple(
                default_dimension(name, i, taken | {d for d in sizes if sizes[d] != size})
                for i, size in own
            )
        sizes |= zip(wanted, array.shape, strict=True)
        named[name] = (wanted, array)
    labels = {}
    for dim, size in sizes.items():
        given = coords.get(dim, ())
        fits = size and len(given) == size
        labels[dim] = np.asarray(given) if fits else np.arange(size)
    return xr.Dataset({name: named[name] for name in arrays}, labels)


def default_dimension(variable: str, number: int, taken: Collection[str]) -> str:
    """Return the name, as in ArviZ, of a dimension without one, free of those taken."""
    name = f"{variable}_dim_{number}"
    while name in taken:
        name += "_"
    return name


def _fit(
    dims: Sequence[str], shape: tuple[int, ...], sizes: Mapping[str, int], variables: Collection
) -> bool:
    """Whether an array can have these dimensions together with others of these sizes."""
    return (
        len(dims) == len(set(dims)) == len(shape)
        and not set(dims) & set(variables)
        and all(sizes.get(dim, size) == size for dim, size in zip(dims, shape, strict=True))
    )
