"""Answers to chapter 5's exercises, as people write them.

RIGHT: other right ways.  WRONG: name, answer, and words that its message must
hold.
"""

import numpy as np


def row_by_row(f_q, f_k, v):
    w = []
    for f in f_q:
        similar = [f @ g for g in f_k]
        w.append([s / sum(similar) for s in similar])
    return np.array(w), np.array(w) @ v


def einsums(f_q, f_k, v):
    w = np.einsum("ir,jr->ij", f_q, f_k)
    w = np.einsum("ij,i->ij", w, 1 / w.sum(1))
    return [w, np.einsum("ij,jd->id", w, v)]


def from_weights(w, v):
    w = w / w.sum(-1, keepdims=True)
    return w, w @ v


def softmax(a):
    w = np.exp(a - a.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)


def ones_beside(f_q, f_k, v):
    o = f_q @ (f_k.T @ np.column_stack([v, np.ones(len(v))]))
    return o[:, :-1] / o[:, -1:]


def outer_products(f_q, f_k, v):
    S = (f_k[:, :, None] * v[:, None]).sum(0)
    return np.einsum("nr,rd->nd", f_q, S) / np.sum(f_q * f_k.sum(0), 1,
                                                   keepdims=True)


def over(total):
    return lambda f_q, f_k, v: f_q @ (f_k.T @ v) / total(f_q, f_k)


def by_queries(f_q, f_k, v):
    o = []
    for f in f_q:
        w = f_k @ f
        o.append(w @ v / w.sum())
    return np.array(o)


def by_tokens(f_q, f_k, v):
    S, z = np.zeros((f_k.shape[1], v.shape[1])), 0
    for f, value in zip(f_k, v):
        S, z = S + np.outer(f, value), z + f
    return f_q @ S / (f_q @ z)[:, None]


def all_at_once(f_q, f_k, v):
    return (np.einsum("ir,jr,jd->id", f_q, f_k, v)
            / np.einsum("ir,jr->i", f_q, f_k)[:, None])


def in_parts(f_q, f_k, v):
    return np.concatenate([from_weights(f_q[i:i + 64] @ f_k.T, v)[1]
                           for i in range(0, len(v), 64)])


def prefix_sums(f_q, f_k, v):
    S = np.cumsum(f_k[:, :, None] * v[:, None], axis=0)
    z = np.cumsum(f_k, 0)
    return np.einsum("nr,nrd->nd", f_q, S) / (f_q * z).sum(1)[:, None]


def product(x, one, single, pair):
    """(one, single·x, pair·x⊗x) side by side; zeros are left out."""
    pairs = np.einsum("ni,nj->nij", x, x).reshape(len(x), -1)
    parts = [one * np.ones((len(x), 1)), single * x, pair * pairs]
    return np.hstack([p for p, c in zip(parts, (one, single, pair)) if c])


def with_a_one(x):
    """(1, x) ⊗ (1, x): a kernel's square has the products of features."""
    x1 = np.hstack([np.ones((len(x), 1)), x])
    return np.stack([np.outer(row, row).ravel() for row in x1])


def each_pair_once(x, root=2 ** .5):
    i, j = np.triu_indices(x.shape[1], 1)
    return np.hstack([x[:, :1] * 0 + 1, 2 ** .5 * x, x ** 2,
                      root * x[:, i] * x[:, j]])


def of_length(x):
    """As many features as vectors: the SVD of one fixed set."""
    u, s, _ = np.linalg.svd((1 + x @ x.T) ** 2)
    return u * np.sqrt(s)


VALUES = np.array([10.0, 20.0])
O = ["8/11", "13/11"]

