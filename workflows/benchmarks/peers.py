"""Samplers of other packages on the density of a target: nutpie, with each of its two metrics.

    pip install 'stanadapt[bench]'

Every peer evaluates the library that our native backend compiled: nutpie loads the file through its
own interface to BridgeStan. A difference between samplers is then one of the method, not of the
compiler or its flags. Draws come back on the unconstrained scale and are constrained by our code:
all fits have the same columns.

How gradients are counted, warm-up included: nutpie reports the leapfrog steps of every draw
(`n_steps`), and each is one gradient. The few of its initial search for a step size, some ten per
chain, are not reported and not counted. It runs with its defaults.
"""

import json
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

EXTRA = "pip install 'stanadapt[bench]'"


class PeerDraws(NamedTuple):
    """The result of a run of a peer.

    positions
        Unconstrained draws after warm-up, shape (chain, draw, dim).
    gradients, gradients_warmup
        Gradients in total, and in warm-up alone.
    divergences
        Divergent draws after warm-up.
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
    from stanadapt import results

    trace = nutpie_trace(
        target.model.lib_path, target.data, target.program.code, seed=seed, chains=chains,
        draws=iter_sampling, tune=iter_warmup, low_rank_modified_mass_matrix=low_rank,
        store_unconstrained=True, save_warmup=True,
    )  # fmt: skip
    kept = results.dataset(trace, "sample_stats")
    warmup = int(results.dataset(trace, "warmup_sample_stats")["n_steps"].sum())
    return PeerDraws(
        positions=np.asarray(kept["unconstrained_draw"], float),
        gradients=warmup + int(kept["n_steps"].sum()),
        gradients_warmup=warmup,
        divergences=int(kept["diverging"].sum()),
    )


def nutpie_trace(path, data, code, *, seed, **options):
    """Draw with nutpie from a compiled library; `options` are those of `nutpie.sample`."""
    import nutpie
    from nutpie import _lib  # the public function compiles the program again
    from nutpie.compile_stan import CompiledStanModel

    library = _lib.StanLibrary(path)
    model = _lib.StanModel(library, {}, {}, {}, seed, data, None)
    compiled = CompiledStanModel(
        dims={}, _coords={}, code=code, data=None, library=library, model=model
    )
    return nutpie.sample(compiled, seed=seed, progress_bar=False, **options)


PEERS = {
    "nutpie": Peer("nutpie", partial(run_nutpie, low_rank=False)),
    "nutpie_low_rank": Peer("nutpie", partial(run_nutpie, low_rank=True)),
}


def compiled_backend() -> str:
    """Return a backend whose library the peers can load; "auto" if there is none."""
    from stanadapt.targets.stan import backends

    return next((b.name for b, _ in backends.choose("auto") if b.native), "auto")


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
    from stanadapt import results

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
