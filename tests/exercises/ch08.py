"""Answers to chapter 8's exercises, as people write them.

RIGHT: other right ways.  WRONG: name, answer, and words that its message must
hold.
"""

import numpy as np


def half(x, norm=0.5):
    return norm * np.sum(x * x, axis=-1, keepdims=True)


def positive(q, rows, norm=0.5, power=0.25, root=0.5):
    x = q / q.shape[-1] ** power
    return np.exp(x @ rows.T - half(x, norm)) / len(rows) ** root


def token_by_token(q, rows):
    d, m, out = q.shape[1], len(rows), []
    for token in q:
        x = token * np.sqrt(1 / np.sqrt(d))
        out.append([np.exp(w @ x - x @ x / 2) for w in rows])
    return np.array(out) / np.sqrt(m)


def norm_as_factor(q, rows):
    f = np.exp(np.einsum("nd,md->nm", q, rows) / q.shape[1] ** 0.25)
    size = np.linalg.norm(q, axis=1) ** 2 / np.sqrt(q.shape[1])
    return f * np.exp(-size / 2)[:, None] * np.sqrt(1 / rows.shape[0])


def rows_of(m, d, seed, length="chi", signs="random", anew=True,
            transposed=True):
    rng, out = np.random.default_rng(seed), []
    for i in range(0, m, d):
        if i == 0 or anew:
            G = rng.normal(size=(d, d))
            Q, R = np.linalg.qr(G)
            if signs == "random":
                Q = Q * np.sign(np.diag(R))
            fresh = rng.normal(size=(d, d))
        ℓ = {"chi": np.linalg.norm(fresh, axis=1),
             "root": np.full(d, d ** 0.5), "one": np.ones(d),
             "squared": (fresh ** 2).sum(1),
             "shared": np.full(d, np.linalg.norm(fresh[0])),
             "normal": d ** 0.5 * np.abs(fresh[0]),
             "uniform": np.linalg.norm(
                 rng.uniform(-1, 1, (d, d)), axis=1)}[length]
        out.append(ℓ[:, None] * Q.T if transposed else Q.T * ℓ)
    return np.concatenate(out)[:m]


def polar(m, d, seed):
    rng = np.random.default_rng([seed, 7])
    n = -(-m // d)
    U, _, V = np.linalg.svd(rng.normal(size=(n, d, d)))
    rows = (U @ V).reshape(n * d, d) * np.sqrt(
        rng.chisquare(d, size=n * d))[:, None]
    return rows[:m]


def same_lengths(m, d, seed):
    rng = np.random.default_rng(seed)
    ℓ = np.linalg.norm(rng.normal(size=(d, d)), axis=1)
    rows = rows_of(m, d, rng.integers(2**31), "one")
    return rows * np.resize(ℓ, m)[:, None]


def unseeded(m, d, seed):
    return rows_of(m, d, None)


def axes(m, d, seed):
    rng = np.random.default_rng(seed)
    out = [rng.permutation(np.diag(rng.choice([-1.0, 1.0], d)))
           for _ in range(0, m, d)]
    ℓ = np.sqrt(rng.chisquare(d, m))
    return np.concatenate(out)[:m] * ℓ[:, None]


def tall(m, d, seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(max(m, d), d)))[0][:m]
    return Q * np.sqrt(rng.chisquare(d, m))[:, None]


def exponents(x, rows):
    return x @ rows.T - half(x)


def explicit(x, y, v, rows, norm=0.5):
    """All pairs and rows at once, less each query's largest exponent."""
    e = exponents(x, rows)[:, None] + y @ rows.T - half(y, norm)
    e[np.triu_indices(len(v), 1)] = -np.inf
    A = np.exp(e - e.max((1, 2), keepdims=True)).sum(-1)
    return A @ v / A.sum(-1, keepdims=True)


def maximum_a_feature(x, y, v, rows):
    """A running maximum for each feature, given back to the query."""
    e_q, e_k = exponents(x, rows), exponents(y, rows)
    S, z = np.zeros((len(rows), v.shape[1])), np.zeros(len(rows))
    c, o = np.full(len(rows), -np.inf), []
    for t in range(len(v)):
        top = np.maximum(c, e_k[t])
        left, f = np.exp(c - top), np.exp(e_k[t] - top)
        S = left[:, None] * S + f[:, None] * v[t]
        z, c = left * z + f, top
        w = np.exp(e_q[t] + c - (e_q[t] + c).max())
        o.append(w @ S / (w @ z))
    return np.array(o)


