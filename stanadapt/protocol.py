"""What a sampler is.

1. A sampler is one file in `samplers/`. Its docstring says what it is for (the first sentence is
   what `stanadapt samplers` prints) and where its formulas come from.
2. It defines three NamedTuples: `Settings`, what a user chooses, with defaults, fields of type
   float, int, bool or an IntEnum, whose members the user names; `State`, all that the next step
   needs, tuning included; `Info`, what one iteration reports, under ArviZ names,
   `acceptance_rate` among them.
3. `State.current` is a NamedTuple with at least `position`, shape (dim,), and `log_density`.
4. `check(settings)` is plain Python and raises StanadaptError for values out of range.
5. `init`, `step`, `adapt`, `freeze` are compiled (`_jit.jit`), raise nothing and print nothing:
   a failure is a value (`-inf` is a rejection, `diverging` is a field of Info).
6. `step` does not allocate. Arrays of `State` that hold the losing point are written again in
   the next step; large tuning arrays are updated in place in `adapt`. Nothing else is edited.
7. Randomness comes from `rng` alone, a numpy Generator.
8. `adapt` runs during warm-up only, unless the theory allows otherwise (`adapts_forever`). A
   sampler that leaves this to the user has a setting of that name.
9. The last line of the file is `register(Sampler(...))`, and `samplers/__init__.py` imports it.

Compiled code calls `step` and `adapt` below, and Numba picks the sampler's own function from the
type of `settings`. (Passing functions as arguments works too, but is compiled anew in every
process: nothing of it is found in the cache.) After an edit of a sampler's file, or of one whose
compiled functions it calls, all that is compiled with it is compiled anew.
"""

import inspect
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from numba.extending import overload

from stanadapt._jit import OPTIONS, jit
from stanadapt.errors import StanadaptError
from stanadapt.lent import lend, take_back


@jit
def never_adapt(density, settings, state, info, t, iter_warmup):
    """Leave the state as it is: for samplers without tuning."""
    return state


@jit
def keep(settings, state):
    """Leave the state as it is at the end of warm-up."""
    return state


@jit
def nothing_more(settings, state, out):
    """Write nothing: for samplers of which a draw is all there is to keep."""


@jit
def no_assistance(settings, state, kind, slot):
    """Do nothing: for samplers that make one move after the other."""


class Sampler(NamedTuple):
    """The parts of a sampler.

    settings, info
        NamedTuple classes: what the user chooses; what each iteration reports.
    check
        Python function, raises StanadaptError on values out of range.
    init
        (density, settings, position, rng) -> state
    step
        (density, settings, state, rng) -> (state, info)
    adapt
        (density, settings, state, info, t, iter_warmup) -> state, after iteration t = 0, 1, ...
        of warm-up. The density is there for rules that need one more derivative.
    freeze
        (settings, state) -> state, once, at the end of warm-up.
    iter_warmup, iter_sampling
        Numbers of iterations where the user names none.
    uses_gradient
        Whether it calls the gradient (else only values); or a function of the settings that tells.
    adapts_forever
        Whether `adapt` also runs while draws are kept (diminishing adaptation). `find` sets it
        from the setting of that name, where there is one.
    recall
        (density, settings, state, positions, rng) -> state, once, before the first iteration, of a
        sampler that can begin with a past that is not its own: positions, shape (n, dim).
    init_on
        (density, settings, position, rng, path, learns_law) -> state, in place of init, of a
        sampler that tempers: on a `tempered_path.Path` whose reference is given.
    learned
        Python function, (state) -> dict of arrays: what warm-up has learned and sampling has
        counted, of a sampler that tempers.
    arrays_stay
        Whether `step` and `adapt` leave each array of State in its place, and all tuples in it but
        `current` as they are. Then the loop hands on pointers (`lent`), which tells where there are
        dozens of arrays.
    hire, assist, most_threads
        Of a sampler with several moves an iteration that do not depend on each other, and draw
        nothing random: how several threads of one chain share them. hire: (density, settings,
        state) -> (state, board), compiled, the state with memory of a helper's own and the `board`
        where slots are put up. assist: (settings, state, kind, slot), compiled, does one. The last
        tells from settings how many threads have something to do.
    more, more_size
        (settings, state, out), compiled: writes into out, shape (more_size(settings, dim),), what
        there is to keep of an iteration besides its draw: all pseudo-samples.

    """

    settings: type
    info: type
    check: Callable[[Any], None]
    init: Callable
    step: Callable
    adapt: Callable = never_adapt
    freeze: Callable = keep
    iter_warmup: int = 20_000
    iter_sampling: int = 20_000
    uses_gradient: bool | Callable[[Any], bool] = True
    adapts_forever: bool = False
    recall: Callable | None = None
    init_on: Callable | None = None
    learned: Callable[[Any], dict[str, Any]] | None = None
    arrays_stay: bool = False
    hire: Callable | None = None
    assist: Callable = no_assistance
    most_threads: Callable[[Any], int] = lambda settings: 1
    more: Callable = nothing_more
    more_size: Callable[[Any, int], int] = lambda settings, dim: 0

    @property
    def name(self) -> str:
        """Name of the sampler: that of its file."""
        return self.settings.__module__.rpartition(".")[2]

    @property
    def documentation(self) -> str:
        """Docstring of the sampler's file."""
        return inspect.getdoc(sys.modules[self.settings.__module__]) or ""


