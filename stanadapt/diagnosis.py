"""What is installed, what is missing, and how to get it: `stanadapt doctor`."""

from stanadapt import toolchain
from stanadapt._jit import cache_root
from stanadapt.backends import BACKENDS, choose, stanli
from stanadapt.errors import StanadaptError


def lines() -> list[str]:
    """Sentences for a person, in the order in which one would mend things."""
    said = [f"{name} {version}" for name, version in toolchain.versions().items()]
    said.append(f"cache: {cache_root()}")
    said += _backends()
    said.append(_embedded())
    said.append(_cmdstan())
    tree = toolchain.bridgestan_tree()
    said.append(f"BridgeStan's sources: {tree or 'not here (not needed)'}")
    missing = toolchain.compiler_problem()
    said.append(f"C++ compiler: {missing or toolchain.compiler()}")
    return said


def _backends() -> list[str]:
    """Which ways to a density there are, and which "auto" takes."""
    backend, reason = choose("auto")[0]
    said = [f"backend auto: {backend.name} ({reason})"]
    for name, other in BACKENDS.items():
        here, why = other.presence()
        said.append(f"backend {name}: {'ready' if here else 'not usable'}: {why}")
    return said


def _embedded() -> str:
    try:
        stanli.self_test(force=True)
    except StanadaptError as error:
        return f"embedded backend: NOT USABLE: {error.message}"
    return "embedded backend: its self-test passes"


def _cmdstan() -> str:
    found = toolchain.cmdstan()
    if found:
        return f"CmdStan {found.version} in {found.path}"
    problem = toolchain.cmdstan_problem()
    state = f"not usable: {problem}" if problem else "not installed"
    return (
        f"CmdStan: {state}. Without it the reference is the NUTS inside stanli. "
        "To get it: stanadapt install-cmdstan"
    )
