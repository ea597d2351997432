"""Train a network for the sampler nice: alternate training steps with runs of the sampler.

The runs, called rehearsals, provide new draws to learn from, and measure how good the network is.
"""

import time
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.mixing import efficiency
from stanadapt.engine.chain import Chain, ChainDesign, run
from stanadapt.engine.console import Report, status
from stanadapt.engine.density import VALUE_CALLS
from stanadapt.engine.plan import Plan, make_plan
from stanadapt.engine.registry import find
from stanadapt.errors import Message, StanadaptError, require_between, require_whole, warn
from stanadapt.samplers.initial_values import initial_positions, positions_of_fit
from stanadapt.samplers.nice.network import Network
from stanadapt.samplers.nice.nice import init_with
from stanadapt.targets.target import (
    Target,
    check_same_target,
    require_exact_density,
    require_target,
)

WARMUP = 500  # discarded iterations of a rehearsal
KEPT = 0.5  # share of earlier draws in the buffer
# standard deviation of draws in the network's units: narrow modes come close to the width of v
SPREAD = 3.0


class Rehearsal(NamedTuple):
    """Result of a run with a network."""

    draws: np.ndarray  # shape (chain, draw, dim), on the unconstrained scale
    # smallest bulk effective sample size of a coordinate, divided by the number of draws
    ess_per_draw: float
    acceptance: float  # share of accepted proposals of the network
    n_density: int  # number of density evaluations


def rehearse(
    target: Target, network: Network, plan: Plan, positions: Any, rngs: list[np.random.Generator]
) -> Rehearsal | None:
    """Run `nice` from positions, one per chain; None after Ctrl-C."""
    sampler, settings = find("nice")
    init = init_with(network)
    design = ChainDesign(sampler, settings, plan, 0, keep_unconstrained=True, init=init)
    chains = [
        Chain(design, target.density(i), np.array(position), rng, lambda _: _constrain_nothing)
        for i, (position, rng) in enumerate(zip(positions, rngs, strict=True))
    ]
    if run(chains, plan.parallel_chains):
        return None
    count = min(chain.sampling.rows for chain in chains)
    positions = [np.asarray(chain.sampling.unconstrained) for chain in chains]
    draws = np.stack([array[:count] for array in positions])
    stats = np.concatenate([chain.sampling.stats[:count] for chain in chains])
    local, accepted = (chains[0].stat_names.index(name) for name in ("local", "accepted"))
    return Rehearsal(
        draws,
        _smallest_ess(draws) / draws[..., 0].size,
        float(stats[stats[:, local] == 0, accepted].mean()),
        sum(int(chain.density.calls[VALUE_CALLS]) for chain in chains),
    )


def _smallest_ess(draws: np.ndarray) -> float:
    columns = {f"x[{i}]": draws[..., i] for i in range(draws.shape[-1])}
    ess = efficiency(columns).ess_bulk  # without coordinates that never moved
    complete = len(ess) == len(columns) and bool(np.isfinite(ess).all())
    return float(ess.min()) if complete else 0.0


def _constrain_nothing(positions: np.ndarray, out: np.ndarray) -> int:
    return 0


