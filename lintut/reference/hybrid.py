"""A hybrid: some heads keep a window of tokens, the others a linear memory.

    N     length             d    width of q and k      d_v  width of v
    H     heads, the axis before N: q is (…, H, N, d)
    heads           H words, "window" or "linear": the rule of each head
    w     window    what the window heads see, exactly
    K, V            their state: the last w keys and values
    S, z            the linear heads' state: all the past, summed

The window holds the near past exactly and forgets the rest; the linear memory
holds all of the past, blurred.  Both states have a fixed size.  Head by head
in one layer: Dong et al. 2024, "Hymba", section 2.1.  Layer by layer: Arora
et al. 2024, "Based", section 4 (linear attention and small windows); Yang et
al. 2025, "Gated Delta Networks", section 3.4: a stack of layers that are
`linear` or `sliding_window` alone.

All forms are causal.
"""

import numpy as np

from . import _checks, linear, sliding_window
from .feature_maps import elu_plus_one


def split(q, k, v, heads):
    """(q, k, v) of the window heads, and of the linear heads."""
    q, k, v, lead = _checks.qkv(q, k, v)
    if not lead:
        raise ValueError("q, k and v must have a head axis, (…, H, N, d); "
                         f"the shape of q is {q.shape}")
    check(heads, lead[-1])
    return [tuple(np.broadcast_to(x, (*lead, *x.shape[-2:]))
                  [..., places(heads, kind), :, :] for x in (q, k, v))
            for kind in ("window", "linear")]


def check(heads, n_heads):
    """H words, both kinds among them."""
    listed = isinstance(heads, (tuple, list)) and all(
        isinstance(head, str) for head in heads)
    if not listed or set(heads) != {"window", "linear"} or (
            len(heads) != n_heads):
        raise ValueError(
            f'heads must be H={n_heads} words, some "window" and some '
            f'"linear" (for one kind alone use its module); it is {heads!r}')


def places(heads, kind):
    """The numbers of the heads of one kind."""
    return [i for i, head in enumerate(heads) if head == kind]


def join(near, far, heads):
    """The outputs (…, h, N, d_v) of both kinds, each head in its place."""
    shape = (*near.shape[:-3], len(heads), *near.shape[-2:])
    o = np.empty(shape, near.dtype)
    o[..., places(heads, "window"), :, :] = near
    o[..., places(heads, "linear"), :, :] = far
    return o


def pair(state, return_state):
    """The two parts of an initial state; either may be None."""
    _checks.flag("return_state", return_state)
    if state is None:
        return None, None
    if not isinstance(state, (tuple, list)) or len(state) != 2:
        raise ValueError("initial_state must be a pair ((K, V), (S, z)); "
                         f"it is a {type(state).__name__}")
    return state


def parallel(q, k, v, window, heads, feature_map=elu_plus_one, scale=None):
    """The definition: each head by its own rule, all N×N weights."""
    near, far = split(q, k, v, heads)
    return join(sliding_window.parallel(*near, window, scale=scale),
                linear.parallel(*far, feature_map), heads)


def recurrent(q, k, v, window, heads, feature_map=elu_plus_one, scale=None,
              initial_state=None, return_state=False):
    """One token at a time.  The state is ((K, V), (S, z))."""
    near, far = split(q, k, v, heads)
    cache, memory = pair(initial_state, return_state)
    o_near, cache = sliding_window.recurrent(
        *near, window, scale=scale, initial_state=cache, return_state=True)
    o_far, memory = linear.recurrent(
        *far, feature_map, initial_state=memory, return_state=True)
    o = join(o_near, o_far, heads)
    return (o, (cache, memory)) if return_state else o


def chunkwise(q, k, v, window, heads, feature_map=elu_plus_one, scale=None,
              initial_state=None, return_state=False, chunk_size=64):
    """A chunk at a time: a band of scores, and a state between chunks."""
    size = _checks.count("chunk_size", chunk_size)
    near, far = split(q, k, v, heads)
    cache, memory = pair(initial_state, return_state)
    o_near, cache = sliding_window.banded(
        *near, window, scale=scale, initial_state=cache, return_state=True,
        block_size=size)
    o_far, memory = linear.chunkwise(
        *far, feature_map, initial_state=memory, return_state=True,
        chunk_size=size)
    o = join(o_near, o_far, heads)
    return (o, (cache, memory)) if return_state else o
