"""The page of reproductions: its verdicts, its numbers, and the results that it is made from."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from workflows import record
from workflows.gad import section
from workflows.gad.methods import NAMES
from workflows.gad.published import PUBLISHED, REPEATS, Row
from workflows.reproduction import keep, markdown, page
from workflows.reproduction.agreement import class_of, compare, limit
from workflows.reproduction.recorded import joined, runs
from workflows.reproduction.section import STATUSES


def test_errors_and_equal_numbers_are_judged():
    ours = np.array([98.0, 100.0, 103.0, 107.0])
    one = compare(ours, 110.0, 10)
    # the published number is rounded to 1, which adds a twelfth
    assert one.joint_error == pytest.approx(np.sqrt(ours.var(ddof=1) * (1 / 4 + 1 / 10) + 1 / 12))
    assert (one.mean, one.repeats) == (102.0, 4)
    assert limit(10**6) == pytest.approx(3.0, rel=1e-4)
    assert limit(10) == pytest.approx(4.09, abs=0.01)  # tables of t: 0.99865, 9 degrees of freedom
    assert compare([20_000.0] * 10, 20_000.0, 10).verdict == "agrees"
    assert compare([20_000.0] * 10, 19_700.0, 10).verdict == "better"
    fine, far = compare([1.0, 1.1, 0.9], 1.0, 10), compare([1.0, 1.1, 0.9], 10.0, 10)
    more = compare([9.0, 9.1, 8.9], 1.0, 10)
    assert class_of([fine, more, far]) == "differs"
    assert class_of([fine, more]) == "better"
    assert class_of([fine, compare([1.0], 5.0, 10)]) == "agrees"
    assert class_of([]) == "not judged"
    lines = pd.DataFrame({
        "acceptance": [0.7, np.nan], "ess_min": [300.0, np.nan], "ess_median": [1500.0, np.nan],
        "ess_max": [4.0, np.nan], "min_ess_per_second": [5.0, np.nan], "draws": [20_000] * 2,
        "failure": ["", "planted"],
    })  # fmt: skip
    assert section.comparisons(lines, Row(*[np.nan] * 7))["ess_min"].repeats == 1


@pytest.mark.parametrize(
    ("published", "expected"),
    [(1000.0, "agrees"), (1050.0, "agrees"), (700.0, "better"), (1400.0, "differs")],
)
def test_a_number_is_judged_by_its_distance(published, expected):
    """Ours: mean 1000, sd 40, 10 repeats; 4.09 joint errors are 73."""
    ours = 1000 + 40 * np.array([-1.3, -1, -0.8, -0.5, -0.4, 0.4, 0.5, 0.8, 1, 1.3])
    ours *= 1.0
    assert compare(ours, published, 10).verdict == expected


def test_the_page_says_what_agrees():
    """The tolerance is the distance at which the verdict turns, as a share of the published."""
    ours = [95.0, 100.0, 105.0, 110.0]
    one = compare(ours, 80.0, 10, more_is_better=False)
    for factor, verdict in ((0.999, "agrees"), (1.001, "differs")):
        moved = np.array(ours) - one.mean + 80.0 + factor * one.tolerance * 80.0
        assert compare(moved, 80.0, 10, more_is_better=False).verdict == verdict
    assert section.allowed([one]) == f"{100 * one.tolerance:.0f} %"
    assert section.allowed([one, compare([1.0], 80.0, 10)]) == "–"


@pytest.mark.parametrize("ours", [[], [5.0, 5.1], [np.nan] * 5])
def test_too_few_repeats_give_no_verdict(ours):
    assert compare(ours, 50.0, 10).verdict == "not judged"
    assert compare([1.0, 2, 3], np.nan, 10).verdict == "not judged"


def test_sizes_are_capped_at_the_number_of_draws():
    """As the paper's are: 46,000 of 20,000 draws count as 20,000."""
    lines = pd.DataFrame({
        "acceptance": [0.7] * 3, "ess_min": [300.0, 310, 290], "ess_median": [1500.0, 1600, 1550],
        "ess_max": [46_000.0, 45_000, 19_000], "min_ess_per_second": [5.0] * 3,
        "draws": [20_000] * 3, "failure": [np.nan, "", np.nan],
    })  # fmt: skip
    found = section.comparisons(lines, PUBLISHED["neal"]["HMC-20"])
    assert found["ess_max"].mean == pytest.approx((20_000 * 2 + 19_000) / 3)
    assert section.row_class(found) == "agrees"


def test_published_rows_are_complete_and_on_the_page(text):
    for rows in PUBLISHED.values():
        assert set(rows) <= set(NAMES)
        assert len(rows) == 8  # methods in each table of the paper
        for row in rows.values():  # rates per second are averages of ratios
            assert row.min_ess_per_second == pytest.approx(row.ess_min / row.seconds, rel=0.1)
    assert REPEATS == 10
    # recomputed apart from the CSV files, for each row of every table
    rows = joined(runs("gad"), "_repeats")
    for (_, method), lines in rows.groupby(["data", "method"]):
        mean = np.minimum(lines["ess_median"], lines["draws"]).mean()
        assert f"| {method}" in text
        assert f"| {markdown.number(mean)}" in text