def train_nice(
    target: Target,
    *,
    warm_start: Any = None,
    inits: Any = None,
    iterations: int = 2000,
    width: int = 128,
    critic_width: int = 256,
    auxiliary: int | None = None,
    from_noise: int = 8,
    from_data: int = 2,
    batch: int = 32,
    learning_rate: float = 5e-4,
    rehearse_every: int = 250,
    chains: int = 8,
    draws: int = 2000,
    seed: int | None = None,
    show_progress: bool = True,
) -> Network:
    """Train a network that proposes moves for `sample(target, "nice", network=...)`.

    Every `rehearse_every` steps, chains are run with the current network (a rehearsal), and
    training continues with their draws. The network with the most effective draws is returned.
    Training uses no gradients of the density. It needs JAX and optax: pip install
    'stanadapt[learn]'.

    Parameters
    ----------
    target : Target
        A Stan program with its data; its density must not be an estimate.
    warm_start : fit, path or str, optional
        An earlier fit of the same program and data, or its file or run folder, which provides the
        first draws. If this fit has visited all modes, the network learns to reach all of them.
        Default: draws with a network of random weights, which reach a mode only if chains start in
        it or jump there by chance.
    inits : str, mapping or sequence, optional
        Starting points of the first chains: see `initial_values.initial_positions`.
    iterations : int
        Number of training steps of the generator; the critic makes five steps for each of them.
    width, critic_width : int
        Number of hidden units in each coupling, and in each of the three layers of the critic.
    auxiliary : int, optional
        Number of coordinates of v; default: the number of parameters.
    from_noise, from_data : int
        Lengths of the longest chains in training that start from noise and from draws (B and M of
        the paper).
    batch : int
        Batch size of the training.
    learning_rate : float
        Learning rate of Adam, in (0, 1).
    rehearse_every : int
        Number of steps between rehearsals.
    chains, draws : int
        Number of chains in each rehearsal, and of draws of each chain.
    seed : int, optional
        Random seed, 0 to 2**32 - 1; default: a random one, recorded in `description`.
    show_progress : bool
        Whether to show a line for each rehearsal, with losses, acceptance rate and effective draws.

    Returns
    -------
    Network
        `description` records the training: seconds, evaluations, and the `history` of rehearsals.
        After Ctrl-C, or if losses are no longer finite: the best so far, with a warning.

    Raises
    ------
    StanadaptError
        Before training for wrong arguments; stage "installation" without JAX.

    Examples
    --------
    >>> import stanadapt as sa
    >>> from stanadapt.samplers.nice.train import train_nice
    >>> target = sa.Target(
    ...     "parameters { real x; } model { target += log_mix(0.5, normal_lpdf(x | -4, 1), "
    ...     "normal_lpdf(x | 4, 1)); }"
    ... )  # doctest: +SKIP
    >>> first = sa.sample(target, "parallel_tempering", seed=1)  # doctest: +SKIP
    >>> network = train_nice(target, warm_start=first, seed=1)  # doctest: +SKIP
    >>> fit = sa.sample(target, "nice", network=network, seed=1)  # doctest: +SKIP
    """
    sizes = {
        "iterations": iterations, "width": width, "critic_width": critic_width,
        "from_noise": from_noise, "from_data": from_data, "batch": batch,
        "rehearse_every": rehearse_every,
    }  # fmt: skip
    for name, value in sizes.items():
        sizes[name] = require_whole(name, value, 1)
    rate = require_between("learning_rate", learning_rate, 0.0, 1.0)
    plan = make_plan(
        chains=require_whole("chains", chains, 2), parallel_chains=None, iter_warmup=WARMUP,
        iter_sampling=require_whole("draws", draws, 100), thin=1, seed=seed, save_warmup=False,
        show_progress=show_progress,
    )  # fmt: skip
    program = require_target(target)
    require_exact_density(program, "estimated_density", "", "train on the target without `noise`.")
    _adversarial()
    size = program.dim if auxiliary is None else require_whole("auxiliary", auxiliary, 1)
    training = _Training(program, plan, sizes, rate, size)
    with status(show_progress) as report:
        return training.run(warm_start, inits, report)


def _adversarial() -> Any:
    """Import the module that needs JAX."""
    try:
        from stanadapt.samplers.nice import adversarial
    except ImportError as error:
        raise StanadaptError(
            "jax_missing",
            f"training needs JAX and optax ({error}): pip install 'stanadapt[learn]'.",
        ) from None
    return adversarial


