"""Performer: linear attention whose φ(x)·φ(y) is exp(scale x·y) on average.

    ω    a random row of the projection Ω, (m, D), ω ~ N(0, I)
    r    n_features, the width of φ, whatever the kind
    S    Σ φ(k_j) v_jᵀ   (B, H, r, D_v)
    z    Σ φ(k_j)        (B, H, r)

With x = q √scale, or k √scale:

    kind             φ(x)                                             rows m
    "positive"       exp(Ωx − ‖x‖²/2) / √m                            r
    "hyperbolic"     [exp(Ωx − ‖x‖²/2), exp(−Ωx − ‖x‖²/2)] / √(2m)    r/2
    "trigonometric"  [cos Ωx, sin Ωx] · exp(‖x‖²/2) / √m              r/2

A factor of one query cancels in the quotient and is left out; a key's own
factor weighs that key against the others, and stays.

Choromanski et al. 2021, "Rethinking Attention with Performers": section 2.3
and lemma 1 (features), 2.4 (orthogonal rows).
"""

import functools

import numpy as np
import torch

from . import _checks, linear

KINDS = ("positive", "hyperbolic", "trigonometric")


def chunkwise(q, k, v, *, n_features, kind="positive", orthogonal=True, seed,
              scale=None, initial_state=None, return_state=False,
              backend="auto", cu_seqlens=None, chunk_size=64):
    """`linear.chunkwise` with Performer's features.

    Parameters
    ----------
    n_features : int, r; even for the kinds that come in pairs
    kind : "positive", "hyperbolic" or "trigonometric"
    orthogonal : bool, rows in blocks of D orthogonal ones
    seed : int; the same seed gives the same features, on every device
    scale : number, 1/√D unless given

    The others are those of `linear.chunkwise`.
    """
    maps = _maps(q, n_features, kind, orthogonal, seed, scale)
    return linear.chunkwise(q, k, v, maps, initial_state, return_state,
                            backend, cu_seqlens, chunk_size)


def step(q, k, v, *, n_features, kind="positive", orthogonal=True, seed,
         scale=None, initial_state=None):
    """One token, q (B, 1, H, D).  Returns (o, (S, z))."""
    maps = _maps(q, n_features, kind, orthogonal, seed, scale)
    return linear.step(q, k, v, maps, initial_state)


@functools.lru_cache(maxsize=32)
def projection(m, d, seed, orthogonal=True):
    """Ω as a float64 array (m, d): N(0, I) rows, or orthogonal ones as long.

    Directions of d orthogonal rows are one random rotation; their lengths
    are drawn anew, as those of normal rows (χ_d).
    """
    rng = np.random.default_rng(seed)
    if not orthogonal:
        return rng.normal(size=(m, d))
    rows = []
    for _ in range(0, m, d):
        Q, R = np.linalg.qr(rng.normal(size=(d, d)))
        lengths = np.linalg.norm(rng.normal(size=(d, d)), axis=1)
        rows.append((lengths * np.sign(np.diag(R)))[:, None] * Q.T)
    return np.concatenate(rows)[:m]


def features(x, projection, kind="positive", query=False):
    """φ(x), (…, D) to (…, r); with `query`, up to a factor of each x."""
    u = x @ projection.mT                                   # (…, m)
    half = (x * x).sum(-1, keepdim=True) / 2                # ‖x‖²/2
    if kind == "trigonometric":
        φ = torch.cat([u.cos(), u.sin()], -1) / len(projection) ** 0.5
        return φ if query else φ * half.exp()
    if kind == "hyperbolic":
        u = torch.cat([u, -u], -1)
    largest = u.detach().amax(-1, keepdim=True)
    return (u - (largest if query else half)).exp() / u.shape[-1] ** 0.5


def _maps(q, n_features, kind, orthogonal, seed, scale):
    """The feature map of the queries and that of the keys."""
    _checks.tensor("q", q, "(B, T, H, D)", 4)
    d, r = q.shape[-1], _checks.count("n_features", n_features)
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; "
                         f"it is {kind!r}")
    if kind != "positive" and r % 2:
        raise ValueError(f"n_features must be even for {kind} features, "
                         f"which come in pairs; it is {r}")
    scale = d ** -0.5 if scale is None else scale
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) \
            or not 0 < scale < float("inf"):
        raise ValueError(f"scale must be a number above 0; it is {scale!r}")
    m = r if kind == "positive" else r // 2
    Ω = torch.as_tensor(
        projection(m, d, _checks.count("seed", seed, low=0),
                   bool(orthogonal)),
        dtype=_checks.state_dtype(q), device=q.device)
    return tuple(lambda x, query=query:
                 features(x.to(Ω.dtype) * scale ** 0.5, Ω, kind, query)
                 for query in (True, False))
