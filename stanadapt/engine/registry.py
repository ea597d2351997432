"""Samplers by name, with their settings.

`register` adds a sampler and `find` looks one up. A family of the package is imported when one of
its samplers is looked up, or all are listed. A setting that a user chose holds before that of a
preset, and this one before a default.
"""

import itertools
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from stanadapt.engine.breaches import breaches
from stanadapt.engine.protocol import PARTS, PRESET, REGISTRY, Preset, Sampler
from stanadapt.engine.settings import (
    Numbers,
    as_chosen,
    declared,
    setting_error,
    shown_numbers,
    typed,
)
from stanadapt.engine.warmup import Warmup
from stanadapt.errors import StanadaptError, described, did_you_mean, in_our_words

ABOUT_PRESETS = (
    "Presets: published settings, by first author and year (preset=NAME). Settings that are given, "
    "and standardize, override them."
)
SAMPLERS = "stanadapt.samplers"
SEVERAL = " A fit has one sampler: draw a fit with each, and `compare` them."
NO_PRESET = Preset({})
SOME = 100  # the dimension of an example
NUMBERS = itertools.count()  # of classes of settings

# --- samplers -------------------------------------------------------------------------------------


def register(sampler: Sampler | str, **options: Any) -> None:
    """Add a sampler under the name of its file.

    Parameters
    ----------
    sampler
        `__name__` of the file: its parts are found by their names, `PARTS`; or a whole sampler.
    options
        Fields of `Sampler` that differ from their defaults.

    Raises
    ------
    StanadaptError
        Stage "sampler": a line for each breach of the protocol.
    """
    if isinstance(sampler, str):
        for name in options.keys() - {*Sampler._fields}:
            text = f"{sampler}: register has no option {name!r}; it has "
            text += f"{', '.join(Sampler._fields)}.{did_you_mean(name, Sampler._fields)}"
            raise StanadaptError("invalid_sampler_option", text)
        names = vars(sys.modules[sampler])
        found = {part: names[name] for part, name in PARTS.items() if name in names}
        if not isinstance(found.get("warmup"), Warmup):  # such as a module of that name
            found.pop("warmup", None)
        sampler = Sampler(**{**found, **options})
    if not str(getattr(sampler.settings, "__module__", "")).startswith(f"{SAMPLERS}."):
        # a test checks those of the package: their names are taken, whether or not they are loaded
        problems = breaches(sampler, registered())
        if problems:
            code = problems[0].code if len(problems) == 1 else "invalid_sampler"
            raise StanadaptError(code, "\n".join(problems))
        if sampler.settings not in REGISTRY:
            # Numba takes named tuples with equal names and fields for one type when Python calls
            # compiled code: that of a file's copy, or of a file before it was edited, would run
            sampler.settings.__name__ += f"_{next(NUMBERS)}"
    REGISTRY[sampler.settings] = sampler


def registered() -> dict[str, Sampler]:
    """Return all samplers by name, in alphabetical order."""
    load_all()
    return _loaded()


def _loaded() -> dict[str, Sampler]:
    return {s.name: s for s in sorted(REGISTRY.values(), key=lambda s: s.name)}


def load_all() -> None:
    """Import all families, which registers their samplers and keywords of `sample`."""
    for module in iter_modules(import_module(SAMPLERS).__path__):
        import_module(f"{SAMPLERS}.{module.name}")


def _load(name: str) -> None:
    """Import the family of a sampler of the package, which has a file of that name."""
    for folder in map(Path, import_module(SAMPLERS).__path__ if name.isidentifier() else ()):
        for file in (*folder.glob(f"{name}.py"), *folder.glob(f"*/{name}.py")):
            import_module(f"{SAMPLERS}.{file.relative_to(folder).with_suffix('').parts[0]}")


def names_of(condition: Callable[[Sampler], Any]) -> str:
    """Return the names of the samplers that meet a condition, for messages."""
    return ", ".join(name for name, sampler in registered().items() if condition(sampler))


def find_name(settings: tuple) -> str:
    """Return the name of the sampler that settings belong to."""
    return REGISTRY[type(settings)].name


def find(sampler: str | tuple, /, **chosen: Any) -> tuple[Sampler, Any]:
    """Find a sampler and its settings, in their declared types.

    Parameters
    ----------
    sampler
        Name of a sampler, or an instance of a sampler's `Settings`.
    chosen
        Settings by name; if an instance is given, they replace its fields. `preset` names
        published settings, which others then replace.

    Returns
    -------
    sampler, settings
        `uses_gradient`, `adapts_forever`, `standardize` and `exact` of the sampler are the values
        that hold under these settings.
    """
    return resolve(sampler, chosen)[:2]


