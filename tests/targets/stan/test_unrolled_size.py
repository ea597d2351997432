"""The size of programs whose loops are unrolled, counted by hand."""

import pytest

from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.unrolled_size import MOST_COUNTED, unrolled_size

DATA = {
    "N": 10, "first": list(range(1, 11)), "last": list(range(2, 12)), "x": [0.5] * 10,
    "table": [[1, 2, 3]] * 4, "big": 10**6,
}  # fmt: skip
DECLARED = "data { int N; }"


def size(model, before=DECLARED, data=DATA):
    code = f"{before} parameters {{ real a; }} model {{ {model} }}"
    return unrolled_size(Program("p", code, None, ()), CheckedData.of_values(data, "{}"))


# "a ~ normal(0, 1);" has four words
ONE = "a ~ normal(0, 1);"
LOOPS = {
    "none": (ONE, 0, 1),  # such a program is not counted at all
    "one": (f"for (i in 1:N) {ONE}", 40, 10),
    "two, one after the other": (f"for (i in 1:N) {ONE} for (i in 1:2) {{ {ONE} }}", 48, 10),
    "one in another": (f"for (i in 1:N) for (j in 1:2) {ONE}", 80, 20),
    "a block between": (f"for (i in 1:N) {{ real t; for (j in 1:2) {ONE} }}", 100, 20),
    "an arithmetic bound": (f"for (i in 2:(N + 2) * 2 - 1) {ONE}", 88, 22),
    "a division": (f"for (i in 1:N %/% 3) {ONE}", 12, 3),
    "backwards": (f"for (i in N:1) {ONE}", 0, 1),
    "a triangle": (f"for (i in 1:N) for (j in 1:i) {ONE}", 220, 55),
    "ragged": (f"for (i in 1:N) for (j in first[i]:last[i]) {ONE}", 80, 20),
    "a size": (f"for (i in 1:size(table)) for (j in 1:cols(table)) {ONE}", 48, 12),
    "elements": (f"for (t in first) for (j in 1:t) {ONE}", 220, 55),
    "either branch": (f"for (i in 1:2) if (i > 1) {ONE} else {{ {ONE} {ONE} }}", 28, 2),
    "braces that are values": (f"for (i in 1:2) {{ a ~ normal({{1, 2}}[1], 1); {ONE} }}", 20, 2),
    "a condition": (f"for (i in 1:(N > 1 ? 2 : 3)) {ONE}", 8, 2),
    "elements of a computed vector": (f"for (v in 2 * x) {ONE}", 40, 10),
    "a profile": (f'for (i in 1:2) profile("x") {{ {ONE} }}', 8, 2),
}


@pytest.mark.parametrize(("model", "words", "iterations"), LOOPS.values(), ids=list(LOOPS))
def test_loops_are_counted(model, words, iterations):
    assert size(model) == (words, iterations)


UNKNOWN = {
    "while": f"while (a > 0) {ONE}",
    "a computed bound": f"{{ int k = 3; for (i in 1:k) {ONE} }}",
}


@pytest.mark.parametrize("model", UNKNOWN.values(), ids=list(UNKNOWN))
def test_a_bound_that_is_unknown_is_the_largest_size_of_the_data(model):
    data = {name: value for name, value in DATA.items() if name != "big"}
    assert size(model, data=data).iterations == 10
    assert size(model).iterations == 10**6


def test_loops_that_are_unknown_multiply_and_long_ones_are_not_counted():
    data = {"N": 10, "x": [[0.5] * 30] * 2}
    loops = f"while (a > 0) {{ for (i in 1:N) {{ while (a > 1) {ONE} }} }}"
    assert size(loops, data=data).iterations == 30 * 10 * 30
    many = 100 * MOST_COUNTED
    loops = f"for (i in 1:{many}) for (j in 1:i) {ONE}"
    # the inner bound is then unknown
    assert size(loops, data={"N": 3}).iterations == many * 3


@pytest.mark.parametrize(("computed", "iterations"), [
    ("int M = N * N;", 100), ("int<lower=1> M = N + 1; int L = M;", 11),
    ("int M = 0; for (i in 1:N) M += 1;", 10**6), ("int M; M = N * 2;", 10**6),
])  # fmt: skip
def test_integers_of_the_transformed_data(computed, iterations):
    before = f"{DECLARED} transformed data {{ {computed} }}"
    assert size(f"for (i in 1:M) {ONE}", before).iterations == iterations


FUNCTIONS = (
    """
functions {
  real once(real z) { return z; }
  real over(vector v, int n) { real s = 0; for (i in 1:n) s += v[i]; return s; }
  real twice(vector v, int n) { return over(v, n) + over(v, n); }
  real again(int n);
  real again(int n) { return n > 0 ? again(n - 1) : 0; }
}
"""
    + DECLARED
)


@pytest.mark.parametrize(("model", "iterations"), [
    ("target += once(a);", 1), ("target += over(x, N);", 10),
    ("for (i in 1:N) target += over(x, 2);", 20), ("for (i in 1:N) target += over(x, i);", 55),
    ("target += twice(x, 7);", 7), ("for (i in 1:3) target += again(i);", 3),
])  # fmt: skip
def test_loops_in_functions_are_those_of_their_calls(model, iterations):
    assert size(model, FUNCTIONS).iterations == iterations


def test_every_block_that_is_unrolled_counts():
    loop = "for (i in 1:N) q += 1;"
    program = (
        "data { int N; } transformed data { real q; for (i in 1:100) q += 1; } "
        "parameters { real a; } transformed parameters { real q; for (i in 1:7) q += 1; } "
        "model { a ~ normal(0, 1); } generated quantities { real q; " + loop + " }"
    )
    found = unrolled_size(Program("p", program, None, ()), CheckedData({"N": 9}))
    # "real q" and "q += 1" have two words each
    assert found == ((2 + 7 * 2) + 4 + (2 + 9 * 2), 9)


@pytest.mark.parametrize("y", [["NaN", 1.0, 2.0], [], [[1.0], ["Inf"]]])
def test_sizes_of_data_of_every_kind_are_known(y):
    found = size(
        f"for (i in 1:size(y)) {ONE}", data={"big": 10**6, "ragged": [[1], [2, 3]], "y": y}
    )
    assert found.iterations == max(len(y), 1)
