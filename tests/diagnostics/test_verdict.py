"""The verdict on a fit: each fault is named, a good fit has none, and nothing passes unseen."""

import json
import re
import warnings

import numpy as np
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics import mixing
from stanadapt.diagnostics.comparison_table import remarks
from stanadapt.diagnostics.mixing import worst_columns
from stanadapt.diagnostics.verdict import judged, verdict
from stanadapt.runs.choose_sampler import DEFAULT

CHAINS, DRAWS = 4, 1000


def made(stats=None, attributes=None, **columns):
    """Return a fit with these columns, shape (chain, draw)."""
    rng = np.random.default_rng(1)
    good = {"acceptance_rate": rng.uniform(0.6, 1.0, (CHAINS, DRAWS))}
    posterior = {"mu": rng.normal(size=(CHAINS, DRAWS)), **columns}
    settings = {"settings": json.dumps({"target_accept": 0.8, "max_treedepth": 10})}
    groups = {"posterior": posterior, "sample_stats": good | (stats or {})}
    return results.build(groups, settings | (attributes or {}))


def normal(seed=2):
    return np.random.default_rng(seed).normal(size=(CHAINS, DRAWS))


def shifted(by):
    return normal() + by * np.arange(CHAINS)[:, None]


def stuck(x, length, chain=1):
    x = x.copy()
    x[chain, :length] = x[chain, 0]
    return x


def walk(step):
    """Slowly moving chains, started from their own distribution: an autoregression."""
    rng = np.random.default_rng(3)
    x = np.empty((CHAINS, DRAWS))
    x[:, 0] = rng.normal(size=CHAINS)
    for t in range(1, DRAWS):
        x[:, t] = np.sqrt(1 - step**2) * x[:, t - 1] + step * rng.normal(size=CHAINS)
    return x


def with_tail(x):
    """Good in the bulk; in the tail a single excursion of one chain."""
    x = x.copy()
    x[0, 300:420] = 8.0 + 0.1 * x[0, 300:420]
    return x


def test_a_good_fit_is_fine():
    assert verdict(made(sigma=np.exp(normal()))) == ("fine", [])


def test_a_constant_column_is_no_fault():
    """Entries of a Cholesky factor, for one."""
    assert verdict(made(entry=np.ones((CHAINS, DRAWS)))).verdict == "fine"


ENERGY = np.cumsum(np.random.default_rng(4).normal(size=(CHAINS, DRAWS)), axis=1)
DIVERGED = np.zeros((CHAINS, DRAWS), bool)
DIVERGED[2, 5:8] = True
FAULTS = {
    "frozen chain": (
        {"mu": stuck(normal(), DRAWS)},
        {},
        "do not use",
        "Chain 2 never moved: all of its draws are the same.",
    ),
    "all chains frozen": (
        {"mu": np.repeat(np.arange(4.0)[:, None], DRAWS, axis=1)},
        {},
        "do not use",
        "Chain 1, 2, 3, 4 never moved",
    ),
    "stuck for most of a chain": (
        {"mu": stuck(normal(), 700)},
        {},
        "do not use",
        "Chain 2 repeats one draw for 70% of its length",
    ),
    "chains apart": ({"sigma": shifted(1.0)}, {}, "do not use", "R-hat of sigma is 1."),
    "chains slightly apart": ({"sigma": shifted(0.13)}, {}, "too short", "above 1.01: the chains"),
    "not a number": (
        {"sigma": np.where(np.arange(DRAWS) == 7, np.nan, normal())},
        {},
        "do not use",
        "sigma has draws that are not finite: 4 of 4000 draws (0.10%), in chain 1, 2, 3, 4.",
    ),
    "slow": ({"sigma": walk(0.5)}, {}, "too short", "bulk effective sample size of sigma is"),
    "slow tail": ({"sigma": with_tail(normal())}, {}, "too short", "tail effective sample size"),
    "nothing accepted": (
        {},
        {"acceptance_rate": np.vstack([np.zeros(DRAWS), np.full((3, DRAWS), 0.8)])},
        "do not use",
        "Chain 1 accepted nothing",
    ),
    "acceptance far below its target": (
        {},
        {"acceptance_rate": np.full((CHAINS, DRAWS), 0.3)},
        "too short",
        "The acceptance rate of chain 1 is 0.30, far from its target 0.8",
    ),
    "acceptance far above its target": (
        {},
        {"acceptance_rate": np.full((CHAINS, DRAWS), 0.99)},
        "too short",
        "is 0.99, far from its target 0.8",
    ),
    "divergences": (
        {},
        {"diverging": DIVERGED},
        "too short",
        "3 of 4000 draws (0.07%) come from trajectories that diverged",
    ),
    "tree depth": (
        {},
        {"tree_depth": np.full((CHAINS, DRAWS), 10)},
        "fine",
        "4000 of 4000 draws (100.00%) come from trajectories that reached the maximum tree depth",
    ),
    "energy": ({}, {"energy": ENERGY}, "too short", "E-BFMI of chain "),
    "infinite throughout": (
        {"sigma": np.full((CHAINS, DRAWS), np.inf)},
        {},
        "do not use",
        "sigma has draws that are not finite",
    ),
    "acceptance is not a number": (
        {},
        {"acceptance_rate": np.where(DIVERGED, np.nan, 0.8)},
        "do not use",
        "The acceptance rate of chain 3 is not a number",
    ),
}


