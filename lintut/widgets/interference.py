"""Interference: what is read back from a memory whose keys overlap."""

from fractions import Fraction

import numpy as np
import traitlets

from lintut.reference import delta, linear, retention
from lintut.reference.feature_maps import identity

from . import assets
from ._base import Widget, table

MOST_KEYS, MOST_PASSES, LARGEST = 6, 50, 10**6
RULES = ("additive", "normalised", "delta")


class Interference(Widget):
    """Unit keys on a circle, a value under each, three ways to keep them.

    Parameters
    ----------
    angles : whole numbers of degrees, one a key; at most 6
    values : numbers, or texts such as "1/2", one a key
    passes : int, how often the delta rule goes over all keys
    chosen : int, the key whose angle the curves vary
    """

    name = "interference"
    _esm = assets.module(name)

    angles = traitlets.List().tag(sync=True)
    values = traitlets.List().tag(sync=True)
    passes = traitlets.Int(1).tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)

    def __init__(self, angles=(0, 90), values=(1, 2), passes=1, chosen=1):
        angles = _whole("angles", angles, -LARGEST, LARGEST)
        if not 1 <= len(angles) <= MOST_KEYS:
            raise ValueError(f"angles must be 1 to {MOST_KEYS} numbers; "
                             f"there are {len(angles)}")
        texts = [str(value) for value in values]
        if len(texts) != len(angles):
            raise ValueError(f"values must have one number an angle; it has "
                             f"{len(texts)} for {len(angles)}")
        try:
            good = all(abs(Fraction(text)) <= LARGEST for text in texts)
        except (ValueError, ZeroDivisionError):
            good = False
        if not good:
            raise ValueError("values must be numbers within a million; "
                             f"it is {texts}")
        passes, = _whole("passes", [passes], 1, MOST_PASSES)
        chosen, = _whole("chosen", [chosen], 0, len(angles) - 1)
        super().__init__(angles=[a % 360 for a in angles], values=texts,
                         passes=passes, chosen=chosen)

    def reads(self):
        """{rule: what each key reads back}; NaN where there is no read."""
        a = np.deg2rad(self.angles)
        k = np.stack([np.cos(a), np.sin(a)], -1).round(15)   # (n, 2)
        v = np.array([[float(Fraction(text))] for text in self.values])
        again = np.tile(np.arange(len(k)), self.passes)
        _, S = retention.recurrent(k, k, v, 1.0, return_state=True)
        _, D = delta.recurrent(k[again], k[again], v[again],
                               np.ones(len(again)), return_state=True)
        normal = np.full(len(k), np.nan)
        for j in np.flatnonzero(k @ k.sum(0) > 1e-9):
            normal[j] = linear.recurrent(
                np.tile(k[j], (len(k), 1)), k, v, identity, False)[-1, 0]
        return dict(zip(RULES, ((k @ S)[:, 0], normal, (k @ D)[:, 0])))

    def summary(self):
        return {"angles": self.angles, "values": self.values,
                "passes": self.passes}

    def still(self):
        reads = self.reads()
        rows = [[f"k{j + 1}", f"{angle}°", value.replace("-", "−")]
                + [_text(reads[rule][j]) for rule in RULES]
                for j, (angle, value) in enumerate(zip(self.angles,
                                                       self.values))]
        return table("What each key reads back, from three memories",
                     ["key", "angle", "value", *RULES], rows)


def _whole(name, numbers, low, high):
    """`numbers` as whole numbers from low to high."""
    numbers = list(numbers)
    for x in numbers:
        if isinstance(x, bool) or not isinstance(x, (int, np.integer)) or (
                not low <= x <= high):
            raise ValueError(f"{name} must be whole, from {low} to {high}; "
                             f"it is {x!r}")
    return [int(x) for x in numbers]


def _text(x):
    if np.isnan(x):
        return "none"
    text = f"{x:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")
