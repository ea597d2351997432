"""Check the draws of a fit: chains that do not move, R-hat and effective sample sizes.

A diagnostic that cannot be computed counts as failed.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16: R-hat below 1.01, 100 effective draws per
chain in the bulk and in the tails.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics import mixing, reasons
from stanadapt.diagnostics.control_variates.agreement import disagreement
from stanadapt.diagnostics.mixing import ESS_PER_CHAIN, FEWEST_TOLD, R_HAT, R_HAT_UNUSABLE, limits
from stanadapt.diagnostics.outlying_chain import describe_outlying_chain
from stanadapt.diagnostics.ranked import MANY_CHAINS, is_nested, lone_chain
from stanadapt.diagnostics.reasons import DO_NOT_USE, FINE, TOO_SHORT, Check, Worse, count_draws
from stanadapt.diagnostics.screening import Screened, is_constant, screen
from stanadapt.diagnostics.symmetries import advise_on_symmetry
from stanadapt.errors import first_of
from stanadapt.results import Fit

LONGEST_STAY = 0.5  # share of its length for which a chain may repeat one draw
# a stay deserves a remark from this number of repetitions on, if it is this number of times as long
# as rejections at the chain's own rate explain
REMARKABLE_STAY, TIMES_EXPLAINED = 100, 5.0
FIXED_PARAM = "fixed_param"  # of fits without chains, CmdStan's and ours: draws are independent
# a run may be advised to be this many times as long; chains that need more hardly move between
# regions, for any reason
MOST_TIMES = 5
# draws per chain that distinguish chains that hardly move from short ones; fewer do if chains far
# apart have effective draws of their own. A length with which a run shows which it is
TELLING, FEWEST_TELLING, TELLING_LENGTH = 400, 100, 1000
FAR_APART, OWN_ESS = 1.2, 25  # R-hat, and effective draws around the mean of each chain
LEAST_P = 1e-3  # of all quantities, below which chains differ after control variates
IMPROPER = {"flat_direction", "unbounded_direction"}  # codes of notes
NAMED = 3  # variables that a message lists

Found = Mapping[str, Any]


class Drawn(reasons.Judged):
    """The draws of a fit, with their measures."""

    def __init__(self, fit: Fit) -> None:
        super().__init__(fit)
        columns = results.columns(fit, wanted=results.parameters(fit))
        every = {name: np.asarray(x, dtype=float) for name, x in columns.items()}
        # A column with a single value may be constant by nature, such as an entry of a Cholesky
        # factor. It is left out, and reported only if the whole variable is constant
        moving = {n: x for n, x in every.items() if not (is_constant(x) and np.isfinite(x.flat[0]))}
        self.columns = moving or every
        variables = dict.fromkeys(map(results.variable_of, every))
        vary = set(map(results.variable_of, self.columns))
        self.constant = [name for name in variables if name not in vary]
        self.chains, self.draws = next(iter(every.values())).shape if every else (0, np.inf)

    @cached_property
    def same(self) -> np.ndarray:
        """Whether all parameters are those of the draw before, shape (chain, draw - 1)."""
        first, *others = self.columns.values()
        same = first[:, 1:] == first[:, :-1]
        for x in others:
            # further parameters can only shorten a stay
            longest = max(map(longest_run, same))
            if longest < min(LONGEST_STAY * self.draws, self.draws - 1, REMARKABLE_STAY):
                break
            same &= x[:, 1:] == x[:, :-1]
        return same

    @cached_property
    def screened(self) -> Screened:
        return screen(list(self.columns.values()))

    @cached_property
    def mixed(self) -> dict[str, mixing.Mixing]:
        """The mixing of the columns that a fast screening ranks worst."""
        return mixing.measure_worst(self.columns, self.screened, mixing.mixing_of(self.fit))

    @cached_property
    def smallest(self) -> tuple[float, str, str]:
        """The smallest effective sample size, its column, and its kind."""
        return min(
            (value if np.isfinite(value) else 0.0, name, kind)  # NaN counts as the worst
            for name, one in self.mixed.items()
            for kind, value in (("bulk", one.ess_bulk), ("tail", one.ess_tail))
        )

    @property
    def times(self) -> int:
        """How many times as many draws should suffice."""
        enough = limits(self.chains, self.draws)[1]
        return int(np.ceil(enough / max(self.smallest[0], 1.0)))

    @property
    def may_be_improper(self) -> bool:
        """Whether the run itself reports it."""
        return not IMPROPER.isdisjoint(results.from_json(self.fit, "note_codes", []))

    @cached_property
    def symmetry(self) -> str:
        """How chains that hardly move differ by a symmetry of the posterior; "" if they do not."""
        if not self.hardly_moves:
            return ""
        worst = max(self.mixed, key=lambda name: self.mixed[name].r_hat)
        return advise_on_symmetry(self.columns, worst)

    @property
    def walks(self) -> bool:
        """Whether its sampler used no gradient: slow chains of a random walk need not be apart."""
        return not int(self.attribute("n_gradients", 1))

    @cached_property
    def hardly_moves(self) -> bool:
        """Whether chains hardly move between regions, so that more draws are no remedy."""
        if self.draws >= TELLING and not self.walks:
            apart = any(one.r_hat > R_HAT_UNUSABLE for one in self.mixed.values())
            return apart or self.times > MOST_TIMES
        return self.draws >= FEWEST_TELLING and any(
            mixing.mixing(x - x.mean(axis=1, keepdims=True)).ess_bulk > OWN_ESS * self.chains
            for x in (self.columns[n] for n, one in self.mixed.items() if one.r_hat > FAR_APART)
        )


def _frozen(fit: Drawn) -> Found:
    frozen = fit.same.all(axis=1) if fit.columns else np.zeros(1, bool)
    return {"value": frozen.any(), "chains": reasons.numbers_of(frozen)}


def longest_run(same: np.ndarray) -> int:
    """Return the length of the longest run of True."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    return int(np.max(ends[1::2] - ends[::2], initial=0))


