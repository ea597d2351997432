"""The installed release of Stan takes what the table says, and its values are right."""

import pytest

import stanadapt as sa
from stanadapt.targets.stan.backends import refusals
from stanadapt.targets.stan.program import read
from tests.helpers.coordinate_moves import misnamed
from tests.targets.stan.constructs import ALL, CHAPTERS, table
from tests.targets.stan.constructs.check import fault, merge, parts_of
from tests.targets.stan.constructs.construct import INCLUDED

pytestmark = pytest.mark.cmdstan

ROWS = table.read_table()
FAULTY = sorted(name for name, _ in table.FAULTS)


def numbers(release):
    return tuple(map(int, release.split(".")))


def accepted(installed, construct):
    return not refusals.refused_by(installed, read(construct.code, [INCLUDED]))


@pytest.fixture
def installed():
    return table.toolchain.require_cmdstan()


def test_the_compiler_accepts_constructs_of_its_release(installed):
    """Milliseconds for each; `since` and `until` also predict releases without a column."""
    release = numbers(table.installed_release())
    for name, construct in ALL.items():
        expected = (not construct.since or release >= numbers(construct.since)) and (
            not construct.until or release <= numbers(construct.until)
        )
        assert accepted(installed, construct) == expected, name


def test_the_column_of_the_release_is_right(installed):
    release = table.installed_release()
    if release in table.FIELDS:
        cells = {name: table.compiled(construct) for name, construct in ALL.items()}
        assert cells == {name: row[release] for name, row in ROWS.items()}


@pytest.mark.soak
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_values_of_a_chapter_are_right(installed, chapter):
    """One compilation, of several minutes, for all constructs of a chapter."""
    some = [c for c in CHAPTERS[chapter] if table.compiled(c) == table.YES]
    code, data = merge(some)
    target = sa.Target(code, data, backend="cmdstan", unsafe=True)
    assert misnamed(target) == []
    for construct, part in zip(some, parts_of(target, len(some)), strict=True):
        assert fault(construct, part) == "", construct.name


@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTY)
def test_a_wrong_density_is_an_error(installed, name):
    cell = ROWS[name].get(table.installed_release(), table.YES)
    if cell != table.YES:
        with pytest.raises(sa.StanadaptError) as caught:
            sa.Target(ALL[name].code, ALL[name].data, backend="cmdstan")
        assert caught.value.code == cell
