"""The compression explorer: how much of attention survives in m slots."""

import math

import numpy as np
import traitlets

from lintut.reference import _checks, linformer, softmax

from . import assets
from ._base import Widget, table

WIDTH, MOST_TOKENS, LAST_SEED = 16, 96, 999


class CompressionExplorer(Widget):
    """Linformer against full attention: m, input scale, length.

    Parameters
    ----------
    N, m : int
        Tokens, 2 to 96, and slots, 1 to N.
    scale : float
        Multiplies the queries: one of 2**(i/2), i from -4 to 6.
    inputs : "random" or "smooth"
        Independent tokens, or neighbours alike; d = d_v = 16.
    projection : "random" or "mean"
        E = F with entries N(0, 1/m), or means of N/m neighbours.
    seed : int
        Of the inputs and of the random projection; the page's own generator.
    """

    name = "compression_explorer"
    _esm = assets.module(name)

    N = traitlets.Int().tag(sync=True)
    m = traitlets.Int().tag(sync=True)
    scale = traitlets.Float().tag(sync=True)
    inputs = traitlets.Unicode().tag(sync=True)
    projection = traitlets.Unicode().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)

    def __init__(self, N=64, m=16, scale=1.0, inputs="random",
                 projection="random", seed=0):
        for name, value, known in [
                ("inputs", inputs, ("random", "smooth")),
                ("projection", projection, ("random", "mean"))]:
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; "
                                 f"it is {value!r}")
        scale = _checks.number("scale", scale)
        half_steps = 2 * math.log2(scale) if scale > 0 else math.nan
        if not (-4 <= half_steps <= 6 and half_steps == round(half_steps)):
            raise ValueError("scale must be 2**(i/2) with i from -4 to 6; "
                             f"it is {scale:g}")
        N = _checks.count("N", N, 2, MOST_TOKENS)
        super().__init__(
            N=N, m=_checks.count("m", m, 1, N), scale=scale, inputs=inputs,
            projection=projection,
            seed=_checks.count("seed", seed, 0, LAST_SEED))

    def summary(self):
        return {"N": self.N, "m": self.m, "scale": self.scale,
                "inputs": self.inputs}

    def tokens(self):
        """q, k, v of the same kind as the page's, by NumPy's generator."""
        rng = np.random.default_rng(self.seed)
        k, q, v = rng.normal(size=(3, self.N, WIDTH))
        if self.inputs == "smooth":
            for x in (k, v):
                for t in range(1, self.N):
                    x[t] = .95 * x[t - 1] + (1 - .95**2) ** .5 * x[t]
            q = k
        return self.scale * q, k, v

    def still(self):
        q, k, v = self.tokens()
        o = softmax.parallel(q, k, v)
        A = softmax.weights(q, k)
        U, s, Vt = np.linalg.svd(A)
        G = np.random.default_rng(self.seed + 1).normal(size=(self.N, self.N))

        def off(x):
            return f"{np.linalg.norm(x - o) / np.linalg.norm(o):.2g}"

        rows = []
        for m in sorted({2 ** i for i in range(7) if 2 ** i < self.N}
                        | {self.m}):
            cuts = np.arange(m + 1) * self.N // m
            pool = np.zeros((m, self.N))
            for a, (start, stop) in enumerate(zip(cuts, cuts[1:])):
                pool[a, start:stop] = 1 / (stop - start)
            E = pool if self.projection == "mean" else G[:m] / m ** .5
            rows.append([m, f"{s[:m].sum() / s.sum():.2f}",
                         off((U[:, :m] * s[:m]) @ Vt[:m] @ v),
                         off(linformer.parallel(q, k, v, E, E))])
        return table(
            f"{self.N} {self.inputs} tokens, input scale {self.scale:.2g}, "
            f"E and F {self.projection}; relative errors of the output "
            f"(the mean of all values: {off(v.mean(0))}). Drawn by NumPy: "
            "the live widget has draws of its own",
            ["m", "singular values kept", "error of the closest rank m",
             "error of Linformer"], rows)
