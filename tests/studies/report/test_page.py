"""The page as a whole: it names every planted problem, fetches nothing, and escapes all text."""

import re
import threading

import matplotlib
import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.errors import StanadaptWarning
from stanadapt.targets.stan import bundled
from tests.helpers import made_up_fits as made_up
from tests.helpers.html_page import Page

ODD_NAME = '<script>alert(1)</script> $x_1$ & "é"'


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A report of two good fits and one with each problem."""
    fits = {
        "nuts": made_up.fit(1, seconds=10.0, gradients=40_000, **made_up.NUTS),
        "fast": made_up.fit(2, seconds=2.0),
    } | {name: make(3 + i) for i, (name, make) in enumerate(made_up.PLANTED.items())}
    path = tmp_path_factory.mktemp("report") / "planted.html"
    assert sa.report(fits, path, command="stanadapt compare <made up>") == path
    return path


@pytest.fixture(scope="module")
def page(planted):
    return Page(planted.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_conclusion_answers_both_questions(page):
    (code, trust), (choice_code, choice) = page.messages("conclusion")
    assert (code, choice_code) == ("some_fits_usable", "fastest_sampler")
    assert "2 of 7" in trust
    assert "nuts and fast" in trust
    for name, verdict in {"frozen": "do not use", "thinned": "too short"}.items():
        assert f"{name} ({verdict})" in trust
    assert "Use fast: " in choice
    assert "nuts" in choice


@pytest.mark.parametrize(("name", "code", "fact"), [
    ("other mode", "separate_regions", "2"), ("large steps", "steps_too_large", "0.02"),
    ("thinned", "thinned_draws", "thin=10"), ("thinned", "thinned_draws", "40 draws"),
    # reasons of verdicts
    ("other mode", "high_r_hat", "Chain 3"), ("frozen", "frozen_chain", "Chain 2"),
    ("thinned", "low_ess", "100"), ("divergent", "divergences", "4.00%"),
])  # fmt: skip
def test_planted_problems_are_named(page, name, code, fact):
    assert fact in dict(page.messages("problems", name))[code]


def test_fits_of_a_page_have_rows_pictures_and_no_false_problem(page):
    headings = page.text["problems"].splitlines()
    assert "frozen" in headings
    assert not {"nuts", "fast"} & set(headings)
    assert "nuts" in dict(page.messages("problems", "Notes"))["reference_fit"]
    rows = page.text["table"]
    for name in ["nuts", "fast", *made_up.PLANTED]:
        assert re.search(rf"^{name}$", rows, flags=re.M)
    assert page.tags.count("svg") == 4 + 7 + 1
    assert page.tags.count("figcaption") == page.tags.count("svg")
    assert page.tags.count("figure") == page.tags.count("svg")
    assert len(page.ids) == len(set(page.ids))


def test_the_page_begins_with_estimates_and_ends_with_the_origin(page):
    """Of the reference, as `summary` prints them."""
    assert page.ids.index("conclusion") < page.ids.index("estimates") < page.ids.index("table")
    words = page.text["estimates"].split()
    for line in repr(sa.summary(made_up.fit(1, **made_up.NUTS))).splitlines():
        for word in line.split():
            assert word in words
    words = page.words("origin")
    for expected in (
        "stanadapt compare <made up>", "seed 1", "leapfrogs = 5", "cmdstan 2.27.0 –",
        "numpy = 2.0", "matplotlib",
    ):  # fmt: skip
        assert expected in words


def test_large_arrays_are_folded_or_left_out_of_the_estimates(tmp_path):
    rng = np.random.default_rng(1)
    posterior = {"a": rng.normal(size=(4, 250)), "z": rng.normal(size=(4, 250, 20))}
    posterior["large"] = rng.normal(size=(4, 250, 300))
    page = Page(sa.report({"one": made_up.fit(1, posterior=posterior, parameters="[]")},
                          tmp_path / "report.html").read_text())  # fmt: skip
    assert "z[1..20]" in page.text["estimates"]
    assert "300 elements" in page.text["estimates"]
    assert "large[" not in page.text["estimates"]
    alone = made_up.fit(1, posterior={"large": posterior["large"]}, parameters="[]")
    text = Page(sa.report({"one": alone}, tmp_path / "alone.html").read_text()).text["estimates"]
    assert "300 elements" in text
    assert "quantity" not in text  # no table without a row


def test_pictures_leave_out_fits_of_other_random_data(tmp_path):
    """Their intervals and means should not agree with those of the reference."""
    fits = {"own": made_up.fit(1, random_data="A"), "other": made_up.fit(2, random_data="B")}
    page = Page(sa.report(fits, tmp_path / "report.html", baseline="own").read_text())
    left_out = "Not shown, because their random data differ: other."
    assert " ".join(page.text[""].split()).count(left_out) == 3


def test_nothing_is_fetched(planted, page):
    assert planted.stat().st_size < 5_000_000
    assert not {"script", "img", "iframe", "object", "embed"} & set(page.tags)
    assert all(reference.startswith(("#", "data:,")) for reference in page.links)
    source = planted.read_text()
    assert "http" not in source
    assert "@import" not in source
    targets = re.findall(r"url\(#?([^)]*)\)", source)
    assert targets
    assert set(targets) | {r[1:] for r in page.links if r.startswith("#")} <= set(page.ids)


def test_colors_are_those_of_the_page(planted):
    """A color that the page does not replace would be the same in light and dark."""
    source = planted.read_text()
    pictures = "".join(re.findall(r"<svg.*?</svg>", source, flags=re.S))
    assert "var(--fit-6)" in pictures
    assert not re.findall(r"(?:fill|stroke): #\w+", pictures)
    used = set(re.findall(r"var\((--[\w-]+)\)", source))
    assert used <= set(re.findall(r"(--[\w-]+):", source))
    assert "prefers-color-scheme: dark" in source
    assert "@media print" in source


@pytest.mark.thorough
def test_names_are_escaped(tmp_path):
    posterior = {"<i>$a$": made_up.draws(1)["a"], "b&c": made_up.draws(1)["c"]}
    fits = {
        ODD_NAME: made_up.fit(1, posterior=posterior, parameters='["<i>$a$", "b&c"]'),
        "other": made_up.fit(
            2, posterior=dict(zip(posterior, made_up.draws(2).values(), strict=False)) | {
                "b&c": made_up.draws(2)["c"]
            }, parameters='["<i>$a$", "b&c"]', model="<b>model</b>",
        ),
    }  # fmt: skip
    page = Page(sa.report(fits, tmp_path / "odd.html").read_text())
    assert not {"script", "i", "b"} & set(page.tags)
    assert ODD_NAME in page.words("table")
    assert page.words().count(ODD_NAME) > 5
    assert "<i>$a$" in page.words()


@pytest.mark.slow
def test_repeats_are_shown_as_a_spread(tmp_path):
    fits = {
        "slow": [made_up.fit(i, seconds=s) for i, s in enumerate((8.0, 10.0, 16.0))],
        "fast": [made_up.fit(i, seconds=s) for i, s in enumerate((1.0, 2.0, 1.2), 10)],
        "nuts": made_up.fit(20, seconds=9.0, **made_up.NUTS),
    }
    page = Page(sa.report(fits, tmp_path / "repeats.html").read_text())
    row = page.text["table"].partition("slow")[2]
    low, high = (
        float(x.replace(",", "")) for x in re.search(r"([\d,]+) to ([\d,]+)", row).groups()
    )
    assert high / low == pytest.approx(2.0, rel=0.25)
    assert "Use fast" in page.words("conclusion")
    assert "fast, repeat 3" in page.words("origin")


@pytest.mark.thorough
def test_a_bad_repeat_condemns_its_sampler(tmp_path):
    fits = {
        "fast": [made_up.fit(1, seconds=0.5), made_up.in_another_mode(2)],
        "slow": [made_up.fit(3), made_up.fit(4)],
    }
    page = Page(sa.report(fits, tmp_path / "r.html").read_text())
    trust, choice = (text for _, text in page.messages("conclusion"))
    assert "fast (do not use in 1 of 2 " in trust
    assert "Use slow" in choice
    assert page.messages("problems", "fast, repeat 2 do not use")


@pytest.mark.slow
def test_a_report_ignores_settings_of_matplotlib_and_changes_none(tmp_path):
    fits = {"a": made_up.fit(1)}
    plain = sa.report(fits, tmp_path / "plain.html").read_text()
    with matplotlib.rc_context({"text.usetex": True, "font.size": 30, "lines.linewidth": 9}):
        before = dict(matplotlib.rcParams)
        styled = sa.report(fits, tmp_path / "styled.html").read_text()
        assert dict(matplotlib.rcParams) == before
    pictures = [re.findall(r"<svg.*?</svg>", text, flags=re.S) for text in (plain, styled)]
    assert pictures[0] == pictures[1]


@pytest.mark.slow
def test_a_report_can_be_written_in_a_thread(tmp_path):
    fits = {"a": made_up.fit(1)}
    threads = [
        threading.Thread(target=sa.report, args=(fits, tmp_path / f"{i}.html")) for i in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("</html>" in (tmp_path / f"{i}.html").read_text() for i in range(2))


@pytest.mark.slow
def test_thousands_of_parameters(tmp_path):
    """The odd ones are found among three thousand, and the page stays small."""
    fits = {}
    for seed, name in enumerate(("one", "two")):
        x = np.random.default_rng(seed).normal(size=(4, 100, 3000))
        if name == "two":
            x[3, :, 1234] += 9
            x[..., 2345] += 2
        fits[name] = made_up.fit(seed, posterior={"x": x}, parameters='["x"]')
    path = sa.report(fits, tmp_path / "many.html")
    assert path.stat().st_size < 2_000_000
    page = Page(path.read_text())
    assert "x[1235]" in page.words("problems")
    assert "Chain 4" in page.words("problems")
    assert "x[2346]" in page.words()


@pytest.fixture(scope="module")
def pima():
    target = sa.Target(*bundled.find("logistic", "pima"))
    fits = {name: sa.sample(target, name, seed=1) for name in ("whitened_hmc", "gad_mala", "rwm")}
    with pytest.warns(StanadaptWarning):
        fits["nuts"] = sa.stan_nuts(target, backend="stanli", save_warmup=True, seed=1)
    return fits


@pytest.mark.slow
def test_pima_with_four_samplers(pima, tmp_path):
    path = sa.report(pima, tmp_path / "report.html")
    assert path.stat().st_size < 5_000_000
    page = Page(path.read_text())
    (code, _), (_, choice) = page.messages("conclusion")
    assert code == "all_fits_usable"
    assert "no-problems" in page.ids
    seconds = {
        name: np.sum(results.attribute(fit, "warmup_seconds"))
        + np.sum(results.attribute(fit, "sampling_seconds"))
        for name, fit in pima.items()
    }
    arviz = results.arviz_module()
    ess = {
        name: min(float(arviz.ess(x, method="bulk")) for x in results.columns(fit).values())
        for name, fit in pima.items()
    }
    ranked = sorted(pima, key=lambda name: -ess[name] / seconds[name])
    assert choice.startswith(f"Use {ranked[0]}")
    assert ranked[1] in choice
    assert "whitened_hmc, gad_mala, rwm" in page.words()  # those that did not save warm-up