class _Training:
    """A buffer of draws, the present network, and the best so far."""

    def __init__(
        self, target: Target, plan: Any, sizes: dict[str, int], rate: float, auxiliary: int
    ) -> None:
        self.target, self.plan, self.sizes, self.rate = target, plan, sizes, rate
        self.rng = np.random.default_rng(plan.seed)
        self.untrained = Network.untrained(target.dim, auxiliary, [[sizes["width"]]] * 3, plan.seed)
        self.best: Network | None = None
        self.history: list[dict[str, Any]] = []
        self.n_density, self.began = 0, time.perf_counter()

    def run(self, warm_start: Any, inits: Any, report: Report) -> Network:
        """Train, and return the best network."""
        report("finding the posterior (compiling once; up to a minute)")
        rows = self._first_draws(warm_start, inits)
        mean, factor = _standardization(rows)
        module, sizes = _adversarial(), self.sizes
        lengths = module.Lengths(sizes["from_noise"], sizes["from_data"], sizes["batch"])
        trainer = module.Trainer(
            self.untrained.couplings, self.untrained.weights, [sizes["critic_width"]] * 3,
            lengths, self.rate, self.plan.seed,
        )  # fmt: skip
        done, losses = 0, (0.0, 0.0)
        while True:
            network = Network(self.untrained.couplings, trainer.weights(), mean, factor)
            starts = rows[self.rng.integers(len(rows), size=self.plan.chains)]
            rehearsal = self._rehearse(network, starts)
            if rehearsal is None:
                return self._stop_early(f"was interrupted after {done} steps")
            self._record(network, rehearsal, done, losses, report)
            if done >= sizes["iterations"]:
                return self._finish(interrupted=False)
            rows = self._mix(rows, rehearsal.draws)
            steps = min(sizes["rehearse_every"], sizes["iterations"] - done)
            try:
                losses = trainer.train(np.linalg.solve(factor, (rows - mean).T).T, steps)
                done += steps
            except KeyboardInterrupt:
                return self._stop_early(f"was interrupted after {done} steps")
            if not (np.isfinite(losses).all() and np.isfinite(trainer.weights()).all()):
                return self._stop_early(f"diverged before step {done}: lower learning_rate")

    def _first_draws(self, warm_start: Any, inits: Any) -> np.ndarray:
        if isinstance(warm_start, str | PathLike):
            warm_start = results.load(warm_start)
        if warm_start is not None:
            check_same_target(self.target, warm_start)
            return positions_of_fit(self.target, warm_start)
        rngs = self.rng.spawn(self.plan.chains)
        rehearsal = self._rehearse(
            self.untrained, initial_positions(self.target, inits, rngs, gradient=False)
        )
        if rehearsal is None:
            raise StanadaptError(
                "training_without_result", "training was interrupted before its first step."
            )
        return rehearsal.draws.reshape(-1, self.target.dim)

    def _rehearse(self, network: Network, positions: Any) -> Rehearsal | None:
        rngs = self.rng.spawn(self.plan.chains)
        rehearsal = rehearse(self.target, network, self.plan, positions, rngs)
        if rehearsal is not None:
            self.n_density += rehearsal.n_density
        return rehearsal

    def _mix(self, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Join earlier and new draws; their number is constant, so that JAX compiles once."""
        new = draws.reshape(-1, self.target.dim)
        old = rows[self.rng.integers(len(rows), size=int(KEPT * len(new)))]
        return np.concatenate([old, new])

    def _record(
        self, network: Network, rehearsal: Rehearsal, step: int, losses: tuple, report: Report
    ) -> None:
        row = {
            "step": step, "critic_loss": losses[0], "generator_loss": losses[1],
            "acceptance": rehearsal.acceptance, "ess_per_draw": rehearsal.ess_per_draw,
            "seconds": time.perf_counter() - self.began,
        }  # fmt: skip
        if self.best is None or rehearsal.ess_per_draw > self._best_row()["ess_per_draw"]:
            self.best = network
        self.history.append(row)
        report(
            f"step {step} of {self.sizes['iterations']}: losses {losses[0]:.2f} (critic), "
            f"{losses[1]:.2f} (generator); accepted {rehearsal.acceptance:.0%}, effective draws "
            f"{rehearsal.ess_per_draw:.2%}; {row['seconds']:.0f} s"
        )

    def _best_row(self) -> dict[str, Any]:
        return max(self.history, key=lambda row: row["ess_per_draw"])

    def _stop_early(self, why: str) -> Network:
        if self.best is None:
            raise StanadaptError(
                "training_without_result", f"training {why}, before the first network was measured."
            )
        step = self._best_row()["step"]
        text = f"training {why}; the network of step {step} is returned, the best so far."
        warn(Message("training_stopped", text))
        return self._finish(interrupted=True)

    def _finish(self, interrupted: bool) -> Network:
        assert self.best is not None
        self.best.description = {
            "program": self.target.name,
            "program_hash": self.target.program.hash,
            "data_hash": self.target.data_hash,
            "seed": self.plan.seed,
            "settings": {**self.sizes, "learning_rate": self.rate},
            "interrupted": interrupted,
            **self._best_row(),
            "seconds": time.perf_counter() - self.began,
            "n_density": self.n_density,
            "history": self.history,
        }
        return self.best


def _standardization(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a mean and a factor that give draws, shape (row, dim), a standard deviation of SPREAD.

    The factor is the Cholesky factor of a covariance with slightly shrunken correlations.
    """
    covariance = np.atleast_2d(np.cov(rows.T))
    sd, share = np.sqrt(np.diag(covariance)), len(rows) / (len(rows) + rows.shape[1])
    if not (np.isfinite(sd).all() and np.all(sd > 0)):
        raise StanadaptError(
            "constant_first_draws",
            "the first draws do not vary in every parameter: give a warm_start, or inits.",
        )
    shrunk = share * covariance + (1.0 - share) * np.diag(sd**2)
    return rows.mean(axis=0), np.linalg.cholesky(shrunk) / SPREAD
