"""What every function of `lintut.reference` refuses, and in which words.

A refusal is a ValueError that names the argument, says what it got and what
it should be.  `array` … `chunk` look at what comes in; `positive` and
`finite` at what is about to go out.
"""

import numpy as np

# Overflow is reported by `finite`, with the argument's name, not by a warning.
quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore",
                    under="ignore")


def array(name, x, ndim=2, axes="(…, N, d)"):
    """`x` as a finite float32 or float64 array of at least `ndim` axes."""
    try:
        x = np.asarray(x)
    except ValueError:
        raise ValueError(f"{name} must be an array of shape {axes}; "
                         "its rows differ in length") from None
    if x.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} must be float32 or float64; "
                         f"it is {x.dtype}")
    if x.ndim < ndim:
        raise ValueError(f"{name} must have shape {axes}; "
                         f"its shape is {x.shape}")
    if x.size == 0:
        raise ValueError(f"{name} is empty: its shape is {x.shape}")
    # A finite sum proves finite entries; a finite array may overflow its sum.
    with quiet:
        if not np.isfinite(x.sum()) and not np.isfinite(x).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
            raise ValueError(f"{name} must be finite; "
                             f"{name}{list(where)} is {x[where]}")
    return x


def qkv(q, k, v, same_length=True):
    """Check q, k (…, N, d) and v (…, N, d_v); return them and their lead.

    The lead is the broadcast shape of the axes before the last two.
    """
    q, k = array("q", q), array("k", k)
    v = array("v", v, axes="(…, N, d_v)")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError("q, k and v must share one dtype; they are "
                         f"{q.dtype}, {k.dtype} and {v.dtype}")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"k must have q's width d={q.shape[-1]}; "
                         f"its shape is {k.shape}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"v must have k's length N={k.shape[-2]}; "
                         f"its shape is {v.shape}")
    if same_length and q.shape[-2] != k.shape[-2]:
        raise ValueError(f"k must have q's length N={q.shape[-2]}; "
                         f"its shape is {k.shape}")
    return q, k, v, lead("k and v", q.shape[:-2], k.shape[:-2], v.shape[:-2])


def lead(name, *shapes):
    """The shape that all leading axes broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"the leading axes of {name} do not broadcast: "
                         + ", ".join(map(str, shapes))) from None


def gate(name, x, like, shape, low, high, open_low=False):
    """A gate as an array of `like`'s dtype, within its range.

    `shape` is what its last axes must be: (N,), (N, d) or () for a number.
    """
    axes = "(…, " + ", ".join(map(str, shape)) + ")" if shape else "()"
    x = np.asarray(x)
    if x.dtype not in (np.float32, np.float64) and x.ndim == 0:
        x = x.astype(np.float64) if x.dtype.kind in "iu" else x
    x = array(name, x, ndim=len(shape), axes=axes)
    if shape and x.shape[x.ndim - len(shape):] != tuple(shape):
        raise ValueError(f"{name} must have shape {axes}; "
                         f"its shape is {x.shape}")
    low_ok = x.min() > low if open_low else x.min() >= low
    if not low_ok or x.max() > high:
        bad, word = ((x.max(), "largest") if low_ok else
                     (x.min(), "smallest"))
        raise ValueError(f"{name} must lie in {'(' if open_low else '['}"
                         f"{low:g}, {high:g}]; its {word} entry is {bad:g}")
    return x.astype(like.dtype, copy=False)


def state(name, x, like, shape):
    """An initial state as a new array of exactly `shape`, or zeros."""
    if x is None:
        return np.zeros(shape, like.dtype)
    x = array(name, x, ndim=1, axes=str(shape))
    if x.dtype != like.dtype:
        raise ValueError(f"{name} must be {like.dtype}, as q is; "
                         f"it is {x.dtype}")
    try:
        return np.broadcast_to(x, shape).copy()
    except ValueError:
        raise ValueError(f"{name} must have shape {shape}; "
                         f"its shape is {x.shape}") from None


def count(name, n, low=1):
    """A whole number of at least `low`."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise ValueError(f"{name} must be a whole number; it is {n!r}")
    if n < low:
        raise ValueError(f"{name} must be at least {low}; it is {n}")
    return int(n)


def number(name, x):
    """A finite real number."""
    try:
        value = float(x)
    except (TypeError, ValueError):
        value = np.nan
    if isinstance(x, (bool, str)) or not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number; it is {x!r}")
    return value


def positive(denominator, name="the denominator", cause=""):
    """Raise unless every entry (one a row) is above zero."""
    if not (denominator > 0).all():
        row = tuple(int(i) for i in np.argwhere(~(denominator > 0))[0])
        raise ValueError(f"{name} of row {row[-1]} must be positive; "
                         f"it is {denominator[row]:g}{cause}")
    return denominator


def finite(result, **arguments):
    """Return `result` unless it overflowed; then name the largest argument."""
    parts = result if isinstance(result, tuple) else (result,)
    for part in parts:
        if isinstance(part, tuple):
            finite(part, **arguments)
        elif not np.isfinite(part.sum()) and not np.isfinite(part).all():
            sizes = {name: np.abs(x).max() for name, x in arguments.items()}
            worst = max(sizes, key=sizes.get)
            raise ValueError(
                f"{worst} is too large for {part.dtype}: the result "
                f"overflows (its largest entry is {sizes[worst]:g})")
    return result
