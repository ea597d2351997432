"""Indexing: single, multiple, ranges, slices, on both sides of an assignment."""

import numpy as np

from tests.targets.stan.constructs.construct import Construct, with_prior, x_in_model

MATRIX = "matrix[3, 3] M = v * v' + x;"


def m(x, v):
    return np.outer(v, v) + x


CONSTRUCTS = [
    Construct(
        "multiple indexing",
        x_in_model("target += sum(sin(v[at])) + sum(M[at, {2, 1}] .* [[1, 2], [3, 4], [5, 6], "
                   "[7, 8]]);"
                   .replace("target", f"{MATRIX} target", 1), data="array[4] int at;"),
        with_prior(lambda x, v: np.sum(np.sin(v[[2, 0, 0, 1]])) + np.sum(
            m(x, v)[np.ix_([2, 0, 0, 1], [1, 0])] * np.arange(1, 9).reshape(4, 2))),
        {"at": [3, 1, 1, 2]},
    ),
    Construct(
        "ranges",
        x_in_model(f"{MATRIX} target += sum(sin(M[2:3, 1])) + sum(v[2:]) * sum(v[:2]) + "
                    "sum(M[1, :]);"),
        with_prior(lambda x, v: np.sum(np.sin(m(x, v)[1:, 0])) + v[1:].sum() * v[:2].sum()
                   + m(x, v)[0].sum()),
    ),
    Construct(
        "ranges that are empty or descend",
        x_in_model("target += sum(v[3:2]) + num_elements(v[3:1]) * x + sin(sum(v[k:3]));",
                   data="int k;"),
        with_prior(lambda x, v: np.sin(v[1] + v[2])), {"k": 2},
    ),
    Construct(
        "the empty range x[1:0]",
        x_in_model("target += sum(v[1:k]) + sin(x);", data="int k;"),
        with_prior(lambda x, v: np.sin(x)), {"k": 0},
    ),
    Construct(
        "assignment to ranges and to several indices",
        x_in_model("vector[5] w = rep_vector(0.5, 5); w[2:3] = v[1:2]; w[{5, 1}] = [x, 2 * x]';\n"
                   "target += sum(sin(w .* [1, 2, 3, 4, 5]'));"),
        with_prior(lambda x, v: np.sum(np.sin(
            np.array([2 * x, v[0], v[1], 0.5, x]) * np.arange(1, 6)))),
    ),
    Construct(
        "assignment to rows, columns and blocks",
        x_in_model("matrix[3, 3] A = rep_matrix(0.1, 3, 3); A[1] = v'; A[:, 3] = 2 * v;\n"
                   "A[2:3, 1:2] = [[x, 1], [2, x]]; target += sum(sin(A * [1, 2, 3]'));"),
        with_prior(lambda x, v: np.sum(np.sin(np.array(
            [[v[0], v[1], 2 * v[0]], [x, 1, 2 * v[1]], [2, x, 2 * v[2]]]) @ [1, 2, 3]))),
    ),
    Construct(
        "indices by an array of integers in a hierarchy",
        "data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; }\n"
        "parameters { vector[J] a; } model { a ~ normal(0, 2); y ~ normal(a[g], 0.5); }",
        lambda p: -np.sum(p["a"] ** 2) / 8
        - 2 * np.sum((np.array([0.5, 1.0, -0.3, 0.2]) - p["a"][[0, 1, 1, 2]]) ** 2),
        {"N": 4, "J": 3, "g": [1, 2, 2, 3], "y": [0.5, 1.0, -0.3, 0.2]},
    ),
    Construct(
        "assignment to an element of an array of vectors",
        x_in_model("array[2] vector[3] w; w[1] = v; w[2] = rep_vector(0, 3);\n"
                   "for (k in 1:3) w[2, k] = v[4 - k] * x; "
                   "target += sin(dot_product(w[1], w[2]));"),
        with_prior(lambda x, v: np.sin(x * v @ v[::-1])),
    ),
    Construct(
        "aliasing in assignments",
        x_in_model("vector[3] w = v; w[2:3] = w[1:2]; target += sum(sin(w .* [1, 2, 3]'));"),
        with_prior(lambda x, v: np.sum(np.sin(v[[0, 0, 1]] * [1, 2, 3]))),
    ),
    Construct(
        "head, tail, segment, block, append",
        x_in_model("vector[4] w = append_row(head(v, 2), tail(v, 2)); matrix[2, 2] B = "
                   "block(append_col(v, 2 * v) * x, 2, 1, 2, 2);\n"
                   "target += sum(sin(segment(w, 2, 3))) + sin(B[1, 2] + B[2, 1]);"),
        with_prior(lambda x, v: np.sum(np.sin([v[1], v[1], v[2]]))
                   + np.sin(2 * v[1] * x + v[2] * x)),
    ),
]  # fmt: skip