OWN_TARGET = {"acceptance_target": 0.5, "acceptance_range": [0.25, 0.95]}


@pytest.mark.parametrize(
    ("every", "level", "told"),
    [(30, "too short", "3.35%"), (180, "fine", "0.57%"), (250, "fine", "")],
)
def test_trajectories_without_a_chance(every, level, told):
    hopeless = np.arange(CHAINS * DRAWS).reshape(CHAINS, DRAWS) % every == 0
    stats = {"acceptance_rate": np.where(hopeless, 1e-3, 0.9)}
    found = verdict(made(stats, {"fixed_trajectories": True}))
    assert found.verdict == level
    assert len(found.sentences) == bool(told)
    for sentence in found.sentences:
        assert f"({told}) are repeated" in sentence
        assert "trajectory='nuts'" in sentence
    assert verdict(made(stats, {"fixed_trajectories": False})) == ("fine", [])


@pytest.mark.parametrize(
    ("rate", "level"), [(0.3, "fine"), (0.2, "too short"), (0.96, "too short")]
)
def test_a_sampler_may_have_chosen_its_target(rate, level):
    """The settings say 0.8."""
    found = verdict(made({"acceptance_rate": np.full((CHAINS, DRAWS), rate)}, OWN_TARGET))
    assert found.verdict == level
    assert all("its target 0.5" in sentence for sentence in found.sentences)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named(fault):
    columns, stats, level, sentence = FAULTS[fault]
    found = verdict(made(stats, **columns))
    assert found.verdict == level
    assert any(sentence in s for s in found.sentences), found.sentences


@pytest.mark.parametrize("fault", FAULTS)
def test_each_sentence_names_what_to_try(fault):
    columns, stats, _, _ = FAULTS[fault]
    advice = ("sampler=", "iter_warmup", "iter_sampling", "Raise", "longer", "Repara", "inits")
    for sentence in verdict(made(stats, **columns)).sentences:
        assert any(word in sentence for word in advice), sentence


@pytest.mark.parametrize(
    ("used", "named", "not_named"),
    [
        (DEFAULT, "parallel_tempering", "the default"),
        ("nuts", "the default", "'nuts'"),
        ("gad_mala", "the default, or sampler='nuts'", "parameterization"),
    ],
)
def test_the_sampler_that_failed_is_not_what_to_try(used, named, not_named):
    sentence, *_ = verdict(made(mu=shifted(3.0), attributes={"sampler": used})).sentences
    assert named in sentence
    assert not_named not in sentence


def test_where_tempering_failed_it_is_not_what_to_try():
    fit = results.build(
        {
            "posterior": {"mu": shifted(3.0)},
            "tempering": xr.Dataset({"barrier": ("chain", np.ones(CHAINS))}),
        },
        {"sampler": "parallel_tempering"},
    )
    sentence, *_ = verdict(fit).sentences
    assert "the default, or sampler='nuts', where there is one mode" in sentence
    assert "tempering" not in sentence


