"""Samplers of other packages on the density of a target: nutpie (two metrics) and WALNUTS.

    pip install 'stanadapt[bench]'

Every peer evaluates the library that our native backend compiled: nutpie loads the file through its
own interface to BridgeStan, and walnutpie calls the library's function for the gradient. A
difference between samplers is then one of the method, not of the compiler or its flags. Draws come
back on the unconstrained scale and are constrained by our code, so that all fits have the same
columns.

How gradients are counted, warm-up included: nutpie reports the leapfrog steps of every draw
(`n_steps`), and each is one gradient. The few of its initial search for a step size, some ten per
chain, are not reported and not counted. walnutpie reports none, so its calls of the gradient are
counted here. Both run with their defaults, except that walnutpie has the lengths of the others: it
would otherwise stop when R-hat is below 1.01, and not be reproducible.
"""

import ctypes
import json
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
from numba import carray, cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic

from stanadapt import results
from stanadapt.engine.density import call_gradient

EXTRA = "pip install 'stanadapt[bench]'"


class PeerDraws(NamedTuple):
    """What a run of a peer returns.

    positions
        Unconstrained draws after warm-up, shape (chain, draw, dim).
    gradients, gradients_warmup
        Gradients in total, and in warm-up alone; -1 if the peer does not separate them.
    divergences
        Divergent draws after warm-up; -1 if the peer does not report them.

    """

    positions: np.ndarray
    gradients: int
    gradients_warmup: int
    divergences: int


class Peer(NamedTuple):
    """A sampler of another package: the package's name, and a function that runs it.

    The function takes a target, and the keywords seed, chains, iter_warmup and iter_sampling; it
    returns `PeerDraws`.
    """

    package: str
    run: Callable[..., PeerDraws]


def run_nutpie(target, low_rank, *, seed, chains, iter_warmup, iter_sampling):
    """Draw with nutpie, with a diagonal metric or that of low rank."""
    import nutpie
    from nutpie import _lib  # the public function compiles the program again
    from nutpie.compile_stan import CompiledStanModel

    library = _lib.StanLibrary(target.model.lib_path)
    model = _lib.StanModel(library, {}, {}, {}, seed, target.data, None)
    compiled = CompiledStanModel(
        dims={}, _coords={}, code=target.program.code, data=None, library=library, model=model
    )
    trace = nutpie.sample(
        compiled, draws=iter_sampling, tune=iter_warmup, chains=chains, seed=seed,
        low_rank_modified_mass_matrix=low_rank, store_unconstrained=True, save_warmup=True,
        progress_bar=False,
    )  # fmt: skip
    kept = results.dataset(trace, "sample_stats")
    warmup = int(results.dataset(trace, "warmup_sample_stats")["n_steps"].sum())
    return PeerDraws(
        positions=np.asarray(kept["unconstrained_draw"], float),
        gradients=warmup + int(kept["n_steps"].sum()),
        gradients_warmup=warmup,
        divergences=int(kept["diverging"].sum()),
    )


@intrinsic
def count_one(context, pointer):
    """Add 1 to an int64 that the chains' threads share, without losing a count."""

    def emit(context, builder, signature, arguments):
        one = cgutils.intp_t(1)
        address = builder.bitcast(arguments[0], cgutils.intp_t.as_pointer())
        return builder.atomic_rmw("add", address, one, "monotonic")

    return types.int64(types.voidptr), emit


NUMBERS = types.CPointer(types.float64)
CALLBACK = types.int32(types.size_t, NUMBERS, NUMBERS, NUMBERS, types.voidptr)


@cache
def counting_callback(address, handle):
    """Compile a function with walnutpie's signature that counts the calls of a gradient.

    Its last argument is the address of the counter.
    """

    @cfunc(CALLBACK)
    def evaluate(size, position, gradient, value, counter):
        count_one(counter)
        out = carray(gradient, (size,))
        code, log_density = call_gradient(address, handle, carray(position, (size,)), out)
        value[0] = log_density
        return code

    return evaluate


def run_walnuts(target, *, seed, chains, iter_warmup, iter_sampling):
    """Draw with the WALNUTS of walnutpie, on the target's own function for the gradient."""
    import walnutpie

    density, counter = target.density(), np.zeros(1, np.int64)
    evaluate = counting_callback(density.gradient_address, density.handle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = walnutpie.walnuts_pyfunc(
            (evaluate.ctypes, ctypes.c_void_p(counter.ctypes.data)),
            num_params=target.dim, num_chains=chains, seed=seed,
            min_warmup_iter=iter_warmup, max_warmup_iter=iter_warmup,
            min_sampling_iter=iter_sampling, max_sampling_iter=iter_sampling,
        )  # fmt: skip
    return PeerDraws(np.array([np.asarray(x) for x in drawn]), int(counter[0]), -1, -1)


PEERS = {
    "nutpie": Peer("nutpie", partial(run_nutpie, low_rank=False)),
    "nutpie_low_rank": Peer("nutpie", partial(run_nutpie, low_rank=True)),
    "walnutpie": Peer("walnutpie", run_walnuts),
}


def installed_version(package: str) -> str:
    """Return the version of a package, or "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def why_left_out(name: str, backend: str) -> str:
    """Return a sentence if a peer cannot run on targets of a backend, or "" if it can."""
    package = PEERS[name].package
    if backend == "stanli":
        return f"{name} is left out: it needs a compiled program (`stanadapt install-cmdstan`)."
    if installed_version(package):
        return ""
    return f"{name} is left out: {package} is not installed ({EXTRA})."


def peer_fit(target: Any, name: str, **lengths: Any) -> Any:
    """Draw from a target with a peer.

    Parameters
    ----------
    target
        A `Target` of a native backend, "cmdstan" or "bridgestan".
    name
        A key of `PEERS`.
    **lengths
        seed, chains, iter_warmup and iter_sampling.

    Returns
    -------
    ArviZ object
        Its attributes are those of `sample` that the benchmarks read.

    """
    drawn = PEERS[name].run(target, **lengths)
    chains, draws, _ = drawn.positions.shape
    columns = np.empty((chains, draws, len(target.column_names)))
    for chain, positions in enumerate(drawn.positions):
        constrain = target.constrainer(seed=chain, chain=chain)
        constrain(np.ascontiguousarray(positions), columns[chain])
    attributes = {
        "sampler": name,
        "engine": f"{PEERS[name].package} {installed_version(PEERS[name].package)}".strip(),
        "parameters": json.dumps(target.recorded_parameters),
        "n_gradients": drawn.gradients,
        "n_gradients_warmup": drawn.gradients_warmup,
        "n_divergences": drawn.divergences,
        "n_density": 0,
    }
    return results.build({"posterior": results.variables(target.column_names, columns)}, attributes)
