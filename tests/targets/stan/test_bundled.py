"""The bundled programs: complete, with helpful errors; test_closed_forms.py has their densities."""

import json

import numpy as np
import pytest
import stanli

from stanadapt.targets.stan import bundled
from tests.helpers.codes import raises
from tests.helpers.known_moments import arrays as load
from workflows.data.make_data import write_files

# Rows, columns and labels 1 of the data sets of Titsias and Dellaportas (2019). Their n includes
# the intercept: 3, 8, 14, 15 and 25.
LOGISTIC_SHAPES = {
    "german": (1000, 24, 300),
    "heart": (270, 13, 120),
    "pima": (532, 7, 177),
    "ripley": (250, 2, 125),
}


@pytest.fixture
def build(monkeypatch):
    """Return a function that makes a stanli model with the faulty optimizer passes off."""
    for switch in ("STANLI_NO_REROLL", "STANLI_NO_PARTITION", "STANLI_NO_INTERPRETER"):
        monkeypatch.setenv(switch, "1")

    def build_model(name, data=None):
        program, data_file = bundled.find(name, data)
        return stanli.bridgestan_model(stan_file=str(program), data=data_file.read_text())

    return build_model


def test_names_descriptions_and_missing_data(tmp_path):
    programs = bundled.available()
    assert list(programs) == sorted(programs)
    assert set(programs) >= {"banana", "gaussian", "logistic", "neal"}
    for name, program in programs.items():
        assert (program.name, program.path.stem, program.path.parent.name) == (name, name, name)
    assert "Dellaportas" in bundled.find("gaussian", "two_dim")[0].read_text()
    assert "Dellaportas" not in bundled.available()["gaussian"].description
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "bare.stan").write_text("parameters { real x; }\n")
    assert bundled.find("bare", root=tmp_path) == (folder / "bare.stan", None)
    with raises("unknown_data_set", "'bare'"):
        bundled.find("bare", "some", tmp_path)


@pytest.mark.parametrize("program", bundled.available().values(), ids=lambda program: program.name)
def test_every_program_has_description_and_data(program):
    assert len(program.description) > 40
    assert program.description.endswith(".")
    assert "//" not in program.description
    assert program.data
    assert "known_moments" not in program.data


@pytest.mark.parametrize(
    ("name", "data", "code", "listed"),
    [
        ("eight_school", None, "unknown_bundled_program", "eight_schools_centered"),
        ("logistic", "mnist", "unknown_data_set", ", ".join(sorted(LOGISTIC_SHAPES))),
        ("logistic", None, "unknown_data_set", ", ".join(sorted(LOGISTIC_SHAPES))),
        ("logistic", "caravan", "unknown_data_set", "non-commercial"),
        ("gaussian", "known_moments", "unknown_data_set", "fifty_one_dim, two_dim"),
    ],
)
def test_the_error_for_an_unknown_name_lists_those_that_exist(
    tmp_path, monkeypatch, name, data, code, listed
):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))  # where nothing was fetched
    with raises(code, repr(data or name), listed):
        bundled.find(name, data)


def test_fetched_data_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))
    write_files(bundled.fetched(), {"logistic/aware.json": lambda: {"N": 0}})
    assert bundled.find("logistic", "aware")[1].read_text() == '{"N":0}\n'
    assert [*bundled.require("logistic").data] == ["aware", *sorted(LOGISTIC_SHAPES)]


@pytest.mark.parametrize("data", LOGISTIC_SHAPES)
def test_logistic_data_have_the_papers_dimensions(data):
    rows, columns, ones = LOGISTIC_SHAPES[data]
    content = load("logistic", data)
    assert content["X"].shape == (rows, columns) == (content["N"], content["D"])
    assert content["y"].shape == (rows,)
    assert set(content["y"]) == {0, 1}
    assert content["y"].sum() == ones


