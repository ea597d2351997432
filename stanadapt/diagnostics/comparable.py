"""Whether fits can be compared: of one target, with variables in common."""

from collections.abc import Collection, Mapping
from typing import Any

from stanadapt import results
from stanadapt.errors import StanadaptError, is_one_of, require_names

HASHES = ("program_hash", "data_hash")


def require_comparable(fits: Mapping[str, Any], baseline: str | None) -> None:
    """Raise StanadaptError unless these are fits of one target, among them the baseline."""
    if not isinstance(fits, Mapping) or hasattr(fits, "attrs"):
        raise StanadaptError(
            "settings", "compare takes a mapping of fits by name, {'name': fit}, not one fit."
        )
    for name, fit in fits.items():
        _require_printable(name)
        results.require_draws(fit, repr(name))
    if not fits:
        raise StanadaptError("settings", "compare needs at least one fit, got none.")
    if baseline is not None and not is_one_of(baseline, fits.keys()):
        names = ", ".join(map(str, fits))
        raise StanadaptError(
            "settings", f"baseline must be one of the fits ({names}), got {baseline!r}."
        )
    for what in HASHES:
        seen = {name: results.attribute(fit, what) for name, fit in fits.items()}
        known = {name: value for name, value in seen.items() if value is not None}
        if len(set(known.values())) > 1:
            listed = ", ".join(f"{name}: {value}" for name, value in known.items())
            raise StanadaptError(
                "settings",
                f"all fits must be of one program and one data set, but {what} differs ({listed}).",
            )
    _require_same_variables(fits)


def _require_printable(name: Any) -> None:
    """Tables take numbers too; None, NaN and functions mean something else to them."""
    number = isinstance(name, int | float) and not isinstance(name, bool) and name == name
    text = isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)
    if not (number or text):
        raise StanadaptError(
            "settings", f"the name of a fit must be text that can be printed, got {name!r}."
        )


def _shapes(fit: Any) -> dict[str, tuple[int, ...]]:
    variables = results.dataset(fit, "posterior").data_vars
    return {
        str(name): tuple(size for d, size in x.sizes.items() if d not in ("chain", "draw"))
        for name, x in variables.items()
    }


def _require_same_variables(fits: Mapping[str, Any]) -> None:
    """Of fits that do not record their program, the variables must tell."""
    first, *others = fits
    shapes = _shapes(fits[first])
    for name in others:
        unknown = [n for n in (first, name) if results.attribute(fits[n], HASHES[0]) is None]
        own = _shapes(fits[name])
        common = shapes.keys() & own.keys()
        different = [variable for variable in sorted(common) if shapes[variable] != own[variable]]
        if different:
            raise StanadaptError(
                "settings",
                f"{different[0]} has shape {shapes[different[0]]} in {first} and "
                f"{own[different[0]]} in {name}: fits must be of one program and one data set.",
            )
        if unknown and not common:
            raise StanadaptError(
                "settings",
                f"{first} ({', '.join(shapes)}) and {name} ({', '.join(own)}) have no variable in "
                "common: fits must be of one program and one data set.",
            )


def counted_variables(
    fits: Mapping[str, Any], var_names: Collection[str] | None
) -> Collection[str] | None:
    """Return the variables that are compared; None stands for all.

    Raises
    ------
    StanadaptError
        Stage "settings", where no fit has one of `var_names`.

    """
    if var_names is None:
        recorded = [names for names in map(results.parameters, fits.values()) if names]
        return set().union(*recorded) if recorded else None
    var_names = require_names("var_names", var_names)
    known = {name: None for fit in fits.values() for name in _shapes(fit)}
    there = f"there are {', '.join(known)}."
    if not var_names:
        raise StanadaptError("settings", f"var_names must name at least one variable; {there}")
    for name in var_names:
        if name not in known:
            raise StanadaptError("settings", f"no fit has a variable {name!r}; {there}")
    return var_names
