"""Presets of samplers for many modes, on the targets of their papers: the published numbers.

Nemeth et al. (2019), table 1, has repelling-attracting Metropolis, the equi-energy sampler and
parallel tempering, each over 20 runs of 50,000 draws; their poster has errors of means on a
Boltzmann machine, medians of ten runs of 10,000 draws. Means agree within three joint standard
errors, by Welch's test; standard deviations, as if draws were equally many, are no larger than the
published ones by F, at the same level. Theorem 2.1 is tested by quadrature.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import stanadapt as sa
from stanadapt.targets.stan import bundled
from tests.helpers.seldom_parameters import soak_except
from workflows.reproduction.agreement import Published, compare_with_spread, limit
from workflows.reproduction.recorded import runs
from workflows.tempering import boltzmann, mixture
from workflows.tempering.one_dim import on_grid
from workflows.tempering.published import (
    BOLTZMANN,
    BOLTZMANN_LOG_Z,
    ITERATIONS,
    MOMENTS,
    OF_SD,
    ONE_DIM,
    ONE_DIM_POOLED,
    TABLE,
)
from workflows.tempering.published_settings import (
    ON_MACHINES,
    ON_MIXTURES,
    POSTER_DRAWS,
    SYSTEM,
    length_of,
)
from workflows.tempering.runs import Length, pseudo, recipe, run_length
from workflows.tempering.section import machines
from workflows.tempering.section_tables import root_mean_square, spread_of_logarithms

CHAINS, DRAWS = 6, 10_000
PRESETS = {**ON_MIXTURES, "PE2": pseudo(2, preset="nemeth2019"), "PE5": recipe(5)}
SHORTER = {"PE5": Length(500, 1_000)}


@pytest.fixture(scope="module")
def system():
    return boltzmann.known(SYSTEM, 1)


def scenario_of(name):
    """Return the target of scenario (b) to which a published row belongs."""
    return "twenty_sd" if name in OF_SD else "twenty_variance"


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_moments_and_their_spread_on_twenty_gaussians(name):
    scenario = scenario_of(name)
    known, paper = mixture.Known(scenario), TABLE[scenario][name]
    length = SHORTER.get(name, Length(None, DRAWS))
    chains, _ = run_length(known.target, PRESETS[name], length, CHAINS, seed=7)
    rows = [mixture.measured(known, chain) for chain in chains]
    scale = np.sqrt(length.draws / ITERATIONS)
    largest = np.sqrt(stats.f.isf(stats.norm.sf(3), CHAINS - 1, paper.repeats - 1))
    for i, moment in enumerate(MOMENTS):
        ours = np.array([row[moment] for row in rows])
        published = Published(paper.means[i], paper.sds[i], paper.repeats, known.moments[i])
        assert compare_with_spread(ours, published).verdict in ("agrees", "better"), moment
        assert scale * ours.std(ddof=1) < largest * paper.sds[i], moment


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", soak_except(set(ON_MACHINES) - {"simulated tempering"}, ON_MACHINES)
)
def test_evidence_and_errors_on_a_boltzmann_machine(name, system):
    """The authors' log evidence, 0.01 from the exact one, and the error of the means.

    Errors are compared in logarithms, with the standard deviation of all methods on the page; that
    of annealed importance sampling is published for an unknown number of particles.
    """
    length = length_of(name, POSTER_DRAWS)
    chains, _ = run_length(system.target, ON_MACHINES[name], length, CHAINS, seed=7)
    rows = [boltzmann.measured(system, chain) for chain in chains]
    evidence = np.array([row["log_evidence"] for row in rows])
    error = evidence.std(ddof=1) / np.sqrt(CHAINS)
    assert error < 0.3
    # the largest t of five degrees of freedom at the level of three standard errors
    assert abs(evidence.mean() - BOLTZMANN_LOG_Z) < limit(CHAINS) * error + 0.012
    if name == "simulated tempering":
        spread = spread_of_logarithms(machines(runs("tempering")))
        ours = pd.Series([row["rmse"] for row in rows])
        one = root_mean_square(ours, BOLTZMANN[name], spread)
        assert one.verdict in ("agrees", "better"), one


@pytest.mark.slow
def test_weights_give_the_exact_means_and_the_pooled_ratio_its_known_ones():
    """Theorem 2.1, two pseudo-samples and a Gaussian of variance 2, integrated on a grid.

    A step of 1 / 8 and a narrowest standard deviation of 0.14: the rule is off by e^-25 for smooth
    functions; the step at 0 cuts off less than 1e-4 of a density that is small there. The pooled
    ratio is known to three digits.
    """
    target = sa.Target(*bundled.find("mixture", "one_dim"))
    means = on_grid(target, 128)[2].means()
    for name, exact in ONE_DIM.items():
        assert means["weighted"][name] == pytest.approx(exact, abs=1e-4)
        assert means["pooled"][name] == pytest.approx(ONE_DIM_POOLED[name], abs=6e-4)
    assert means["unweighted"]["E x^2"] == pytest.approx(1.53, abs=5e-3)
