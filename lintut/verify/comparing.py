"""Two results compared, row by row.

A number is right if its row is: an error is compared with the size of its own
row and of the largest one, never averaged over rows.
"""

import numpy as np


def difference(mine, right, tolerance, nan=False, row="position"):
    """What is wrong, the worst row first; "" if nothing is.

    `nan` lets both be NaN in the same places.
    """
    if mine.shape != right.shape:
        return f"its shape should be {right.shape}; it is {mine.shape}"
    with np.errstate(all="ignore"):
        error = np.abs(mine - right)
        if nan:
            error[np.isnan(mine) & np.isnan(right)] = 0
        error = error.max(-1)
        size = np.nan_to_num(np.abs(right).max(-1))
        bad = ~(error <= tolerance * (size + size.max()))
    if not bad.any():
        return ""
    worst = np.where(np.isnan(error), np.inf, error)
    at = np.unravel_index(worst.argmax(), worst.shape)
    column = np.nan_to_num(np.abs(mine[at] - right[at]), nan=np.inf).argmax()
    first = np.argwhere(bad)[0]
    return (f"{bad.sum()} of {bad.size} rows differ, the first at {row} "
            f"{first[-1]}; worst at {at[-1]}: {mine[at][column]:.4g} instead "
            f"of {right[at][column]:.4g}, off by {worst[at]:.1g}")


def parts(state):
    """The arrays of a state: one, or a few."""
    return state if isinstance(state, tuple) else (state,)


def state_difference(mine, right, tolerance, names):
    """The same of a state's parts, named "S", "Sz" or "KV"."""
    for name, a, b in zip(names, parts(mine), parts(right)):
        problem = difference(a, b, tolerance, row="row")
        if problem:
            return f"its {name} after the last token: {problem}"
    return ""
