"""sample(): evaluations and gradients that fail, and Ctrl-C."""

import re
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numba import carray, cfunc

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from stanadapt.engine.density import GRADIENT_SIGNATURE, VALUE_SIGNATURE, make_density
from stanadapt.errors.codes import codes_of
from tests.helpers.codes import raises, warns
from tests.helpers.short_runs import NORMAL, PIN, THROWING_QUANTITY, WALL, draw, values
from tests.helpers.stan_target import shared_target


def test_throwing_densities_are_rejected_counted_and_reported_once():
    target = sa.Target(WALL)
    with warns("failed_evaluations") as caught:
        fit = draw(
            target, iter_warmup=100, iter_sampling=400, save_warmup=True, initial_scale=1.2,
            inits={"x": 1.0}, standardize=False,
        )  # fmt: skip
    (warning,) = (w for w in caught if w.message.code == "failed_evaluations")
    assert warning.filename == draw.__code__.co_filename  # which called sample
    text = str(warning.message)
    failed, total = fit.attrs["n_failed"], fit.attrs["n_gradients"]
    assert f"{failed} of {total}" in text
    assert "Scale parameter is -" in text  # Stan's words
    assert "\n" not in text
    assert 0.15 < failed / total < 0.6  # about a third: otherwise the test would be empty
    # failed proposals were rejected: nothing else has an acceptance rate of exactly 0
    rates = [values(fit, "acceptance_rate", g) for g in ("sample_stats", "warmup_sample_stats")]
    assert failed == sum((rate == 0).sum() for rate in rates)
    assert (values(fit, "x") > -0.43).all()


@pytest.mark.parametrize("standardize", [False, True])
def test_the_point_of_a_failure_is_the_one_that_stan_speaks_of(standardize):
    """On the parameters' own scales, whatever the coordinates of the sampler."""
    code = """
    parameters { real<lower=0> s; vector[2] x; array[5] real z; }
    model {
      s ~ lognormal(3, 1);
      x ~ normal(100, 1);
      z ~ std_normal();
      1 ~ gamma(2, 101.5 - x[2]);
    }
    """
    inits = {"s": 20.0, "x": [100.0, 100.0], "z": [0.0] * 5}
    with warns("failed_evaluations") as caught:
        draw(
            sa.Target(code), "rwm", iter_warmup=400, iter_sampling=400, inits=inits,
            standardize=standardize,
        )  # fmt: skip
    (text,) = [str(w.message) for w in caught if w.message.code == "failed_evaluations"]
    found = re.search(
        r"Inverse scale parameter is (\S+), but .* s = (\S+), x\[1\] = (\S+), "
        r"x\[2\] = (\S+), z\[1\] = \S+, z\[2\] = \S+, z\[3\] = \S+ .*2",
        text,
    )
    assert found, text
    rate, s, first, second = map(float, found.groups())
    assert rate == pytest.approx(101.5 - second, abs=0.06)  # four digits are shown of x
    assert s > 0
    assert 90 < first < 110


CLIFF = "parameters { real x; } model { x ~ std_normal(); 1 ~ gamma(2, %g - x); }"


