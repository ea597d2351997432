"""Draws, shape (chain, draw), against what is known of their law; known moments of programs."""

import json

import numpy as np

import stanadapt as sa
from stanadapt.results import arviz_module
from stanadapt.targets.stan import bundled

# E x and E x^2 of the two coordinates of the mixture of twenty (Nemeth et al. 2019)
TWENTY = ((4.478, 25.60468), (4.905, 33.91964))


def known_moments(program, data):
    """Return the exact moments that come with a bundled program."""
    return json.loads((bundled.ROOT / program / "known_moments.json").read_text())[data]


def load(program, data):
    """Return a bundled program on its data, and these data."""
    path, file = bundled.find(program, data)
    return sa.Target(path, file), json.loads(file.read_text())


def arrays(program, data=None):
    """Return a data set of a bundled program, with lists converted to arrays."""
    content = json.loads(bundled.find(program, data)[1].read_text())
    return {key: np.array(value) for key, value in content.items()}


def effective(draws):
    return float(arviz_module().ess(draws, method="mean"))


def surprise(draws, truth, sd=None):
    """Error of a mean in its Monte Carlo standard errors, given the standard deviation or not."""
    spread = draws.std(ddof=1) if sd is None else sd
    return (draws.mean() - truth) / spread * np.sqrt(effective(draws))


def surprise_of_runs(values, truth):
    """Error of a mean over independent runs, shape (run, draw), in standard errors, and these."""
    means = values.mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(len(means))
    return abs(means.mean() - truth) / error, error


def nearest(x, content):
    """Return the number of the mode of a bundled mixture that is nearest to each position."""
    return np.sum((x[..., None, :] - np.array(content["means"])) ** 2, axis=-1).argmin(axis=-1)


def surprise_of_share(draws, at, share):
    """Error of the share of draws below a number, in its Monte Carlo standard errors."""
    return surprise((draws < at).astype(float), share, np.sqrt(share * (1.0 - share)))
