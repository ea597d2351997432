"""Sections of the page of reproductions besides that of gradient-based adaptive MCMC."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from workflows.kameleon import section as kameleon
from workflows.learned import exact_paths, lecture_section, nice_section
from workflows.learned.published import REGRESSIONS
from workflows.reproduction import page
from workflows.reproduction.recorded import joined, runs
from workflows.reproduction.section import STATUSES
from workflows.tempering import cost_figures, section_tables
from workflows.tempering import section as tempering
from workflows.tempering.mixture import Known
from workflows.tempering.published import BOLTZMANN, BOLTZMANN_FIXED, MOMENTS, TABLE

# numbers of the items of each source, in the order of the page
ITEMS = ((1, 37), (38, 58), (59, 82), (83, 100), (101, 130))


@pytest.fixture(scope="module")
def sections():
    return page.sections()


@pytest.fixture(scope="module")
def estimates():
    return tempering.estimates(runs("tempering"))


def comparisons(rows, scenario):
    """Yield each method of table 1 with its comparisons."""
    exact = Known(scenario).moments
    for name, known in TABLE[scenario].items():
        method = section_tables.RIVALS[name]
        lines = rows[(rows["scenario"] == scenario) & (rows["method"] == method)]
        if len(lines):
            yield method, lines, section_tables.moments(lines, known, exact)


SUFFIXES = (
    "recipe_table", "mixture", "published_settings", "boltzmann", "horseshoe", "one_dim", "curved",
)  # fmt: skip


def test_items_and_figures_are_counted_and_the_lecture_agrees(sections):
    assert [(s.items[0].number, s.items[-1].number) for s in sections] == list(ITEMS)
    assert sum(len(s.items) for s in sections) == 130
    counts = Counter(item.status for s in sections for item in s.items)
    (last,) = re.findall(r"^\| all sources \| (.*) \|$", page.text(), re.M)
    assert last.split(" | ")[-4:] == [str(counts[status]) for status in STATUSES]
    names = [figure.name for section in sections for figure in section.figures]
    assert len(set(names)) == len(names)
    (lecture,) = [s for s in sections if s.title == lecture_section.TITLE]
    assert Counter(c for table in lecture.tables for c in table.classes).keys() == {"agrees"}
    tables = re.findall(r"(?:^\|.*\n?)+", page.text(), re.M)
    assert len(tables) > 30
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table


def test_runs_have_the_repeats_and_draws_that_they_say():
    for run in runs("tempering"):
        for suffix in SUFFIXES:
            path = run.folder / f"{suffix}.csv"
            if path.is_file():
                rows = pd.read_csv(path)
                keys = [name for name in ("scenario", "target", "method") if name in rows]
                counts = rows.groupby(keys)["repeat"].nunique()
                assert (counts == run.made["settings"]["repeats"]).all(), run.name
    found = [run for run in runs("tempering") if "recipe" in run.name]
    assert found
    for run in found:
        rows = run.table("recipe_table")
        assert (rows["draws"] == run.made["settings"]["draws"]).all()
        assert set(rows["pseudo_samples"]) == set(run.made["settings"]["counts"])


def test_moments_on_the_page_are_those_of_the_chains(estimates):
    text = page.text()
    for scenario in TABLE:
        for _, lines, _ in comparisons(estimates, scenario):
            for moment in MOMENTS:
                mean, sd = lines[moment].mean(), lines[moment].std()
                assert f"{mean:.3f} ({sd:.3f})" in text


def test_each_row_of_the_paper_has_ours_and_a_reason_if_they_differ(estimates):
    machine = tempering.machines(runs("tempering"))
    differing = set()
    for scenario, published in TABLE.items():
        found = list(comparisons(estimates, scenario))
        assert len(found) == len(published)
        for method, _, compared in found:
            if section_tables.class_of(compared) == "differs":
                differing.add((scenario, method))
    known = {section_tables.MACHINES[name]: value for name, value in BOLTZMANN.items()}
    known |= {f"NUTS, b = {b}": value for b, value in BOLTZMANN_FIXED.items()}
    for method, value in known.items():
        lines = machine[machine["method"] == method]
        assert len(lines)
        pooled = section_tables.spread_of_logarithms(machine)
        if section_tables.root_mean_square(lines["rmse"], value, pooled).verdict == "differs":
            differing.add(("boltzmann", method))
    assert differing == set(section_tables.REASONS)


def test_spreads_and_errors_on_a_slope():
    """12,500 draws of sd 2 are like 50,000 of sd 1; the paper's are 0.5 and 4."""
    values = np.array([-1.0, 1.0]) * np.sqrt(2)
    lines = pd.DataFrame(dict.fromkeys(MOMENTS, values) | {"draws": [12_500] * 2})
    known = TABLE["twenty"]["PE2"]._replace(sds=(0.5, 4.0, 1.0, 1.0))
    assert section_tables.spread_ratio(lines, known) == "0.25 to 2"
    assert lecture_section.expected_error("puck on a slope", "leapfrog", 12.0) == 0
    euler = lecture_section.expected_error("puck on a slope", "Euler", 12.0)
    assert euler == pytest.approx(0.5 * exact_paths.SLOPE * exact_paths.STEP * 12.0)
    assert np.isnan(lecture_section.expected_error("oscillator", "Euler", 12.0))