def through(x, y, v, rows, shift=lambda e: 0, ε=0.0, ε_q=0.0, most=np.inf):
    e_q, e_k = exponents(x, rows), np.minimum(exponents(y, rows), most)
    f_q = np.exp(e_q - e_q.max(-1, keepdims=True)) + ε_q
    A = np.tril(f_q @ (np.exp(e_k - shift(e_k)) + ε).T)
    return A @ v / A.sum(-1, keepdims=True)


def running(x, y, v, rows, keep=()):
    f_q, e = np.exp(exponents(x, rows)), exponents(y, rows)
    S, z, c, o = 0.0, 0.0, e[0].max(), []
    for t in range(len(v)):
        new = max(c, e[t].max())
        factor = np.exp(c - new)
        S = (S if "S" in keep else S * factor) + np.outer(
            np.exp(e[t] - new), v[t])
        z = (z if "z" in keep else z * factor) + np.exp(e[t] - new)
        c = new
        o.append(f_q[t] @ S / (f_q[t] @ z))
    return np.array(o)


def rest_as_it_comes(m, d, seed):
    """Whole blocks are right; what is left is independent."""
    n = m // d * d or m
    independent = np.random.default_rng(seed).normal(size=(m - n, d))
    return np.vstack([rows_of(n, d, seed), independent])


RIGHT = {
    "positive_features": [token_by_token, norm_as_factor, positive],
    "features_needed": ["215", 215.0],
    "which_kind": [(2, 1, 2, 1, 2), np.array([2, 1, 2, 1, 2])],
    "orthogonal_rows": [rows_of, polar],
    "mended": [explicit, maximum_a_feature, running],
}

