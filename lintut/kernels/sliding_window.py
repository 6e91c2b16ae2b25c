"""Sliding-window attention: softmax attention that visits the window alone.

The algorithm, the torch code and the kernels are those of
`lintut.kernels.softmax`; tiles with no key in reach are skipped, so that T
tokens cost O(T·window).
"""

from . import softmax


def chunkwise(q, k, v, window, causal=True, scale=None, initial_state=None,
              return_state=False, backend="auto"):
    """Attention to the `window` nearest keys, a query's own included.

    As `softmax.attention`; the state is (K, V), the last `window` tokens.
    """
    return softmax.attention(q, k, v, causal, window, scale, initial_state,
                             return_state, backend)


def step(q, k, v, window, scale=None, initial_state=None):
    """Decode one token with a rolling cache; as `softmax.step`."""
    return softmax.step(q, k, v, window, scale, initial_state)
