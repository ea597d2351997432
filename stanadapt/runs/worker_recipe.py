"""What a worker needs to make a chain: program text, data, settings, lengths; no address."""

import secrets
import threading
from collections import OrderedDict
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.chain import ChainDesign
from stanadapt.engine.plan import Plan
from stanadapt.engine.registry import as_chosen, find
from stanadapt.errors import StanadaptError
from stanadapt.runs.make_chains import Start
from stanadapt.runs.recipe import source_hash
from stanadapt.samplers.tempering.extended_target import Extended, extended_again
from stanadapt.targets.stan.program import Program
from stanadapt.targets.standardized import Standardised
from stanadapt.targets.target import Samplable, Target

# runs whose target a worker keeps between two tasks
KEPT = 4


class Recipe(NamedTuple):
    """Plain data from which a worker makes the target and the design of a run.

    key
        Of the run: a worker that has seen it has them already.
    stanadapt, sampler_hash
        Version of the package and hash of the sampler's file, which must be those of the worker.
    name, code, data, options
        Of the target; data are JSON.
    extension
        Of an `Extended`: how the program is extended.
    location, factor
        Of standardised coordinates; None in the program's own.
    prior_data
        Data of the reference, where it is the program under other data.
    sampler, settings, plan, keep_unconstrained, keep_extra
        Of the chains.

    """

    key: str
    stanadapt: str
    sampler_hash: str
    name: str
    code: str
    data: str
    options: dict[str, Any]
    extension: dict[str, Any] | None
    location: np.ndarray | None
    factor: np.ndarray | None
    prior_data: str | None
    sampler: str
    settings: dict[str, Any]
    plan: Plan
    keep_unconstrained: bool
    keep_extra: bool


class Prior:
    """The program under prior-only data, as a reference; kept while its `handle` is used."""

    def __init__(self, target: Target, data: str) -> None:
        self._target = target.with_prior_data(data)
        self._density = self._target.density()
        self.handle = self._density.handle


class Made(NamedTuple):
    """What a worker has made of a recipe."""

    start: Start
    design: ChainDesign
    prior: Prior | None


def recipe_of(target: Samplable, design: ChainDesign, prior_data: str | None) -> Recipe:
    """Describe a run.

    Raises
    ------
    StanadaptError
        Stage "settings", for a target that is no program with its data.

    """
    program = target.target
    moved = target if isinstance(target, Standardised) else None
    base = moved.base if moved else target
    if base is not program and not isinstance(base, Extended):
        raise StanadaptError(
            "settings",
            f"executor: {target!r} cannot be sent to a worker: leave executor out.",
        )
    return Recipe(
        key=secrets.token_hex(8),
        stanadapt=version("stanadapt"),
        sampler_hash=source_hash(design.sampler),
        name=program.name,
        code=program.program.code,
        data=program.data,
        options=program.options,
        extension=base.options if isinstance(base, Extended) else None,
        location=moved.location if moved else None,
        factor=moved.factor if moved else None,
        prior_data=prior_data,
        sampler=design.sampler.name,
        settings=as_chosen(design.settings),
        plan=design.plan,
        keep_unconstrained=design.keep_unconstrained,
        keep_extra=design.keep_extra,
    )


_made: OrderedDict[str, Made] = OrderedDict()
_lock = threading.Lock()


def made(recipe: Recipe) -> Made:
    """Return the target and the design of a recipe; made once in each process.

    Raises
    ------
    StanadaptError
        Where this worker has another version of the package or of the sampler, or cannot make the
        target.

    """
    with _lock:
        if recipe.key not in _made:
            _made[recipe.key] = _make(recipe)
            while len(_made) > KEPT:
                _made.popitem(last=False)
        _made.move_to_end(recipe.key)
        return _made[recipe.key]


def _make(recipe: Recipe) -> Made:
    own = version("stanadapt")
    if own != recipe.stanadapt:
        raise StanadaptError(
            "installation",
            f"a worker has stanadapt {own}, the run {recipe.stanadapt}: install the same version.",
        )
    sampler, settings = _sampler(recipe)
    program = Program(recipe.name, recipe.code, None, ())
    base = Target(program, recipe.data, **recipe.options, show_progress=False)
    prior = None if recipe.prior_data is None else Prior(base, recipe.prior_data)
    target: Samplable = base
    if recipe.extension is not None:
        target = extended_again(base, recipe.extension)
    if recipe.location is not None and recipe.factor is not None:
        target = Standardised(target, recipe.location, recipe.factor)
    chains = recipe.plan.chains
    nowhere = [np.zeros(target.dim)] * chains  # a checkpoint says where chains are
    calls = np.zeros((chains, 3), np.int64)
    start = Start(target, nowhere, calls, np.zeros((chains, 2)), 0.0, {})
    design = ChainDesign(
        sampler, settings, recipe.plan, len(base.column_names), recipe.keep_unconstrained,
        recipe.keep_extra,
    )  # fmt: skip
    return Made(start, design, prior)


def _sampler(recipe: Recipe) -> tuple:
    try:
        sampler, settings = find(recipe.sampler, **recipe.settings)
    except StanadaptError as error:
        raise StanadaptError(
            "settings",
            f"a worker does not know the sampler {recipe.sampler}: {error.message} If it is one of "
            "your own, let workers import its file when they start.",
        ) from None
    if source_hash(sampler) != recipe.sampler_hash:
        raise StanadaptError(
            "settings", f"the file of the sampler {recipe.sampler} is another one on a worker."
        )
    return sampler, settings
