"""Small programs, some of which throw, and short runs of them."""

import stanadapt as sa
from stanadapt import results

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
# the density throws where x < -0.43: a third of the standard normal's mass
WALL = """
parameters { real x; }
model { x ~ normal(0, 1); target += 0 * normal_lpdf(0 | 0, x + 0.43); }
"""
THROWING_QUANTITY = """
parameters { real x; }
model { x ~ normal(0, 1); }
generated quantities { real z = normal_rng(0, x + 0.5); }
"""
# finite on |x| < 1e-6 only
PIN = "parameters { real x; } model { target += normal_lpdf(0 | 0, 1e-12 - square(x)); }"
# gad_mala moves at once with these: short runs have moves and rejections
LIVELY = {"initial_scale": 1.5, "learning_rate": 1e-3}
SHORT = {"chains": 2, "iter_warmup": 30, "iter_sampling": 40, "seed": 11, "show_progress": False}


def draw(target, sampler="gad_mala", **changes):
    """Run a sampler briefly."""
    chosen = SHORT | (LIVELY if sampler == "gad_mala" else {}) | changes
    return sa.sample(target, sampler, **chosen)


def values(fit, name, group="posterior"):
    """Return a variable of a result as an array."""
    return results.dataset(fit, group)[name].values