WRONG = {
    "positive_features": {
        "no norm": (lambda q, rows: positive(q, rows, norm=0),
                    "missing from the exponent"),
        "whole norm": (lambda q, rows: positive(q, rows, norm=1),
                       "subtracted whole"),
        "norm added": (lambda q, rows: positive(q, rows, norm=-0.5),
                       "is added"),
        "root d": (lambda q, rows: positive(q, rows, power=0.5),
                   "qᵀk/d"),
        "no scale": (lambda q, rows: positive(q, rows, power=0),
                     "scale 1/√d is missing"),
        "scaled up": (lambda q, rows: positive(q, rows, power=-0.25),
                      "multiplies where it should divide"),
        "no root m": (lambda q, rows: positive(q, rows, root=0),
                      "1/√m is missing"),
        "by m": (lambda q, rows: positive(q, rows, root=1),
                 "together that is m²"),
        "by root d": (lambda q, rows: positive(q, rows, root=0)
                      / np.sqrt(q.shape[1]), "√d in place of √m"),
        "length": (lambda q, rows: np.exp(
            q / q.shape[1] ** 0.25 @ rows.T - np.linalg.norm(
                q / q.shape[1] ** 0.25, axis=1)[:, None] / 2)
            / len(rows) ** 0.5, "not its square"),
        "norm of q": (lambda q, rows: np.exp(
            q @ rows.T / q.shape[1] ** 0.25 - half(q)) / len(rows) ** 0.5,
            "before its scale"),
        "one sum": (lambda q, rows: np.exp(
            q @ rows.T / q.shape[1] ** 0.25
            - (q * q).sum() / q.shape[1] ** 0.5 / 2) / len(rows) ** 0.5,
            "over all tokens"),
        "maximum": (lambda q, rows: (lambda f: f / f.max(-1, keepdims=True)
                    / len(rows) ** 0.5)(positive(q, rows)),
                    "largest exponent is subtracted"),
        "normalised": (lambda q, rows: (lambda f: f / f.sum(
            -1, keepdims=True))(positive(q, rows)), "normalised"),
        "(m, N)": (lambda q, rows: positive(q, rows).T, "shape"),
    },
    "features_needed": {
        "down": (214, "just too few"), "no scale": (11920, "scale 1/√d"),
        "sum of squares": (26, "not ‖x‖² + ‖y‖²"),
        "no minus one": (219, "exp(s²) − 1"), "of 1": (54, "error of 1"),
        "unsquared": (858, "before it is squared"),
        "absolute": (1585, "divided by K²"), "else": (100, "is not 100"),
    },
    "which_kind": {
        "positive": ([1, 1, 1, 1, 1], "not always better"),
        "trigonometric": ([2] * 5, "opposite"),
        "exchanged": ([1, 2, 1, 2, 1], "exchanged"),
        "rows": ([2, 1, 2, 2, 2], "equal numbers of rows"),
        "right angle": ([2, 1, 1, 1, 1], "At a right angle K = 1"),
        "length": ([2, 1, 2, 1, 1], "like the third"),
        "words": (["trig"] * 5, "made of numbers"),
        "too short": ([2, 1, 2, 1], "shape"),
    },
    "orthogonal_rows": {
        "independent": (lambda m, d, seed: np.random.default_rng(
            seed).normal(size=(m, d)), "not at right angles"),
        "length 1": (lambda m, d, seed: rows_of(m, d, seed, "one"),
                     "another kernel"),
        "length √d": (lambda m, d, seed: rows_of(m, d, seed, "root"),
                      "estimate is biased"),
        "one a block": (lambda m, d, seed: rows_of(m, d, seed, "shared"),
                        "share one length"),
        "lengths again": (same_lengths, "same lengths"),
        "no root": (lambda m, d, seed: rows_of(m, d, seed, "squared"),
                    "yours is the sum"),
        "one normal": (lambda m, d, seed: rows_of(m, d, seed, "normal"),
                       "variance is 2d"),
        "uniform": (lambda m, d, seed: rows_of(m, d, seed, "uniform"),
                    "variance is 2d"),
        "one block": (lambda m, d, seed: rows_of(m, d, seed, anew=False),
                      "same directions"),
        "columns": (lambda m, d, seed: rows_of(m, d, seed, transposed=False),
                    "the columns are at right angles"),
        "tall": (tall, "not at right angles"),
        "signs of QR": (lambda m, d, seed: rows_of(m, d, seed, signs="QR"),
                        "prefers a side"),
        "axes": (axes, "not every direction"),
        "unseeded": (unseeded, "one seed"),
        "one seed": (lambda m, d, seed: rows_of(m, d, 0),
                     "two different seeds"),
        "the rest as it comes": (rest_as_it_comes, "the last block, of fewer"),
        "whole blocks": (lambda m, d, seed: rows_of(-(-m // d) * d, d, seed),
                         "shape (3, 5)"),
    },
    "mended": {
        "as it was": (lambda **x: through(
            **x, shift=np.max, ε=1e-4, ε_q=1e-4), "future changes the past"),
        "ε of the keys": (lambda **x: through(**x, shift=np.max, ε=1e-4),
                          "still leaks"),
        "no ε": (lambda **x: through(**x, shift=np.max), "0/0"),
        "of each key": (lambda **x: through(**x, shift=lambda e: e.max(
            1, keepdims=True)), "its own largest feature"),
        "of each feature": (lambda **x: through(
            **x, shift=lambda e: e.max(0)), "feature to feature"),
        "so far": (lambda **x: through(
            **x, shift=lambda e: np.maximum.accumulate(
                e.max(1))[:, None]), "largest so far"),
        "no maximum, ε": (lambda **x: through(**x, ε=1e-4, ε_q=1e-4),
                          "the maximum is gone"),
        "no maximum": (through, "where float64 ends"),
        "cut off": (lambda **x: through(**x, most=700.0),
                    "where float64 ends"),
        "no norm": (lambda **x: explicit(**x, norm=0), "−‖y‖²/2 is missing"),
        "no mask": (lambda x, y, v, rows: (lambda A: A @ v / A.sum(
            1, keepdims=True))(np.exp(exponents(x, rows)) @ np.exp(
                exponents(y, rows)).T), "causal mask is missing"),
        "S stays": (lambda **x: running(**x, keep="S"), "S is not"),
        "z stays": (lambda **x: running(**x, keep="z"), "z is not"),
    },
}
