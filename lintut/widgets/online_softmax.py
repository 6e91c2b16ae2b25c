"""The online softmax: a row of scores met a tile at a time."""

import numpy as np
import traitlets

from lintut.reference._checks import count
from lintut.reference.softmax import absorb

from . import assets
from ._base import Widget, table
from .stepper import _numbers, _text, _typed

SCORES = (1, 3, 2, 6, 5, 0)
VALUES = (10, 20, 30, 40, 50, 60)
MOST_KEYS = 12


class OnlineSoftmax(Widget):
    """A row's largest score, sum and output, tile after tile.

    Parameters
    ----------
    scores, values : 1 to 12 numbers each
        Ints, floats, Fractions or texts such as "1/6".
    size : int, keys in a tile
    step : int, how many tiles have been met
    """

    name = "online_softmax"
    _esm = assets.module(name)

    scores = traitlets.List().tag(sync=True)
    values = traitlets.List().tag(sync=True)
    size = traitlets.Int(2).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, scores=SCORES, values=VALUES, size=2, step=0):
        for name, row in (("scores", scores), ("values", values)):
            _numbers(name, [row])
            if not 1 <= len(row) <= MOST_KEYS or len(row) != len(scores):
                raise ValueError(
                    f"{name} must be 1 to {MOST_KEYS} numbers, as many as "
                    f"scores; it has {len(row)}")
        if count("size", size) > MOST_KEYS:
            raise ValueError(f"size must be at most {MOST_KEYS}; it is "
                             f"{size}")
        tiles = -(-len(scores) // size)
        if count("step", step, low=0) > tiles:
            raise ValueError(f"step must be at most {tiles}, the number of "
                             f"tiles; it is {step}")
        super().__init__(scores=list(map(_typed, scores)),
                         values=list(map(_typed, values)), size=size,
                         step=step)

    def states(self):
        """(top, total, out) after each tile, by `lintut.reference`."""
        (scores, values), at = (
            np.array(_numbers("rows", [self.scores, self.values]), float),
            range(0, len(self.scores), self.size))
        state, states = (np.full((1, 1), -np.inf), np.zeros((1, 1)),
                         np.zeros((1, 1))), []
        for tile in (slice(i, i + self.size) for i in at):
            state = absorb(*state, scores[None, tile], values[tile, None])
            states.append([x.item() for x in state])
        return states

    def summary(self):
        return {"N": len(self.scores), "size": self.size, "step": self.step}

    def still(self):
        scores, size = self.scores, self.size
        rows = [[f"{i + 1}: {', '.join(scores[i * size:(i + 1) * size])}",
                 *map(_text, state), _text(state[2] / state[1])]
                for i, state in enumerate(self.states())]
        return table("One row of scores, a tile at a time",
                     ["tile", "largest m", "sum ℓ", "sum o", "o / ℓ"], rows)