_REGISTRY: dict[type, Sampler] = {}


def register(sampler: Sampler) -> None:
    """Make a sampler known under the name of its file."""
    _REGISTRY[sampler.settings] = sampler


def registered() -> dict[str, Sampler]:
    """All samplers by name, in alphabetical order."""
    return {s.name: s for s in sorted(_REGISTRY.values(), key=lambda s: s.name)}


def find(sampler: "str | tuple", **chosen: Any) -> tuple[Sampler, tuple]:
    """Find a sampler and its settings in their declared types.

    Parameters
    ----------
    sampler
        Name of a sampler, or an instance of a sampler's `Settings`.
    chosen
        Settings by name; with an instance, they replace its fields.

    """
    if isinstance(sampler, str):
        known = registered()
        if sampler not in known:
            names = ", ".join(known)
            raise StanadaptError("settings", f"sampler must be one of {names}, got {sampler!r}.")
        found = known[sampler]
        base = found.settings()
    elif type(sampler) in _REGISTRY:
        found, base = _REGISTRY[type(sampler)], sampler
    else:
        raise StanadaptError(
            "settings",
            f"sampler must be a name ({', '.join(registered())}) or the Settings of a sampler, "
            f"got {sampler!r}.",
        )
    values = {**base._asdict(), **chosen}
    typed = {name: _typed(found, name, value) for name, value in values.items()}
    settings = found.settings(**typed)
    found.check(settings)
    forever = getattr(settings, "adapts_forever", found.adapts_forever)
    gradient = found.uses_gradient
    if callable(gradient):
        gradient = gradient(settings)
    return found._replace(adapts_forever=forever, uses_gradient=gradient), settings


def find_name(settings: tuple) -> str:
    """Name of the sampler that settings belong to."""
    return _REGISTRY[type(settings)].name


def as_chosen(settings: tuple) -> dict[str, Any]:
    """Return settings by name, in the words of a user: members of an IntEnum by their names."""
    values = settings._asdict().items()
    return {name: v.name if isinstance(v, IntEnum) else v for name, v in values}


def as_compiled(settings: tuple) -> tuple:
    """Return settings for compiled code: members of an IntEnum as their numbers.

    Numba looks at numbers in C, but at an enumeration in Python, in each call.
    """
    return type(settings)(*(int(v) if isinstance(v, IntEnum) else v for v in settings))


def _typed(sampler: Sampler, name: str, value: Any) -> Any:
    """Cast to the declared type: an int where a float was compiled means a second compilation."""
    declared = sampler.settings.__annotations__
    if name not in declared:
        raise StanadaptError(
            "settings",
            f"{sampler.name} has no setting {name!r}; it has {', '.join(declared) or 'none'}.",
        )
    kind = declared[name]
    if issubclass(kind, IntEnum):
        return _member(sampler, name, kind, value)
    try:
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.lower(), value)
        number = kind(value)
        fits = number == float(value) if kind is int else kind is not bool or value in (0, 1)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits or (isinstance(value, bool) and kind is not bool):
        what = {float: "a number", int: "a whole number", bool: "true or false"}[kind]
        raise StanadaptError("settings", f"{sampler.name}: {name} must be {what}, got {value!r}.")
    return number


