"""People read elements of vectors as `eta[2]`, in every message, attribute and table."""

import re
import warnings

import pytest

import stanadapt as sa
from stanadapt.studies.shape import measure_shape

FLAT = """
parameters { vector[3] eta; matrix[2, 2] m; }
model { eta[1] ~ normal(0, 1); eta[3] ~ normal(0, 2); to_vector(m[1]) ~ normal(0, 1); }
"""
FUNNEL = """
parameters { vector[2] log_scale; vector[6] x; }
model { log_scale ~ normal(0, 1.5); x ~ normal(0, exp(log_scale[2])); }
"""
DOTTED = re.compile(r"\b(?:eta|m|x|log_scale)\.\d")


@pytest.fixture(scope="module")
def flat():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = sa.sample(
            sa.Target(FLAT), "whitened_hmc", seed=1, chains=2, iter_warmup=200, iter_sampling=50,
        )  # fmt: skip
    return fit, [str(w.message) for w in caught]


def test_warnings_name_the_elements_without_a_prior(flat):
    fit, messages = flat
    (about,) = [text for text in messages if "the gradient did not change" in text]
    assert all(name in about for name in ("eta[2]", "m[2,1]", "m[2,2]"))
    assert [
        text for text in [*messages, *map(str, fit.attrs.values())] if DOTTED.search(text)
    ] == []


def test_the_noncentered_form_of_a_vector_names_its_scale():
    centered = sa.Target(FUNNEL)
    fit = sa.sample(centered, "whitened_hmc", seed=1, chains=2, iter_warmup=300, iter_sampling=300)
    shape = measure_shape(centered, fit)
    text = "\n".join([*map(str, shape.messages), str(fit.attrs.get("straightening"))])
    assert "x[1..6] scale with log_scale[2]" in text
    assert "vector[6] x = exp(log_scale[2]) * x_raw" in text
    assert not DOTTED.search(text)