def resolve(
    sampler: str | tuple, chosen: Mapping[str, Any], dim: int | None = None, moved: int = 0
) -> tuple[Sampler, Any, Any]:
    """Find a sampler with its settings, and those in standardized coordinates, as `find` does.

    For `dim` parameters, a preset may compute settings; without `dim`, these have their defaults.
    In `moved` standardized coordinates, a sampler may have other defaults.
    """
    sampler, base = _look_up(sampler)
    preset = _preset(sampler, chosen.get(PRESET))
    given = dict(preset.settings)
    if dim is not None:
        given |= {name: value(dim) for name, value in preset.by_dimension.items()}
    given |= _without_aliases(sampler, {k: v for k, v in chosen.items() if k != PRESET})
    settings = _replaced(sampler, base, {**base._asdict(), **given})
    defaults = sampler.settings._field_defaults
    changes = {
        name: value(moved)
        for name, value in sampler.when_standardized.items()
        if moved and name not in given and getattr(settings, name) == defaults[name]
    }
    standardized = _replaced(sampler, settings, changes)
    if preset is not NO_PRESET:
        sampler = sampler._replace(standardize=preset.standardize)
    forever = getattr(settings, "adapts_forever", sampler.adapts_forever)
    fixed = {}
    for name in ("uses_gradient", "standardize", "exact"):
        value = getattr(sampler, name)
        fixed[name] = value(settings) if callable(value) else value
    return sampler._replace(adapts_forever=forever, **fixed), settings, standardized


def _look_up(sampler: str | tuple) -> tuple[Sampler, Any]:
    if isinstance(sampler, str):
        if sampler not in _loaded():
            _load(sampler)
        samplers = _loaded()
        if sampler not in samplers:
            samplers, several = registered(), len(sampler.replace(",", " ").split()) > 1
            raise StanadaptError(
                "unknown_sampler",
                f"sampler must be one of {', '.join(samplers)}, got {sampler!r}."
                + (SEVERAL if several else did_you_mean(sampler, samplers)),
            )
        return samplers[sampler], samplers[sampler].settings()
    if type(sampler) in REGISTRY:
        return REGISTRY[type(sampler)], sampler
    raise StanadaptError(
        "unknown_sampler",
        f"sampler must be a name ({', '.join(registered())}) or the Settings of a sampler, "
        f"got {described(sampler)}.",
    )


# --- settings -------------------------------------------------------------------------------------


def _replaced(sampler: Sampler, settings: Any, values: dict[str, Any]) -> Any:
    """Return settings with other values, cast as declared, and checked."""
    known = declared(sampler.settings)
    for name in values:
        if name not in known:
            # the names that a user may give, and arguments that are no settings
            listed = [*known, *sampler.setting_aliases, *([PRESET] if sampler.presets else [])]
            raise StanadaptError(
                "unknown_setting",
                f"{sampler.name} has no setting {name!r}; it has {', '.join(listed) or 'none'}."
                + (did_you_mean(name, listed) or in_our_words(name)),
            )
    changes = {name: typed(sampler.name, known[name], value) for name, value in values.items()}
    replaced = settings._replace(**changes)
    sampler.check(replaced)
    return replaced


def shown_preset(sampler: Sampler, name: str) -> str:
    """Return the settings of a preset in one line: those that differ from the defaults, by name."""
    preset, defaults = sampler.presets[name], as_chosen(sampler.settings())
    settings = as_chosen(find(sampler.name, preset=name)[1])
    shown = [
        f"{k}={shown_numbers(v, ',', 3) if isinstance(v, Numbers) else v}"
        for k, v in settings.items()
        if v != defaults[k]
    ]
    for k, value in preset.by_dimension.items():
        shown.append(f"{k}={value(SOME):g} of {SOME} parameters")
    kind = {"no": "false", "full": "true"}.get(preset.standardize, preset.standardize)
    return ", ".join([*shown, f"standardize={kind}"])


def _preset(sampler: Sampler, name: Any) -> Preset:
    """Return the preset of that name; StanadaptError for an unknown name."""
    if name is None:
        return NO_PRESET
    if isinstance(name, str) and name in sampler.presets:
        return sampler.presets[name]
    others = names_of(lambda other: isinstance(name, str) and name in other.presets)
    hint = (
        f" {name} is a preset of {others}." if others else did_you_mean(str(name), sampler.presets)
    )
    raise StanadaptError(
        "unknown_preset",
        f"{sampler.name} has no preset {name!r}; it has {', '.join(sampler.presets) or 'none'}."
        + hint,
    )


def _without_aliases(sampler: Sampler, values: dict[str, Any]) -> dict[str, Any]:
    """Return settings under the sampler's names; StanadaptError if one is given twice."""
    named: dict[str, Any] = {}
    for name, value in values.items():
        setting = sampler.setting_aliases.get(name, name)
        if setting in named or (setting != name and setting in values):
            raise setting_error(
                f"{sampler.name}: {name} is another name of {setting}: give only one."
            )
        named[setting] = value
    return named