def _member(sampler: Sampler, name: str, kind: type[IntEnum], value: Any) -> IntEnum:
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in kind.__members__:
        names = ", ".join(kind.__members__)
        raise StanadaptError(
            "settings", f"{sampler.name}: {name} must be one of {names}, got {value!r}."
        )
    return kind[value]


def require_positive(settings: tuple, *names: str) -> None:
    """Raise StanadaptError unless each named setting is a finite number above zero."""
    _require(settings, names, lambda v: 0 < v < float("inf"), "positive")


def require_probability(settings: tuple, *names: str) -> None:
    """Raise StanadaptError unless each named setting lies strictly between 0 and 1."""
    _require(settings, names, lambda v: 0 < v < 1, "between 0 and 1")


def require_fraction(settings: tuple, *names: str) -> None:
    """Raise StanadaptError unless each named setting lies in [0, 1)."""
    _require(settings, names, lambda v: 0 <= v < 1, "at least 0 and below 1")


def require_share(settings: tuple, *names: str) -> None:
    """Raise StanadaptError unless each named setting lies in (0, 1]."""
    _require(settings, names, lambda v: 0 < v <= 1, "above 0 and at most 1")


def require_at_least_one(settings: tuple, *names: str) -> None:
    """Raise StanadaptError unless each named setting is 1 or more."""
    require_at_least(settings, 1, *names)


def require_at_least(settings: tuple, least: float, *names: str) -> None:
    """Raise StanadaptError unless each named setting is finite and not below `least`."""
    _require(settings, names, lambda v: least <= v < float("inf"), f"at least {least}")


def _require(settings: tuple, names: tuple[str, ...], holds: Callable, range_: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if not holds(value):
            sampler = find_name(settings)
            raise StanadaptError("settings", f"{sampler}: {name} must be {range_}, got {value}.")


def step(density, settings, state, rng):
    """Only for compiled code: one iteration of the sampler that `settings` belongs to."""
    raise NotImplementedError("only for compiled code")


def adapt(density, settings, state, info, t, iter_warmup):
    """Only for compiled code: one update of the tuning of the sampler of `settings`."""
    raise NotImplementedError("only for compiled code")


def more(settings, state, out):
    """Only for compiled code: what the sampler of `settings` keeps besides draws."""
    raise NotImplementedError("only for compiled code")


def assist(settings, state, kind, slot):
    """Only for compiled code: one slot of the work of the sampler of `settings`, by a helper."""
    raise NotImplementedError("only for compiled code")


def lend_state(settings, state):
    """Only for compiled code: the state for a loop; tuples in it lent if the sampler allows."""
    raise NotImplementedError("only for compiled code")


def take_back_state(settings, state, owned):
    """Only for compiled code: the state after a loop that began with `lend_state` of `owned`."""
    raise NotImplementedError("only for compiled code")


# inline: what is lent lies in the frame of the loop, not of a function that has returned
@overload(lend_state, inline="always")
def _lend(settings, state):
    if _REGISTRY[settings.instance_class].arrays_stay:
        return lambda settings, state: lend(state)
    return lambda settings, state: state


@overload(take_back_state, inline="always")
def _take_back(settings, state, owned):
    if _REGISTRY[settings.instance_class].arrays_stay:
        return lambda settings, state, owned: take_back(state, owned)
    return lambda settings, state, owned: state


# The sampler's own source is compiled in place of these: a function that only called it would have
# all that lies below optimised once more. Not strict: a sampler may name its arguments as it likes.
@overload(more, strict=False, jit_options=OPTIONS)
def _more(settings, state, out):
    return _source(_REGISTRY[settings.instance_class].more)


@overload(assist, strict=False, jit_options=OPTIONS)
def _assist(settings, state, kind, slot):
    return _source(_REGISTRY[settings.instance_class].assist)


@overload(step, strict=False, jit_options=OPTIONS)
def _step(density, settings, state, rng):
    return _source(_REGISTRY[settings.instance_class].step)


@overload(adapt, strict=False, jit_options=OPTIONS)
def _adapt(density, settings, state, info, t, iter_warmup):
    return _source(_REGISTRY[settings.instance_class].adapt)


def _source(function: Callable) -> Callable:
    return getattr(function, "py_func", function)
