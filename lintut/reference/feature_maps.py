"""Feature maps φ: vectors of width d to vectors of width r.

Each takes an array (…, d) and returns a new one (…, r) in the same dtype,
each vector mapped for itself.  φ(x)·φ(y) is the similarity that linear
attention uses in the place of exp(x·y).
"""

from functools import wraps

import numpy as np

from . import _checks


def checked(feature_map):
    """Refuse bad input and overflow; `unchecked` is the map as written."""
    @_checks.quiet
    @wraps(feature_map)
    def φ(x, *args, **kwargs):
        x = _checks.array("x", x, ndim=1, axes="(…, d)")
        return _checks.finite(feature_map(x, *args, **kwargs), x=x)
    φ.unchecked = feature_map
    return φ


@checked
def identity(x):
    """φ(x) = x, for inputs that are features already; r = d."""
    return x.copy()


@checked
def elu_plus_one(x):
    """φ(x) = ELU(x) + 1: x + 1 above zero, eˣ below; r = d, always positive.

    Katharopoulos et al. 2020, equation 7.
    """
    return np.maximum(x, 0) + np.exp(np.minimum(x, 0))


@checked
def relu(x):
    """φ(x) = max(x, 0); r = d.  Two vectors may have similarity zero."""
    return np.maximum(x, 0)


@checked
def squared_relu(x):
    """φ(x) = max(x, 0)²; r = d."""
    return np.maximum(x, 0) ** 2


@checked
def squared(x):
    """φ(x) = x²; r = d.  x and −x look the same."""
    return x ** 2


@checked
def exp(x):
    """φ(x) = eˣ, entry by entry; r = d, always positive."""
    return np.exp(x)


@checked
def softmax_feature(x):
    """φ(x) = softmax(x) over its d entries, which sum to one; r = d."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@checked
def dpfp(x, nu=1):
    """Deterministic parameter-free projection; r = 2dν.

    With p = relu([x; −x]): the products p_i p_{i+s} for s = 1 … ν, the index
    i + s going round.  Schlag et al. 2021, section 5.3.
    """
    nu, most = _checks.count("nu", nu), 2 * x.shape[-1] - 1
    if nu > most:
        raise ValueError(f"nu must be at most 2d - 1 = {most}; it is {nu}")
    p = np.maximum(np.concatenate([x, -x], -1), 0)           # (…, 2d)
    return np.concatenate([p * np.roll(p, -s, -1)
                           for s in range(1, nu + 1)], -1)   # (…, 2dν)


@checked
def taylor(x):
    """φ(x) = (1, x, x⊗x/√2); r = 1 + d + d².

    φ(x)·φ(y) = 1 + x·y + (x·y)²/2: the series of exp(x·y) to second order,
    never below 1/2.  Arora et al. 2024, "Based", section 4.1.
    """
    pairs = x[..., :, None] * x[..., None, :] / np.sqrt(2).astype(x.dtype)
    return np.concatenate([np.ones_like(x[..., :1]), x,
                           pairs.reshape(*x.shape[:-1], -1)], -1)
