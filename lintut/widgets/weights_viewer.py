"""The weights viewer: the N×N effective weights of a rule, gates chosen."""

import math

import numpy as np
import traitlets

from lintut.reference import delta, gated_delta, gla, linear, retention

from . import assets
from ._base import Widget, table

RULES = ("additive", "normalised", "retention", "gla", "delta", "gated_delta")
QUERIES = ("random", "own", "first")
MOST_TOKENS, WIDEST, LAST_SEED = 24, 16, 999


class WeightsViewer(Widget):
    """The matrix W with o = W v, of keys drawn from a seed.

    Parameters
    ----------
    rule : one of `RULES`
        "normalised" takes φ = ELU + 1, "additive" q and k as they are.
    n, d : int
        Tokens, at most 24, and width of q and k, at most 16.
    seed : int, 0 to 999
    similarity : float in [0, 1]
        About the mean cosine between two keys, which have length 1.
    queries : "random" (drawn as the keys), "own" (q_i = k_i) or "first"
        (every query is the first key)
    gamma : retention's γ
    alpha : GLA's and the gated delta rule's α, at every token but
    dip : the token, from 1, at which α is dip_alpha; 0 for none
    spread : bool
        GLA's channels go from α, the first, in equal steps up to 1.
    beta : the delta rules' β, at every token
    row : int
        The row that is read; the last unless given.
    """

    name = "weights_viewer"
    _esm = assets.module(name)

    rule = traitlets.Unicode().tag(sync=True)
    n = traitlets.Int().tag(sync=True)
    d = traitlets.Int().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)
    similarity = traitlets.Float().tag(sync=True)
    queries = traitlets.Unicode().tag(sync=True)
    gamma = traitlets.Float().tag(sync=True)
    alpha = traitlets.Float().tag(sync=True)
    dip = traitlets.Int().tag(sync=True)
    dip_alpha = traitlets.Float().tag(sync=True)
    spread = traitlets.Bool().tag(sync=True)
    beta = traitlets.Float().tag(sync=True)
    row = traitlets.Int().tag(sync=True)

    def __init__(self, rule="retention", n=16, d=8, seed=0, similarity=0.0,
                 queries="random", gamma=0.9, alpha=0.9, dip=0, dip_alpha=0.1,
                 spread=False, beta=1.0, row=None):
        for name, value, known in (("rule", rule, RULES),
                                   ("queries", queries, QUERIES)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; "
                                 f"it is {value!r}")
        _within("n", n, 1, MOST_TOKENS, whole=True)
        row = n if row is None else row
        _within("d", d, 1, WIDEST, whole=True)
        _within("seed", seed, 0, LAST_SEED, whole=True)
        _within("dip", dip, 0, MOST_TOKENS, whole=True)
        _within("row", row, 1, n, whole=True)
        _within("similarity", similarity, 0, 1)
        _within("beta", beta, 0, 2)
        for name, value in (("gamma", gamma), ("alpha", alpha),
                            ("dip_alpha", dip_alpha)):
            _within(name, value, 0, 1, above=True)
        super().__init__(rule=rule, n=n, d=d, seed=seed, queries=queries,
                         similarity=float(similarity), gamma=float(gamma),
                         alpha=float(alpha), dip=dip, spread=bool(spread),
                         dip_alpha=float(dip_alpha), beta=float(beta),
                         row=row)

    def summary(self):
        return {"rule": self.rule, "n": self.n, "row": self.row}

    def vectors(self):
        """q and k (n, d), as the module draws them."""
        next_ = _uniform(self.seed)

        def direction():
            x = np.array([math.sqrt(-2 * math.log(1 - next_()))
                          * math.cos(2 * math.pi * next_())
                          for _ in range(self.d)])
            return x / np.linalg.norm(x)

        common = direction()

        def drawn():
            rows = np.array([math.sqrt(1 - self.similarity) * direction()
                             + math.sqrt(self.similarity) * common
                             for _ in range(self.n)])
            return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

        k, other = drawn(), drawn()
        return {"random": other, "own": k,
                "first": np.tile(k[0], (self.n, 1))}[self.queries], k

    def weights(self):
        """W (n, n), by lintut.reference."""
        q, k = self.vectors()
        alpha = np.full(self.n, self.alpha)
        if 1 <= self.dip <= self.n:
            alpha[self.dip - 1] = self.dip_alpha
        beta = np.full(self.n, self.beta)
        steps = np.linspace(0, self.spread and self.d > 1, self.d)
        channels = alpha[:, None] + (1 - alpha[:, None]) * steps
        return {"additive": lambda: retention.weights(q, k, 1),
                "normalised": lambda: linear.weights(q, k),
                "retention": lambda: retention.weights(q, k, self.gamma),
                "gla": lambda: gla.weights(q, k, channels),
                "delta": lambda: delta.weights(q, k, beta),
                "gated_delta": lambda: gated_delta.weights(q, k, alpha, beta)
                }[self.rule]()

    def still(self):
        rows = [[f"query {i}", *(f"{w + 0.0:.2f}".replace("-", "−")
                                 for w in row[:i]), *[""] * (self.n - i)]
                for i, row in enumerate(self.weights(), 1)]
        return table(f"What each query reads of each value ({self.rule})",
                     ["", *(f"v {j}" for j in range(1, self.n + 1))], rows)


def _uniform(seed):
    """mulberry32: numbers in [0, 1), those of the module's `uniform`."""
    low = 0xFFFFFFFF

    def next_():
        nonlocal seed
        seed = (seed + 0x6D2B79F5) & low
        x = (seed ^ seed >> 15) * (seed | 1) & low
        x ^= (x + (x ^ x >> 7) * (x | 61)) & low
        return (x ^ x >> 14) / 2 ** 32
    return next_


def _within(name, x, low, high, whole=False, above=False):
    number = isinstance(x, (int, np.integer) if whole else
                        (int, float, np.number)) and not isinstance(x, bool)
    if not number or not low <= x <= high or (above and x == low):
        raise ValueError(f"{name} must be a {'whole ' if whole else ''}number "
                         f"in {'(' if above else '['}{low}, {high}]; "
                         f"it is {x!r}")
