"""The kernel viewer: φ(q)·φ(k) of several feature maps beside exp(q·k)."""

import math

import numpy as np
import traitlets

from lintut.reference import feature_maps, performer

from . import assets
from ._base import Widget, table
from .weights_viewer import _uniform, _within

MAPS = ("elu_plus_one", "relu", "squared", "softmax_feature", "dpfp",
        "taylor", "positive", "trigonometric")
LONGEST, MOST_FEATURES, LAST_SEED, STEPS = 3, 64, 999, 120


class KernelViewer(Widget):
    """κ(q, k) as k turns round, or grows, in two dimensions.

    Parameters
    ----------
    maps : names of `MAPS`
        Functions of `lintut.reference.feature_maps`, and two kinds of random
        features of `lintut.reference.performer`.  exp(q·k) is always shown.
    along : "angle" or "length"
    measure : "weight" (κ over its mean along the curve) or "value"
    turn : float, direction of q in degrees, 0 to 360
    angle : float, from q to k in degrees, −180 to 180
    q_length, k_length : floats, 0 to 3
    features, seed : ints
        Rows of the random projection, 1 to 64, and what draws them.
    """

    name = "kernel_viewer"
    _esm = assets.module(name)

    maps = traitlets.List().tag(sync=True)
    along = traitlets.Unicode().tag(sync=True)
    measure = traitlets.Unicode().tag(sync=True)
    turn = traitlets.Float().tag(sync=True)
    angle = traitlets.Float().tag(sync=True)
    q_length = traitlets.Float().tag(sync=True)
    k_length = traitlets.Float().tag(sync=True)
    features = traitlets.Int().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)

    def __init__(self, maps=("elu_plus_one", "dpfp", "taylor"), along="angle",
                 measure="weight", turn=30.0, angle=60.0, q_length=2.0,
                 k_length=1.0, features=16, seed=0):
        for name, value, known in (("along", along, ("angle", "length")),
                                   ("measure", measure, ("weight", "value")),
                                   *(("maps", name, MAPS) for name in maps)):
            if value not in known:
                raise ValueError(f"{name} must be of {', '.join(known)}; "
                                 f"it is {value!r}")
        _within("turn", turn, 0, 360)
        _within("angle", angle, -180, 180)
        _within("q_length", q_length, 0, LONGEST)
        _within("k_length", k_length, 0, LONGEST)
        _within("features", features, 1, MOST_FEATURES, whole=True)
        _within("seed", seed, 0, LAST_SEED, whole=True)
        super().__init__(maps=[name for name in MAPS if name in maps],
                         along=along, measure=measure, turn=float(turn),
                         angle=float(angle), q_length=float(q_length),
                         k_length=float(k_length), features=features,
                         seed=seed)

    def summary(self):
        return {"maps": self.maps, "along": self.along}

    def projection(self):
        """(features, 2), as the module draws it."""
        next_ = _uniform(self.seed)
        return np.array([[math.sqrt(-2 * math.log(1 - next_()))
                          * math.cos(2 * math.pi * next_())
                          for _ in range(2)] for _ in range(self.features)])

    def kernel(self, name, q, k):
        """κ of q (2,) with each of k (n, 2), by lintut.reference."""
        if name == "exp":
            return np.exp(k @ q)
        if name in ("positive", "trigonometric"):
            def φ(x):
                return performer.features(x, self.projection(), name)
        else:
            φ = getattr(feature_maps, name)
        return φ(k) @ φ(q)

    def curves(self):
        """x (121,) and {map: (κ at the chosen k, κ along x, their mean)}."""
        q = _polar(self.q_length, self.turn)
        here = _polar(self.k_length, self.turn + self.angle)
        if self.along == "angle":
            x = np.linspace(-180, 180, STEPS + 1)
            k = _polar(self.k_length, self.turn + x)
        else:
            x = np.linspace(0, LONGEST, STEPS + 1)
            k = _polar(x, self.turn + self.angle)
        result = {}
        for name in ("exp", *self.maps):
            κ = self.kernel(name, q, np.concatenate([here[None], k]))
            result[name] = κ[0], κ[1:], κ[2:].mean()
        return x, result

    def still(self):
        rows = [["exp(q·k)" if name == "exp" else name, _text(here),
                 _text(here / mean) if mean > 1e-12 else "none"]
                for name, (here, _, mean) in self.curves()[1].items()]
        return table(f"One key, {self.angle:g}° from q, as each map sees it",
                     ["map", "κ", "weight, in multiples of the average"],
                     rows)


def _polar(length, degrees):
    a = np.deg2rad(degrees)
    return np.stack([length * np.cos(a), length * np.sin(a)], -1)


def _text(x):
    return f"{x + 0.0:.3f}".replace("-", "−")
