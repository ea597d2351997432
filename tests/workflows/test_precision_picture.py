"""The benchmark of expectations: what a row of the tables counts, and the picture."""

import numpy as np
import pandas as pd
import pytest

from workflows.benchmarks import precision_picture, precision_tables


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
