"""The experiments of the papers, each with the results that it reproduces and its duration.

Durations were measured on two cores, those of `quick` on busy ones; None means not measured. The
experiment `stanadapt paper gad-neal` is the module `python -m workflows.gad.neal`.
"""

from typing import NamedTuple


class Experiment(NamedTuple):
    """A workflow: its module below `workflows`, the results it reproduces, durations in words."""

    module: str
    reproduces: str
    duration: str | None
    quick: str | None

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.module.replace(".", "-").replace("_", "-")

    def takes(self, quick: bool = False) -> str:
        """Return the duration in words, that of a quick run if asked for."""
        return (self.quick if quick else self.duration) or "not measured"


EXPERIMENTS = (
    Experiment(
        "gad.gaussians", "Titsias and Dellaportas (2019), figure 1: the L that is learned",
        "a minute", "a few seconds",
    ),
    Experiment(
        "gad.rejections", "the same: adaptation while every proposal is rejected, compared with AM",
        "half a minute", "a few seconds",
    ),
    Experiment(
        "gad.neal", "the same, table 1 and figures 2 and 3: Neal's 100-dimensional Gaussian",
        "a few minutes", "a minute",
    ),
    Experiment(
        "gad.logistic",
        "the same, tables 1 to 6, figures 4 and 5: Bayesian logistic regression", None, "a minute",
    ),
    Experiment(
        "gad.digits",
        "the same, table 7, figures 6 and 7: 785 dimensions, 1,000 handwritten digits, after "
        "`pip install 'stanadapt[data]'`; also memory and the cost of an iteration", None, None,
    ),
    Experiment(
        "kameleon.synthetic",
        "Sejdinovic et al. (2014), synthetic experiments: bananas and flower",
        "5 to 10 minutes", "half a minute",
    ),
    Experiment(
        "kameleon.glass", "the same, Gaussian process classification of Glass",
        "half an hour on two idle cores", None,
    ),
    Experiment(
        "kameleon.glass_slice",
        "the same, slice of the posterior of Glass, and its sharpness given latent values",
        "one to three minutes", "half a minute",
    ),
    Experiment(
        "kameleon.glass_gibbs",
        "the same, Glass: Gibbs steps between scales and latent values against joint steps",
        "a minute", "a few seconds",
    ),
    Experiment(
        "tempering.one_dim", "Nemeth et al. (2019), figures 1 and 2: two Gaussians on a line",
        "a minute", None,
    ),
    Experiment(
        "tempering.mixture", "the same, table 1, figures 3 and 7: twenty Gaussians in the plane",
        "48 minutes on two busy cores", None,
    ),
    Experiment(
        "tempering.recipe_table",
        "the same, table 1 and figure 7 by the paper's recipe with 2 to 20 pseudo-samples",
        "hours at the paper's lengths", "half a minute",
    ),
    Experiment(
        "tempering.published_settings",
        "the same, table 1 and figure 5: rivals with the ladders and settings of their papers",
        "a few minutes", "half a minute",
    ),
    Experiment(
        "tempering.boltzmann", "the same, figures 4, 5 and 8: a Boltzmann machine of 28 spins",
        "15 minutes on two busy cores", None,
    ),
    Experiment(
        "tempering.horseshoe",
        "the same, figures 6 and 9: a horseshoe regression in 403 dimensions, on other data",
        "about ten minutes", None,
    ),
    Experiment(
        "tempering.curved", "the same, figure 10: the banana and the flower in the plane",
        "a few minutes", None,
    ),
    Experiment(
        "learned.hvi_bound",
        "Hamiltonian variational inference: bound and evidence against the number of transitions",
        None, None,
    ),
    Experiment(
        "learned.sgld",
        "stochastic gradients: variance against the step size and in closed form, bias on a "
        "regression", None, None,
    ),
    Experiment(
        "learned.nice_2d",
        "Song, Zhao and Ermon (2017), table 1: A-NICE-MC on ring, two and six Gaussians, five "
        "rings", "three to ten minutes", None,
    ),
    Experiment(
        "learned.nice_logistic",
        "the same, table 2: German credit and Heart, with smaller networks, or your own file; "
        "and Pima",
        "five minutes per data set", None,
    ),
    Experiment(
        "learned.reinforce",
        "the same: normal proposals of a network, trained by REINFORCE, do not cross between modes",
        "a minute", None,
    ),
    Experiment(
        "learned.variational_mcmc",
        "de Freitas et al. (2001): approximations and moves of variational MCMC, on Pima and "
        "German", "one to three minutes", None,
    ),
    Experiment(
        "learned.integrators",
        "Euler, symplectic Euler and leapfrog: phase space, order, volume, reversibility",
        "a few seconds", "15 seconds",
    ),
    Experiment(
        "learned.exact_paths",
        "random walk on a correlated Gaussian; oscillator and puck compared with their exact paths",
        "a few seconds", "a few seconds",
    ),
)  # fmt: skip
