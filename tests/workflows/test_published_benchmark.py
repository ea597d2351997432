"""Tables of the benchmarks against NUTS and of expectations, from made-up runs."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.helpers.repository import ROOT
from workflows.benchmarks import against_nuts, precision_picture, precision_tables, publish
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


def test_means_leave_out_data_sets_on_which_nuts_fails():
    table = summary(pd.DataFrame(RUNS)).set_index("program")
    assert table.loc["geometric mean", "bulk/gradient"] == pytest.approx(4.0)
    assert table.loc["worst", "bulk/gradient"] == pytest.approx(4.0)
    assert table.loc["hard", "bulk/gradient"] > 100
    table = summary(pd.DataFrame([row for row in RUNS if row["program"] == "hard"]))
    assert table["program"].tolist() == ["hard"]


def test_versions_and_engine_are_told_and_numbers_can_be_read(folder):
    text = (folder / "against_nuts.md").read_text()
    assert "numpy 2.0; NUTS: cmdstan 2.27.0." in text
    table = pd.read_csv(folder / "against_nuts.csv")
    assert list(table["program"]) == ["easy", "hard"]
    assert table["bulk/gradient"].tolist() == [4.0, 500.0]


def test_programs_are_in_order_and_the_readme_shows_the_table():
    cases = publish.cases()
    mixed = [(*cases[3], 1), ("other", "d", 2), (*cases[0], 3), (*cases[3], 4), (*cases[1], 5)]
    runs = publish.in_order(pd.DataFrame(mixed, columns=["program", "data", "seed"]))
    assert runs["seed"].tolist() == [3, 5, 1, 4, 2]
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


def test_a_panel_for_each_program_and_a_pair_of_lines_for_each_sampler():
    rows = [
        {"program": program, "sampler": sampler, "draws": n, "gradients": 10.0 * n,
         "crude": n**-0.5, "controlled": 1.0 / n}
        for program in ("a", "b") for sampler in precision_picture.SAMPLERS for n in (25, 100)
    ]  # fmt: skip
    figure = precision_picture.picture(pd.DataFrame(rows))
    assert [axis.get_title() for axis in figure.axes] == ["a", "b"]
    crude, controlled = figure.axes[1].lines[:2]
    np.testing.assert_allclose(crude.get_ydata(), [0.2, 0.1])
    np.testing.assert_allclose(controlled.get_ydata(), [0.04, 0.01])
    np.testing.assert_allclose(controlled.get_xdata(), [250.0, 1000.0])


def made_up_fits(count):
    """Fits with errors of 0.1, and 1 without control variates, a refused one, and a long run."""
    rng, rows = np.random.default_rng(1), []
    for seed in range(count):
        for name in "ab":
            row = {"program": "p", "seed": seed, "quantity": name, "gradients": 100, "warmup": 50}
            for kind in precision_tables.KINDS:
                estimates = rng.normal(5, 0.1), 0.1, rng.normal(5, 1), 1.0
                row |= {
                    kind + part: x
                    for part, x in zip(precision_tables.PARTS, estimates, strict=True)
                }
            rows.append(row)
    rows.append({"program": "p", "seed": count, "refused": "unusable_fit"})
    return pd.DataFrame(rows, columns=precision_tables.COLUMNS)


def test_gains_and_shares_within_errors_are_those_of_the_fits():
    table, counts = precision_tables.of_fits(made_up_fits(201))
    line = table.iloc[0]
    assert (line["fits"], line["refused"]) == (200, 1)
    assert line["mean, lowest"] == pytest.approx(100, rel=0.6)  # of variances of 200 values each
    assert line["q5 < 2"] == pytest.approx(0.954, abs=4 * np.sqrt(0.05 / 400))
    assert line["q5 < 2, crude"] == pytest.approx(0.954, abs=4 * np.sqrt(0.05 / 400))
    assert counts.drop(columns="z").to_numpy().sum() == 8
    assert precision_tables.as_text(table)["within two errors"].iloc[0].count("9") >= 8


def test_the_page_names_fits_that_were_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    precision_tables.PAGE.parent.mkdir(parents=True)
    fits = made_up_fits(4)
    fits.loc[fits["seed"] == precision_tables.LONG, "refused"] = "suspect"
    precision_tables.publish(fits)
    page = precision_tables.PAGE.read_text()
    assert "| p | 3 |" in page
    assert "refused: p (1)" in page
    assert "no reference, by their verdicts: p." in page
