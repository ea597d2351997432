"""The methods of `approximate`: their settings, and how each fits Gaussians to a target.

`pathfinder_positions` provides starting points for chains: draws of Pathfinder's approximations.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import zip_longest
from typing import Annotated, Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.engine.density import Density
from stanadapt.engine.interrupts import in_threads
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.settings import Between, Count, Probability, declared, typed
from stanadapt.errors import Message, StanadaptError, did_you_mean, warn
from stanadapt.samplers.variational import advi, laplace, pathfinder
from stanadapt.samplers.variational.gaussian import Gaussian
from stanadapt.targets.standardized import Standardized
from stanadapt.targets.target import Samplable, Target, require_exact_density

# largest number of parameters that a message names, and the smallest share of the largest entry of
# a direction at which one is named
NAMED, MUCH = 3, 0.3
# above this number of parameters, a matrix of all pairs is refused
LARGEST_DENSE = 5000
# the ELBO of the last share of iterations is compared with that of the share before; the ascent
# counts as unfinished if it rose by RISING standard errors, and by LEAST_RISE in log density
LAST_SHARE, RISING, LEAST_RISE = 0.1, 4.0, 0.1

PATHFINDER = "pathfinder"
TRIES = 25  # draws of an approximation until one can be a starting point


class Fitted(NamedTuple):
    """Result of a method."""

    # gaussians in the coordinates of the target; several represent their mixture
    parts: list[Gaussian]
    # estimates of the evidence lower bound, shape (path, iteration), NaN after the end of a path
    elbo: np.ndarray
    densities: list[Density]  # densities, with counters of their evaluations
    remarks: list[str]  # notes for the user, each a `Message`


class PathfinderSettings(NamedTuple):
    """Settings of Pathfinder."""

    paths: Count = 4  # number of climbs, from as many starts; their Gaussians make a mixture
    # number of last steps of a climb from which the curvature is learned: the covariance differs
    # from a diagonal matrix in at most twice as many directions
    history: Count = 6
    elbo_draws: Count = 25  # draws for each estimate of the ELBO, one estimate per step of a climb
    max_iterations: Count = 1000  # largest number of steps of a climb

    def find(self, density: Any, start: np.ndarray, rng: Any) -> pathfinder.Found:
        """Make one climb."""
        options = self._asdict()
        del options["paths"]
        return pathfinder.find(density, start, rng, **options)


class Algorithm(IntEnum):
    """The Gaussian of ADVI: with all correlations, or with none; Stan's names."""

    fullrank = 0
    meanfield = 1


class AdviSettings(NamedTuple):
    """Settings of ADVI."""

    algorithm: Algorithm = Algorithm.fullrank
    # steps of the stochastic gradient
    iterations: Annotated[int, Between(2, ends="[)")] = 2000
    grad_samples: Count = 10  # draws for each step, one gradient each
    # length of the first steps, in standard deviations as Pathfinder estimates them
    learning_rate: Probability = 0.05


class LaplaceSettings(NamedTuple):
    """Settings of Laplace's method."""

    max_iterations: Count = 1000  # largest number of steps of the climb to the mode


def fit_pathfinder(
    target: Samplable,
    settings: PathfinderSettings,
    starts: list[np.ndarray],
    rngs: list[np.random.Generator],
) -> Fitted:
    """Fit one Gaussian per start."""
    densities = [target.density(i) for i in range(len(starts))]
    with one_blas_thread():
        results_of_paths = in_threads(
            lambda i: settings.find(densities[i], starts[i], rngs[i]), len(starts)
        )
    parts = [path.best for path in results_of_paths if path.best is not None]
    if not parts:
        raise _no_approximation(target, "the density failed around every point of the path")
    notes: list[str] = []
    total = len(results_of_paths)
    if len(parts) < total:
        text = (
            f"{total - len(parts)} of {total} paths are left out: the density failed around every "
            "point of them."
        )
        notes.append(Message("paths_failed", text))
    cut = sum(len(path.elbo) > settings.max_iterations for path in results_of_paths)
    if cut:
        text = (
            f"{cut} of {total} paths did not reach a mode in {settings.max_iterations} steps: "
            "the posterior may be improper, or raise max_iterations."
        )
        notes.append(Message("paths_unfinished", text))
    # one row per path, NaN after its end
    elbo = np.array([*zip_longest(*(path.elbo for path in results_of_paths), fillvalue=np.nan)]).T
    return Fitted(parts, elbo, densities, notes)


