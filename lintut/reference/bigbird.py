"""BigBird attention: window, global and random connections between blocks.

    N     length             d    width of q and k      d_v  width of v
    B     block_size         w, g, r    n_window, n_global, n_random, in blocks

Tokens are cut into blocks of B, the last of which may be shorter.  A query
block sees the w blocks around itself (its own among them, placed as
`sliding_window` places keys), the first g blocks, and r further blocks drawn
at random; the first g blocks see all.

Zaheer et al. 2020, "Big Bird": section 2 (the three kinds of connection),
appendix D (blocks; ITC: existing tokens are the global ones).  The draw is
fixed by `seed`.  Causal, which the paper is not, blocks and tokens in the
future are cut and the random blocks are drawn from the past.
"""

import numpy as np

from . import _checks, sliding_window, softmax


def connections(n_blocks, n_window, n_global, n_random, seed, causal=False):
    """For each query block, the sorted numbers of the key blocks it sees."""
    before, after = sliding_window.reach(n_window, causal)
    g = min(n_global, n_blocks)
    rng = np.random.default_rng(seed)
    result = []
    for b in range(n_blocks):
        end = b + 1 if causal else n_blocks
        low, high = max(b - before, 0), min(b + after + 1, end)
        if b < g:                                   # a global block
            low, high = 0, end
        low, high = max(low, g), max(high, g)       # the window past the g
        # Draw among the rest: g … low and high … end, as if side by side.
        rest = max(end - g - (high - low), 0)
        drawn = g + rng.choice(rest, min(n_random, rest), replace=False)
        drawn[drawn >= low] += high - low
        result.append(np.sort(np.concatenate(
            [np.arange(min(g, end)), np.arange(low, high), drawn])))
    return result


def pattern(n, block_size, n_window, n_global, n_random, seed, causal):
    """Check the arguments; return the block's size and the `connections`."""
    size = min(_checks.count("block_size", block_size), n)
    counts = (_checks.count("n_window", n_window),
              _checks.count("n_global", n_global, low=0),
              _checks.count("n_random", n_random, low=0))
    seed = _checks.count("seed", seed, low=0)
    return size, connections(-(-n // size), *counts, seed,
                             _checks.flag("causal", causal))


def tokens(blocks, size, n):
    """The positions of the tokens in these blocks."""
    inside = (blocks[:, None] * size + np.arange(size)).ravel()
    return inside[inside < n]                       # the last may be shorter


def mask(N, block_size, n_window, n_global, n_random, seed, causal=False):
    """(N, N), True where query i (row) sees key j (column)."""
    n = _checks.count("N", N, high=2**20)
    size, blocks = pattern(n, block_size, n_window, n_global, n_random, seed,
                           causal)
    result = np.zeros((n, n), bool)
    for b, seen in enumerate(blocks):
        result[b * size:(b + 1) * size, tokens(seen, size, n)] = True
    return np.tril(result) if causal else result


def parallel(q, k, v, block_size, n_window, n_global, n_random, seed,
             causal=False, scale=None):
    """The definition: all N×N scores, those outside the pattern hidden."""
    q, k, v, _ = _checks.qkv(q, k, v)
    visible = mask(q.shape[-2], block_size, n_window, n_global, n_random,
                   seed, causal)
    return softmax.parallel(q, k, v, mask=visible, scale=scale)


@_checks.quiet
def blocked(q, k, v, block_size, n_window, n_global, n_random, seed,
            causal=False, scale=None):
    """The same in O(N(w + 2g + r)B) time: a query block gathers its keys."""
    q, k, v, lead = _checks.qkv(q, k, v)
    n = q.shape[-2]
    size, blocks = pattern(n, block_size, n_window, n_global, n_random, seed,
                           causal)
    queries = softmax.scaled(q, scale)
    o = np.empty((*lead, n, v.shape[-1]), q.dtype)
    for b, seen in enumerate(blocks):
        rows = np.arange(b * size, min((b + 1) * size, n))
        keys = tokens(seen, size, n)
        o[..., rows, :] = softmax.attend(
            queries[..., rows, :], k[..., keys, :], v[..., keys, :],
            keys <= rows[:, None] if causal else None)
    return _checks.finite(o, q=q, k=k, v=v, scale=scale)
