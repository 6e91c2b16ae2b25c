"""Performer: linear attention whose φ(x)·φ(y) is exp(x·y) on average.

    x    q √scale             y    k √scale             so x·y = scale · q·k
    ω    a random row of the projection Ω, (m, d), ω ~ N(0, I)
    φ    features, (…, r)     r    n_features, whatever the kind
    S    Σ φ(y_j) v_jᵀ        z    Σ φ(y_j)             as in `linear`

Choromanski et al. 2021, "Rethinking Attention with Performers": section 2.3
and lemma 1 (features), 2.4 (orthogonal rows).

    kind             φ(x)                                             rows m
    "positive"       exp(Ωx − ‖x‖²/2) / √m                            r
    "hyperbolic"     [exp(Ωx − ‖x‖²/2), exp(−Ωx − ‖x‖²/2)] / √(2m)    r/2
    "trigonometric"  [cos Ωx, sin Ωx] · exp(‖x‖²/2) / √m              r/2

A factor that belongs to one query cancels between numerator and denominator,
so queries leave it out, and divide by their largest feature: nothing of a
query overflows.  A factor that belongs to one *key* does not cancel.  The only
one that keys could share is the same for all of them, past and future; taken
from the data it would show every token the ones to come.  So keys keep their
own factors, and keys too long for the dtype are an error.

Trigonometric features are not positive.  With few of them, or long inputs, a
row's weights may sum to zero or less: a ValueError that names the row.
"""

import numpy as np

from . import _checks, linear


def weights(q, k, *, n_features, kind="positive", orthogonal=True, seed,
            causal=True, scale=None):
    """The N×N weights themselves; each row sums to one."""
    maps = _maps(q, k, n_features, kind, orthogonal, seed, scale)
    return linear.weights(q, k, maps, causal)


def parallel(q, k, v, *, n_features, kind="positive", orthogonal=True, seed,
             causal=True, scale=None):
    """The definition: every pair compared, through the features."""
    maps = _maps(q, k, n_features, kind, orthogonal, seed, scale)
    return linear.parallel(q, k, v, maps, causal)


def recurrent(q, k, v, *, n_features, kind="positive", orthogonal=True, seed,
              causal=True, scale=None, initial_state=None,
              return_state=False):
    """One token at a time: `linear.recurrent` with these features."""
    maps = _maps(q, k, n_features, kind, orthogonal, seed, scale)
    return linear.recurrent(q, k, v, maps, causal, initial_state,
                            return_state)


def chunkwise(q, k, v, *, n_features, kind="positive", orthogonal=True, seed,
              causal=True, scale=None, chunk_size=64, initial_state=None,
              return_state=False):
    """A chunk at a time: `linear.chunkwise` with these features."""
    maps = _maps(q, k, n_features, kind, orthogonal, seed, scale)
    return linear.chunkwise(q, k, v, maps, causal, chunk_size, initial_state,
                            return_state)


@_checks.quiet
def features(x, projection, kind="positive", query=False):
    """φ(x), (…, d) to (…, r), for a projection Ω of shape (m, d).

    With `query`, without what cancels: φ(x) up to a factor for each x.
    """
    x = _checks.array("x", x, ndim=1, axes="(…, d)")
    Ω = _checks.array("projection", projection, axes="(m, d)")
    if Ω.ndim != 2 or Ω.shape[1] != x.shape[-1] or Ω.dtype != x.dtype:
        raise ValueError(f"projection must have shape (m, {x.shape[-1]}) and "
                         f"dtype {x.dtype}; it is {Ω.shape} {Ω.dtype}")
    φ = _features(x, Ω, _kind(kind), _checks.flag("query", query))
    return _checks.finite(φ, x=x, projection=Ω)


def projection(m, d, seed, orthogonal=True):
    """Ω: m random rows of width d, in blocks of d orthogonal ones.

    Each row by itself is N(0, I), so orthogonal rows need the length of such
    a row too: χ_d, drawn anew.  Rows of length √d would make another kernel.
    """
    m, d = _checks.count("m", m, high=2**20), _checks.count("d", d)
    rng = np.random.default_rng(_checks.count("seed", seed, low=0))
    if not _checks.flag("orthogonal", orthogonal):
        return rng.normal(size=(m, d))
    blocks = []
    for _ in range(0, m, d):
        Q, R = np.linalg.qr(rng.normal(size=(d, d)))
        directions = np.sign(np.diag(R))[:, None] * Q.T   # no way preferred
        lengths = np.linalg.norm(rng.normal(size=(d, d)), axis=1)
        blocks.append(lengths[:, None] * directions)
    return np.concatenate(blocks)[:m]


def _features(x, Ω, kind, query):
    """The table above; for a query, without the factors that cancel."""
    u = x @ Ω.T                                              # (…, m)
    half = (x * x).sum(-1, keepdims=True) / 2                # ‖x‖²/2
    if kind == "trigonometric":
        φ = np.concatenate([np.cos(u), np.sin(u)], -1) / len(Ω) ** 0.5
        return φ if query else φ * np.exp(half)
    if kind == "hyperbolic":
        u = np.concatenate([u, -u], -1)
    exponent = u - (u.max(-1, keepdims=True) if query else half)
    return np.exp(exponent) / u.shape[-1] ** 0.5


def _maps(q, k, n_features, kind, orthogonal, seed, scale):
    """The feature map of the queries and that of the keys, for `linear`."""
    q, k, _, _ = _checks.qkv(q, k, k)
    d, r = q.shape[-1], _checks.count("n_features", n_features, high=2**20)
    rows = r if _kind(kind) == "positive" else r // 2
    if rows != r and r % 2:
        raise ValueError(f"n_features must be even for {kind} features, which "
                         f"come in pairs; it is {r}")
    scale = d ** -0.5 if scale is None else _checks.number("scale", scale)
    if scale <= 0:
        raise ValueError(f"scale must be above 0; it is {scale:g}")
    Ω = projection(rows, d, seed, orthogonal).astype(q.dtype)
    return tuple(lambda x, query=query:
                 _features(x * scale ** 0.5, Ω, kind, query)
                 for query in (True, False))


def _kind(kind):
    kinds = "positive", "hyperbolic", "trigonometric"
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError('kind must be "positive", "hyperbolic" or '
                         f'"trigonometric"; it is {kind!r}')
    return kind
