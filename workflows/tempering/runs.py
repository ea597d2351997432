"""Run any method on a target until each chain has used a given number of gradients.

For a method without gradients, densities are counted in their place. `smc` moves its particles
before the first draw: there are as many as the whole budget allows, and one draw for each.
"""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import stanadapt as sa
from stanadapt import results
from stanadapt.results import columns, group_names
from stanadapt.samplers.tempering import Extended

STAN, PARTICLES = "stan", "smc"
PILOT = 200  # iterations after warm-up, to measure the gradients per iteration
SPARE = 1.1  # factor on the estimated number of iterations: the excess is cut off
SHORTEST = 8
# of two pilot runs, to measure the gradients per particle, and those before there are any
FEW_PARTICLES = 200, 800
# CmdStan 2.27 reads seeds as signed 32-bit integers
LARGEST_SEED = 2**31 - 1


class Method(NamedTuple):
    """How to draw.

    sampler
        One of ours, or `STAN` for Stan's NUTS.
    settings
        Settings of the sampler and arguments of `sample` (reference_distribution, prior_data).
    extension
        Options of `stanadapt.Extended`, if the extended density is sampled; otherwise None.
    """

    sampler: str
    settings: dict[str, Any] = {}  # noqa: RUF012  # never changed
    extension: dict[str, Any] | None = None


class Chain(NamedTuple):
    """The draws of one chain within its budget.

    columns
        Draws by name, shape (draw,).
    gradients, warmup_gradients
        Gradients of the program; those of warm-up, the mean over chains, are not part of the
        budget. (For `smc` all are.)
    seconds
        Seconds of sampling, without warm-up; of `smc`, of all it does.
    log_evidence, barrier
        Estimates of a tempering sampler; otherwise NaN.
    """

    columns: dict[str, np.ndarray]
    gradients: int
    warmup_gradients: float
    seconds: float
    log_evidence: float
    barrier: float

    @property
    def draws(self) -> int:
        """Number of draws."""
        return len(next(iter(self.columns.values())))

    def vector(self, name: str = "x") -> np.ndarray:
        """All elements of a parameter, shape (draw, element)."""
        elements = [values for key, values in self.columns.items() if key.split("[")[0] == name]
        return np.stack(elements, axis=1)


class Budget(NamedTuple):
    """Gradients per chain after warm-up; chains; iterations of warm-up (None: the default)."""

    gradients: int
    chains: int
    warmup: int | None = None


class Length(NamedTuple):
    """Iterations of warm-up (None: the default), and draws."""

    warmup: int | None
    draws: int


def pseudo(count: int, **options: Any) -> Method:
    """Our sampler pseudo_extended."""
    return Method("pseudo_extended", {"pseudo_samples": count, **options})


def recipe(count: int, **options: Any) -> Method:
    """The paper's method: NUTS on the joint density, by default with uniform free temperatures."""
    options.setdefault("temperature", "free")
    if options["temperature"] == "free":
        options.setdefault("between", (0.001, 1.0))
    return Method("nuts", {"preset": "nemeth2019"}, {"pseudo_samples": count, **options})


def own_seed(seed: int, *key: int) -> int:
    """Seed of one job, different for every key."""
    return int(np.random.SeedSequence([seed, *key]).generate_state(1)[0] % LARGEST_SEED)


def run(
    target: sa.Target, method: Method, budget: Budget, seed: int, keep: tuple[str, ...] = ()
) -> tuple[list[Chain], list[str]]:
    """Run all chains of a method; each is cut off when its gradients are used up.

    A short pilot run with the same seed, and so the same warm-up, gives the number of iterations.
    `keep` names the variables to keep, all if empty.

    Returns
    -------
    chains, messages
        The messages are the warnings of the run.
    """
    if method.sampler == PARTICLES:
        return _run_particles(target, method, budget, seed, keep)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about an improper extension, a short pilot
        subject = target if method.extension is None else Extended(target, **method.extension)
        pilot = _gradients(_draw(subject, method, budget, PILOT, seed))
    iterations = max(int(SPARE * budget.gradients / pilot.mean(axis=1).min()), SHORTEST)
    with collected_warnings() as messages:
        fit = _draw(subject, method, budget, iterations, seed)
    return _cut(fit, budget.gradients, keep), messages


