"""Adaptive MCMC for Stan programs, side by side with NUTS, read in ArviZ.

A name is imported where it is first used: importing all of them takes seconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stanadapt.engine.compiled.garbage import not_collected

if TYPE_CHECKING:
    from stanadapt import samplers
    from stanadapt.diagnostics.compare import compare
    from stanadapt.diagnostics.modes import modes
    from stanadapt.diagnostics.summary import summary
    from stanadapt.errors import ConvergenceWarning, StanadaptError
    from stanadapt.results.formats import save
    from stanadapt.runs.generate import generate
    from stanadapt.runs.load import load
    from stanadapt.runs.prior import add_prior
    from stanadapt.runs.resume import resume
    from stanadapt.runs.sample import sample
    from stanadapt.runs.stan_nuts.stan_nuts import stan_nuts
    from stanadapt.samplers import check_sampler
    from stanadapt.studies.advise.advise import advise
    from stanadapt.studies.approximate.approximate import approximate
    from stanadapt.studies.calibration.sbc import sbc
    from stanadapt.studies.diagnose import diagnose
    from stanadapt.studies.expectations.expectations import expectations
    from stanadapt.studies.optimize import optimize
    from stanadapt.studies.repeats.compare_repeats import compare_repeats
    from stanadapt.studies.repeats.sample_many import sample_many
    from stanadapt.studies.report.report import report
    from stanadapt.targets.python_density import Density
    from stanadapt.targets.stan.tables import stan_data
    from stanadapt.targets.target import Target

# where each name is, within the package
_PLACES = {
    "ConvergenceWarning": "errors",
    "Density": "targets.python_density",
    "StanadaptError": "errors",
    "Target": "targets.target",
    "add_prior": "runs.prior",
    "advise": "studies.advise.advise",
    "approximate": "studies.approximate.approximate",
    "check_sampler": "samplers",
    "compare": "diagnostics.compare",
    "compare_repeats": "studies.repeats.compare_repeats",
    "diagnose": "studies.diagnose",
    "expectations": "studies.expectations.expectations",
    "generate": "runs.generate",
    "load": "runs.load",
    "modes": "diagnostics.modes",
    "optimize": "studies.optimize",
    "report": "studies.report.report",
    "resume": "runs.resume",
    "sample": "runs.sample",
    "sample_many": "studies.repeats.sample_many",
    "save": "results.formats",
    "sbc": "studies.calibration.sbc",
    "stan_data": "targets.stan.tables",
    "stan_nuts": "runs.stan_nuts.stan_nuts",
    "summary": "diagnostics.summary",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use: a function, a class, or a module of the package."""
    if name in _PLACES:
        with not_collected():
            return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    # name and obj let Python ask "Did you mean"
    text = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(text, name=name, obj=import_module(__name__))


def __dir__() -> list[str]:
    return [*globals(), *__all__]


__all__ = [
    "ConvergenceWarning",
    "Density",
    "StanadaptError",
    "Target",
    "add_prior",
    "advise",
    "approximate",
    "check_sampler",
    "compare",
    "compare_repeats",
    "diagnose",
    "expectations",
    "generate",
    "load",
    "modes",
    "optimize",
    "report",
    "resume",
    "sample",
    "sample_many",
    "samplers",
    "save",
    "sbc",
    "stan_data",
    "stan_nuts",
    "summary",
]
