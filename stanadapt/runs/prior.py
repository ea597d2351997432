"""The prior as groups of a result, from the same program under data without observations.

Parameters are drawn under these data. What is computed from them is computed under the data of the
posterior, so that predictions have the shapes of the observations.
"""

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.verdict import FINE
from stanadapt.engine.plan import LARGEST_SEED, Plan
from stanadapt.errors import StanadaptError, warn
from stanadapt.results.labels import named_dimensions, phase_groups
from stanadapt.targets.target import Target

# names of the groups in ArviZ
GROUPS = {
    "posterior": "prior",
    "posterior_predictive": "prior_predictive",
    "sample_stats": "sample_stats_prior",
}
# tells the seed of the prior from those of chains
STREAM = 0x7072696F72


def with_prior(
    fit: Any, target: Target, data: str | None, plan: Plan, draw: Callable[..., Any]
) -> Any:
    """Add the prior to a result, drawn by the default sampler in as many chains.

    An interrupted result is left as it is. So is one whose prior cannot be drawn: its draws count
    for more, and a sentence says what went wrong.

    Parameters
    ----------
    fit
        The result.
    target, data
        Of the posterior; JSON under which the program is the prior, or None: no prior is wanted.
    plan
        Of the run: chains, seed, and whether to show progress.
    draw
        The function `sample`.

    """
    if data is None or results.attribute(fit, "interrupted", 0) == 1:
        return fit
    try:
        prior = _drawn(target, data, plan, draw)
        groups = _groups(target, prior, _seeds(plan)[1])
    except KeyboardInterrupt:
        _told(fit, "the prior was not drawn: interrupted.")
        return fit
    except StanadaptError as error:
        _told(fit, f"the prior could not be drawn. {error.message}")
        return fit
    results.add_groups(fit, groups, **named_dimensions(target.labels))
    verdict = results.attribute(prior, "verdict")
    fit.attrs["prior_verdict"] = verdict
    if verdict != FINE:
        reasons = " ".join(results.from_json(prior, "verdict_reasons", []))
        _told(fit, f"the draws in the group prior: {verdict}. {reasons}")
    return fit


def _seeds(plan: Plan) -> tuple[int, int]:
    words = np.random.SeedSequence([plan.seed, STREAM]).generate_state(2, np.uint32)
    return int(words[0]) % LARGEST_SEED, int(words[1]) % LARGEST_SEED


def _drawn(target: Target, data: str, plan: Plan, draw: Callable[..., Any]) -> Any:
    with warnings.catch_warnings():  # one sentence tells of the verdict
        warnings.simplefilter("ignore")
        return draw(
            target.with_prior_data(data), chains=plan.chains, seed=_seeds(plan)[0],
            parallel_chains=plan.parallel_chains, save_unconstrained=True,
            show_progress=plan.show_progress,
        )  # fmt: skip


def _groups(target: Target, prior: Any, seed: int) -> results.Groups:
    """Groups of the prior, under their names in ArviZ."""
    positions = results.dataset(prior, "unconstrained_posterior")["position"].values
    chains, draws, _ = positions.shape
    constrained = np.empty((chains, draws, len(target.column_names)))
    for chain, (own, out) in enumerate(zip(positions, constrained, strict=True)):
        target.constrainer(seed, chain)(np.ascontiguousarray(own), out)
    named = results.variables(target.column_names, constrained)
    held = results.dataset(prior, "sample_stats")
    stats = {str(name): values.values for name, values in held.data_vars.items()}
    groups = phase_groups(target.labels, "", named, stats)
    return {GROUPS[name]: group for name, group in groups.items() if name in GROUPS}


def _told(fit: Any, sentence: str) -> None:
    """Warn of something, and record it among the notes."""
    warn(sentence)
    notes = [*results.from_json(fit, "notes", []), sentence]
    fit.attrs["notes"] = json.dumps(notes)
