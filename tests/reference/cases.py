"""What the tests of `lintut.reference` share: sizes, inputs, comparisons."""

import math
import re
import warnings
from operator import mul

import numpy as np
from hypothesis import strategies as st

LENGTHS = (1, 2, 15, 16, 17, 63, 64, 65, 100, 257)
CHUNKS = (1, 2, 7, 16, 64, 128, 257, 1000)


def frozen(x):
    """A read-only copy: a function that writes on its input fails."""
    x = np.array(x)
    x.setflags(write=False)
    return x


def draw(n, d=5, d_v=3, lead=(), seed=0, dtype=np.float64, size=1.0):
    """Normal q, k (…, n, d) and v (…, n, d_v), read-only."""
    rng = np.random.default_rng([seed, n])
    return tuple(frozen((size * rng.normal(size=(*lead, n, width)))
                        .astype(dtype)) for width in (d, d, d_v))


def by_hand(q, k, v, sees, scale=None):
    """Softmax attention of one head in plain Python; `sees(i, j)` is a bool.

    The oracle: it shares no code with what it tests, and sums exactly.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    keys, columns, rows = k.tolist(), v.T.tolist(), []
    for i, query in enumerate(q.tolist()):
        seen = [j for j in range(len(keys)) if sees(i, j)]
        scores = [scale * math.fsum(map(mul, query, keys[j])) for j in seen]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        total = math.fsum(weights)
        rows.append([math.fsum(w * column[j] for w, j in zip(weights, seen))
                     / total for column in columns])
    return np.array(rows)


def agree(actual, expected, tolerance=1e-10):
    """Each row (last axis) within `tolerance` of the expected row's size.

    Tuples are compared part by part.
    """
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected):
            agree(one, other, tolerance)
        return
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    error = np.abs(actual - expected).max(-1)
    size = np.abs(expected).max(-1)
    bad = ~(error <= tolerance * size)
    assert not bad.any(), (f"{bad.sum()} of {bad.size} rows differ; worst "
                           f"{error.max():.3g} at {np.argmax(error)}")


def cut(arrays, start, stop):
    """The tokens start … stop of each array (…, N, width)."""
    return tuple(x[..., start:stop, :] for x in arrays)


def leaves(result):
    """The arrays of a nested tuple."""
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [] if result is None else [result]


def survives(call, names):
    """`call()` is finite, or a ValueError that names one of `names`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = call()
        except ValueError as error:
            words = rf"\b({'|'.join(names)})\b"
            assert re.search(words, str(error)), f"names nothing: {error}"
        else:
            assert all(np.isfinite(x).all() for x in leaves(result))


# What no argument should accept, whichever it is an argument of.
JUNK = ("text", None, [], [[1.0, 2.0], [3.0]], object(), -1, 10 ** 400,
        np.zeros((2, 0)), np.ones((2, 3), int), np.ones((2, 3), complex),
        np.full((3, 2), np.nan), np.full((3, 2), np.inf), np.float64(1.5),
        {"a": 1}, np.ones((7, 2, 9, 5)), np.array(["a", "b"]))

EXTREMES = (0.0, 1e-310, 1e-160, 1e160, 1e300, -1e300, 1.7e308, -1.7e308,
            3e38, -3e38, 1e19, 80.0, -800.0, np.nan, np.inf)


@st.composite
def wild(pick, *shape, dtype=np.float64):
    """An array of normal entries, a few of which may be extreme."""
    rng = np.random.default_rng(pick(st.integers(0, 2 ** 16)))
    x = rng.normal(size=shape)
    for _ in range(pick(st.integers(0, 2))):
        value = pick(st.sampled_from(EXTREMES))
        if pick(st.booleans()):
            x[:] = value
        else:
            x.flat[rng.integers(x.size)] = value
    with np.errstate(over="ignore"):
        return frozen(x.astype(dtype))


@st.composite
def spoilt(pick, arguments):
    """The arguments, one of which may have been replaced by junk."""
    arguments = dict(arguments)
    if pick(st.booleans()):
        name = pick(st.sampled_from(sorted(arguments)))
        arguments[name] = pick(st.sampled_from(JUNK))
    return arguments
