"""Read the functions of many hubs from moves of one, of two, and of all of them.

A greedy search (`block_terms`) has to try all factors of all hubs at each step, and where there are
many hubs, as the loadings and the scales of a factor model, it takes minutes and goes astray: one
function of eleven explains little. But places can be chosen. All but hubs stay the same, and
gradients are sums of unknown multiples of the functions at

1. some values of each hub while the others stay: these show its factors;
2. places where two hubs have moved: if each adds its own change, no function has both;
3. places where all have moved: of the products of factors of hubs that all go together, these show
   which are there.

Without noise, each is a small regression. This design is ours.
"""

from itertools import combinations

import numpy as np

from stanadapt.samplers.whitened.block_terms import Function, Hints, Rows, factors, times

# number of hubs from which this is done
MANY_HUBS = 4
# moves of one hub, that of two, and the size and number of moves of all
ALONE, BOTH, TOGETHER, ALL = (-1.6, -1.2, -0.8, -0.4, 0.4, 0.8, 1.2, 1.6), 0.8, 0.8, 96
# products up to which these are enough
MOST_PRODUCTS = 72
# share of a gradient that may remain, and that below which a part of it is rounding
EXACT, NEGLIGIBLE = 1e-6, 1e-7
# share of the gradients that must be finite
LEAST_SHARE = 0.9


def moves_of_hubs(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the moves of hubs at all places, shape (place, hub); none at the first."""
    unit = np.eye(count)
    alone = np.multiply.outer(unit, ALONE).swapaxes(1, 2).reshape(-1, count)
    both = [BOTH * (unit[i] + unit[j]) for i, j in combinations(range(count), 2)]
    together = TOGETHER * rng.standard_normal((ALL, count))
    return np.concatenate([np.zeros((1, count)), alone, np.reshape(both, (-1, count)), together])


def functions_of_hubs(positions: np.ndarray, gradients: np.ndarray, hints: Hints) -> list[Function]:
    """Return the functions that gradients at these places show; [()] if none do.

    Parameters
    ----------
    positions
        Those of hubs, in the order of `moves_of_hubs`, shape (place, hub).
    gradients
        Those by all other coordinates, which stay the same, shape (place, other).
    hints
        Bounds of hubs, by their number here; see `block_terms`.

    """
    rows = Rows.standardize(positions, np.zeros_like(positions), hints)
    usable = np.isfinite(gradients).all(axis=1)
    if usable.mean() < LEAST_SHARE:
        return [()]
    size = np.sqrt(np.mean(gradients[usable] ** 2, axis=0))
    y = gradients / np.maximum(size, 1e-300)
    count = positions.shape[1]
    alone = np.arange(count * len(ALONE)).reshape(count, -1) + 1
    of_pairs = iter(y[alone.max() + 1 :])
    moved = y[alone[:, ALONE.index(BOTH)]]
    together = {
        pair
        for pair, both in zip(combinations(range(count), 2), of_pairs, strict=False)
        if not np.abs(both - moved[list(pair)].sum(axis=0) + y[0]).max() < NEGLIGIBLE
    }
    products: list[Function] = [()]
    for hub in range(count):
        places = np.append(0, alone[hub])
        tried: list[Function] = [(factor,) for factor in factors(hints[hub], hub)]
        found = _there(rows, y, places, [(), *tried])
        if found is None:
            return [()]
        products += [
            product
            for function in products
            if all((other, hub) in together for other, _, _ in function)
            for single in found
            if single and (product := times(function, single[0]))
        ]
        if len(products) > MOST_PRODUCTS:
            return [()]
    return _there(rows, y, np.arange(len(y)), products) or [()]


def _there(
    rows: Rows, y: np.ndarray, places: np.ndarray, functions: list[Function]
) -> list[Function] | None:
    """Return the functions of which gradients at some places are sums, if they are, exactly."""
    usable = places[np.isfinite(y[places]).all(axis=1)]
    design = np.stack([rows.function(function)[usable] for function in functions], axis=1)
    size = np.sqrt(np.mean(design**2, axis=0))
    kept = np.arange(len(functions))

    def regress(on: np.ndarray) -> tuple[np.ndarray, float]:
        slopes = np.linalg.lstsq(design[:, on] / size[on], y[usable], rcond=1e-13)[0]
        return slopes, np.abs(y[usable] - design[:, on] / size[on] @ slopes).max()

    for _ in range(3):
        if len(usable) <= len(kept):
            return None
        slopes, left = regress(kept)
        if not left < EXACT:
            return None
        kept = kept[np.abs(slopes).max(axis=1) > NEGLIGIBLE]
    for k in kept[::-1]:  # powers of a coefficient near 1 are much alike
        rest = kept[kept != k]
        kept = rest if regress(rest)[1] < NEGLIGIBLE else kept
    return [functions[k] for k in kept]
