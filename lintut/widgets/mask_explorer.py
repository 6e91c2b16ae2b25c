"""The mask explorer: who sees whom in one layer, who hears whom in L."""

import numpy as np
import traitlets

from lintut import reach
from lintut.reference import _checks, bigbird, longformer

from . import assets
from ._base import Widget, table

PATTERNS = ("window", "longformer", "bigbird")
MOST = 64


class MaskExplorer(Widget):
    """A sparse pattern as a mask, and as a graph of L layers.

    Parameters
    ----------
    pattern : "window" (dilation=1 or more), "longformer" or "bigbird"
    N : int
        Tokens, 2 to 64, numbered from 0.
    window, dilation, global_positions
        Of the first two, as in `lintut.reference.longformer`.
    block_size, n_window, n_global, n_random, seed
        Of BigBird, as in `lintut.reference.bigbird`; the random blocks are
        drawn by the same rule, but not by NumPy's generator.
    depth : int
        Layers L.
    causal : bool
    token : int
        Whose past is shown; None is the last.
    """

    name = "mask_explorer"
    _esm = assets.module(name)

    pattern = traitlets.Unicode().tag(sync=True)
    N = traitlets.Int().tag(sync=True)
    window = traitlets.Int().tag(sync=True)
    dilation = traitlets.Int().tag(sync=True)
    global_positions = traitlets.List().tag(sync=True)
    block_size = traitlets.Int().tag(sync=True)
    n_window = traitlets.Int().tag(sync=True)
    n_global = traitlets.Int().tag(sync=True)
    n_random = traitlets.Int().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)
    depth = traitlets.Int().tag(sync=True)
    causal = traitlets.Bool().tag(sync=True)
    token = traitlets.Int().tag(sync=True)

    def __init__(self, pattern="window", N=24, window=4, dilation=1,
                 global_positions=(0,), block_size=2, n_window=3, n_global=1,
                 n_random=1, seed=0, depth=1, causal=True, token=None):
        if pattern not in PATTERNS:
            raise ValueError(f"pattern must be one of {', '.join(PATTERNS)}; "
                             f"it is {pattern!r}")
        N = _checks.count("N", N, 2, MOST)
        sizes = {name: _checks.count(name, n, low, high) for name, n, low, high
                 in [("window", window, 1, MOST),
                     ("dilation", dilation, 1, MOST),
                     ("block_size", block_size, 1, MOST),
                     ("n_window", n_window, 1, MOST),
                     ("n_global", n_global, 0, MOST),
                     ("n_random", n_random, 0, MOST),
                     ("seed", seed, 0, 999_999_999),
                     ("depth", depth, 1, MOST),
                     ("token", N - 1 if token is None else token, 0, N - 1)]}
        chosen = _checks.positions("global_positions", global_positions, N)
        super().__init__(pattern=pattern, N=N, **sizes,
                         global_positions=chosen.tolist(),
                         causal=_checks.flag("causal", causal))

    def summary(self):
        return {"pattern": self.pattern, "N": self.N, "causal": self.causal}

    def mask(self):
        """The mask by lintut.reference."""
        if self.pattern == "bigbird":
            return bigbird.mask(self.N, self.block_size, self.n_window,
                                self.n_global, self.n_random, self.seed,
                                self.causal)
        return longformer.mask(
            self.N, self.window,
            self.global_positions if self.pattern == "longformer" else [],
            self.causal, self.dilation)

    def still(self):
        mask = self.mask()
        distance = reach.hops(mask)[self.token]
        rows = []
        for depth in range(1, self.depth + 1):
            heard = np.flatnonzero((0 <= distance) & (distance <= depth))
            far = heard[np.abs(heard - self.token).argmax()]
            share = reach.shares(mask, depth)[self.token, far]
            rows.append([depth, len(heard), far, f"{100 * share:.2g}%"])
        drawn = self.pattern == "bigbird" and self.n_random
        return table(
            f"Pattern {self.pattern}, {self.N} tokens, {mask.sum()} pairs "
            f"compared: whom token {self.token} hears"
            + (" (random blocks as NumPy draws them)" if drawn else ""),
            ["layers", "tokens heard", "the farthest",
             "its share, if every layer took plain means"], rows)
