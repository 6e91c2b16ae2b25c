"""Softmax attention: each query is compared with every key it may see.

    N     length             d    width of q and k      d_v  width of v
    B     block_size, the side of a tile of scores
    K, V  the cache: the keys and values seen so far   (…, t, d), (…, t, d_v)
    top, total, o   of a row: largest score so far, sum of the exponentials,
                    exponentials times values (m, ℓ and O in FlashAttention)

Vaswani et al. 2017, "Attention is all you need": section 3.2.1, equation 1.
Dao et al. 2022, "FlashAttention": section 3.1, algorithm 1; as in its
successor (Dao 2023, section 3.1) a row is divided by its total once, at the
end.  The decoding cache: Shazeer 2019, "Fast Transformer Decoding", section 2.

`scale` multiplies qᵀk; None is 1/√d.  `mask` is boolean, broadcasts to
(…, N, N), and is True where a query may see a key.
"""

import numpy as np

from . import _checks


def scaled(q, scale):
    """q times `scale`, so that q kᵀ are the scores."""
    if scale is None:
        return q / np.sqrt(q.shape[-1], dtype=q.dtype)
    return q * _checks.number("scale", scale)


def hide(scores, visible):
    """Scores of pairs that are not visible become -∞: their weight is 0."""
    return scores if visible is None else np.where(visible, scores, -np.inf)


def normalise(scores, visible=None):
    """Scores (…, n, m) to weights: exponentials, each row summing to one."""
    scores = hide(scores, visible)
    # Less the row's largest, so that nothing overflows.
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def attend(q, k, v, visible=None):
    """Softmax attention of scaled queries (…, n, d) to m keys and values."""
    return normalise(q @ np.swapaxes(k, -1, -2), visible) @ v


def seen(mask, causal, rows, columns):
    """The part of the mask in a tile, two slices; None where all is seen."""
    visible = None if mask is None else mask[..., rows, columns]
    if causal:
        past = (np.arange(rows.start, rows.stop)[:, None]
                >= np.arange(columns.start, columns.stop))
        visible = past if mask is None else visible & past
    return visible


def checked(q, k, v, causal, mask):
    """The arguments of `weights`, `parallel` and `blocked`, and the lead."""
    q, k, v, lead = _checks.qkv(q, k, v)
    causal = _checks.flag("causal", causal)
    if mask is not None:
        mask = _checks.mask("mask", mask, q.shape[-2], causal)
        lead = _checks.lead("q, k, v and mask", lead, mask.shape[:-2])
    return q, k, v, causal, mask, lead


@_checks.quiet
def weights(q, k, causal=False, mask=None, scale=None):
    """The N×N weights; each row sums to one."""
    q, k, _, causal, mask, _ = checked(q, k, k, causal, mask)
    every = slice(0, q.shape[-2])
    scores = scaled(q, scale) @ np.swapaxes(k, -1, -2)
    result = normalise(scores, seen(mask, causal, every, every))
    return _checks.finite(result, q=q, k=k, scale=scale)


@_checks.quiet
def parallel(q, k, v, causal=False, mask=None, scale=None):
    """The definition: softmax(scale · q kᵀ) v."""
    q, k, v, causal, mask, _ = checked(q, k, v, causal, mask)
    o = weights(q, k, causal, mask, scale) @ v
    return _checks.finite(o, v=v)


def absorb(top, total, o, scores, v):
    """A tile of scores (…, B, B') and its values join the rows so far."""
    higher = np.maximum(top, scores.max(-1, keepdims=True))
    shrink = np.exp(top - higher)        # what the old sums are worth now
    new = np.exp(scores - higher)        # (…, B, B')
    return (higher, shrink * total + new.sum(-1, keepdims=True),
            shrink * o + new @ v)


@_checks.quiet
def blocked(q, k, v, causal=False, mask=None, scale=None, block_size=64):
    """The same a tile at a time: no more than B×B scores exist at once."""
    q, k, v, causal, mask, lead = checked(q, k, v, causal, mask)
    n, size = q.shape[-2], _checks.count("block_size", block_size)
    tiles = [slice(i, min(i + size, n)) for i in range(0, n, size)]
    queries, o = scaled(q, scale), np.empty((*lead, n, v.shape[-1]), q.dtype)
    for rows in tiles:
        out = np.zeros_like(o[..., rows, :])                # (…, B, d_v)
        total = np.zeros_like(out[..., :1])                 # (…, B, 1)
        top = np.full_like(total, np.finfo(q.dtype).min)    # (…, B, 1)
        for columns in tiles:
            if causal and columns.start >= rows.stop:
                break                       # above the diagonal: not visited
            keys = np.swapaxes(k[..., columns, :], -1, -2)  # (…, d, B')
            scores = hide(queries[..., rows, :] @ keys,
                          seen(mask, causal, rows, columns))
            top, total, out = absorb(top, total, out, scores,
                                     v[..., columns, :])
        o[..., rows, :] = out / total
    return _checks.finite(o, q=q, k=k, v=v, scale=scale)


@_checks.quiet
def recurrent(q, k, v, scale=None, initial_state=None, return_state=False,
              causal=True):
    """Decoding: a token's key and value are cached, then its query reads all.

    The state is (K, V), shapes (…, t, d) and (…, t, d_v) after t tokens: it
    grows.  A cache holds the past alone, so `causal` cannot be False.
    """
    q, k, v, lead = _checks.qkv(q, k, v)
    _checks.only_causal(causal)
    _checks.flag("return_state", return_state)
    past = _checks.cache("initial_state", initial_state, k, v, lead)
    K, V = append(past[0], k), append(past[1], v)
    first, n = past[0].shape[-2], q.shape[-2]
    queries, o = scaled(q, scale), np.empty((*lead, n, v.shape[-1]), q.dtype)
    for t in range(n):
        now, cached = slice(t, t + 1), slice(first + t + 1)
        o[..., now, :] = attend(queries[..., now, :], K[..., cached, :],
                                V[..., cached, :])
    _checks.finite(o, q=q, k=k, v=v, scale=scale, initial_state=past)
    return (o, (K, V)) if return_state else o


def append(cache, x):
    """`cache` (*lead, t, d), then the tokens of x (…, n, d)."""
    x = np.broadcast_to(x, (*cache.shape[:-2], *x.shape[-2:]))
    return np.concatenate([cache, x], axis=-2)