def test_an_r_hat_that_is_not_a_number_is_no_pass(monkeypatch):
    """ArviZ returns one for some draws without variation; here for all."""
    monkeypatch.setattr(mixing, "_found", {})
    monkeypatch.setattr(results.arviz_module(), "rhat", lambda x: np.nan)
    found = verdict(made())
    assert found.verdict == "do not use"
    assert "R-hat of mu is nan, above 1.01" in found.sentences[0]


def test_an_effective_sample_size_that_is_not_a_number_is_no_pass(monkeypatch):
    """Of the first of two columns: the second must not hide it."""
    module = results.arviz_module()
    true = module.ess
    fit = made(sigma=normal())
    first = results.columns(fit)["mu"]
    monkeypatch.setattr(mixing, "_found", {})
    monkeypatch.setattr(
        module, "ess", lambda x, **how: np.nan if np.array_equal(x, first) else true(x, **how)
    )
    found = verdict(fit)
    assert found.verdict == "too short"
    assert "bulk effective sample size of mu is 0" in found.sentences[0]


def test_the_advised_length_counts_iterations_that_thinning_drops():
    one, ten = (verdict(made(attributes={"thin": thin}, sigma=walk(0.5))) for thin in (1, 10))
    length = [int(re.search(r"iter_sampling=(\d+)", str(f.sentences))[1]) for f in (one, ten)]
    assert length[0] % DRAWS == 0
    assert length[1] == 10 * length[0]


def test_draws_that_cannot_be_judged_are_too_short():
    short = made()
    for draws in (1, 3):
        part = results.build(
            {"posterior": {"mu": results.dataset(short, "posterior")["mu"].values[:, :draws]}}, {}
        )
        assert verdict(part).verdict == "too short"


def test_one_chain_is_held_against_itself():
    """Its halves must agree; what they cannot show is said."""
    fit = results.build({"posterior": {"mu": normal()[:1]}}, {})
    found = verdict(fit)
    assert found.verdict == "fine"
    (sentence,) = found.sentences
    assert "(chains=4)" in sentence
    drifting = normal()[:1] + np.linspace(0, 3, DRAWS)
    found = verdict(results.build({"posterior": {"mu": drifting}}, {}))
    assert found.verdict == "do not use"
    assert "the halves of the chain disagree" in found.sentences[1]


def test_a_warm_up_that_had_not_settled_is_too_short():
    said = "the log density had not settled. Raise iter_warmup."
    assert verdict(made(attributes={"unsettled": said})) == ("fine", [said])
    cut = {"unsettled": said, "warmup_cut_short": True}
    assert verdict(made(attributes=cut)) == ("too short", [said])


def test_the_target_of_stans_nuts_is_known():
    """It is called adapt_delta there."""
    stan = {"settings": json.dumps({"adapt_delta": 0.9, "max_treedepth": 10})}
    found = verdict(made({"acceptance_rate": np.full((CHAINS, DRAWS), 0.4)}, stan))
    assert found.verdict == "too short"
    assert "is 0.40, far from its target 0.9" in found.sentences[0]
    assert (
        verdict(made({"acceptance_rate": np.full((CHAINS, DRAWS), 0.95)}, stan)).verdict == "fine"
    )


def test_variables_that_are_constant_are_named():
    columns = {f"k{i}": np.full((CHAINS, DRAWS), float(i)) for i in range(5)}
    found = verdict(made(**columns))
    assert found.verdict == "fine"
    assert "Not judged, since all draws are equal: k0, k1, k2 and 2 more." in found.sentences[0]
    part = np.stack([normal(), np.ones((CHAINS, DRAWS))], axis=-1)
    assert verdict(made(L=part)) == ("fine", [])  # an entry of a Cholesky factor


@pytest.mark.parametrize("settings", ["None", "[1]", "3", 7])
def test_attributes_of_other_libraries_are_not_ours(settings):
    assert (
        verdict(made(attributes={"settings": settings, "parameters": settings})).verdict == "fine"
    )


def test_acceptance_rates_that_are_not_recorded_are_no_fault():
    assert verdict(made({"acceptance_rate": np.full((CHAINS, DRAWS), np.nan)})) == ("fine", [])


