"""A coordinate has the name of what moves with it, for every type, in messages and tables."""

import re
import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.studies.shape import measure_shape
from stanadapt.targets.coordinates import coordinates
from tests.helpers.coordinate_moves import misnamed
from tests.helpers.native_targets import EVERY_TYPE, SIZES
from tests.targets.stan.constructs import ALL, table
from tests.targets.stan.constructs.construct import INCLUDED

ROWS = table.read_table()
TAKEN = [name for name, row in ROWS.items() if row[table.EMBEDDED] == table.YES]
SINCE_236 = "array[2] sum_to_zero_vector[3] z; array[2] sum_to_zero_matrix[2, 3] zm;"


def test_every_type_has_the_names_of_what_moves():
    every = sa.Target(EVERY_TYPE.replace("parameters {", f"parameters {{ {SINCE_236}"), SIZES)
    assert misnamed(every) == []
    vectors = sa.Target("parameters { array[2] vector[3] b; } model { }")
    assert vectors.model.param_unc_names()[1] == "b.2.1"  # and stored as:
    assert vectors.coordinates[1].name == "b[1,2]"
    named = {coordinate.name: k for k, coordinate in enumerate(every.coordinates)}
    assert len(named) == every.dim
    found = [c.name for c in every.coordinates if c.variable in ("table", "many_Lv", "many_s")]
    assert found == [
        *("table[1,1]", "table[1,2]", "table[2,1]", "table[2,2]"),
        *("many_s[1,1]", "many_s[1,2]", "many_s[2,1]", "many_s[2,2]"),
        *("many_Lv[1,1,1]", "many_Lv[1,2,1]", "many_Lv[1,2,2]"),
        *("many_Lv[2,1,1]", "many_Lv[2,2,1]", "many_Lv[2,2,2]"),
    ]
    assert every.coordinates[named["matrices[2,1,3]"]].index == (2, 1, 3)


@pytest.mark.thorough
@pytest.mark.parametrize("name", TAKEN)
def test_programs_of_the_table_have_the_names_of_what_moves(name):
    every = sa.Target(ALL[name].code, ALL[name].data, include_paths=INCLUDED)
    assert misnamed(every) == []


def test_wrong_names_are_found_and_declarations_decide():
    every = sa.Target("parameters { array[2, 2] real b; array[2] simplex[3] s; } model { }")
    true = every.coordinates
    for i, j in ((1, 2), (5, 6)):
        swapped = list(true)
        swapped[i], swapped[j] = true[j], true[i]
        every.__dict__["coordinates"] = swapped
        assert {name for name, _ in misnamed(every)} == {true[i].name, true[j].name}
    bounds = "<lower=1e300>"
    far = sa.Target(
        f"parameters {{ array[2, 2] real{bounds} b; matrix{bounds}[2, 2] m; }} model {{ }}"
    )
    assert [c.name for c in far.coordinates] == [
        *("b[1,1]", "b[1,2]", "b[2,1]", "b[2,2]"), *("m[1,1]", "m[2,1]", "m[1,2]", "m[2,2]"),
    ]  # fmt: skip


def test_parts_of_tuples_and_of_complex_numbers():
    """As Stan 2.35 lists and stores them; the embedded backend has neither."""
    listed = ["at.1.1:1", "at.1.1:2.1", "at.1.1:2.2", "at.2.1:1", "at.2.1:2.1", "at.2.1:2.2"]
    listed += [name.replace("at.1.1", "at.1.2").replace("at.2.1", "at.2.2") for name in listed]
    listed += ["z.1.1.real", "z.1.1.imag", "z.2.1.real", "z.2.1.imag", "z.1.2.real", "z.1.2.imag"]
    stored = [name for first in "12" for second in "12" for name in listed
              if name.startswith(f"at.{first}.{second}")]  # fmt: skip
    stored += ["z.1.1.real", "z.1.1.imag", "z.1.2.real", "z.1.2.imag", "z.2.1.real", "z.2.1.imag"]

    def constrain(position):
        return np.array([dict(zip(stored, position, strict=True))[name] for name in listed])

    assert [c.name for c in coordinates(listed, listed, constrain, {"z": 2})] == stored


def test_many_coordinates_take_few_moves():
    calls = []

    def constrain(position):
        calls.append(0)
        return position.reshape(64, 64).T.ravel()

    names = [f"b.{i}.{j}" for j in range(1, 65) for i in range(1, 65)]
    found = coordinates(names, names, constrain, {})
    assert found[1].name == "b[1,2]"
    assert len(calls) < 40


def warned(code, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = sa.sample(sa.Target(code), "whitened_hmc", seed=1, chains=2, **options)
    return fit, "\n".join(str(w.message) for w in caught)


def test_elements_of_arrays_are_named_in_warnings():
    elements = "b[1,1] ~ normal(0, 1); b[2,1] ~ normal(0, 1); b[2,2] ~ normal(0, 1);"
    _, text = warned(
        f"parameters {{ array[2, 2] real b; }} model {{ {elements} }}",
        iter_warmup=200, iter_sampling=50,
    )  # fmt: skip
    assert "the gradient did not change with b[1,2]:" in text
    _, text = warned(
        "parameters { array[2, 2] real b; } model { b[1, 2] ~ uniform(0.5, 4); "
        "for (i in 1:2) b[i] ~ normal(0, 1); }",
        iter_warmup=200, iter_sampling=200, inits={"b": [[1, 1], [1, 1]]},
    )  # fmt: skip
    assert "b[1,2]" in text
    assert "b[2,1]" not in text


@pytest.mark.slow
def test_straightened_elements_of_an_array_of_vectors_are_named():
    fit, _ = warned(
        "parameters { real v; array[2] vector[3] x; } "
        "model { v ~ normal(0, 3); x[1] ~ normal(0, exp(v / 2)); x[2] ~ std_normal(); }",
        iter_warmup=300, iter_sampling=100,
    )  # fmt: skip
    assert "x[1,1], x[1,2] and x[1,3] scale with v" in fit.attrs["straightening"]


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
