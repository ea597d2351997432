"""The verdict on a fit: each problem is reported by its code, and a good fit has none."""

import json
import re
import warnings

import numpy as np
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics import draw_checks, reasons
from stanadapt.diagnostics.comparison_table import remarks
from stanadapt.diagnostics.mixing import Mixing, measure_mixing
from stanadapt.diagnostics.sampler_checks import divergent_share
from stanadapt.diagnostics.screening import screen
from stanadapt.diagnostics.verdict import judge, skip_judging, verdict
from stanadapt.errors import codes_of
from stanadapt.results.join import join
from stanadapt.runs.choose_sampler import DEFAULT
from tests.helpers.autoregression import autoregression
from tests.helpers.codes import warns

CHAINS, DRAWS = 4, 1000


def made(stats=None, attributes=None, **columns):
    """Return a fit with these columns, shape (chain, draw)."""
    rng = np.random.default_rng(1)
    good = {"acceptance_rate": rng.uniform(0.6, 1.0, (CHAINS, DRAWS))}
    posterior = {"mu": rng.normal(size=(CHAINS, DRAWS)), **columns}
    settings = {"settings": json.dumps({"target_accept": 0.8, "max_treedepth": 10})}
    groups = {"posterior": posterior, "sample_stats": good | (stats or {})}
    return results.build(groups, settings | (attributes or {}))


def codes(fit):
    return codes_of(verdict(fit).reasons)


def message(fit, code):
    """Return the only message with a code."""
    (text,) = (m for m in verdict(fit).reasons if m.code == code)
    return text


def normal(seed=2):
    return np.random.default_rng(seed).normal(size=(CHAINS, DRAWS))


def shifted(by):
    return normal() + by * np.arange(CHAINS)[:, None]


def stuck(x, length, chain=1):
    x = x.copy()
    x[chain, :length] = x[chain, 0]
    return x


def walk(step):
    """Slowly moving chains, started from the stationary distribution."""
    return autoregression(np.sqrt(1.0 - step**2), (CHAINS, DRAWS), 3)


def with_tail(x):
    """Good in the bulk; in the tail a single excursion of one chain."""
    x = x.copy()
    x[0, 300:420] = 8.0 + 0.1 * x[0, 300:420]
    return x


def test_constants_missing_numbers_and_separate_chains():
    """Constant columns, such as entries of a Cholesky factor, are no fault."""
    assert verdict(made(sigma=np.exp(normal()))) == ("fine", [])
    assert verdict(made(entry=np.ones((CHAINS, DRAWS)))).verdict == "fine"
    assert measure_mixing({"mu": APART})["mu"].r_hat == np.inf
    assert "R-hat of sigma is inf" in message(made(sigma=APART), "high_r_hat")
    odd, never = normal(), np.full((CHAINS, DRAWS, 2), np.nan)
    odd[0, :7] = np.inf
    fit = made(attributes={"parameters": json.dumps(["mu"])}, odd=odd, never=never)
    assert verdict(fit).verdict == "fine"
    text = message(fit, "missing_quantities")
    assert "never (4,000), odd (7)" in text


ENERGY = np.cumsum(np.random.default_rng(4).normal(size=(CHAINS, DRAWS)), axis=1)
DIVERGED = np.zeros((CHAINS, DRAWS), bool)
DIVERGED[2, 5:8] = True
OFTEN = np.arange(DRAWS) % 400 == np.zeros((CHAINS, 1))
APART = np.repeat(np.arange(4.0)[:, None], DRAWS, axis=1)
MISSING = np.where(np.arange(DRAWS) == 7, np.nan, normal())
HELD = stuck(np.repeat(normal(), 2, axis=1)[:, :DRAWS], 120)
REFUSED = np.vstack([np.zeros(DRAWS), np.full((3, DRAWS), 0.8)])


def rates(rate):
    return {"acceptance_rate": np.full((CHAINS, DRAWS), rate)}