def test_only_parameters_are_judged_where_they_are_named():
    fit = made(attributes={"parameters": json.dumps(["mu"])}, y_rep=shifted(3.0))
    assert verdict(fit).verdict == "fine"
    assert verdict(made(y_rep=shifted(3.0))).verdict == "do not use"


def test_all_are_judged_where_no_named_parameter_is_left():
    fit = made({}, {"parameters": json.dumps(["renamed"])}, mu=shifted(1.0))
    assert verdict(fit).verdict == "do not use"


@pytest.mark.parametrize("fault", ["chains apart", "slow", "slow tail"])
@pytest.mark.parametrize("place", [0, 150, 299])
def test_one_bad_column_of_many_is_found(fault, place):
    """Of 300 columns 32 at most are looked at closely: the bad one is among them."""
    columns = {f"x[{i + 1}]": normal(10 + i) for i in range(300)}
    bad = f"x[{place + 1}]"
    columns[bad] = FAULTS[fault][0]["sigma"]
    assert bad in worst_columns(columns)
    assert len(worst_columns(columns)) <= 32
    found = verdict(results.build({"posterior": {"x": np.stack(list(columns.values()), -1)}}, {}))
    assert bad in " ".join(found.sentences)


def test_the_verdict_is_kept_and_warned_of():
    with pytest.warns(sa.ConvergenceWarning, match="R-hat of sigma"):
        fit = judged(made(sigma=shifted(1.0)))
    assert fit.attrs["verdict"] == "do not use"
    assert any("R-hat of sigma" in s for s in json.loads(fit.attrs["verdict_reasons"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert judged(made()).attrs["verdict"] == "fine"


PROGRAM = "parameters { vector[2] x; } model { x ~ normal(0, [1, 1000]'); }"


def test_sample_warns_of_its_own_fits():
    """A random walk with one scale for both does not get through 1000 sd in 200 iterations."""
    target = sa.Target(PROGRAM, backend="stanli", show_progress=False)
    plan = {"chains": 4, "iter_warmup": 100, "iter_sampling": 100, "show_progress": False}
    with pytest.warns(sa.ConvergenceWarning, match=r"of x\[\d\] is .*the chains disagree"):
        fit = sa.sample(target, "rwm", seed=1, **plan)
    assert fit.attrs["verdict"] == "do not use"
    assert json.loads(fit.attrs["parameters"]) == ["x"]


def test_the_sampler_that_suits_is_fine():
    target = sa.Target(PROGRAM, backend="stanli", show_progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = sa.sample(target, "nuts", chains=4, seed=1, show_progress=False)
    assert fit.attrs["verdict"] == "fine"


@pytest.mark.filterwarnings("ignore:Stan's NUTS ran inside stanli")
def test_stan_nuts_is_judged_alike():
    """Stan's divergences on the centered eight schools used to be passed over in silence."""
    from stanadapt.targets.stan.bundled import find

    target = sa.Target(*find("eight_schools_centered"), backend="stanli", show_progress=False)
    with pytest.warns(sa.ConvergenceWarning, match="diverged"):
        fit = sa.stan_nuts(target, backend="stanli", seed=1, show_progress=False)
    assert fit.attrs["verdict"] != "fine"


def test_compare_shows_what_a_fine_fit_is_warned_of():
    """On the command line the table is where it is read."""
    deep = made({"tree_depth": np.full((CHAINS, DRAWS), 10)})
    (remark,) = remarks(sa.compare({"deep": deep}, show=False))
    assert remark.startswith("deep: fine. 4000 of 4000 draws")


def test_compare_shows_the_verdict():
    table = sa.compare({"good": made(), "bad": made(sigma=shifted(1.0))}, show=False)
    assert table["verdict"].to_dict() == {"good": "fine", "bad": "do not use"}


def test_the_worst_columns_do_not_depend_on_how_many_are_measured_at_once(monkeypatch):
    x = np.cumsum(np.random.default_rng(3).normal(size=(300, 4, 60)), axis=2)
    columns = {str(i): column for i, column in enumerate(x)}
    whole = worst_columns(columns)
    for size in (1, 70):
        monkeypatch.setattr(mixing, "BLOCK", size)
        assert worst_columns(columns) == whole