def test_data_of_papers_and_constant_columns(build):
    points = np.linspace(0, 4, 51)
    kernel = np.exp(-0.5 * (points[:, None] - points) ** 2 / 0.16) + 0.01 * np.eye(51)
    covariance = load("gaussian", "fifty_one_dim")["Sigma"]
    np.testing.assert_allclose(covariance, kernel, rtol=0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.eigvalsh(covariance)[[0, -1]], [0.01, 12.07], rtol=1e-3)
    program, _ = bundled.find("logistic", "ripley")
    data = '{"N": 3, "D": 2, "X": [[1, 7], [2, 7], [4, 7]], "y": [0, 1, 0]}'
    with pytest.raises(RuntimeError, match="Column 2 of X is constant"):
        stanli.bridgestan_model(stan_file=str(program), data=data)


def test_known_moments_follow_from_the_data():
    gaussian = json.loads((bundled.ROOT / "gaussian" / "known_moments.json").read_text())
    assert set(gaussian) == {"two_dim", "fifty_one_dim"}
    for data, moments in gaussian.items():
        content = load("gaussian", data)
        np.testing.assert_array_equal(moments["mean"]["x"], content["mu"])
        np.testing.assert_allclose(
            moments["sd"]["x"], np.sqrt(np.diag(content["Sigma"])), rtol=1e-15
        )
    neal = json.loads((bundled.ROOT / "neal" / "known_moments.json").read_text())["neal"]
    assert neal["mean"]["x"] == [0] * 100
    np.testing.assert_allclose(neal["sd"]["x"], np.linspace(0.01, 1, 100), rtol=1e-14)


def test_moments_of_rings_are_those_of_another_quadrature():
    """The values 3.6 and 1.24 in the code of Song, Zhao and Ermon are rough."""
    content = load("rings", "ring5")
    known = json.loads((bundled.ROOT / "rings" / "known_moments.json").read_text())["ring5"]
    r = np.linspace(0, 7, 1_400_001)
    distance = np.abs(r[:, None] - content["radii"])
    density = r * np.exp(-(distance.min(axis=1) ** 2) / (2 * content["variance"]))
    share = [density[distance.argmin(axis=1) == k].sum() / density.sum() for k in range(5)]
    np.testing.assert_allclose(known["shares"], share, rtol=1e-5)
    np.testing.assert_allclose(share, [0.0667, 0.1333, 0.2, 0.2666, 0.3334], atol=5e-5)
    mean, square = (density @ r**k / density.sum() for k in (1, 2))
    assert known["mean"]["radius"] == pytest.approx(mean, rel=1e-8) == pytest.approx(3.67342)
    assert known["sd"]["radius"] == pytest.approx(np.sqrt(square - mean**2), rel=1e-8)
    np.testing.assert_allclose(known["sd"]["x"], np.sqrt(square / 2), rtol=1e-8)
    evidence = np.log(2 * np.pi * density.sum() * (r[1] - r[0]))
    assert known["log_evidence"] == pytest.approx(evidence, rel=1e-8)


@pytest.mark.parametrize("name", ["eight_schools_centered", "eight_schools_noncentered"])
def test_eight_schools_generated_quantities(build, name):
    """`log_lik` exactly; `y_rep` by its mean over 400 draws, within five standard errors."""
    model = build(name)
    data = load(name)
    names = model.param_names(include_tp=True, include_gq=True)
    rng = model.new_rng(seed=3)
    point = np.random.default_rng(8).standard_normal(10)
    everything = {"include_tp": True, "include_gq": True, "rng": rng}
    draws = np.array([model.param_constrain(point, **everything) for _ in range(400)])

    def columns(prefix):
        return draws[:, [names.index(f"{prefix}.{j}") for j in range(1, 9)]]

    mu, tau = point[0], np.exp(point[1])
    theta = point[2:] if name.endswith("_centered") else mu + tau * point[2:]
    np.testing.assert_allclose(columns("theta")[0], theta, rtol=1e-14)
    residual = (data["y"] - theta) / data["sigma"]
    log_lik = -0.5 * residual**2 - np.log(data["sigma"]) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(columns("log_lik")[0], log_lik, rtol=1e-13)
    scores = (columns("y_rep") - theta) / data["sigma"]
    assert np.abs(scores.mean(axis=0)).max() < 5 / np.sqrt(400)
    assert np.abs(scores.std(axis=0) - 1).max() < 5 / np.sqrt(800)
