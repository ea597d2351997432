"""The report of `stanadapt doctor`: installed parts, missing parts, and how to install them.

A file of its own, because it reads the backends, which import the toolchain.
"""

import os

from stanadapt.engine.compiled import machine_code
from stanadapt.engine.compiled.cache_folder import cache_root, problem_of_cache
from stanadapt.engine.compiled.shared_cache import SETTING, problem_of, shared_folder, shared_root
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.backends import BACKENDS, choose, stanli


def lines() -> list[str]:
    """Return the lines of the report, in the order in which problems are best fixed."""
    report = [f"{name} {version}" for name, version in toolchain.versions().items()]
    problem = problem_of_cache()
    report.append(f"cache: {cache_root()}{': NOT WRITTEN TO: ' if problem else ''}{problem}")
    report += _shared_cache()
    report += _backends()
    report.append(_embedded())
    report.append(_cmdstan())
    tree = toolchain.bridgestan_tree()
    report.append(f"BridgeStan's sources: {tree or 'not found (not needed)'}")
    missing = toolchain.compiler_problem()
    report.append(f"C++ compiler: {missing or toolchain.compiler()}")
    return report


def _shared_cache() -> list[str]:
    root = shared_root()
    if root is None or not os.environ.get(SETTING):
        return []
    problem = problem_of(root)
    if problem:
        return [f"shared cache: {root}: NOT USED: {problem}"]
    folder = shared_folder(machine_code.FOLDER)
    has_code = folder is not None and machine_code.has_code(folder)
    state = "" if has_code else ", but it has no code of this version of stanadapt"
    return [f"shared cache: {root}{state}"]


def _backends() -> list[str]:
    backend, reason = choose("auto")[0]
    report = [f"backend auto: {backend.name} ({reason})"]
    for name, other in BACKENDS.items():
        usable, why = other.availability()
        report.append(f"backend {name}: {'ready' if usable else 'not usable'}: {why}")
    return report


def _embedded() -> str:
    if not stanli.installed():
        return f"embedded backend: NOT INSTALLED: {stanli.MISSING}"
    try:
        stanli.self_test(force=True)
    except StanadaptError as error:
        return f"embedded backend: NOT USABLE: {error.message}"
    later = "" if stanli.installed() == stanli.VERSION else f"; guards are for {stanli.VERSION}"
    return f"embedded backend: its self-test passes{later}"


def _cmdstan() -> str:
    installed = toolchain.cmdstan()
    if installed:
        return f"CmdStan {installed.version} in {installed.path}"
    problem = toolchain.cmdstan_problem()
    state = f"not usable: {problem}" if problem else "not installed"
    return (
        f"CmdStan: {state}. Without it, stan_nuts runs the NUTS inside stanli. "
        "To install it: stanadapt install-cmdstan"
    )
