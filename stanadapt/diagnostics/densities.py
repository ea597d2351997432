"""Whether fits that are compared have one density, and whether it was compared with CmdStan's.

A file of its own, since `compare` would be too long with it.
"""

from collections.abc import Mapping

from stanadapt import results
from stanadapt.errors import Message
from stanadapt.results import Fit


def shares_our_density(fit: Fit) -> bool:
    """Whether a fit was drawn with the density of our samplers."""
    ours = results.attribute(fit, "program_hash") is not None
    return ours and not results.attribute(fit, "engine_independent", 0)


def has_same_data(one: Fit, other: Fit) -> bool:
    """Whether two fits of a program have one posterior: transformed data may be random."""
    drawn = [results.attribute(fit, "random_data", "") for fit in (one, other)]
    return drawn[0] == drawn[1]


def density_remarks(fits: Mapping[str, Fit]) -> list[Message]:
    """Report comparisons with CmdStan's density, and fits with a density that was not compared."""
    remarks, checked = [], set()
    for name, fit in fits.items():
        outcome = results.attribute(fit, "density_verified")
        if outcome and results.attribute(fit, "engine_independent", 0):
            remarks.append(Message("density_check", f"{name}: {outcome}."))
            if results.attribute(fit, "density_verdict") != "not checked":
                checked.add(results.attribute(fit, "density_backend_version", ""))
    for name, fit in fits.items():
        version = results.attribute(fit, "backend_version")
        if version and checked and version not in checked:
            listed = ", ".join(sorted(checked))
            text = f"{name}: its density is that of {version}; the one checked is that of {listed}."
            remarks.append(Message("density_unchecked", text))
    return [*remarks, *_other_data(fits)]


def _other_data(fits: Mapping[str, Fit]) -> list[Message]:
    by_data: dict[str, list[str]] = {}
    for name, fit in fits.items():
        by_data.setdefault(results.attribute(fit, "random_data", ""), []).append(name)
    if len(by_data) < 2:
        return []
    groups = "; ".join(", ".join(names) for names in by_data.values())
    text = (
        f"the transformed data are random, and differ between fits ({groups}): their posteriors "
        "differ, so z and missed modes only compare fits that have the same data."
    )
    return [Message("other_random_data", text)]
