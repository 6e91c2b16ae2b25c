"""Sliding-window attention: each query sees the w nearest keys, itself too.

    N     length             d    width of q and k      d_v  width of v
    w     window, keys a query sees (fewer near the ends)
    before, after   how many of them lie on either side of the query
    K, V  the rolling cache: the last w keys and values

Causal, the w keys are the query's own and the w - 1 before it.  Otherwise it
lies in the middle; an even w has one more key before it than after.
Longformer (Beltagy et al. 2020, section 3.1, "Sliding Window") puts w/2 keys
on each side and does not count the query; here w counts it.

The rolling cache: Jiang et al. 2023, "Mistral 7B", section 2.
"""

import numpy as np

from . import _checks, softmax


def reach(window, causal):
    """(before, after): the keys on either side of a query."""
    w = _checks.count("window", window)
    if _checks.flag("causal", causal):
        return w - 1, 0
    return w // 2, (w - 1) // 2


def near(rows, columns, before, after):
    """Which of the keys at `columns` each query at `rows` has in reach.

    Both are positions; the result is boolean, (rows, columns).
    """
    ahead = columns - rows[:, None]
    return (-before <= ahead) & (ahead <= after)


def mask(N, window, causal=True):
    """(N, N), True where query i (row) sees key j (column)."""
    positions = np.arange(_checks.count("N", N, high=2**20))
    return near(positions, positions, *reach(window, causal))


def parallel(q, k, v, window, causal=True, scale=None):
    """The definition: all N×N scores, those out of reach hidden."""
    q, k, v, _ = _checks.qkv(q, k, v)
    visible = mask(q.shape[-2], window, causal)
    return softmax.parallel(q, k, v, mask=visible, scale=scale)


@_checks.quiet
def banded(q, k, v, window, causal=True, scale=None, block_size=64,
           initial_state=None, return_state=False):
    """The same in O(N(w + B)) time: B queries in a row reach B + w - 1 keys.

    The states are those of `recurrent`, and so are causal.
    """
    q, k, v, lead = _checks.qkv(q, k, v)
    before, after = reach(window, causal)
    w, size = int(window), _checks.count("block_size", block_size)
    if _checks.flag("return_state", return_state) or initial_state is not None:
        _checks.only_causal(causal)
    past = _checks.cache("initial_state", initial_state, k, v, lead, w)
    K, V = softmax.append(past[0], k), softmax.append(past[1], v)
    first, positions = past[0].shape[-2], np.arange(K.shape[-2])
    queries = softmax.scaled(q, scale)
    o = np.empty((*lead, q.shape[-2], v.shape[-1]), q.dtype)
    for start in range(first, len(positions), size):
        stop = start + size
        rows = slice(start - first, stop - first)
        keys = slice(max(start - before, 0), stop + after)
        o[..., rows, :] = softmax.attend(
            queries[..., rows, :], K[..., keys, :], V[..., keys, :],
            near(positions[start:stop], positions[keys], before, after))
    _checks.finite(o, q=q, k=k, v=v, scale=scale, initial_state=past)
    return (o, last(K, V, w)) if return_state else o


def last(K, V, w):
    """The state: copies of the last w keys and values."""
    return K[..., -w:, :].copy(), V[..., -w:, :].copy()


@_checks.quiet
def recurrent(q, k, v, window, causal=True, scale=None, initial_state=None,
              return_state=False):
    """Decoding with a rolling cache: what is w tokens old drops out.

    The state is (K, V), shapes (…, t, d) and (…, t, d_v), where t is w, or
    the number of tokens seen while that is below w: oldest first.
    """
    q, k, v, lead = _checks.qkv(q, k, v)
    _checks.only_causal(causal)
    _checks.flag("return_state", return_state)
    w = _checks.count("window", window)
    K, V = past = _checks.cache("initial_state", initial_state, k, v, lead, w)
    queries = softmax.scaled(q, scale)
    o = np.empty((*lead, q.shape[-2], v.shape[-1]), q.dtype)
    for t in range(q.shape[-2]):
        now = slice(t, t + 1)
        K, V = last(softmax.append(K, k[..., now, :]),
                    softmax.append(V, v[..., now, :]), w)
        o[..., now, :] = softmax.attend(queries[..., now, :], K, V)
    _checks.finite(o, q=q, k=k, v=v, scale=scale, initial_state=past)
    return (o, (K, V)) if return_state else o
