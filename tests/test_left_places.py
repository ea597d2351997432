"""Places that warm-up found and no draw came back to."""

import numpy as np

from stanadapt.left_places import left, sentence

FAR = np.array([9.0, -0.2])  # a narrow mode beside a wide one


def log_density(x):
    wide = -0.5 * ((x[0] / 1.0) ** 2 + (x[1] / 0.1) ** 2)
    narrow = 3.0 - 0.5 * np.sum((x - FAR) ** 2) / 0.05**2
    return np.logaddexp(wide, narrow)


def draws(of_the_far=0, n=2000, seed=1):
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(n, 2)) * [1.0, 0.1]
    found[:of_the_far] = FAR + 0.05 * rng.normal(size=(of_the_far, 2))
    rng.shuffle(found)
    return found, np.array([log_density(x) for x in found])


def count(places, **options):
    places = np.atleast_2d(places)
    lp = np.array([log_density(x) for x in places])
    return left(places, lp, *draws(**options), log_density)


def test_a_narrow_mode_without_draws_is_counted():
    assert count([FAR, FAR + 0.01, [0.3, 0.05]]) == 2


def test_one_with_draws_is_not():
    assert count([FAR, FAR + 0.01], of_the_far=100) == 0


def test_places_among_the_draws_are_not():
    for seed in range(10):
        places, _ = draws(n=40, seed=100 + seed)
        assert count(places, seed=seed) == 0


def test_a_place_that_is_still_on_its_way_is_not():
    """Far out, where the density is low: no valley, and not arrived."""
    assert count([[30.0, 3.0], [0.0, 5.0]]) == 0


def test_a_ridge_without_a_valley_is_not():
    """Beyond all draws, but uphill on the straight line to them."""
    places = np.array([[4.5, 0.0]])
    found, lp = draws()
    assert left(places, np.array([lp.max()]), found, lp, lambda x: -0.5 * x[0] ** 2) == 0


def test_draws_that_do_not_move_say_nothing():
    still = np.ones((100, 2))
    assert left(still[:1] + 5.0, np.zeros(1), still, np.full(100, -1.0), lambda x: 0.0) == 0


def test_the_sentence_counts():
    (said,) = sentence("parallel_tempering", 3, 40)
    assert said.startswith("parallel_tempering: 3 of the 40 short chains")
    assert "inits" in said
    assert sentence("parallel_tempering", 0, 40) == []
