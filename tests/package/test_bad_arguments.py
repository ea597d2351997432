"""Arguments of wrong kinds: an error that names the argument, before anything is done.

A case is generated for every declared argument of the functions below, from its annotation.
"""

import inspect
import os
from os import PathLike
from typing import get_args, get_origin

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError, require_between
from stanadapt.runs.reference import fit_reference
from stanadapt.samplers.nice import Network
from stanadapt.samplers.tempering import ReferenceDistribution
from tests.helpers import made_up_fits
from tests.helpers.short_runs import NORMAL

HUGE = 10**400
ARRAY = np.array([1, 2])  # neither true nor false, nor a name, nor a number
# wrong values by what an annotation names, and of arguments that take many kinds of things
KINDS = {
    int: [1.5, HUGE, "many"], float: ["much", np.nan], bool: [ARRAY, "no"], str: [ARRAY],
    PathLike: [3, "a\0b"],
}  # fmt: skip
OTHERS = {
    "sampler": [3, "barker"], "inits": [HUGE, {"x": "one"}],
    "warm_start": [3], "standardize": ["yes", 2], "save": [3, "everything"], "executor": ["dask"],
    "baseline": [3, "missing"], "budget": ["cpu"], "var_names": [ARRAY], "exclude": [ARRAY],
    "include_paths": [ARRAY], "method": [3, "lap"], "thresholds": [3],
}  # fmt: skip
# the first arguments, and one whose truth is taken
TAKEN = {"target", "fits", "program", "show_progress"}
CALLS = {
    sa.sample: lambda known, fits, wrong: sa.sample(known, **wrong),
    sa.stan_nuts: lambda known, fits, wrong: sa.stan_nuts(known, **{"backend": "stanli", **wrong}),
    sa.approximate: lambda known, fits, wrong: sa.approximate(known, **wrong),
    sa.optimize: lambda known, fits, wrong: sa.optimize(known, **wrong),
    sa.advise: lambda known, fits, wrong: sa.advise(known, **wrong),
    sa.Target: lambda known, fits, wrong: target(**wrong),
    sa.compare: lambda known, fits, wrong: sa.compare(fits, **wrong),
    fit_reference: lambda known, fits, wrong: fit_reference(known, **wrong),
}


def target(**options):
    return sa.Target(NORMAL, **options)


@pytest.fixture(scope="module")
def known():
    return target()


@pytest.fixture(scope="module")
def fits():
    return {"one": made_up_fits.fit(1), "two": made_up_fits.fit(2)}


def wrong_values(argument):
    if argument.name in OTHERS:
        return OTHERS[argument.name]
    named = get_args(argument.annotation) or (argument.annotation,)
    kinds = [get_origin(kind) or kind for kind in named]
    return next((KINDS[kind] for kind in kinds if kind in KINDS), [])


CASES = [
    pytest.param(call, argument.name, value, id=f"{function.__name__} {argument.name} {number}")
    for function, call in CALLS.items()
    for argument in inspect.signature(function, eval_str=True).parameters.values()
    if argument.name not in TAKEN
    for number, value in enumerate(wrong_values(argument))
]


@pytest.mark.parametrize(("call", "name", "value"), CASES)
def test_an_argument_of_another_kind_is_named(call, name, value, known, fits):
    with pytest.raises(StanadaptError) as caught:
        call(known, fits, {name: value})
    assert caught.value.stage in ("settings", "data", "files", "initialization")
    names = {name, name.replace("_", " "), name.rstrip("s"), "name of a file", "file name"}
    assert any(word in caught.value.message for word in names), caught.value.message
    assert len(caught.value.message) < 20_000


def refused(argument, call):
    with pytest.raises(StanadaptError, match=argument):
        call()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_that_nobody_writes_into_is_not_waited_for(known, tmp_path):
    pipe = tmp_path / "pipe.stan"
    os.mkfifo(pipe)
    for call in (
        lambda: sa.Target(pipe),
        lambda: target(data=pipe),
        lambda: target(labels=pipe),
        lambda: sa.stan_nuts(known, backend="stanli", inits=pipe),
        lambda: Network.load(pipe),
    ):
        refused("pipe", call)


def test_what_a_shell_puts_in_the_place_of_a_file_is_read():
    reading, writing = os.pipe()
    os.write(writing, b'{"n": 2}')
    os.close(writing)
    program = "data { int n; } parameters { vector[n] x; } model { x ~ normal(0, 1); }"
    try:
        assert sa.Target(program, f"/dev/fd/{reading}").dim == 2
    finally:
        os.close(reading)


def test_numbers_beyond_the_largest_and_fits_for_data(known, fits):
    huge = 10**400
    refused("share must lie between", lambda: require_between("share", huge, 0.0, 1.0))
    for argument in ("until_ess", "max_minutes", "inits"):
        refused(argument, lambda name=argument: sa.sample(known, "rwm", **{name: huge}))
    refused("max_minutes must be a number", lambda: sa.advise(known, max_minutes=huge))
    refused("degrees must be a number", lambda: ReferenceDistribution([0.0], 1.0, degrees=huge))
    refused("inflation must lie", lambda: fit_reference(known, "pathfinder", inflation=huge))
    program = "data { real posterior; } parameters { real x; } model { x ~ normal(posterior, 1); }"
    refused("posterior", lambda: sa.Target(program, fits["one"]))
    assert len(CASES) > 100