def _stuck(fit: Drawn) -> Found:
    if not fit.columns or fit.draws < 10:
        return {}
    stays = [longest_run(row) / fit.draws for row in fit.same]
    return {"value": max(stays), "chain": int(np.argmax(stays)) + 1}


def _sticking(fit: Drawn) -> Found:
    """Compare the longest stay of each chain with that of independent rejections.

    In n steps, each accepted with probability a, it is about log(n a) / -log(1 - a).
    """
    if not fit.columns or fit.draws <= REMARKABLE_STAY:
        return {}
    stays = np.array([longest_run(row) for row in fit.same])
    moves = np.clip(1.0 - fit.same.mean(axis=1), 1.0 / fit.draws, 1.0 - 1e-9)
    explained = np.maximum(np.log(fit.draws * moves) / -np.log1p(-moves), 1.0)
    times = np.where(stays < REMARKABLE_STAY, 0.0, stays / explained)
    chain = int(np.argmax(times))
    return {
        "value": times[chain], "chain": chain + 1, "stay": stays[chain],
        "explained": round(explained[chain]),
    }  # fmt: skip


def _not_finite(fit: Drawn) -> Found:
    bad = np.flatnonzero(~fit.screened.finite) if fit.columns else np.empty(0, int)
    if not bad.size:
        return {}
    name = list(fit.columns)[bad[0]]
    failed = ~np.isfinite(fit.columns[name])
    draws, chains = count_draws(failed.mean(), failed.size), reasons.numbers_of(failed.any(axis=1))
    return {"value": True, "name": name, "draws": draws, "chains": chains}


def _r_hat(fit: Drawn) -> Found:
    """Measure R-hat of several chains."""
    if fit.chains < 2:
        return {}
    found = _worst_r_hat(fit, {name: one.r_hat for name, one in fit.mixed.items()}, R_HAT)
    short = fit.draws < TELLING or fit.walks or found["value"] <= R_HAT_UNUSABLE
    remedy = LONGER if short and not fit.hardly_moves else OTHERWISE.format(other=fit.other)
    if found["outlier"] and fit.chains >= MANY_CHAINS:
        remedy = ALONE.format(other=fit.other)
    remedy = fit.symmetry or remedy
    return {**found, "remedy": BOUND if fit.may_be_improper else remedy}


def _worst_r_hat(fit: Drawn, r_hat: dict[str, float], limit: float) -> Found:
    # NaN counts as the worst
    values = {name: np.inf if np.isnan(x) else x for name, x in r_hat.items()}
    # R-hat of short chains may exceed by chance that of a column with one chain far from all others
    lone = [n for n, x in values.items() if x > limit and _has_lone_chain(fit.columns[n])]
    name = max(lone or values, key=lambda name: values[name])
    value = values[name]
    shared = mixing.mixing_of(fit.fit) is not mixing.mixing
    nested = shared and is_nested(fit.chains, fit.draws)
    column = fit.columns[name]
    outlier = describe_outlying_chain(column, r_hat[name], nested) if value > limit else ""
    kind = "The nested R-hat (of superchains with one start each)" if nested else "R-hat"
    return {"value": value, "name": name, "r_hat": r_hat[name], "outlier": outlier, "kind": kind}