def fit_advi(
    target: Samplable,
    settings: AdviSettings,
    starts: list[np.ndarray],
    rngs: list[np.random.Generator],
) -> Fitted:
    """Standardize by Pathfinder's approximation, and climb the ELBO from there."""
    defaults = PathfinderSettings(paths=1)
    first = fit_pathfinder(target, defaults, starts[:1], rngs[:1])
    (rough,) = first.parts
    diagonal = settings.algorithm == Algorithm.meanfield
    with one_blas_thread():
        unit = rough.sd()[None] if diagonal else rough.triangle()
        moved = Standardized(target, rough.location, unit)
        density = moved.density()
        ended = advi.ascend(
            density, diagonal, settings.iterations, settings.grad_samples, settings.learning_rate,
            rngs[0],
        )  # fmt: skip
        location = moved.original(ended.location)
        factor = unit * ended.factor if diagonal else np.tril(unit) @ np.tril(ended.factor)
    elbo = ended.elbo + moved.log_volume + target.dropped_constant(location)
    part = Gaussian(location, np.ascontiguousarray(factor))
    notes = [*_note_rise(elbo), *_note_failures(ended.failed, elbo.size * settings.grad_samples)]
    return Fitted([part], elbo[None], [*first.densities, density], [*first.remarks, *notes])


def fit_laplace(
    target: Samplable,
    settings: LaplaceSettings,
    starts: list[np.ndarray],
    rngs: list[np.random.Generator],
) -> Fitted:
    """Climb to a mode, and measure the curvature there."""
    density, history = target.density(), PathfinderSettings().history
    with one_blas_thread():
        result = laplace.find(
            density, starts[0], history=history, max_iterations=settings.max_iterations
        )
    if result.best is None:
        raise _no_approximation(target, result.problem + _name_direction(target, result.flattest))
    return Fitted([result.best], np.empty((1, 0)), [density], [])


class Method(NamedTuple):
    """Class of the settings, fit, and whether it forms a dense matrix under given settings."""

    settings: Any
    fit: Callable[..., Fitted]
    is_dense: Callable[[Any], bool]


METHODS = {
    "pathfinder": Method(PathfinderSettings, fit_pathfinder, lambda settings: False),
    "advi": Method(AdviSettings, fit_advi, lambda s: s.algorithm == Algorithm.fullrank),
    "laplace": Method(LaplaceSettings, fit_laplace, lambda settings: True),
}


def choose_method(name: Any, options: dict[str, Any]) -> tuple[Method, Any]:
    """Return a method and its settings, checked; StanadaptError, stage "settings"."""
    if not isinstance(name, str) or name not in METHODS:
        names = ", ".join(METHODS)
        raise StanadaptError("unknown_method", f"method must be one of {names}, got {name!r}.")
    method = METHODS[name]
    known = declared(method.settings)
    for setting in options:
        if setting not in known:
            names, question = ", ".join(known), did_you_mean(setting, known)
            raise StanadaptError(
                "unknown_method_setting",
                f"{name} has no setting {setting!r}; it has {names}.{question}",
            )
    chosen = {setting: typed(name, known[setting], value) for setting, value in options.items()}
    return method, method.settings(**chosen)


def require_size(name: str, method: Method, settings: Any, dim: int) -> None:
    """Refuse a matrix of all pairs of parameters if there are very many."""
    if method.is_dense(settings) and dim > LARGEST_DENSE:
        raise StanadaptError(
            "dense_too_large",
            f"{name} forms a matrix of all pairs of {dim} parameters, which takes too much memory: "
            "use method='pathfinder', or 'advi' with algorithm='meanfield'.",
        )


