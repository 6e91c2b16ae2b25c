"""The stepper: causal linear attention, one token at a time, on two roads."""

import re
from fractions import Fraction
from math import lcm

import numpy as np
import traitlets

from lintut.reference.feature_maps import elu_plus_one

from . import assets
from ._base import Widget, table

# The hand-worked example of the book's source (its section 5.1).  The source
# has φ(q₃) alone; the other two are ours.  Token 1 reads v₁ whatever its
# query, φ(q₂) weighs two values alike, φ(q₃) weighs them 1 : 2 : 3.
KEYS = [[1, 0], [0, 1], [1, 1]]
VALUES = [[1, 0], [0, 2], [3, 1]]
QUERIES = [[2, 1], [1, 1], [1, 2]]
MOST_TOKENS, WIDEST, LARGEST = 8, 4, 10**6


class Stepper(Widget):
    """Write token t into S and z, then read; beside it, every pair compared.

    Parameters
    ----------
    keys, queries : rows of numbers, shape (N, d)
        Features φ(k) and φ(q), none below zero; with
        `feature_map="elu_plus_one"` raw k and q.
    values : rows of numbers, shape (N, d_v)
        Numbers may be ints, floats, Fractions or texts such as "1/6".
        N ≤ 8, d and d_v ≤ 4.
    feature_map : "given" or "elu_plus_one"
    step : int
        0 is the empty state, 2t−1 the write of token t, 2t its read.
    """

    name = "stepper"
    _esm = assets.module(name)

    # The numbers as texts, so that fractions stay fractions.
    k = traitlets.List().tag(sync=True)
    v = traitlets.List().tag(sync=True)
    q = traitlets.List().tag(sync=True)
    feature_map = traitlets.Unicode("given").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, keys=KEYS, values=VALUES, queries=QUERIES,
                 feature_map="given", step=0):
        if feature_map not in ("given", "elu_plus_one"):
            raise ValueError('feature_map must be "given" or "elu_plus_one"; '
                             f"it is {feature_map!r}")
        parts = {"keys": keys, "values": values, "queries": queries}
        parts = {name: _numbers(name, rows) for name, rows in parts.items()}
        _same_shape(**parts)
        if feature_map == "given":
            _not_negative(**parts)
        if step not in range(2 * len(keys) + 1):
            raise ValueError(f"step must be a whole number from 0 to "
                             f"{2 * len(keys)}; it is {step!r}")
        texts = {name: [[_typed(x) for x in row] for row in rows]
                 for name, rows in zip("kvq", (keys, values, queries))}
        super().__init__(**texts, feature_map=feature_map, step=step)

    def summary(self):
        return {"step": self.step, "tokens": len(self.k)}

    def rows(self):
        """(S, z, numerator, denominator) after each token; Fractions, or
        floats where φ = ELU + 1."""
        k, v, q = (_numbers(name, getattr(self, name)) for name in "kvq")
        if self.feature_map == "elu_plus_one":
            k, q = (elu_plus_one(np.array(part, float)).tolist()
                    for part in (k, q))
        S = [[0] * len(v[0]) for _ in k[0]]
        z = [0] * len(k[0])
        for key, value, query in zip(k, v, q):
            S = [[s + a * b for s, b in zip(row, value)]
                 for row, a in zip(S, key)]             # S ← S + φ(k) vᵀ
            z = [s + a for s, a in zip(z, key)]         # z ← z + φ(k)
            numerator = [sum(a * s for a, s in zip(query, column))
                         for column in zip(*S)]         # Sᵀφ(q)
            denominator = sum(a * s for a, s in zip(query, z))
            yield S, z, numerator, denominator

    def still(self):
        lines = []
        for t, (S, z, numerator, denominator) in enumerate(self.rows(), 1):
            o = ("none: z·φ(q) is not positive" if denominator <= 0 else
                 _list(_ratios(numerator, denominator)))
            lines.append([t, _list(_list(map(_text, row)) for row in S),
                          _list(map(_text, z)), _list(map(_text, numerator)),
                          _text(denominator), o])
        return table("The state after each token, and what its query reads",
                     ["token", "S", "z", "Sᵀφ(q)", "z·φ(q)", "o"], lines)


def _numbers(name, rows):
    """Rows of Fractions from rows of numbers or texts."""
    try:
        numbers = [[Fraction(str(x)) for x in row] for row in rows]
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError(f"{name} must be rows of finite numbers; "
                         f"it is {rows!r}") from None
    for x in (x for row in numbers for x in row):
        if abs(x) > LARGEST or x.denominator > LARGEST:
            raise ValueError(f"{name} must stay within a million and be no "
                             f"finer than a millionth; one entry is {x}")
    return numbers


def _typed(x):
    """A number as its reader would type it: 0.5 stays 0.5."""
    text = str(x)
    return text if re.fullmatch(r"-?\d+(\.\d+)?", text) else (
        str(Fraction(text)))


def _same_shape(keys, values, queries):
    for name, rows, width in (("keys", keys, len(keys[0]) if keys else 0),
                              ("values", values,
                               len(values[0]) if values else 0),
                              ("queries", queries,
                               len(keys[0]) if keys else 0)):
        if not 1 <= len(rows) <= MOST_TOKENS or len(rows) != len(keys):
            raise ValueError(f"{name} must have one row a token, at most "
                             f"{MOST_TOKENS}; it has {len(rows)} "
                             f"for {len(keys)} keys")
        if not 1 <= width <= WIDEST or {len(row) for row in rows} != {width}:
            raise ValueError(f"{name} must have rows of one width, 1 to "
                             f"{WIDEST} (queries: that of keys); its rows "
                             f"have {[len(row) for row in rows]}")


def _not_negative(keys, queries, **_):
    for name, rows in (("keys", keys), ("queries", queries)):
        if min(map(min, rows)) < 0:
            raise ValueError(f"{name} are features and cannot be negative; "
                             f"the smallest is {min(map(min, rows))}")


def _list(texts):
    return "[" + ", ".join(texts) + "]"


def _text(x):
    """A Fraction as it is, a float with at most three decimals."""
    text = str(x) if isinstance(x, (int, Fraction)) else (
        f"{x:.3f}".rstrip("0").rstrip("."))
    return "0" if text == "-0" else text.replace("-", "−")


def _ratios(numerators, denominator):
    """Each numerator/denominator over one denominator: 10/6, 7/6."""
    if isinstance(denominator, float):
        return [_text(x / denominator) for x in numerators]
    parts = [Fraction(x) for x in (*numerators, denominator)]
    scale = lcm(*(x.denominator for x in parts))
    *above, below = (int(x * scale) for x in parts)
    if below == 1:
        return [_text(x) for x in above]
    return [f"{_text(x)}/{below}" for x in above]
