"""Tables of the benchmark against NUTS, from made-up runs."""

import json

import pandas as pd
import pytest

from tests.helpers.repository import ROOT
from workflows.benchmarks import against_nuts, publish
from workflows.benchmarks.against_nuts import NUTS, summary


def run(program, sampler, seed, ess, usable=True):
    return {
        "program": program, "data": "d", "sampler": sampler, "seed": seed, "bulk": ess,
        "squares": ess, "tail": ess, "usable": usable, "gradients": 1000, "densities": 0,
        "seconds": 2.0, "error": 0.1, "chosen": "", "engine": "cmdstan 2.27.0",
    }  # fmt: skip


RUNS = [
    run(program, sampler, seed, ess * seed, usable)
    for seed in (1, 2)
    for program, sampler, ess, usable in (
        ("easy", NUTS, 100, True), ("easy", "auto", 400, True),
        ("hard", NUTS, 1, seed == 1), ("hard", "auto", 500, True),
    )
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(RUNS).to_csv("runs.csv", index=False)
    settings = {"versions": {"numpy": "2.0"}, "machine": "Linux, 2 cores", "python": "3.11"}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    publish.main(["."])
    return tmp_path / "docs" / "benchmarks"


def cells(text, start):
    (line,) = (line for line in text.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_ratios_to_a_sampler_that_failed_are_not_averaged(folder):
    text = (folder / "against_nuts.md").read_text()
    title = cells(text, "| sampler |")
    row = dict(zip(title, cells(text, "| auto |"), strict=True))
    assert row["data sets"] == "1"
    # geometric means over seeds: sqrt(400 800) / sqrt(100 200)
    assert float(row["bulk/gradient"]) == 4.0
    assert float(row["lowest bulk/s"]) == 4.0
    assert row["usable when NUTS is"] == "100%"
    assert cells(text, "| hard |")[3] == "1/2"


def test_the_printed_means_leave_out_data_sets_on_which_nuts_fails():
    table = summary(pd.DataFrame(RUNS)).set_index("program")
    assert table.loc["geometric mean", "bulk/gradient"] == pytest.approx(4.0)
    assert table.loc["worst", "bulk/gradient"] == pytest.approx(4.0)
    assert table.loc["hard", "bulk/gradient"] > 100


def test_no_means_are_printed_if_nuts_fails_everywhere():
    table = summary(pd.DataFrame([row for row in RUNS if row["program"] == "hard"]))
    assert table["program"].tolist() == ["hard"]


def test_versions_and_engine_are_told_and_numbers_can_be_read(folder):
    text = (folder / "against_nuts.md").read_text()
    assert "numpy 2.0; NUTS: cmdstan 2.27.0." in text
    table = pd.read_csv(folder / "against_nuts.csv")
    assert list(table["program"]) == ["easy", "hard"]
    assert table["bulk/gradient"].tolist() == [4.0, 500.0]


def test_programs_are_in_their_order_and_runs_in_theirs():
    cases = publish.cases()
    mixed = [(*cases[3], 1), ("other", "d", 2), (*cases[0], 3), (*cases[3], 4), (*cases[1], 5)]
    runs = publish.in_order(pd.DataFrame(mixed, columns=["program", "data", "seed"]))
    assert runs["seed"].tolist() == [3, 5, 1, 4, 2]


def test_the_readme_shows_the_published_table():
    page = (ROOT / "docs" / "benchmarks" / "against_nuts.md").read_text()
    readme = (ROOT / "README.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith(("| sampler |", "| auto |"))]
    assert len(rows) == 2
    assert all(row in readme for row in rows)


def test_an_unknown_program_is_refused_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        against_nuts.main(["--programs", "logistic/pima,logistik"])
    assert "'logistik'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_part_of_the_benchmark_can_go_to_a_folder_of_its_own(tmp_path, monkeypatch):
    def made(case, samplers, *_):
        return [run(case[0], sampler, 1, 100.0) for sampler in (NUTS, *samplers)]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(against_nuts, "rows_of", made)
    against_nuts.main(["--programs", "logistic/pima", "--out", "part"])
    assert [path.name for path in tmp_path.iterdir()] == ["part"]
    assert set(pd.read_csv("part/runs.csv")["sampler"]) == {NUTS, "auto"}