# by name: columns, statistics, verdict, code and facts that the message must name
FAULTS = {
    "frozen chain": ({"mu": stuck(normal(), DRAWS)}, {}, "do not use", "frozen_chain", ["Chain 2"]),
    "all chains frozen": ({"mu": APART}, {}, "do not use", "frozen_chain", ["1, 2, 3, 4"]),
    "stuck for most of a chain": (
        {"mu": stuck(normal(), 700)}, {}, "do not use", "stuck_chain", ["Chain 2", "70%"],
    ),
    "sticking": ({"mu": HELD}, {}, "fine", "sticking_chain", ["Chain 2", "119 times", "about 10:"]),
    "chains disagree": ({"sigma": shifted(1.0)}, {}, "do not use", "high_r_hat", ["sigma is 1."]),
    "chains disagree slightly": (
        {"sigma": shifted(0.13)}, {}, "too short", "high_r_hat", ["sigma", "1.01"],
    ),
    "not a number": (
        {"sigma": MISSING}, {}, "do not use", "not_finite",
        ["sigma", "4 of 4000", "0.10%", "1, 2, 3, 4"],
    ),
    "slow": ({"sigma": walk(0.5)}, {}, "too short", "low_ess", ["bulk", "sigma"]),
    "slow tail": ({"sigma": with_tail(normal())}, {}, "too short", "low_ess", ["tail", "sigma"]),
    "nothing accepted": (
        {}, {"acceptance_rate": REFUSED}, "do not use", "nothing_accepted", ["Chain 1"],
    ),
    "acceptance far below its target": (
        {}, rates(0.3), "too short", "acceptance_off_target", ["chain 1", "0.30", "0.8"],
    ),
    "acceptance far above its target": (
        {}, rates(0.99), "too short", "acceptance_off_target", ["0.99", "0.8"],
    ),
    "divergences": (
        {}, {"diverging": OFTEN}, "suspect", "divergences", ["12 of 4000", "0.30%"],
    ),
    "few divergences": (
        {}, {"diverging": DIVERGED}, "fine", "divergences", ["3 of 4000", "0.07%"],
    ),
    "tree depth": (
        {}, {"tree_depth": np.full((CHAINS, DRAWS), 10)}, "fine", "max_treedepth",
        ["4000 of 4000", "100.00%"],
    ),
    "energy": ({}, {"energy": ENERGY}, "suspect", "low_bfmi", ["0.3"]),
    "energy without divergences": (
        {}, {"energy": ENERGY, "diverging": DIVERGED}, "fine", "low_bfmi", ["0.3"],
    ),
    "energy and divergences": (
        {}, {"energy": ENERGY, "diverging": OFTEN}, "suspect", "low_bfmi", ["0.3"],
    ),
    "infinite throughout": (
        {"sigma": np.full((CHAINS, DRAWS), np.inf)}, {}, "do not use", "not_finite", ["sigma"],
    ),
    "infinite": (
        {"mu": np.nan_to_num(MISSING, nan=np.inf)}, {}, "do not use", "not_finite", ["4 of 4000"],
    ),
    "acceptance is not a number": (
        {}, {"acceptance_rate": np.where(DIVERGED, np.nan, 0.8)}, "do not use", "not_finite",
        ["chain 3"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_reported_with_a_remedy(fault):
    """A setting, or another parameterization."""
    columns, stats, level, code, facts = FAULTS[fault]
    judged = verdict(made(stats, **columns))
    assert judged.verdict == level
    (text,) = (reason for reason in judged.reasons if reason.code == code)
    for fact in facts:
        assert fact in text
    remedies = (
        "sampler=", "iter_warmup", "iter_sampling", "target_accept", "max_treedepth", "inits",
        "Reparameterize",
    )  # fmt: skip
    for text in judged.reasons:
        assert any(setting in text for setting in remedies), text


@pytest.mark.parametrize(
    ("every", "level", "share"),
    [(30, "suspect", "3.35%"), (180, "fine", "0.57%"), (250, "fine", "")],
)
def test_fixed_trajectories_that_are_rejected(every, level, share):
    rejected = np.arange(CHAINS * DRAWS).reshape(CHAINS, DRAWS) % every == 0
    stats = {"acceptance_rate": np.where(rejected, 1e-3, 0.9)}
    fit = made(stats, {"fixed_trajectories": True})
    assert verdict(fit).verdict == level
    assert codes(fit) == (["rejected_trajectories"] if share else [])
    if share:
        text = message(fit, "rejected_trajectories")
        assert share in text
        assert "trajectory='nuts'" in text
    assert verdict(made(stats, {"fixed_trajectories": False})) == ("fine", [])


EDGES = {"hard_edges": '["x: lower = 0"]', "share_at_edges": 0.1, "fixed_trajectories": True}
CUT = {
    "thinned": {"thin": 10},
    "cut": {"iter_sampling": DRAWS + 10},
    "interrupted": {"interrupted": 1},
    "a chain left out": {"chains_kept": [1, 2, 3, 4, 5]},
}


@pytest.mark.parametrize("cut", CUT.values(), ids=list(CUT))
def test_chance_in_draws_that_lack_iterations_is_no_divergence(cut):
    """The share among the draws is 0.114 for 0.1 of all iterations, 3 errors above, or 0.12."""
    number = np.arange(CHAINS * DRAWS).reshape(CHAINS, DRAWS)
    whole = {"iter_sampling": DRAWS, "thin": 1, "interrupted": 0, "chains_kept": [1, 2, 3, 4]}
    for count, chance in ((456, True), (480, False)):
        ended = number < count
        stats = {"diverging": ended, "acceptance_rate": np.where(ended, 0.0, 0.9)}
        for attributes in (whole, whole | cut):
            level = "fine" if chance and attributes != whole else "suspect"
            fit = made(stats, EDGES | attributes)
            assert verdict(fit).verdict == level
            other = [] if level == "fine" else ["divergences"]
            unseen = ("rejected_trajectories", "thinned_statistics")
            assert [code for code in codes(fit) if code not in unseen] == ["hard_edges", *other]


OWN_TARGET = {"acceptance_target": 0.5, "acceptance_range": [0.25, 0.95]}
TARGET_OF_STANS_NUTS = {"settings": json.dumps({"adapt_delta": 0.9, "max_treedepth": 10})}


@pytest.mark.parametrize(
    ("attributes", "rate", "target"),
    [
        (OWN_TARGET, 0.3, ""), (OWN_TARGET, 0.2, "0.5"), (OWN_TARGET, 0.96, "0.5"),
        (TARGET_OF_STANS_NUTS, 0.95, ""), (TARGET_OF_STANS_NUTS, 0.4, "0.9"),
    ],
)  # fmt: skip
def test_a_sampler_may_choose_its_target(attributes, rate, target):
    """Or have another setting for it; that of other samplers is 0.8."""
    fit = made(rates(rate), attributes)
    assert verdict(fit).verdict == ("too short" if target else "fine")
    if target:
        text = message(fit, "acceptance_off_target")
        assert (target in text, str(rate) in text) == (True, True)


@pytest.mark.parametrize(
    ("attributes", "setting"),
    [
        ({"settings": '{"target_accept": 0.87, "nuts_target_accept": 0.8}'}, "adapt_delta"),
        (
            {"settings": '{"target_accept": 0.87, "nuts_target_accept": 0.8}',
             "fixed_trajectories": True}, "target_accept",
        ),
        ({"settings": '{"target_accept": 0.8}'}, "target_accept"),
        ({"settings": '{"adapt_delta": 0.8}'}, "adapt_delta"),
        ({"settings": "{}"}, "adapt_delta (target_accept for the sampler nuts)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("every", [400, CHAINS * DRAWS])
def test_divergences_name_the_setting_of_the_sampler(attributes, setting, every):
    diverging = np.arange(CHAINS * DRAWS).reshape(CHAINS, DRAWS) % every == 0
    text = message(made({"diverging": diverging}, attributes), "divergences")
    assert f" {setting}{',' if every == 400 else ' avoids'}" in text


@pytest.mark.parametrize(("used", "named", "not_named"), [
    (DEFAULT, "parallel_tempering", "default"), ("nuts", "default", "'nuts'"),
    ("gad_mala", "sampler='nuts'", "parameterization"),
])  # fmt: skip
def test_the_sampler_that_failed_is_not_recommended(used, named, not_named):
    text = message(made(mu=shifted(3.0), attributes={"sampler": used}), "high_r_hat")
    assert named in text
    assert not_named not in text


def test_tempering_is_not_recommended_after_it_failed():
    fit = results.build(
        {
            "posterior": {"mu": shifted(3.0)},
            "tempering": xr.Dataset({"barrier": ("chain", np.ones(CHAINS))}),
        },
        {"sampler": "parallel_tempering"},
    )
    text = message(fit, "high_r_hat")
    assert "sampler='nuts'" in text
    assert "tempering" not in text


@pytest.mark.parametrize(("unknown", "level", "code", "facts"), [
    (Mixing(np.nan, 4e3, 4e3), "do not use", "high_r_hat", ["mu is nan", "1.01"]),
    (Mixing(1.0, np.nan, np.nan), "too short", "low_ess", ["bulk", "mu is 0"]),
])  # fmt: skip
def test_a_diagnostic_that_is_not_a_number_fails(unknown, level, code, facts):
    """It is that of the first of two columns: the second must not hide it."""
    drawn = draw_checks.Drawn(made(sigma=normal()))
    drawn.mixed = {"mu": unknown, "sigma": Mixing(1.0, 4e3, 4e3)}
    ((found, text),) = reasons.find_problems(draw_checks.CONVERGENCE, drawn)
    assert (found, text.code) == (level, code)
    for fact in facts:
        assert fact in text


def test_a_longer_run_is_advised_where_it_helps():
    fits = [made(attributes={"thin": thin}, sigma=walk(0.5)) for thin in (1, 10)]
    one, ten = (int(re.search(r"iter_sampling=(\d+)", message(fit, "low_ess"))[1]) for fit in fits)
    assert one % DRAWS == 0
    assert ten == 10 * one
    columns = (shifted(9.0), shifted(0.13) + walk(0.02), walk(0.02), shifted(9.0)[:, :100])
    for column in columns:
        fit = results.build({"posterior": {"sigma": column}}, {})
        assert "iter_sampling" not in message(fit, "low_ess")
        assert "stanadapt modes" in message(fit, "low_ess")
        assert "longer (iter_sampling)" not in " ".join(verdict(fit).reasons)
    # without gradients, each chain takes hundreds of iterations from one side to the other
    fits = [made(attributes={"n_gradients": 0}, x=x) for x in (walk(0.02), shifted(9.0))]
    slow, apart = (message(fit, "low_ess") for fit in fits)
    assert ("modes (" not in slow.partition("use")[0], "times as many" in slow) == (True, True)
    assert "another sampler" in slow
    assert "Run longer" in message(fits[0], "high_r_hat")
    assert "stanadapt modes" in apart


@pytest.mark.parametrize("draws", [20, 50, 100, 399])
@pytest.mark.parametrize("by", [0.0, 0.15])
def test_more_draws_are_advised_while_a_run_is_merely_short(draws, by):
    """Chains start slightly apart, as after a short warm-up, with R-hat up to 1.2."""
    drift = by * np.arange(CHAINS)[:, None]
    short = results.build({"posterior": {"mu": (walk(0.6) + drift)[:, :draws]}}, {})
    assert "no remedy" not in " ".join(verdict(short).reasons)
    assert "iter_sampling=" in message(short, "low_ess")
    assert "Run longer" in message(short, "high_r_hat")


@pytest.mark.parametrize("draws", [1, 3])
def test_fits_with_too_few_draws_for_diagnostics_are_too_short(draws):
    columns = results.dataset(made(), "posterior")["mu"].values[:, :draws]
    part = results.build({"posterior": {"mu": columns}}, {})
    assert verdict(part).verdict == "too short"
    assert codes(part) == ["too_few_draws"]


def test_the_halves_of_a_single_chain_must_agree():
    one = results.build({"posterior": {"mu": normal()[:1]}}, {})
    assert verdict(one).verdict == "fine"
    assert codes(one) == ["one_chain"]
    assert "chains=4" in message(one, "one_chain")
    drifting = normal()[:1] + np.linspace(0, 3, DRAWS)
    fit = results.build({"posterior": {"mu": drifting}}, {})
    assert verdict(fit).verdict == "do not use"
    assert codes(fit)[:2] == ["one_chain", "high_r_hat"]
    assert "1.05" in message(fit, "high_r_hat")


def test_warm_up_that_was_cut_and_constants_are_named():
    text = "The log density had not settled. Raise iter_warmup."
    fit = made(attributes={"unsettled": text})
    assert verdict(fit) == ("fine", [text])
    assert codes(fit) == ["warmup_not_settled"]
    cut = {"unsettled": text, "warmup_cut_short": True}
    assert verdict(made(attributes=cut)) == ("too short", [text])
    columns = {f"k{i}": np.full((CHAINS, DRAWS), float(i)) for i in range(5)}
    fit = made(**columns)
    assert verdict(fit).verdict == "fine"
    text = message(fit, "constant_variable")
    assert "k0, k1, k2" in text
    assert "k3" not in text
    part = np.stack([normal(), np.ones((CHAINS, DRAWS))], axis=-1)
    assert verdict(made(L=part)) == ("fine", [])  # an entry of a Cholesky factor


ONE_LOST = np.arange(DRAWS) == 9  # of each chain


@pytest.mark.parametrize(
    ("stats", "level", "expected"),
    [
        (
            {"diverging": np.where(ONE_LOST, np.nan, np.arange(DRAWS) % 40 == [[0]] * CHAINS)},
            "suspect", ["not_finite", "divergences"],
        ),
        (
            {"diverging": np.where(ONE_LOST, None, np.zeros((CHAINS, DRAWS), bool))},
            "suspect", ["not_finite"],
        ),
        ({"energy": np.where(ONE_LOST, np.nan, ENERGY)}, "suspect", ["not_finite"]),
        (
            {"energy": np.where(ONE_LOST, np.inf, ENERGY), "diverging": DIVERGED},
            "fine", ["divergences", "not_finite"],
        ),
        (
            {"reached_max_treedepth": np.where(ONE_LOST, np.nan, np.ones((CHAINS, 1)))},
            "fine", ["max_treedepth"],
        ),
    ],
)  # fmt: skip
def test_a_statistic_that_is_not_a_number_at_some_draws_counts_as_failed(stats, level, expected):
    fit = made(stats)
    assert verdict(fit).verdict == level
    assert codes(fit) == expected
    if "not_finite" in expected:
        assert "4 of 4000" in message(fit, "not_finite")
    if expected[-1] == "divergences":
        assert "100 of 3996 draws (2.50%)" in message(fit, "divergences")


@pytest.mark.parametrize("name", ["acceptance_rate", "diverging", "tree_depth", "energy"])
def test_statistics_may_be_empty(name):
    fit = made({name: np.full((CHAINS, DRAWS), np.nan)})
    assert verdict(fit) == ("fine", [])
    assert np.isnan(divergent_share(fit))


def test_statistics_with_dimensions_in_another_order():
    """The checks of each chain are along draws; a variable without chains is no statistic."""
    rates = np.full((CHAINS, DRAWS), 0.8)
    rates[1] = 0.0
    fit = made()
    for dims, values, level in [
        (("chain", "draw"), rates, "do not use"),
        (("draw", "chain"), rates.T, "do not use"),
        (("draw", "other"), rates.T, "fine"),
    ]:
        stats = xr.Dataset({"acceptance_rate": (dims, values)})
        results.add_groups(fit, {"sample_stats": stats})
        assert verdict(fit).verdict == level
        shown = results.statistics(fit)
        if "other" in dims:
            assert not shown
        else:
            np.testing.assert_array_equal(shown["acceptance_rate"], rates)


@pytest.mark.parametrize("settings", ["None", "[1]", "3", 7])
def test_attributes_of_other_libraries_are_ignored(settings):
    fit = made(attributes={"settings": settings, "parameters": settings})
    assert verdict(fit).verdict == "fine"


def test_parameters_are_judged_if_they_are_recorded():
    fit = made(attributes={"parameters": json.dumps(["mu"])}, y_rep=shifted(3.0))
    assert verdict(fit).verdict == "fine"
    assert verdict(made(y_rep=shifted(3.0))).verdict == "do not use"
    fit = made({}, {"parameters": json.dumps(["renamed"])}, mu=shifted(1.0))
    assert verdict(fit).verdict == "do not use"


@pytest.mark.parametrize("bad", ["z.imag", "t:2"])
@pytest.mark.parametrize("parameters", [["mu", "z", "t"], ["z", "t"]])
def test_the_parts_of_complex_numbers_and_tuples_are_judged(bad, parameters):
    """The attribute has the names in the program."""
    parts = {"z.real": normal(5), "z.imag": normal(6), "t:1": normal(7), "t:2": normal(8)}
    attributes = {"parameters": json.dumps(parameters)}
    rest = {"y_rep": shifted(3.0), "y_rep2.real": shifted(3.0)}
    assert verdict(made({}, attributes, **parts, **rest)) == ("fine", [])
    fit = made({}, attributes, **{**parts, bad: shifted(1.0)}, **rest)
    assert verdict(fit).verdict == "do not use"
    assert bad in message(fit, "high_r_hat")


def test_the_verdict_is_recorded_with_a_warning():
    with warns("high_r_hat", "sigma") as caught:
        fit = judge(made(sigma=shifted(1.0)))
    assert issubclass(caught[0].category, sa.ConvergenceWarning)
    assert fit.attrs["verdict"] == "do not use"
    texts, recorded = (json.loads(fit.attrs[f"verdict_{n}"]) for n in ("reasons", "codes"))
    assert len(texts) == len(recorded)
    assert "sigma" in texts[recorded.index("high_r_hat")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine = judge(made())
    assert fine.attrs["verdict"] == "fine"
    assert json.loads(fine.attrs["verdict_codes"]) == []


def test_skipped_verdicts_are_recorded_and_those_of_fine_fits_compared():
    with warns("not_judged"):
        fit = skip_judging(made())
    assert fit.attrs["verdict"] == "not judged"
    assert json.loads(fit.attrs["verdict_codes"]) == ["not_judged"]
    # the command line shows them only there
    deep = made({"tree_depth": np.full((CHAINS, DRAWS), 10)})
    (remark,) = remarks(sa.compare({"deep": deep}))
    assert remark.code == "max_treedepth"
    for fact in ("deep", "fine", "4000 of 4000"):
        assert fact in remark


PROGRAM = "parameters { vector[2] x; } model { x ~ normal(0, [1, 1000]'); }"


def test_sample_warns_of_its_own_fits():
    """A random walk with one scale for both does not cover 1000 sd in 200 iterations."""
    target = sa.Target(PROGRAM)
    plan = {"chains": 4, "iter_warmup": 100, "iter_sampling": 100}
    with warns("high_r_hat", "x["):
        fit = sa.sample(target, "rwm", seed=1, **plan)
    assert fit.attrs["verdict"] == "do not use"
    assert json.loads(fit.attrs["parameters"]) == ["x"]


@pytest.mark.filterwarnings(r"ignore:.*\[embedded_nuts\]")
def test_stan_nuts_is_judged_alike():
    """The divergences of Stan's NUTS on the centered eight schools are reported."""
    from stanadapt.targets.stan.bundled import find

    target = sa.Target(*find("eight_schools_centered"))
    with warns("divergences"):
        fit = sa.stan_nuts(target, backend="stanli", seed=1)
    assert fit.attrs["verdict"] != "fine"


def test_the_screening_does_not_depend_on_the_size_of_blocks():
    x = np.cumsum(np.random.default_rng(3).normal(size=(300, 4, 60)), axis=2)
    whole = screen(list(x))
    for block in (1, 70 * 240):
        for one, other in zip(screen(list(x), block), whole, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def short_chains(x, **groups):
    """A fit of ours, whose chains had 16 starts in turn."""
    attributes = {"superchains": 16, "chains_kept": list(range(1, len(x) + 1))}
    return results.build({"posterior": {"x": x}, **groups}, attributes)


def test_nested_r_hat_is_of_chains_whose_run_gave_them_shared_starts():
    x = autoregression(0.3, (256, 16), 8)
    ours, part = short_chains(x), short_chains(x)
    assert verdict(ours).verdict == "fine"
    assert sa.summary(ours).r_hat.max() < 1.01
    part.attrs["chains_kept"] = json.dumps([*range(2, 257), 300])
    joined = join({"a": ours, "b": short_chains(x[::-1] + 1e-9)})
    for fit in (results.build({"posterior": {"x": x}}, {}), part, joined):
        found = verdict(fit)
        assert found.verdict != "fine"
        assert found.reasons[0].startswith("R-hat of x is 1.0")
        assert sa.summary(fit).r_hat.max() > 1.01
    apart = x + 6.0 * (np.arange(256) % 32 < 16)[:, None]
    assert verdict(short_chains(apart)).verdict == "do not use"
    assert "The nested R-hat" in verdict(short_chains(apart)).reasons[0]


@pytest.mark.parametrize("draws", [4, 8, 9])
def test_few_draws_per_chain_have_no_effective_sample_size(draws):
    """ArviZ's estimate is its upper limit, whatever the draws: 6,782 for 256 x 8."""
    x = np.random.default_rng(draws).normal(size=(256, draws))
    fit = short_chains(x)
    found = verdict(fit)
    assert found.verdict != "fine"
    (reason,) = (each for each in found.reasons if each.code == "low_ess")
    assert f"cannot be estimated from {draws} draws per chain" in reason
    assert sa.summary(fit).ess_bulk.max() <= x.size
    assert draws >= 8 or all("nested" not in each for each in found.reasons)


def test_of_256_short_chains_one_that_is_stuck_is_seen():
    """Without it they are fine, although split R-hat is 1.03, and energies of 16 draws vary."""
    x, energy = autoregression(0.3, (256, 16), 3), autoregression(0.2, (256, 16), 4)
    stuck = np.where(np.arange(256)[:, None] == 40, 7.0 + 0.1 * x, x)
    fine, seen = (
        verdict(short_chains(each, sample_stats={"energy": energy})) for each in (x, stuck)
    )
    assert (fine.verdict, seen.verdict) == ("fine", "do not use")
    assert "low_bfmi" not in codes_of(fine.reasons)
    assert any("Chain 41 " in reason for reason in seen.reasons)


@pytest.mark.parametrize("attributes", [{}, {"superchains": 16, "chains_kept": [*range(1, 257)]}])
def test_one_chain_far_from_255_is_seen_among_many_slow_columns(attributes):
    """R-hat of 16 correlated draws exceeds that of its column in others, by chance."""
    x = np.moveaxis(autoregression(0.9, (256, 300, 16), 5), 1, 2)
    x[77, :, 150] += 11.0  # R-hat and effective sizes of eight others are worse
    found = verdict(results.build({"posterior": {"x": x}}, attributes))
    assert any("of x[151] is" in reason and "Chain 78 " in reason for reason in found.reasons)