def _note_rise(elbo: np.ndarray) -> list[str]:
    """Return a note if the ELBO was still rising at the end of the ascent."""
    last = max(2, int(LAST_SHARE * elbo.size))
    if elbo.size < 2 * last:
        return []
    one, other = elbo[-2 * last : -last], elbo[-last:]
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return []
    error = np.sqrt((one.var() + other.var()) / last)
    if other.mean() - one.mean() <= max(RISING * error, LEAST_RISE):
        return []
    text = "the ELBO was still rising when the ascent ended: raise iterations."
    return [Message("ascent_unfinished", text)]


def _note_failures(failed: int, total: int) -> list[str]:
    if not failed:
        return []
    text = (
        f"{failed} of {total} draws of the ascent had no finite density and were left out of its "
        "gradients: the approximation extends beyond the support of the posterior."
    )
    return [Message("ascent_failures", text)]


def _name_direction(target: Samplable, direction: np.ndarray | None) -> str:
    """Name the parameters that dominate a direction."""
    if direction is None:
        return ""
    order = np.argsort(-np.abs(direction))[:NAMED]
    names = target.coordinate_names
    largest = np.abs(direction).max()
    parts = [names[i] for i in order if abs(direction[i]) > MUCH * largest]
    return f" (mainly {', '.join(parts)})"


def _no_approximation(target: Samplable, why: str) -> StanadaptError:
    return StanadaptError(
        "no_approximation",
        f"no approximation of {target.name} was found: {why}. Start at other points (inits), check "
        "that priors or data bound every parameter, or use sample, which does not need a mode.",
    )


def gaussians_of(fit: Any) -> list[Gaussian]:
    """Return the Gaussians in a result of `approximate`; StanadaptError for another object."""
    if not results.is_fit(fit) or "approximation" not in results.group_names(fit):
        raise StanadaptError(
            "not_an_approximation", f"a result of approximate is expected, got {fit!r}."
        )
    group = results.dataset(fit, "approximation")
    return [
        Gaussian(np.ascontiguousarray(location), np.ascontiguousarray(factor))
        for location, factor in zip(group["location"].values, group["factor"].values, strict=True)
    ]


def pathfinder_positions(
    target: Target,
    starts: list[np.ndarray],
    rngs: Sequence[np.random.Generator],
    on_wait: Callable[[], Any] = lambda: None,
) -> list[np.ndarray]:
    """Return a position for every chain: a draw of the Gaussian that a separate climb found.

    Chains share nothing, so that their disagreement still indicates modes, and warm-ups that are
    too short. If a climb fails, the chain starts at the start of the climb, with a warning.
    `on_wait` is called ten times a second; its exceptions end the climbs.
    """
    require_exact_density(
        target, "estimated_start_density", f"inits='{PATHFINDER}' follows gradients, but ",
        "give other inits.",
    )  # fmt: skip
    settings = PathfinderSettings()

    def position(i: int) -> np.ndarray | None:
        path = settings.find(target.density(i), starts[i], rngs[i])
        if path.best is None:
            return None
        for _ in range(TRIES):
            drawn = path.best.draw(rngs[i], 1)[0]
            value, gradient, _ = target.evaluate(drawn)
            if np.isfinite(value) and np.isfinite(gradient).all():
                return drawn
        return None

    # compiles, on which the time limit of a run is not spent
    once = settings._replace(max_iterations=1)
    once.find(target.density(0), starts[0], np.random.default_rng(0))
    with one_blas_thread():
        positions = in_threads(position, len(starts), on_wait)
    lost = [str(i + 1) for i, drawn in enumerate(positions) if drawn is None]
    if lost:
        text = (
            f"Pathfinder found no starting point for chain {', '.join(lost)} of {target.name}: it "
            "starts at random."
        )
        warn(Message("no_pathfinder_start", text))
    pairs = zip(starts, positions, strict=True)
    return [start if drawn is None else drawn for start, drawn in pairs]