RIGHT = {
    "sums_by_hand": [
        [[["6", 3], ["1", 5]], ["3", 4], ["8/11", "26/22"]],
        (np.array([[6, 3], [1, 5]]), np.array([3, 4]),
         np.array([8, 13]) / 11)],
    "not_the_same": [["66", 49.0], np.array([66, 49])],
    "weights_first": [row_by_row, einsums],
    "sums_first": [ones_beside, outer_products],
    "squared_kernel": [with_a_one, each_pair_once],
    "no_mean": [([[1, -2, 0], [[0, -1, 1], [-1, -1, 1]], [15, 15]]),
                (np.array([-5.0, 1, 0, 1]), np.array(
                    [[-1.0, 0, 2, 0], [-1, -3, 1, 0], [-2, 0, 1, -1]]),
                 np.array([11, 12, 13]))],
}

WRONG = {
    "sums_by_hand": {
        "transposed": ([[[6, 1], [3, 5]], [3, 4], O], "S transposed"),
        "sums of S": ([[[6, 3], [1, 5]], [9, 6], O], "one sum a feature"),
        "numerator": ([[[6, 3], [1, 5]], [3, 4], [8, 13]], "numerator"),
        "by three": ([[[6, 3], [1, 5]], [3, 4], ["8/3", "13/3"]],
                     "number of tokens"),
        "by the sum of z": ([[[6, 3], [1, 5]], [3, 4], [8 / 7, 13 / 7]],
                            "sum of z"),
        "mean": ([[[6, 3], [1, 5]], [3, 4], ["5/3", "2/3"]],
                 "weigh the same"),
        "S times q": ([[[6, 3], [1, 5]], [3, 4], ["12/11", 1]], "Sᵀφ"),
        "a sign": ([[[6, 5], [1, 5]], [3, 4], O], "lacks a minus"),
        "a token less": ([[[2, 4], [1, 5]], [3, 4], O], "S is not right"),
        "another o": ([[[6, 3], [1, 5]], [3, 4], [1, 2]], "o is not"),
        "S alone": ([[6, 3], [1, 5]], "shape"),
    },
    "not_the_same": {
        "exchanged": ([49, 66], "exchanged"),
        "both linear": ([49, 49], "before anything is added"),
        "both softmax": ([66, 66], "no exponential"),
        "without q": ([54, 49], "left q = 2 out"),
        "undivided exps": ([5544, 49], "nothing divides"),
        "mean": ([42, 49], "not equal here"),
        "undivided": ([66, 588 * np.log(2)], "lacks its denominator"),
        "one number": (66, "shape"),
    },
    "weights_first": {
        "undivided": (lambda f_q, f_k, v: (f_q @ f_k.T, f_q @ f_k.T @ v),
                      "do not sum to one"),
        "output undivided": (lambda f_q, f_k, v: (
            from_weights(f_q @ f_k.T, v)[0], f_q @ f_k.T @ v),
            "not divided yet"),
        "columns": (lambda f_q, f_k, v: (
            f_q @ f_k.T / (f_q @ f_k.T).sum(0),
            f_q @ f_k.T / (f_q @ f_k.T).sum(0) @ v), "columns sum to one"),
        "no axis": (lambda f_q, f_k, v: (
            f_q @ f_k.T / (f_q @ f_k.T).sum(),
            f_q @ f_k.T / (f_q @ f_k.T).sum() @ v), "all N² weights"),
        "softmax": (lambda f_q, f_k, v: (
            softmax(f_q @ f_k.T), softmax(f_q @ f_k.T) @ v), "a softmax"),
        "causal": (lambda f_q, f_k, v: from_weights(
            np.tril(f_q @ f_k.T), v), "all see all"),
        "keys first": (lambda f_q, f_k, v: from_weights(f_k @ f_q.T, v),
                       "changed places"),
        "by N": (lambda f_q, f_k, v: (f_q @ f_k.T / len(v),
                                      f_q @ f_k.T @ v / len(v)),
                 "divided by N"),
        "output alone": (lambda f_q, f_k, v: from_weights(
            f_q @ f_k.T, v)[1], "2 results"),
        "the other way round": (lambda f_q, f_k, v: from_weights(
            f_q @ f_k.T, v)[::-1], "shape"),
    },
    "sums_first": {
        "undivided": (over(lambda f_q, f_k: 1), "nothing divides them"),
        "by N": (over(lambda f_q, f_k: len(f_k)), "number of tokens"),
        "all of z": (over(lambda f_q, f_k: np.sum(f_k)), "all of z"),
        "query alone": (over(lambda f_q, f_k: f_q.sum(1)[:, None]),
                        "z, the sum"),
        "z of queries": (over(lambda f_q, f_k: (f_q @ f_q.sum(0))[:, None]),
                         "belongs to the keys"),
        "causal": (prefix_sums, "all see all"),
        "softmax": (lambda f_q, f_k, v: softmax(f_q @ f_k.T) @ v,
                    "another kernel"),
        "mean": (lambda f_q, f_k, v: np.tile(v.mean(0), (len(v), 1)),
                 "weigh the same"),
        "N×N": (lambda f_q, f_k, v: from_weights(f_q @ f_k.T, v)[1],
                "nothing is N×N"),
        "a loop of queries": (by_queries, "once, for all queries"),
        "a loop of tokens": (by_tokens, "NumPy operations"),
        "three factors at once": (all_at_once, "once, for all queries"),
        "parts of N×N": (in_parts, "once, for all queries"),
        "no column": (lambda f_q, f_k, v: f_q @ (f_k.T @ v)
                      / (f_q @ f_k.sum(0)), "raised ValueError"),
    },
    "squared_kernel": {
        "Taylor": (lambda x: product(x, 1, 1, 2 ** -.5), "Taylor map"),
        "no root": (lambda x: product(x, 1, 1, 1), "only once"),
        "two": (lambda x: product(x, 1, 2, 1), "4x·y"),
        "no middle": (lambda x: product(x, 1, 0, 1), "is missing"),
        "no one": (lambda x: product(x, 0, 2 ** .5, 1), "always 1 is"),
        "pairs alone": (lambda x: product(x, 0, 0, 1), "(x·y)² alone"),
        "squares": (lambda x: np.hstack(
            [np.ones((len(x), 1)), 2 ** .5 * x, x ** 2]), "single entries"),
        "pairs once": (lambda x: each_pair_once(x, 1), "count twice"),
        "linear": (lambda x: product(x, 1, 1, 0), "without the square"),
        "entry by entry": (lambda x: (1 + x) ** 2, "entry by entry"),
        "the kernel itself": (lambda x: (1 + x @ x.T) ** 2,
                              "depend on d alone"),
        "of one set": (of_length, "depend on d alone"),
        "a cube": (lambda x: x[:, :, None] * x[:, None], "one row"),
    },
    "no_mean": {
        "two entries": (([1.0, -2.0], [[2.0, -1.0], [3.0, 1.0]], VALUES),
                        "try three"),
        "meets all": (([1.0, 2, 0], [[1.0, 0, 0], [2.0, 1, 5]], VALUES),
                      "meets every key"),
        "meets one": (([1.0, -3, 0], [[-1.0, -2, 1], [1.0, 0, 0]], VALUES),
                      "still meets one"),
        "nothing positive": (([-1.0, -3, 0], [[-1.0, -2, 1]] * 2, VALUES),
                             "no features at all"),
        "small": (([1.0, -3, 0], [[-1.0, -2, .1]] * 2, VALUES),
                  "an entry of at least 1"),
        "opposite": (([1.0, 0, 0], [[-1.0, 0, 1]] * 2, VALUES),
                     "every q·k must"),
        "values": (([1.0, -3, 0], [[-1.0, -2, 1]] * 2, [1.0, 2.0]),
                   "between 10 and 20"),
        "one key": (([1.0, -3, 0], [[-1.0, -2, 1]], [10.0]), "two keys"),
        "widths": (([1.0, -3], [[-1.0, -2, 1]] * 2, VALUES), "of its width"),
        "words": ("q", "cannot be used"),
    },
}