def _has_lone_chain(draws: np.ndarray) -> bool:
    return len(draws) >= MANY_CHAINS and lone_chain(draws) is not None


def _r_hat_of_halves(fit: Drawn) -> Found:
    """Measure R-hat of the halves of a single chain."""
    if fit.chains != 1 or fit.draws < 8:
        return {}
    columns = [fit.columns[name] for name in fit.mixed]
    measured = mixing.map_columns(mixing.halves_r_hat, columns)
    return _worst_r_hat(fit, dict(zip(fit.mixed, measured, strict=True)), R_HAT_UNUSABLE)


def _lacking_draws(fit: Drawn) -> Found:
    if not fit.columns:
        return {}
    (ess, name, kind), enough = fit.smallest, int(limits(fit.chains, fit.draws)[1])
    per_chain = "" if enough < ESS_PER_CHAIN * fit.chains else f" ({ESS_PER_CHAIN} per chain)"
    thin = int(fit.attribute("thin", 1))
    problem = f"The {kind} effective sample size of {name} is {ess:.0f}, below {enough}{per_chain}."
    if fit.may_be_improper:
        remedy = f"A longer run is no remedy. {BOUND}"
    elif fit.draws < FEWEST_TOLD:
        problem = (
            f"Effective sample sizes cannot be estimated from {fit.draws} draws per chain, "
            f"fewer than {FEWEST_TOLD}."
        )
        remedy = f"Draw more (iter_sampling={TELLING_LENGTH * thin})."
    elif fit.symmetry:
        remedy = "A longer run is no remedy."
    elif fit.hardly_moves:
        remedy = (
            "A longer run is no remedy: the chains hardly move from one region to another, such as "
            "separate modes, parameters that can exchange their roles (`stanadapt modes` lists "
            "modes), or a direction that nothing bounds. Order or inform these parameters, or use "
            f"{fit.other}."
        )
    elif fit.times > MOST_TIMES and (fit.draws < TELLING or not fit.walks):
        remedy = (
            f"{fit.draws} draws per chain are too few to tell why: draw more "
            f"(iter_sampling={TELLING_LENGTH * thin})."
        )
    else:
        length = fit.times * fit.draws * thin
        other = f", or use {fit.other}" if fit.times > MOST_TIMES else ""
        remedy = f"Draw {fit.times} times as many (iter_sampling={length}){other}."
    return {"value": enough - ess, "problem": problem, "remedy": remedy}


def _chains_differ(fit: Drawn) -> Found:
    """Compare the means of chains with control variates, if the fit has gradients."""
    if not fit.columns or results.UNCONSTRAINED not in results.group_names(fit.fit):
        return {}
    kept = results.dataset(fit.fit, results.UNCONSTRAINED)
    if not {"position", results.GRADIENT} <= {*kept} or fit.attribute("hard_edges") is not None:
        return {}
    x, g = (kept[name].transpose("chain", "draw", ...).values for name in ("position", "gradient"))
    moving = {name: x for name, x in fit.columns.items() if not is_constant(x)}
    name, errors, p = disagreement(x, g, moving)
    longer = "" if fit.hardly_moves else ", or run longer (iter_sampling)"
    return {"value": p < LEAST_P, "name": name, "errors": errors, "longer": longer}


def _missing_quantities(fit: reasons.Judged) -> Found:
    """Find quantities, apart from parameters that move, that are not finite at some draws."""
    parameters = results.parameters(fit.fit) if isinstance(fit, Drawn) else ()
    if parameters is None or "failed_quantities" in str(fit.attribute("note_codes", "")):
        return {}
    found = {}
    for group in {"posterior", "posterior_predictive"} & {*results.group_names(fit.fit)}:
        for name, x in results.dataset(fit.fit, group).data_vars.items():
            if results.variable_name(str(name)) in parameters or x.dtype.kind != "f":
                continue
            bad = ~np.isfinite(x.transpose("chain", "draw", ...).values)
            draws = int(bad.any(axis=tuple(range(2, bad.ndim))).sum())
            if draws:
                found[str(name)] = draws
    listed = (f"{name} ({found[name]:,})" for name in sorted(found))
    return {"value": len(found), "names": first_of(listed, NAMED)}


