"""The feature explorer: random features against exp(x·y) and softmax."""

import numpy as np
import traitlets

from lintut.reference import performer, softmax

from . import assets
from ._base import Widget, table

KINDS = ("positive", "hyperbolic", "trigonometric")
COUNTS = (2, 4, 8, 16, 32, 64, 128, 256)
D, N, REDRAWS, LARGEST_SCALE = 8, 24, 40, 3


class FeatureExplorer(Widget):
    """Kernel and output error of Performer's features, drawn in the page.

    Parameters
    ----------
    n_features : r, a power of two from 2 to 256
    kind : "positive", "hyperbolic" or "trigonometric"
    orthogonal : bool, rows orthogonal in blocks of d = 8
    scale : σ in (0, 3]; queries and keys are σ N(0, I)
    seed : int, of the features; the tokens are the same for every seed
    """

    name = "feature_explorer"
    _esm = assets.module(name)

    n_features = traitlets.Int(32).tag(sync=True)
    kind = traitlets.Unicode("positive").tag(sync=True)
    orthogonal = traitlets.Bool(True).tag(sync=True)
    scale = traitlets.Float(0.5).tag(sync=True)
    seed = traitlets.Int(0).tag(sync=True)

    def __init__(self, n_features=32, kind="positive", orthogonal=True,
                 scale=0.5, seed=0):
        for name, value, known in (("n_features", n_features, COUNTS),
                                   ("kind", kind, KINDS),
                                   ("orthogonal", orthogonal,
                                    (True, False))):
            if value not in known:
                raise ValueError(f"{name} must be one of {known}; "
                                 f"it is {value!r}")
        if isinstance(scale, bool) or not isinstance(scale, (int, float)) or (
                not 0 < scale <= LARGEST_SCALE):
            raise ValueError(f"scale must lie in (0, {LARGEST_SCALE}]; "
                             f"it is {scale!r}")
        if isinstance(seed, bool) or not isinstance(seed, int) or (
                not 0 <= seed <= 999_999):
            raise ValueError("seed must be a whole number from 0 to 999999; "
                             f"it is {seed!r}")
        super().__init__(n_features=n_features, kind=kind,
                         orthogonal=orthogonal, scale=float(scale), seed=seed)

    def summary(self):
        return {name: getattr(self, name) for name in
                ("n_features", "kind", "orthogonal", "scale", "seed")}

    def errors(self):
        """{kind: median squared output error}, and of answering mean(V)."""
        rng = np.random.default_rng(8)
        q, k = self.scale * rng.normal(size=(2, N, D))
        v = rng.normal(size=(N, 1))
        exact = softmax.parallel(q, k, v)
        x, y = q / D ** 0.25, k / D ** 0.25
        found = {}
        for kind in KINDS:
            rows = self.n_features // (1 if kind == "positive" else 2)
            errors = []
            for draw in range(REDRAWS):
                Ω = performer.projection(rows, D, self.seed + draw,
                                         self.orthogonal)
                A = performer.features(x, Ω, kind) @ (
                    performer.features(y, Ω, kind).T)
                o = A @ v / A.sum(-1, keepdims=True)
                errors.append(np.mean((o - exact) ** 2))
            found[kind] = float(np.median(errors))
        return found | {"the mean of V": float(np.mean((v.mean() - exact)
                                                       ** 2))}

    def still(self):
        rows = [[name, f"{error:.2g}"] for name, error in
                self.errors().items()]
        return table(
            f"Squared output error, median of {REDRAWS} draws: r = "
            f"{self.n_features}, σ = {self.scale:g}, d = {D}, "
            f"{'orthogonal' if self.orthogonal else 'independent'} rows "
            "(drawn with NumPy)", ["features", "error"], rows)