def test_errors_times_cost_by_number_of_pseudo_samples():
    """Squared errors of 1 and 3 at 10 gradients, 0.5 at 40: products 20 and 20."""
    rows = pd.DataFrame({
        "method": ["a, N = 2", "a, N = 2", "a, N = 5", "b"], "gradients": [10, 10, 40, 7],
        "seconds": [1.0, 1.0, 8.0, 2.0], "first": [1.0, 3.0, 0.5, 4.0],
    })  # fmt: skip
    table = cost_figures.products(rows, ("first",)).set_index(["method", "cost"])
    assert table.loc[("a, N = 2", "gradients"), "product"] == 20
    assert table.loc[("a, N = 2", "gradients"), "error"] == pytest.approx(10)
    assert table.loc[("a, N = 5", "gradients"), "product"] == 20
    assert table.loc[("a, N = 5", "seconds"), "product"] == 4
    assert table.loc[("b", "seconds"), "product"] == 8
    assert table["family"].tolist() == ["a"] * 4 + ["b"] * 2
    assert np.isnan(table.loc[("b", "seconds"), "count"])


def test_kameleon_rows_have_a_reason_if_they_differ_and_their_repeats():
    found = [run for run in runs("kameleon") if run.table("synthetic_chains") is not None]
    rows, differing = joined(found, "synthetic_chains"), set()
    for target in kameleon.TARGETS:
        for method in rows["method"].unique():
            if kameleon.norm_of(rows, target, method).verdict == "differs":
                differing.add((target, method))
    assert differing == set(kameleon.REASONS)
    counts = rows.groupby(["source", "target", "method"])["chain"].nunique()
    for run in found:
        chains = {job["chains"] for job in run.made["settings"]["jobs"].values()}
        assert chains == set(counts[run.name])
    seeds = [
        (run.made["settings"]["seed"], target)
        for run in found
        for target in counts[run.name].index.unique("target")
    ]
    assert len(set(seeds)) == len(seeds)


def test_claims_of_kameleon_have_joint_standard_errors():
    """Norms 1 and 3 against 6 and 10: means 2 and 8, standard errors 1 and 2."""
    rows = pd.DataFrame({
        "target": "strong", "method": ["KAMH-LS"] * 2 + ["SM"] * 2, "norm": [1.0, 3.0, 6.0, 10.0],
    })  # fmt: skip
    found = kameleon.difference(rows, "strong", "SM", "norm")
    assert found.value == -6
    assert found.error == pytest.approx(np.sqrt(5))
    assert found.verdict == "less"
    assert found._replace(value=4.0).verdict == "no difference"
    assert found._replace(value=5.0).verdict == "more"
    assert found._replace(error=np.nan).verdict == "–"
    known = kameleon.published_difference("strong", "SM")
    assert known.value == pytest.approx(3.547 - 7.456)
    assert known.error == pytest.approx(np.hypot(3.210, 7.938) / 10)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [((1.99, 1.0, 1e-15), "agrees"), ((1.9, 1.0, 0), "differs"), ((2.0, 1.01, 0), "differs"),
     ((2.0, 1.0, 1e-3), "differs")],
)  # fmt: skip
def test_properties_of_the_leapfrog(properties, expected):
    assert lecture_section.integrator_class(*properties, "leapfrog") == expected


def test_shares_of_published_effective_draws(sections):
    """Each published method of the three data sets has a ratio on the page."""
    rows = joined(runs("nice"), "nice_logistic")
    text = page.text()
    for data in REGRESSIONS:
        for method, name in nice_section.PUBLISHED.items():
            (line,) = rows[(rows["data"] == data) & (rows["method"] == method)].to_dict("records")
            share = line["paper_ess_per_1000"] / REGRESSIONS[data][name][0]
            assert nice_section.ratio(pd.Series(line), data) == pytest.approx(share)
            assert nice_section.markdown.number(share) in text
    assert np.isnan(nice_section.ratio(pd.Series({"method": "whitened_hmc"}), "german"))
