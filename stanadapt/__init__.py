"""Adaptive MCMC for Stan programs, side by side with NUTS, read in ArviZ."""

from typing import Any

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
from stanadapt.results import save
from stanadapt.samplers.renamed import warn_of_old_name
from stanadapt.sampling.advice.advise import advise
from stanadapt.sampling.approximation.approximate import approximate
from stanadapt.sampling.calibration.sbc import sbc
from stanadapt.sampling.check_sampler import check_sampler
from stanadapt.sampling.learned.train_nice import train_nice
from stanadapt.sampling.repeats.compare_repeats import compare_repeats
from stanadapt.sampling.sample import sample
from stanadapt.sampling.saved_run.partial import load
from stanadapt.sampling.saved_run.resume import resume
from stanadapt.sampling.stan_nuts.stan_nuts import stan_nuts
from stanadapt.targets.labels import Labels
from stanadapt.targets.pseudo_extended import Extended
from stanadapt.targets.target import Target

reference = stan_nuts  # its name in 0.1


def __getattr__(name: str) -> Any:
    """Return what has another name now."""
    if name == "ReferenceLaw":
        warn_of_old_name("stanadapt.ReferenceLaw", "stanadapt.ReferenceDistribution")
        return ReferenceDistribution
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ConvergenceWarning",
    "Extended",
    "Labels",
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
    "load",
    "modes",
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
