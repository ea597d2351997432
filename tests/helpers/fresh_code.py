"""Functions as a new process has them, with nothing compiled: what they give, what was loaded."""

from numba import njit

from stanadapt.engine.compiled.machine_code import MachineCode


def odd(x):
    """Return an odd number for a whole one."""
    return 2 * x + 1


def fresh(function=odd, **options):
    """Return a compiled function that has no code yet."""
    compiled = njit(function)
    compiled._cache = MachineCode(function, options)
    return compiled


def hits(function):
    """Return how many pieces of code of a function came from a cache."""
    return sum(function.stats.cache_hits.values())


def called(*arguments, function=odd, **options):
    """Return what a fresh function gives for each argument, and how much of its code was kept."""
    compiled = fresh(function, **options)
    return (*map(compiled, arguments), hits(compiled))
