"""Linear attention: exp(q·k) replaced by φ(q)·φ(k), so that sums can be kept.

    N    length               d    width of q and k     d_v  width of v
    φ    feature map          r    width of φ           C    chunk size
    S    Σ φ(k_j) v_jᵀ        (…, r, d_v)   what was written
    z    Σ φ(k_j)             (…, r)        how much weight was written
    o    Sᵀφ(q) / zᵀφ(q)      (…, d_v)      what is read

Katharopoulos et al. 2020, "Transformers are RNNs": section 3.2 (kernel),
3.3 (causal), 3.4 (the RNN).

`feature_map` takes (…, d) to (…, r), each vector for itself, in the same
dtype.  It may be a pair: one map for the queries, one for the keys.
"""

import numpy as np

from . import _checks
from ._layout import transpose
from .feature_maps import elu_plus_one


@_checks.quiet
def weights(q, k, feature_map=elu_plus_one, causal=True):
    """The N×N weights themselves; each row sums to one.

    Equation 4; with the mask, equation 9.
    """
    q, k, _, _ = _checks.qkv(q, k, k)
    fq, fk = _features(q, k, feature_map)
    similarity = fq @ transpose(fk)                          # (…, N, N)
    if _checks.flag("causal", causal):
        similarity = np.tril(similarity)
    total = _checks.positive(similarity.sum(-1), cause=CAUSE)
    return _checks.finite(similarity / total[..., None], q=q, k=k)


@_checks.quiet
def parallel(q, k, v, feature_map=elu_plus_one, causal=True):
    """The definition: every pair compared."""
    q, k, v, _ = _checks.qkv(q, k, v)
    o = weights(q, k, feature_map, causal) @ v
    return _checks.finite(o, q=q, k=k, v=v)