DISAGREE = (
    "{{kind}} of {{name}} is {{r_hat:.3f}}, above {limit:g}: {who} disagree. {{outlier}}{remedy}"
)
LONGER = "Run longer (iter_sampling)."
BOUND = "A note on this fit says that it may be improper: bound all directions by priors or data."
ALONE = (
    "If it is in a separate mode, a longer run is no remedy: start it elsewhere (inits), use "
    "{other}, or, if its log density is far below that of the others, leave it out and say so."
)
OTHERWISE = "Lengthen warm-up (iter_warmup), or use {other}."
BETWEEN = DISAGREE.format(limit=R_HAT, who="the chains", remedy="{remedy}")
MOVES = (
    Check(
        "too_few_draws", lambda fit: {"value": fit.draws < 2}, TOO_SHORT,
        "One draw per chain cannot be judged: raise iter_sampling.",
        ends=True,
    ),
    Check(
        "frozen_chain", _frozen, DO_NOT_USE,
        "Chain {chains} never moved: all of its draws are the same. Start elsewhere (inits), "
        "lengthen warm-up (iter_warmup), or use {other}.",
        ends=True,
    ),
    Check(
        "stuck_chain", _stuck, DO_NOT_USE,
        "Chain {chain} repeats one draw for {value:.0%} of its length: it got stuck. Lengthen "
        "warm-up (iter_warmup), or use {other}.",
        above=LONGEST_STAY,
    ),
)  # fmt: skip
CONVERGENCE = (
    Check(
        "not_finite", _not_finite, DO_NOT_USE,
        "{name} has draws that are not finite: {draws}, in chain {chains}. Check that the data or "
        "a prior keep it within bounds, or start elsewhere (inits).",
        ends=True,
    ),
    Check(
        "too_few_draws", lambda fit: {"value": fit.draws < 4, "draws": fit.draws}, TOO_SHORT,
        "{draws} draws per chain cannot be judged: raise iter_sampling.",
        ends=True,
    ),
    Check(
        "one_chain", lambda fit: {"value": fit.chains == 1}, FINE,
        "There is only one chain, so it is unknown whether chains from other starting points would "
        "agree. Run several chains (chains=4).",
    ),
    Check(
        "high_r_hat", _r_hat, TOO_SHORT, BETWEEN, above=R_HAT,
        worse=Worse(R_HAT_UNUSABLE, DO_NOT_USE, BETWEEN),
    ),
    Check(  # with few draws, R-hat of halves may exceed the lower limit by chance
        "high_r_hat", _r_hat_of_halves, DO_NOT_USE,
        DISAGREE.format(limit=R_HAT_UNUSABLE, who="the halves of the chain", remedy=OTHERWISE),
        above=R_HAT_UNUSABLE,
    ),
    Check(
        "low_ess", _lacking_draws, TOO_SHORT, "{problem} {remedy}",
    ),
    Check(
        "sticking_chain", _sticking, FINE,
        "Chain {chain} repeats one draw {stay} times, where its other moves lead one to expect at "
        "most about {explained}: from a region, such as a steep or a narrow tail, it hardly moves, "
        "and few visits represent that region. Use standardized coordinates if they are off, "
        "shorter steps, or {other}.",
        above=TIMES_EXPLAINED,
    ),
    Check(
        "chains_differ", _chains_differ, FINE,
        "With control variates, which remove most of the noise, the mean of {name} in one chain is "
        "{errors:.1f} standard errors from that in all: chains have not quite forgotten where they "
        "started. Lengthen warm-up (iter_warmup){longer}.",
    ),
)  # fmt: skip
MISSING = Check(
    "missing_quantities", _missing_quantities, FINE,
    "Not finite at some draws, with the number of these: {names}. Their rows in summaries are "
    "blank; parameters are unaffected. Check the statements that compute them.",
)  # fmt: skip
CONSTANT = (
    Check(
        "constant_variable",
        lambda fit: {"value": len(fit.constant), "names": first_of(fit.constant, NAMED)}, FINE,
        "Not judged, since all draws are equal: {names}. If they should vary, check the program, "
        "or give other inits.",
    ),
    MISSING,
)  # fmt: skip
INDEPENDENT = (
    Check(
        "independent_draws", lambda fit: {"value": True}, FINE,
        "Draws are independent, since no parameter moved: there is no chain to judge.",
    ),
    MISSING,
)  # fmt: skip