def test_claims_are_ratios_of_means_on_all_data_that_were_run():
    rows = pd.DataFrame({
        "data": "neal", "method": ["gadMALAf", "gadMALAf", "NUTS"], "ess_min": [1.0, 1, 1],
        "min_ess_per_second": [100.0, 200, 50],
    })  # fmt: skip
    rows = pd.concat([rows, rows.assign(data="pima", min_ess_per_second=[1.0, 1.0, 2.0])])
    (data, _, ours, theirs), (other, _, less, unknown) = section.claims(rows)
    assert (data, ours, other, less) == ("neal", 3.0, "pima", 0.5)
    assert theirs == pytest.approx(161.7 / 51.28)
    assert np.isnan(unknown)


@pytest.fixture(scope="module")
def sections():
    return page.sections()


@pytest.fixture(scope="module")
def text():
    return page.text()


def test_every_run_says_how_it_was_made_and_has_its_repeats(sections):
    for part in sections:
        assert part.runs
        for run in part.runs:
            made = run.made
            assert made["command"].startswith("python -m workflows.")
            assert re.fullmatch(r"[0-9a-f]{7,40}", made["commit"]), (
                "committed code made the results"
            )
            assert made["versions"]["stanadapt"]
            assert run.seconds > 0
            assert not made["settings"].get("quick")
            named = json.dumps(made["settings"].get("data_file"))
            assert "/" not in made["command"] + named, "no path of a machine"
    for part in sections:
        for run in part.runs:
            rows = run.table("_repeats")
            if rows is None:
                continue
            done = rows[rows["failure"].isna()]
            counts = done.groupby(["data", "method"])["repeat"].nunique()
            assert (counts == run.made["settings"]["repeats"]).all(), run.name


def test_rows_and_items_have_a_reason_where_they_differ(sections):
    rows = joined(runs("gad"), "_repeats")
    differing = set()
    for key, lines in rows.groupby(["data", "method"]):
        known = PUBLISHED.get(key[0], {}).get(key[1])
        if known and section.row_class(section.comparisons(lines, known)) == "differs":
            differing.add(key)
    assert differing == set(section.REASONS)
    assert "no reason is known yet" not in "".join(t.text for p in sections for t in p.tables)
    for part in sections:
        numbers = [item.number for item in part.items]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        for item in part.items:
            assert item.status in STATUSES
            assert item.reason or item.status not in ("partly", "missing"), item
            assert item.where or item.status in ("mention", "missing")
    assert [item.number for item in sections[0].items] == list(range(1, 38))
    assert not [item for item in sections[0].items if item.status == "missing"]


@pytest.mark.soak
def test_all_figures_are_drawn(sections, tmp_path):
    for path in page.draw(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
    for part in sections:
        for figure in part.figures:
            assert (tmp_path / figure.name).is_file()


def test_the_recorded_command_has_no_path():
    words = ["stanadapt paper gad-neal", "--out", "/a/b", "--seed", "2"]
    assert record.command(words) == "stanadapt paper gad-neal --seed 2"
    words = ["stanadapt paper gad-neal", "--out=here", "--quick"]
    assert record.command(words) == "stanadapt paper gad-neal --quick"


def output_of(folder, **settings):
    folder.mkdir()
    record = {"command": "c", "versions": {}, "settings": {"quick": False, **settings}}
    (folder / "neal.json").write_text(json.dumps(record))
    for name in ("neal.csv", "neal_repeats.csv", "neal_traces.csv"):
        (folder / name).write_text("a,b\n1,2\n")
    (folder / "neal.png").write_bytes(b"no")
    return folder


def test_kept_results_are_tables_and_their_record(tmp_path):
    source = output_of(tmp_path / "out")
    kept = keep.keep(source, "gad/neal", tmp_path / "results")
    assert {path.name for path in kept} == {"neal.json", "neal_repeats.csv", "neal_traces.csv"}
    (run,) = runs("gad", tmp_path / "results")
    assert run.name == "gad/neal"
    assert run.table("_repeats")["b"].tolist() == [2]
    assert run.table("_nothing") is None
    again = keep.keep(source, "gad/neal", tmp_path / "results")
    assert again == kept


def test_a_summary_is_left_out_if_every_chain_is_kept(tmp_path):
    source = output_of(tmp_path / "out")
    (source / "neal_repeats.csv").rename(source / "neal_chains.csv")
    kept = keep.keep(source, "gad/neal", tmp_path / "results")
    assert {path.name for path in kept} == {"neal.json", "neal_chains.csv", "neal_traces.csv"}
    (source / "neal_chains.csv").unlink()
    kept = keep.keep(source, "gad/neal", tmp_path / "results")
    assert {path.name for path in kept} == {"neal.json", "neal.csv", "neal_traces.csv"}


def test_quick_runs_and_folders_without_a_record_are_refused(tmp_path):
    with pytest.raises(SystemExit, match="quick"):
        keep.keep(output_of(tmp_path / "quick", quick=True), "gad/x", tmp_path / "results")
    (tmp_path / "none").mkdir()
    with pytest.raises(SystemExit, match="0 records"):
        keep.keep(tmp_path / "none", "gad/x", tmp_path / "results")
    assert not (tmp_path / "results").exists()