def test_a_few_failures_in_warmup_alone_are_not_reported():
    """The first proposals are thirty standard deviations long, and later ones shorter.

    Failures while drawing are reported, however few: here 0.4 % of proposals.
    """
    lengths = {"iter_warmup": 2000, "iter_sampling": 2000, "standardize": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error", sa.errors.StanadaptWarning)
        warnings.simplefilter("ignore", sa.errors.ConvergenceWarning)
        fit = draw(sa.Target(CLIFF % 20), "rwm", initial_scale=30.0, **lengths)
    assert fit.attrs["n_failed"] > 0
    with warns("failed_evaluations"):
        fit = draw(
            sa.Target(CLIFF % 4), "rwm", initial_scale=1.0, inits={"x": 0.0},
            **lengths | {"iter_warmup": 0},
        )  # fmt: skip
    assert 0 < fit.attrs["n_failed"] < 0.01 * fit.attrs["n_density"]


def test_divergences_are_reported():
    steps = {"tune": {"step_size": 0.1}, "too_long": {"step_size": 60.0}}
    target = sa.Target(NORMAL)
    draw(target, "hmc", **steps["tune"])  # no warning: nothing diverges
    with warns("divergences") as caught:
        fit = draw(target, "hmc", iter_warmup=0, **steps["too_long"])
    count = values(fit, "diverging", "sample_stats").sum()
    assert count > 0
    (text,) = [str(w.message) for w in caught if w.message.code == "divergences"]
    assert f"{count} of 80" in text


def test_throwing_quantities_cost_their_draws_not_the_run():
    target = sa.Target(THROWING_QUANTITY)
    with warns("failed_quantities") as caught:
        fit = draw(target, iter_sampling=200)
    (text,) = (str(w.message) for w in caught if w.message.code == "failed_quantities")
    z = values(fit, "z")
    lost = int(np.isnan(z).sum())
    assert 0 < lost < z.size
    assert fit.attrs["n_failed_quantities"] == lost
    assert str(lost) in text
    assert "Scale parameter is -" in text  # Stan's words
    assert "\n" not in text
    assert np.isfinite(values(fit, "lp", "sample_stats")).all()
    assert np.isfinite(values(fit, "x")).all()
    np.testing.assert_array_equal(np.isnan(z), values(fit, "x") < -0.5)


@pytest.mark.filterwarnings(r"ignore:.*\[nothing_compared\]")
def test_chains_that_only_fail_are_stopped_with_stans_message():
    target = sa.Target(PIN)
    with raises("no_draws", "2 of 2", "1000", "inits") as caught:
        draw(target, inits=0, iter_warmup=5, iter_sampling=1_000_000)
    assert caught.value.stage == "sampling"
    assert "Scale parameter is -" in caught.value.stan


@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_a_stopped_chain_is_left_out_and_reported():
    # an open region around 0, and one of 1e-6 around 500 in which every proposal fails
    code = """
    parameters { real x; }
    model { 0 ~ normal(0, fmax(1 - square(x), 1e-12 - square(x - 500))); }
    """
    target = sa.Target(code)
    with warns("stopped_chains", "chain 2", "1 of 2"):
        fit = draw(
            target, inits=[{"x": 0.1}, {"x": 500.0}], iter_warmup=0, iter_sampling=1500,
            initial_scale=0.3,
        )  # fmt: skip
    assert list(np.atleast_1d(results.attribute(fit, "chains_kept"))) == [1]
    assert fit.attrs["n_stopped"] == 1
    assert values(fit, "x").shape == (1, 1500)
    assert (np.abs(values(fit, "x")) < 1).all()


ENDLESS = 3_000_000


def ctrl_c(when):
    """Return a progress function that sends a run Ctrl-C once a condition on its chains holds."""
    pressed = []

    def update(progress):
        if not pressed and when(progress.chains):
            pressed.append(True)
            raise KeyboardInterrupt

    return {"show_progress": update}


def all_have_draws(chains):
    return all(chain.draws > 20 for chain in chains)


normal = shared_target(NORMAL)


def draw_until_ctrl_c(target, **options):
    """Draw; a warning reports the chain that lags far behind and is left out, if there is one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cut = draw(target, parallel_chains=2, **options)
    left_out = {1, 2} - set(np.atleast_1d(results.attribute(cut, "chains_kept")))
    assert len(caught) == len(left_out)
    for number in left_out:
        assert caught[0].message.code == "chains_too_short"
        assert f"chain {number}" in str(caught[0].message)
    return cut


@pytest.mark.parametrize("thin", [1, 7])
def test_ctrl_c_returns_the_draws_so_far(normal, thin):
    options = {"thin": thin, "save": "unconstrained", "save_warmup": True}
    cut = draw_until_ctrl_c(normal, **ctrl_c(all_have_draws), iter_sampling=ENDLESS, **options)
    assert cut.attrs["interrupted"] == 1
    assert cut.attrs["n_gradients"] < 2 * ENDLESS
    length = values(cut, "x").shape[1]
    assert 20 < length < ENDLESS // thin
    whole = draw(normal, iter_sampling=thin * (length + 5), **options)
    kept = np.atleast_1d(results.attribute(cut, "chains_kept")) - 1
    assert set(results.group_names(cut)) == set(results.group_names(whole))
    for group in results.group_names(cut):
        rows = -(-30 // thin) if "warmup" in group else length
        for name, variable in results.dataset(cut, group).items():
            expected = values(whole, name, group)[kept, :rows]
            np.testing.assert_array_equal(variable.values, expected, err_msg=f"{group} {name}")


def test_ctrl_c_before_and_after_the_draws(normal):
    with raises("interrupted", "iter_warmup"):
        draw(normal, iter_warmup=ENDLESS, **ctrl_c(lambda chains: chains[0].n_done > 20))
    finished = ctrl_c(lambda chains: all(chain.n_done == chain.n_total for chain in chains))
    fit = draw(normal, **finished)
    assert fit.attrs["interrupted"] == 0
    assert values(fit, "x").shape == (2, 40)


# the command itself, which also reports when it has drawn something: only then is Ctrl-C a test;
# a background job of a shell, as a CI runner may be, passes on that SIGINT is ignored
COMMAND = """
import re
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from stanadapt import cli
from stanadapt.engine import console
from stanadapt.runs import begin

class Reporting(console.Silent):
    def update(self, chains):
        if all(chain.sampling.rows for chain in chains):
            print("sampling", flush=True)

begin.reporter = lambda show, task: Reporting()
cli.main()
"""


@pytest.mark.slow
def test_a_real_sigint_ends_the_command_soon_with_a_file(tmp_path):
    out = tmp_path / "fit.nc"
    arguments = [
        "sample", "neal", "--chains", "2", "--parallel-chains", "2", "--seed", "3",
        "--iter-warmup", "200", "--iter-sampling", "2000000000", "--thin", "400000",
        "--out", str(out),
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "sampling\n"
        process.send_signal(signal.SIGINT)
        # the whole run would take hours
        printed, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "interrupted" in printed
    assert str(out) in printed.replace("\n", "")
    fit = sa.load(out)
    assert fit.attrs["interrupted"] == 1
    assert 0 < results.dataset(fit, "posterior").sizes["draw"] < 5000


DIM = 2
PROGRAM = "parameters { vector[2] x; } model { x ~ std_normal(); }"


@cfunc(VALUE_SIGNATURE)
def _value(edge, propto, jacobian, position, value, message):
    x = carray(position, DIM)
    carray(value, 1)[0] = -0.5 * (x[0] ** 2 + x[1] ** 2)
    return 0


@cfunc(GRADIENT_SIGNATURE)
def _gradient(edge, propto, jacobian, position, value, gradient, message):
    x, limit, slope = carray(position, DIM), carray(edge, 1, np.float64), carray(gradient, DIM)
    carray(value, 1)[0] = -0.5 * (x[0] ** 2 + x[1] ** 2)
    for i in range(DIM):
        slope[i] = -x[i] if x[0] < limit[0] else np.nan
    return 0


class CutOff(sa.Target):
    """A standard normal density without a gradient beyond an edge."""

    def __init__(self, edge):
        self.edge = np.array([edge])
        super().__init__(PROGRAM, backend="stanli")

    def density(self, chain=0):
        return make_density(_value.address, _gradient.address, self.edge.ctypes.data, DIM)

    def evaluate(self, position):
        slope = -position if position[0] < self.edge[0] else np.full(DIM, np.nan)
        return -0.5 * float(position @ position), slope, ""


@pytest.mark.parametrize("sampler", ["gad_mala", "nuts"])
def test_draws_that_lack_a_region_are_suspect(sampler):
    lengths = {"iter_warmup": 1000, "iter_sampling": 1000, "chains": 2, "seed": 1}
    with warns("failed_evaluations", "or its gradient was not finite", "lack that region"):
        fit = sa.sample(CutOff(1.0), sampler, **lengths)
    assert fit.posterior["x"].values[..., 0].max() < 1.0
    assert verdict(fit).verdict == "suspect"
    assert "no_gradient" in codes_of(verdict(fit).reasons)


def test_far_out_it_is_of_no_consequence():
    """Steps that are far too long end where no draw would be."""
    lengths = {"iter_warmup": 0, "iter_sampling": 400, "chains": 2, "seed": 1}
    with warns("failed_evaluations", "had no finite density and"):
        fit = sa.sample(CutOff(7.0), "hmc", step_size=40.0, standardize=False, **lengths)
    assert fit.attrs["n_failed"] > 0
    assert "no_gradient" not in codes_of(verdict(fit).reasons)
