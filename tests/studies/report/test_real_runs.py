"""Reports of runs: Pima with four samplers, and real runs with planted problems."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from stanadapt.errors import StanadaptWarning
from stanadapt.targets.stan import bundled
from tests.helpers.html_page import Page

pytestmark = pytest.mark.slow
APART = """
parameters { real x; }
model { target += log_mix(0.5, normal_lpdf(x | -100, 1), normal_lpdf(x | 100, 1)); }
"""
NORMAL = "parameters { vector[3] x; } model { x ~ std_normal(); }"


@pytest.fixture(scope="module")
def pima():
    target = sa.Target(*bundled.find("logistic", "pima"))
    fits = {name: sa.sample(target, name, seed=1) for name in ("whitened_hmc", "gad_mala", "rwm")}
    with pytest.warns(StanadaptWarning):
        fits["nuts"] = sa.stan_nuts(target, backend="stanli", save_warmup=True, seed=1)
    return fits


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


def other_mode():
    target = sa.Target(APART)
    starts = [{"x": x} for x in (-100, -100, 100, -100)]
    return sa.sample(target, "nuts", inits=starts, seed=1)


def large_steps():
    """Ten times the optimum, without a warm-up that would correct it."""
    target = sa.Target(NORMAL)
    return sa.sample(
        target, "mala", step_size=10 * 1.65 * 3 ** (1 / 3), standardize=False, iter_warmup=0,
        iter_sampling=2000, seed=1,
    )  # fmt: skip


def short_and_thinned():
    return sa.sample(sa.Target(NORMAL), "nuts", iter_sampling=300, thin=10, seed=1)


def divergent():
    target = sa.Target(*bundled.find("eight_schools_centered", "eight_schools"))
    return sa.sample(target, "nuts", seed=1)


@pytest.mark.parametrize(("run", "code"), [
    (other_mode, "separate_regions"), (large_steps, None), (short_and_thinned, "thinned_draws"),
    (divergent, None),
])  # fmt: skip
def test_problems_of_real_runs(run, code, tmp_path):
    fit = run()
    page = Page(sa.report({"run": fit}, tmp_path / "report.html").read_text())
    assert page.codes("conclusion") == ["no_fit_usable", "no_recommendation"]
    assert code is None or code in page.codes("problems")
    _, reasons = verdict(fit)
    assert reasons
    for reason in reasons:
        assert " ".join(reason.split()) in page.words("problems")
