"""Adaptive MCMC for Stan programs, side by side with NUTS, read in ArviZ.

A name is imported where it is first used: importing all of them takes seconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stanadapt import samplers
    from stanadapt.diagnostics.compare import compare
    from stanadapt.diagnostics.diagnose import diagnose
    from stanadapt.diagnostics.modes import modes
    from stanadapt.diagnostics.report.report import report
    from stanadapt.diagnostics.verdict import verdict
    from stanadapt.diagnostics.weighted_summary import weighted_summary
    from stanadapt.errors import ConvergenceWarning, StanadaptError
    from stanadapt.kernels.learned.network import Network
    from stanadapt.kernels.tempering.reference_distribution import ReferenceDistribution
    from stanadapt.results.files import save
    from stanadapt.sampling.advice.advise import advise
    from stanadapt.sampling.approximation.approximate import approximate
    from stanadapt.sampling.approximation.fit_reference import fit_reference
    from stanadapt.sampling.calibration.sbc import sbc
    from stanadapt.sampling.check_sampler import check_sampler
    from stanadapt.sampling.learned.train_nice import train_nice
    from stanadapt.sampling.repeats.compare_repeats import compare_repeats
    from stanadapt.sampling.sample import sample
    from stanadapt.sampling.saved_run.partial import load
    from stanadapt.sampling.saved_run.resume import resume
    from stanadapt.sampling.stan_nuts.stan_nuts import stan_nuts
    from stanadapt.sampling.stan_nuts.stan_nuts import stan_nuts as reference
    from stanadapt.targets.labels import Labels
    from stanadapt.targets.minibatches import Minibatches
    from stanadapt.targets.posteriordb import posteriordb
    from stanadapt.targets.pseudo_extended import Extended
    from stanadapt.targets.target import Target

# where each name is, within the package
_PLACES = {
    "ConvergenceWarning": "errors",
    "Extended": "targets.pseudo_extended",
    "Labels": "targets.labels",
    "Minibatches": "targets.minibatches",
    "Network": "kernels.learned.network",
    "ReferenceDistribution": "kernels.tempering.reference_distribution",
    "StanadaptError": "errors",
    "Target": "targets.target",
    "advise": "sampling.advice.advise",
    "approximate": "sampling.approximation.approximate",
    "check_sampler": "sampling.check_sampler",
    "compare": "diagnostics.compare",
    "compare_repeats": "sampling.repeats.compare_repeats",
    "diagnose": "diagnostics.diagnose",
    "fit_reference": "sampling.approximation.fit_reference",
    "load": "sampling.saved_run.partial",
    "modes": "diagnostics.modes",
    "posteriordb": "targets.posteriordb",
    "report": "diagnostics.report.report",
    "resume": "sampling.saved_run.resume",
    "sample": "sampling.sample",
    "save": "results.files",
    "sbc": "sampling.calibration.sbc",
    "stan_nuts": "sampling.stan_nuts.stan_nuts",
    "train_nice": "sampling.learned.train_nice",
    "verdict": "diagnostics.verdict",
    "weighted_summary": "diagnostics.weighted_summary",
}
_FORMER = {"reference": "stan_nuts", "ReferenceLaw": "ReferenceDistribution"}  # names in 0.1


def __getattr__(name: str) -> Any:
    """Import a name at its first use: a function, a class, or a module of the package."""
    if name == "ReferenceLaw":
        from stanadapt.samplers.renamed import warn_of_old_name

        warn_of_old_name("stanadapt.ReferenceLaw", "stanadapt.ReferenceDistribution")
    current = _FORMER.get(name, name)
    if current in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[current]}"), current)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]


__all__ = [
    "ConvergenceWarning",
    "Extended",
    "Labels",
    "Minibatches",
    "Network",
    "ReferenceDistribution",
    "StanadaptError",
    "Target",
    "advise",
    "approximate",
    "check_sampler",
    "compare",
    "compare_repeats",
    "diagnose",
    "fit_reference",
    "load",
    "modes",
    "posteriordb",
    "reference",
    "report",
    "resume",
    "sample",
    "samplers",
    "save",
    "sbc",
    "stan_nuts",
    "train_nice",
    "verdict",
    "weighted_summary",
]
