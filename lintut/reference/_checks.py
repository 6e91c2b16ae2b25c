"""What every function of `lintut.reference` refuses, and in which words.

A refusal is a ValueError that names the argument, says what it got and what
it should be.  `array` … `chunk` look at what comes in; `positive` and
`finite` at what is about to go out.
"""

from functools import wraps

import numpy as np


def quiet(function):
    """Silence NumPy inside: `finite` reports overflow, and names its cause."""
    @wraps(function)
    def silenced(*args, **kwargs):
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)
    return silenced


@quiet
def array(name, x, ndim=2, axes="(…, N, d)"):
    """A read-only view of `x`: finite, float32 or float64, ≥ `ndim` axes."""
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
    if not np.isfinite(x.sum()) and not np.isfinite(x).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        raise ValueError(f"{name} must be finite; "
                         f"{name}{list(where)} is {x[where]}")
    x = x.view()
    x.flags.writeable = False       # what is the caller's stays as it is
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
    return q, k, v, lead("q, k and v", *(x.shape[:-2] for x in (q, k, v)))


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
    axes = f"({', '.join(map(str, ('…', *shape)))})"
    try:
        x = np.asarray(x)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of shape {axes}; "
                         "its rows differ in length") from None
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


def state(name, x, like, shape, ndim=2):
    """An initial state as a new array of `shape`, or zeros.

    Its last `ndim` axes must be those of `shape`; the others broadcast.
    """
    if x is None:
        return np.zeros(shape, like.dtype)
    x = array(name, x, ndim=ndim, axes=str(shape))
    if x.dtype != like.dtype:
        raise ValueError(f"{name} must be {like.dtype}, as q is; "
                         f"it is {x.dtype}")
    try:
        if x.shape[-ndim:] != tuple(shape[-ndim:]):
            raise ValueError
        return np.broadcast_to(x, shape).copy()
    except ValueError:
        raise ValueError(f"{name} must have shape {shape}; "
                         f"its shape is {x.shape}") from None


def cache(name, x, k, v, lead, longest=None):
    """An initial (K, V), to read, as (*lead, M, d) and (*lead, M, d_v).

    Without one M is 0; `longest`, if given, is the largest M.
    """
    if x is None:
        x = k[..., :0, :], v[..., :0, :]
    else:
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            raise ValueError(f"{name} must be a pair (K, V); "
                             f"it is {type(x).__name__}")
        x = [array(f"{part} of {name}", y, axes=f"(…, M, {like.shape[-1]})")
             for part, y, like in zip("KV", x, (k, v))]
    for y, like in zip(x, (k, v)):
        if y.dtype != like.dtype or y.shape[-1] != like.shape[-1] or (
                y.shape[-2] != x[0].shape[-2]):
            raise ValueError(
                f"{name} must hold K (…, M, {k.shape[-1]}) and V "
                f"(…, M, {v.shape[-1]}) in {k.dtype}; it holds "
                + " and ".join(f"{y.shape} {y.dtype}" for y in x))
    if longest is not None and x[0].shape[-2] > longest:
        raise ValueError(f"{name} must hold at most window={longest} tokens; "
                         f"it holds {x[0].shape[-2]}")
    try:
        return tuple(np.broadcast_to(y, (*lead, *y.shape[-2:])) for y in x)
    except ValueError:
        raise ValueError(f"the leading axes of {name} must broadcast to "
                         f"{lead}; it holds {x[0].shape} and "
                         f"{x[1].shape}") from None


def mask(name, x, n, causal=False):
    """A boolean mask as (…, n, n), True = may see; each row sees a key."""
    try:
        x = np.asarray(x)
    except ValueError:
        x = np.empty(0, object)
    if x.dtype != bool:
        raise ValueError(f"{name} must be boolean, True where a query may "
                         f"see a key; it is {x.dtype}")
    try:
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, (n, n)))
    except ValueError:
        pass
    if x.shape[-2:] != (n, n) or x.size == 0:
        raise ValueError(f"{name} must broadcast to (…, {n}, {n}); "
                         f"its shape is {x.shape}")
    hidden = ~x.any(-1)
    if causal:
        hidden |= x.argmax(-1) > np.arange(n)   # the first key comes too late
    if hidden.any():
        row = [int(i) for i in np.argwhere(hidden)[0]]
        raise ValueError(
            f"{name} must leave every row a key to see"
            f"{', itself or an earlier one' if causal else ''}; "
            f"row {row[-1]} has none" + (f" (at {row})" if row[1:] else ""))
    return x


def positions(name, x, n):
    """Whole numbers from 0 to n - 1, sorted, each once; there may be none."""
    try:
        x = np.asarray(x)
    except (ValueError, OverflowError):
        x = np.empty((0, 0))
    if x.ndim != 1 or (x.size and x.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a sequence of whole numbers; its "
                         f"shape is {x.shape}, its dtype {x.dtype}")
    if x.size and not 0 <= x.min() <= x.max() < n:
        raise ValueError(f"{name} must lie in [0, N) with N={n}; they go "
                         f"from {x.min()} to {x.max()}")
    return np.unique(x).astype(np.intp)


def flag(name, x):
    """True or False."""
    if not isinstance(x, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; it is {x!r}")
    return bool(x)


def only_causal(causal):
    """A recurrence reads the past alone: refuse causal=False."""
    if not flag("causal", causal):
        raise ValueError("causal must be True here; it is False: "
                         "a recurrence sees no future token")


def count(name, n, low=1, high=None):
    """A whole number of at least `low`, and at most `high`."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise ValueError(f"{name} must be a whole number; it is {n!r}")
    if n < low:
        raise ValueError(f"{name} must be at least {low}; it is {n}")
    if high is not None and n > high:
        raise ValueError(f"{name} must be at most {high}; it is {n}")
    return int(n)


def number(name, x):
    """A finite real number."""
    try:
        value = float(x)
    except (TypeError, ValueError, OverflowError):
        value = np.nan
    if isinstance(x, (bool, str, bytes)) or not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number; it is {x!r}")
    return value


def positive(denominator, name="the denominator", cause=""):
    """Raise unless every entry (one a row) is above zero, and finite.

    Below the smallest normal number too few digits are left to divide by.
    """
    least = np.finfo(denominator.dtype).tiny
    good = (denominator >= least) & np.isfinite(denominator)
    if not good.all():
        row = tuple(int(i) for i in np.argwhere(~good)[0])
        raise ValueError(f"{name} of row {row[-1]} must be positive (at "
                         f"least {least:.2g}) and finite; "
                         f"it is {denominator[row]:g}{cause}")
    return denominator


def finite(result, **arguments):
    """Return `result` unless it overflowed; then name the largest argument.

    An argument may be a tuple of arrays; one that is None is left out.
    """
    parts = result if isinstance(result, tuple) else (result,)
    for part in parts:
        if isinstance(part, tuple):
            finite(part, **arguments)
        elif not np.isfinite(part.sum()) and not np.isfinite(part).all():
            sizes = {name: max(np.abs(y).max(initial=0) for y in
                               (x if isinstance(x, (tuple, list)) else (x,)))
                     for name, x in arguments.items() if x is not None}
            worst = max(sizes, key=sizes.get)
            raise ValueError(
                f"{worst} is too large for {part.dtype}: the result "
                f"overflows (its largest entry is {sizes[worst]:g})")
    return result


def output(o, state, return_state, **arguments):
    """o, or (o, state), if all of it is finite."""
    result = (o, state) if flag("return_state", return_state) else o
    return finite(result, **arguments)
