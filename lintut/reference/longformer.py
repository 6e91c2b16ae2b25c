"""Longformer attention: a sliding window, and a few tokens that see all.

    N     length             d    width of q and k      d_v  width of v
    w     window, keys a query sees near itself
    g     number of global positions
    dilation        the window takes every dilation-th token: w keys spread
                    over w·dilation positions

Beltagy et al. 2020, "Longformer", section 3.1: sliding window, dilated
sliding window, global attention.  A global token sees every token and is seen
by every token.  The paper gives global tokens projections of their own, which
is the layer's concern, not this file's.  The window is that of
`sliding_window`; causal, all that lies in the future is cut, from the global
rows as well.
"""

import numpy as np

from . import _checks, sliding_window, softmax


def pattern(n, window, global_positions, causal, dilation):
    """Check the pattern's arguments.

    Returns the global positions, sorted; the reach of the window before and
    after the query, counted in dilated steps; and the dilation.
    """
    before, after = sliding_window.reach(window, causal)
    # From the length up, a dilation leaves a query none but itself.
    step = min(_checks.count("dilation", dilation), n)
    chosen = _checks.positions("global_positions", global_positions, n)
    return chosen, before, after, step


def sees(rows, columns, chosen, before, after, step, causal):
    """Which keys (positions `columns`) each query (`rows`) sees; boolean."""
    ahead = columns - rows[:, None]
    visible = ((ahead % step == 0)
               & (ahead // step >= -before) & (ahead // step <= after))
    visible |= np.isin(rows, chosen)[:, None] | np.isin(columns, chosen)
    return visible & (ahead <= 0) if causal else visible


def mask(N, window, global_positions, causal=False, dilation=1):
    """(N, N), True where query i (row) sees key j (column)."""
    n = _checks.count("N", N, high=2**20)
    shape = pattern(n, window, global_positions, causal, dilation)
    return sees(np.arange(n), np.arange(n), *shape, causal)


def parallel(q, k, v, window, global_positions, causal=False, dilation=1,
             scale=None):
    """The definition: all N×N scores, those outside the pattern hidden."""
    q, k, v, _ = _checks.qkv(q, k, v)
    visible = mask(q.shape[-2], window, global_positions, causal, dilation)
    return softmax.parallel(q, k, v, mask=visible, scale=scale)


@_checks.quiet
def banded(q, k, v, window, global_positions, causal=False, dilation=1,
           scale=None, block_size=64):
    """The same in O(N(w + g + B)) time and O(N(g + 1)) memory.

    Every dilation-th token, taken alone, has a plain window.
    """
    q, k, v, lead = _checks.qkv(q, k, v)
    n, size = q.shape[-2], _checks.count("block_size", block_size)
    chosen, before, after, step = shape = pattern(
        n, window, global_positions, causal, dilation)
    queries = softmax.scaled(q, scale)
    o = np.empty((*lead, n, v.shape[-1]), q.dtype)

    def read(rows, keys):
        o[..., rows, :] = softmax.attend(
            queries[..., rows, :], k[..., keys, :], v[..., keys, :],
            sees(rows, keys, *shape, causal))
    for first in range(step):
        own = np.arange(first, n, step)
        for start in range(0, len(own), size):
            stop = start + size
            band = own[max(start - before, 0):stop + after]
            read(own[start:stop], np.union1d(band, chosen))
    read(chosen, np.arange(n))     # these rows had read their window alone
    return _checks.finite(o, q=q, k=k, v=v, scale=scale)
