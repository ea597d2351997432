"""What the embedded backend takes is right, and what it refuses is answered with what helps."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError, StanadaptWarning, all_codes
from tests.targets.stan.constructs import ALL, CHAPTERS, table
from tests.targets.stan.constructs.check import Part, fault, merge, parts_of
from tests.targets.stan.constructs.construct import INCLUDED, Construct, with_prior, x_in_model

ROWS = table.read_table()
TAKEN = [name for name, row in ROWS.items() if row[table.EMBEDDED] == table.YES]
REFUSED = [name for name in ROWS if name not in TAKEN]
LEADS = ("stanadapt install-cmdstan", "stanc --print-canonical")


def test_the_table_has_every_construct_and_no_empty_cell():
    assert list(ROWS) == list(ALL)
    assert len(ALL) == sum(map(len, CHAPTERS.values()))  # no name occurs twice
    for name, row in ROWS.items():
        assert (row["since"], row["until"]) == (ALL[name].since, ALL[name].until)
    codes = {table.YES, *all_codes()}
    for name, row in ROWS.items():
        assert {row[column] for column in table.FIELDS[4:]} <= codes, name


@pytest.mark.thorough
@pytest.mark.parametrize("name", TAKEN)
def test_values_and_gradients_are_right(name):
    construct = ALL[name]
    target = sa.Target(construct.code, construct.data, include_paths=INCLUDED)
    assert fault(construct, Part(target, 0, target.dim)) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_the_one_in_the_table_and_leads_somewhere(name, computer):
    with pytest.raises((StanadaptError, StanadaptWarning)) as caught:
        sa.Target(ALL[name].code, ALL[name].data, include_paths=INCLUDED)
    assert caught.value.code == ROWS[name][table.EMBEDDED]
    assert any(lead in str(caught.value) for lead in LEADS), caught.value


SINE = Construct("sine", x_in_model("target += sin(x);"), with_prior(lambda x, v: np.sin(x)))


@pytest.mark.parametrize(("right", "wrong"), [
    ({}, {"log_density": with_prior(lambda x, v: np.sin(x) + 1e-7 * x)}),
    ({}, {"of_position": lambda u: 1e-7 * u[0]}), ({}, {"quantities": lambda p: False}),
    ({"free": lambda p: np.r_[p["x"], p["v"]]}, {"free": lambda p: np.r_[p["x"] ** 3, p["v"]]}),
])  # fmt: skip
def test_a_small_fault_is_found(right, wrong):
    target = sa.Target(SINE.code, {})
    part = Part(target, 0, target.dim)
    assert fault(SINE._replace(**right), part) == ""
    assert fault(SINE._replace(**wrong), part) != ""


def test_a_wrong_gradient_is_found():
    target = sa.Target(SINE.code, {})

    class Skewed(Part):
        def gradient(self, u):
            return super().gradient(u) * (1 + 1e-5)

    assert "gradient" in fault(SINE, Skewed(target, 0, target.dim))


def test_a_merged_program_has_the_densities_of_its_parts():
    chapters = ("types and transforms", "indexing", "distributions")
    some = [c for chapter in chapters for c in CHAPTERS[chapter] if c.name in TAKEN][::3]
    some.append(ALL["_lpdf and _lpmf of the user"])  # functions are renamed too
    code, data = merge(some)
    target = sa.Target(code, data)
    for construct, part in zip(some, parts_of(target, len(some)), strict=True):
        assert fault(construct, part) == "", construct.name