@_checks.quiet
def recurrent(q, k, v, feature_map=elu_plus_one, causal=True,
              initial_state=None, return_state=False):
    """One token at a time: write it, then read.  Equations 16 to 20.

    Without the mask: write all of them, then read.
    """
    q, k, v, lead = _checks.qkv(q, k, v)
    fq, fk = _features(q, k, feature_map)                    # (…, N, r)
    S, z = _state(initial_state, v, (*lead, fk.shape[-1], v.shape[-1]))
    o = np.empty((*lead, *v.shape[-2:]), v.dtype)
    total = np.empty(o.shape[:-1], v.dtype)                  # (…, N)
    causal = _checks.flag("causal", causal)
    for t in range(v.shape[-2]):
        S += fk[..., t, :, None] * v[..., t, None, :]        # (…, r, d_v)
        z += fk[..., t, :]
        if causal:
            o[..., t, :] = (fq[..., t, None, :] @ S)[..., 0, :]
            total[..., t] = (fq[..., t, :] * z).sum(-1)
    if not causal:
        o[...] = fq @ S
        total[...] = (fq @ z[..., None])[..., 0]
    o /= _checks.positive(total, cause=CAUSE)[..., None]
    return _checks.output(o, (S, z), return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


@_checks.quiet
def chunkwise(q, k, v, feature_map=elu_plus_one, causal=True, chunk_size=64,
              initial_state=None, return_state=False):
    """A chunk at a time: its own pairs compared, all before it from S and z.
    """
    # With a column of ones beside v, z is the last column of S.
    q, k, v, φ_q, φ_k, Sz = _prepare(q, k, v, feature_map, initial_state)
    o = np.empty((*Sz.shape[:-2], *v.shape[-2:]), v.dtype)
    total = np.empty((*o.shape[:-1], 1), v.dtype)            # (…, N, 1)
    chunks, future = _chunks(v.shape[-2], chunk_size)
    if not _checks.flag("causal", causal):
        for rows in chunks:                                  # write them all
            Sz += transpose(φ_k(k[..., rows, :])) @ _ones(v[..., rows, :])
    for rows in chunks:
        fq = φ_q(q[..., rows, :])
        read = fq @ Sz                                       # (…, C, d_v+1)
        if causal:
            fk, V = φ_k(k[..., rows, :]), _ones(v[..., rows, :])
            read += _past(fq @ transpose(fk), future) @ V    # (…, C, C) @ V
            Sz += transpose(fk) @ V                          # (…, r, d_v+1)
        total[..., rows, :] = read[..., -1:]
        np.divide(read[..., :-1], read[..., -1:], out=o[..., rows, :])
    _positive(total[..., 0], q, k, feature_map)
    S, z = Sz[..., :-1].copy(), Sz[..., -1].copy()
    return _checks.output(o, (S, z), return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


CAUSE = " (see q, k and feature_map)"


def _maps(q, k, feature_map):
    """φ for queries and φ for keys, each refusing what it may not return."""
    pair = feature_map
    if not isinstance(pair, tuple):
        pair = feature_map, feature_map
    if len(pair) != 2 or not all(map(callable, pair)):
        raise ValueError("feature_map must be a function, or a pair of them; "
                         f"it is {feature_map!r}")
    φ_q, φ_k = map(_map, "qk", pair)
    r_q, r_k = (φ(x[..., :1, :]).shape[-1] for φ, x in ((φ_q, q), (φ_k, k)))
    if r_q != r_k:
        raise ValueError("feature_map must give queries and keys as many "
                         f"features; it gives {r_q} and {r_k}")
    return φ_q, φ_k


def _map(name, feature_map):
    """One map, its result's type and shape checked."""
    feature_map = getattr(feature_map, "unchecked", feature_map)

    def φ(x):
        f = feature_map(x)
        if not isinstance(f, np.ndarray):
            raise ValueError(f"feature_map({name}) must be an array; "
                             f"it is {type(f).__name__}")
        if f.dtype != x.dtype or f.shape[:-1] != x.shape[:-1] or not f.size:
            raise ValueError(
                f"feature_map({name}) must turn {x.shape} {x.dtype} into "
                f"{('…', *x.shape[:-1], 'r')} {x.dtype}; "
                f"it gave {f.shape} {f.dtype}")
        return f
    return φ


def _features(q, k, feature_map):
    """φ(q) and φ(k), whole, and finite."""
    φ_q, φ_k = _maps(q, k, feature_map)
    features = []
    for name, φ, x in (("q", φ_q, q), ("k", φ_k, k)):
        features.append(_checks.array(f"feature_map({name})", φ(x)))
    return features


def _state(initial_state, v, shape):
    """(S, z) to start from, as new arrays; `shape` is that of S."""
    if initial_state is None:
        initial_state = None, None
    elif (not isinstance(initial_state, (tuple, list))
          or len(initial_state) != 2 or any(x is None for x in initial_state)):
        raise ValueError("initial_state must be a pair (S, z); it is "
                         f"{type(initial_state).__name__}")
    S, z = initial_state
    return (_checks.state("S of initial_state", S, v, shape),
            _checks.state("z of initial_state", z, v, shape[:-1], ndim=1))


def _prepare(q, k, v, feature_map, initial_state):
    """What `chunkwise` starts from: v and S with z's column beside them."""
    q, k, v, lead = _checks.qkv(q, k, v)
    φ_q, φ_k = _maps(q, k, feature_map)
    r = φ_k(k[..., :1, :]).shape[-1]
    S, z = _state(initial_state, v, (*lead, r, v.shape[-1]))
    return q, k, v, φ_q, φ_k, np.concatenate([S, z[..., None]], -1)


def _past(pairs, future):
    """A chunk's pairs without those that look ahead."""
    n = pairs.shape[-1]
    np.copyto(pairs, 0, where=future[:n, :n])
    return pairs


def _ones(V):
    """A column of ones beside V."""
    return np.concatenate([V, np.ones((*V.shape[:-1], 1), V.dtype)], -1)


def _chunks(N, chunk_size):
    """The slices of N rows, and where in a chunk the future is."""
    C = min(_checks.count("chunk_size", chunk_size), N)
    return [slice(t, t + C) for t in range(0, N, C)], ~np.tri(C, dtype=bool)


def _positive(total, q, k, feature_map):
    """Every sum of weights is one to divide by; or why it is not."""
    try:
        _checks.positive(total, cause=CAUSE)
    except ValueError:
        _features(q, k, feature_map)        # not finite: that comes first
        raise
