"""Two orders: one product of three matrices, bracketed both ways."""

import traitlets

from . import assets
from ._base import Widget, table
from .stepper import _list, _numbers, _text, _typed

# Chapter 6's tokens, and a fourth.
KEYS = [[1, 0], [0, 1], [1, 1], [2, 1]]
VALUES = [[1, 0], [0, 2], [3, 1], [0, 1]]
QUERIES = [[2, 1], [1, 1], [1, 2], [0, 1]]
MOST_TOKENS, WIDEST = 6, 4


class TwoOrders(Widget):
    """(φ(Q) φ(K)ᵀ) V beside φ(Q) (φ(K)ᵀ V), cell by cell.

    Parameters
    ----------
    keys, queries : rows of numbers, shape (N, r), the features
    values : rows of numbers, shape (N, d_v)
        Ints, floats, Fractions or texts such as "1/6"; N ≤ 6, r and d_v ≤ 4.
    done : int
        How many multiplications each order has made.
    """

    name = "two_orders"
    _esm = assets.module(name)

    # The numbers as texts, so that fractions stay fractions.
    k = traitlets.List().tag(sync=True)
    v = traitlets.List().tag(sync=True)
    q = traitlets.List().tag(sync=True)
    done = traitlets.Int(0).tag(sync=True)

    def __init__(self, keys=KEYS, values=VALUES, queries=QUERIES, done=0):
        rows = {"keys": keys, "values": values, "queries": queries}
        for name, part in rows.items():
            _shape(name, _numbers(name, part))
        for name, width in (("values", None), ("queries", len(keys[0]))):
            part = rows[name]
            if len(part) != len(keys) or width not in (None, len(part[0])):
                raise ValueError(
                    f"{name} must have one row a token"
                    + (f", {width} wide like keys" if width else "")
                    + f"; it is {len(part)}×{len(part[0])} for {len(keys)} "
                    "keys")
        super().__init__(**{short: [[_typed(x) for x in row] for row in part]
                            for short, part in zip("kvq", rows.values())})
        if isinstance(done, bool) or done not in range(max(self.counts()) + 1):
            raise ValueError("done must be a whole number from 0 to "
                             f"{max(self.counts())}; it is {done!r}")
        self.done = done

    def counts(self):
        """Multiplications of the left and of the right order."""
        N, r, d_v = len(self.k), len(self.k[0]), len(self.v[0])
        return N * N * (r + d_v), 2 * N * r * d_v

    def summary(self):
        return {"N": len(self.k), "r": len(self.k[0]),
                "d_v": len(self.v[0]), "done": self.done}

    def still(self):
        q, k, v = (_numbers(name, getattr(self, name)) for name in "qkv")
        K = [list(column) for column in zip(*k)]
        left, right = self.counts()
        rows = [["(φ(Q) φ(K)ᵀ) V", left, _show(_times(q, K)),
                 _show(_times(_times(q, K), v))],
                ["φ(Q) (φ(K)ᵀ V)", right, _show(_times(K, v)),
                 _show(_times(q, _times(K, v)))]]
        return table("One product, two orders",
                     ["order", "multiplications", "first", "result"], rows)


def _times(A, B):
    return [[sum(a * b for a, b in zip(row, column)) for column in zip(*B)]
            for row in A]


def _show(A):
    return _list(_list(map(_text, row)) for row in A)


def _shape(name, rows):
    widths = {len(row) for row in rows}
    if not 1 <= len(rows) <= MOST_TOKENS or len(widths) != 1 or not (
            1 <= min(widths) <= WIDEST):
        raise ValueError(f"{name} must be 1 to {MOST_TOKENS} rows of one "
                         f"width, 1 to {WIDEST}; its rows have "
                         f"{[len(row) for row in rows]}")
