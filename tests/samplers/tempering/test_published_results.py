"""Published results of pseudo-extended MCMC by the paper's recipe, which ours have to reach.

Nemeth et al. (2019), table 1 (b), five pseudo-samples: 20 runs of 50,000 draws. Ours are shorter
and spread more; they agree if they are within three joint standard errors, by Welch's test. Their
mean also has to be the exact one: the standard error comes from the chains themselves. Section 4.1
needs no sampling: theorem 2.1 is tested by quadrature.
"""

import numpy as np
import pytest
from scipy import stats

import stanadapt as sa
from stanadapt.targets.stan import bundled
from workflows.reproduction.agreement import Published, compare_with_spread
from workflows.tempering.mixture import Known, measured
from workflows.tempering.one_dim import on_grid
from workflows.tempering.published import MOMENTS, ONE_DIM, ONE_DIM_POOLED, TABLE
from workflows.tempering.runs import Length, recipe, run_length

CHAINS, LENGTH = 6, Length(500, 1_000)


@pytest.fixture(scope="module")
def known():
    return Known("twenty_variance")


@pytest.fixture(scope="module")
def rows(known):
    chains, _ = run_length(known.target, recipe(5), LENGTH, CHAINS, seed=3)
    return [measured(known, chain) for chain in chains]


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(len(MOMENTS)))
def test_moments_by_the_papers_recipe_are_the_published_and_the_exact_ones(moment, rows, known):
    values = np.array([row[MOMENTS[moment]] for row in rows])
    paper = TABLE["twenty_variance"]["PE5"]
    published = Published(paper.means[moment], paper.sds[moment], paper.repeats)
    assert compare_with_spread(values, published).verdict == "agrees"
    test = stats.ttest_1samp(values, known.moments[moment])
    assert test.pvalue > 2 * stats.norm.sf(3)


@pytest.mark.slow
def test_chains_are_as_precise_as_the_published_ones(rows):
    """Standard deviations as if draws were equally many: at most 3.3 times the paper's, by F."""
    paper = TABLE["twenty_variance"]["PE5"]
    scale = np.sqrt(LENGTH.draws / 50_000)
    largest = np.sqrt(stats.f.isf(stats.norm.sf(3), CHAINS - 1, paper.repeats - 1))
    assert largest == pytest.approx(2.7, abs=0.7)
    for moment, sd in zip(MOMENTS, paper.sds, strict=True):
        ours = np.std([row[moment] for row in rows], ddof=1)
        assert scale * ours < largest * sd


@pytest.mark.slow
def test_weights_give_the_exact_means_and_the_pooled_ratio_its_known_ones():
    """Theorem 2.1, two pseudo-samples and a Gaussian of variance 2, integrated on a grid.

    A step of 1 / 8 and a narrowest standard deviation of 0.14: the rule is off by e^-25 for smooth
    functions; the step at 0 cuts off less than 1e-4 of a density that is small there. The pooled
    ratio is known to three digits.
    """
    target = sa.Target(*bundled.find("mixture", "one_dim"), show_progress=False)
    means = on_grid(target, 128)[2].means()
    for name, exact in ONE_DIM.items():
        assert means["weighted"][name] == pytest.approx(exact, abs=1e-4)
        assert means["pooled"][name] == pytest.approx(ONE_DIM_POOLED[name], abs=6e-4)
    assert means["unweighted"]["E x^2"] == pytest.approx(1.53, abs=5e-3)