def run_length(
    target: sa.Target, method: Method, length: Length, chains: int, seed: int
) -> tuple[list[Chain], list[str]]:
    """Run all chains of a method for a number of draws, at any cost; chains and warnings."""
    with collected_warnings() as messages:
        subject = target if method.extension is None else Extended(target, **method.extension)
        budget = Budget(0, chains, length.warmup)  # gradients are not limited
        fit = _draw(subject, method, budget, length.draws, seed)
    whole = _cut(fit, int(_gradients(fit).sum()), ())
    return (_with_all_costs(whole, fit) if method.sampler == PARTICLES else whole), messages


def _run_particles(
    target: sa.Target, method: Method, budget: Budget, seed: int, keep: tuple[str, ...]
) -> tuple[list[Chain], list[str]]:
    """Run as many particles as the budget allows, by two pilot runs with few."""

    def draw(particles: int) -> Any:
        sized = Method(method.sampler, {**method.settings, "particles": particles})
        return _draw(target, sized, budget, particles, seed)

    def cost(fit: Any) -> int:
        return _calls(fit, budget.chains)

    few, more = FEW_PARTICLES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        pilots = cost(draw(few)), cost(draw(more))
    each = (pilots[1] - pilots[0]) / (more - few)
    with collected_warnings() as messages:
        fit = draw(max(int(more + (budget.gradients - pilots[1]) / each), few))
    return _with_all_costs(_cut(fit, 2 * budget.gradients, keep), fit), messages


def _with_all_costs(chains: list[Chain], fit: Any) -> list[Chain]:
    """Count the warm-up of particles, in which they are moved, as sampling."""
    calls = _calls(fit, len(chains))
    times = np.add(
        results.attribute(fit, "warmup_seconds"), results.attribute(fit, "sampling_seconds")
    )
    return [
        chain._replace(gradients=calls, warmup_gradients=0.0, seconds=float(seconds))
        for chain, seconds in zip(chains, times, strict=True)
    ]


def _calls(fit: Any, chains: int) -> int:
    return (fit.attrs["n_gradients"] + fit.attrs["n_density"]) // chains


@contextlib.contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Yield a list that is filled at the end with the messages of warnings, each once."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield messages
    messages += dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))


def _draw(subject: Any, method: Method, budget: Budget, iterations: int, seed: int) -> Any:
    plan = {
        "chains": budget.chains, "iter_sampling": iterations, "seed": seed, "show_progress": False,
    }  # fmt: skip
    if budget.warmup is not None:
        plan["iter_warmup"] = budget.warmup
    if method.sampler == STAN:
        fit = sa.stan_nuts(subject, **plan, **method.settings)
    else:
        fit = sa.sample(
            subject, method.sampler, standardize=False, **plan, **method.settings
        )  # fmt: skip
    if fit.attrs["interrupted"]:
        raise KeyboardInterrupt
    return fit


def _gradients(fit: Any) -> np.ndarray:
    """Gradients of each iteration, shape (chain, draw); Stan's NUTS takes one per leapfrog step."""
    stats = fit["sample_stats"]
    counted = next(name for name in ("n_gradients", "n_density", "n_steps") if name in stats)
    return stats[counted].values


def _cut(fit: Any, budget: int, keep: tuple[str, ...]) -> list[Chain]:
    used = np.cumsum(_gradients(fit), axis=1)
    learned = fit["tempering"] if "tempering" in group_names(fit) else None
    warmup = fit.attrs["n_gradients_warmup"] + fit.attrs.get("n_density_warmup", 0)
    values, chains = columns(fit), []
    if keep:
        values = {name: draws for name, draws in values.items() if name.split("[")[0] in keep}
    for c, row in enumerate(used):
        stop = max(int(np.searchsorted(row, budget, side="right")), SHORTEST)
        chains.append(
            Chain(
                # copied: a view would keep the excess draws in memory
                {name: draws[c, :stop].copy() for name, draws in values.items()},
                int(row[min(stop, len(row)) - 1]),
                warmup / len(used),
                float(results.attribute(fit, "sampling_seconds")[c]) * min(stop / len(row), 1.0),
                np.nan if learned is None else float(learned["log_evidence"][c]),
                float(learned["barrier"][c])
                if learned is not None and "barrier" in learned
                else np.nan,
            )
        )
    return chains
