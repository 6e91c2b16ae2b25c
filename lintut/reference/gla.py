"""Gated linear attention: each key channel fades at a rate the input chooses.

    N    length               d    width of q and k     d_v  width of v
    α    gates, in (0, 1]     (…, N, d)                 C    chunk size
    S_t  diag(α_t) S_{t−1} + k_t v_tᵀ      (…, d, d_v)   the state
    o_t  S_tᵀ q_t                          (…, d_v)      what is read

Yang et al. 2024, "Gated Linear Attention Transformers with Hardware-Efficient
Training", section 4: equation 3 (recurrent), 4.1 (parallel), 4.2 (chunkwise).

What is left at i of what was written at j is the product α_{j+1} … α_i.  Over
a chunk such products pass below the smallest float32, so none is ever divided
by another: every factor here is a product of gates, and at most 1.  They are
taken in float64 whatever comes in: gates near 1 forget so slowly that what
float32 rounds off each product adds up from chunk to chunk.
"""

import numpy as np

from . import _checks
from ._layout import join, spans, split, spread, transpose


@_checks.quiet
def weights(q, k, alpha):
    """The N×N matrix W with o = W v: W_ij = Σ_c q_ic k_jc Π_{j<s≤i} α_sc.

    Column by column, from the last: the queries look back, and see each
    token through the gates that came after it.
    """
    q, k, _, alpha, S = _inputs(q, k, k, alpha)
    N = q.shape[-2]
    W = np.zeros((*S.shape[:-2], N, N), q.dtype)
    look = q.copy()                                          # (…, N, d)
    for j in reversed(range(N)):
        W[..., j:, j] = (look[..., j:, :] @ k[..., j, :, None])[..., 0]
        look[..., j:, :] *= alpha[..., j, None, :]
    return _checks.finite(W, q=q, k=k)


@_checks.quiet
def parallel(q, k, v, alpha):
    """The definition: every pair, through the gates between them."""
    q, k, v, alpha, _ = _inputs(q, k, v, alpha)
    return _checks.finite(weights(q, k, alpha) @ v, q=q, k=k, v=v)


@_checks.quiet
def recurrent(q, k, v, alpha, initial_state=None, return_state=False):
    """One token at a time: fade each channel, write, read.  Equation 3."""
    q, k, v, alpha, S = _inputs(q, k, v, alpha, initial_state)
    o = np.empty(v.shape, v.dtype)
    for t in range(v.shape[-2]):
        S *= alpha[..., t, :, None]                          # (…, d, d_v)
        S += k[..., t, :, None] * v[..., t, None, :]
        o[..., t, :] = (q[..., t, None, :] @ S)[..., 0, :]
    return _checks.output(o, S, return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


@_checks.quiet
def chunkwise(q, k, v, alpha, chunk_size=64,
              initial_state=None, return_state=False):
    """Many chunks' pairs at once, then the state from chunk to chunk.

    Section 4.2, where a chunk of 64 is cut into four of 16; here it is
    halved until one token is left (`fade`).
    """
    q, k, v, alpha, S = _inputs(q, k, v, alpha, initial_state)
    size = _checks.count("chunk_size", chunk_size)
    o = np.empty(v.shape, v.dtype)
    for rows, C in spans(v.shape[-2], size):
        Q, K, V, A = (split(x, rows, C) for x in (q, k, v, alpha))
        pairs, Q, K, left = fade(Q, K, A)
        O, written = pairs @ V, transpose(K) @ V
        for c in range(len(O)):
            O[c] += Q[c] @ S                                 # (…, C, d_v)
            S = left[c][..., None] * S + written[c]          # (…, d, d_v)
        o[..., rows, :] = join(O)
    return _checks.output(o, S, return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


def fade(q, k, alpha):
    """A chunk's pairs, and what its gates do to what passes its borders.

    Returns the weights (…, C, C); q faded by the gates since the chunk began
    and k by those until it ends, (…, C, d); the product of all, (…, d).

    Two neighbouring segments make one: a later query sees an earlier key
    through q's gates back to the border and k's gates up to it.
    """
    C = q.shape[-2]
    pairs = np.zeros((*q.shape[:-2], C, C), q.dtype)
    diagonal = np.arange(C)
    pairs[..., diagonal, diagonal] = (q * k).sum(-1)
    q, k, gates = q * alpha, k.copy(), alpha.astype(np.float64)
    h = 1                                                    # segments of one
    while h < C:
        for s in range(0, C - h, 2 * h):
            early, late = slice(s, s + h), slice(s + h, s + 2 * h)
            pairs[..., late, early] = (q[..., late, :]
                                       @ transpose(k[..., early, :]))
            q[..., late, :] *= gates[..., s, None, :]
            k[..., early, :] *= gates[..., s + h, None, :]
            gates[..., s, :] *= gates[..., s + h, :]
        h *= 2
    return pairs, q, k, gates[..., 0, :].astype(q.dtype)


def _inputs(q, k, v, alpha, initial_state=None):
    """All of it checked and broadcast to one lead; the state to start from."""
    q, k, v, lead = _checks.qkv(q, k, v)
    alpha = _checks.gate("alpha", alpha, v, k.shape[-2:], 0, 1, open_low=True)
    lead = _checks.lead("q, k, v and alpha", lead, alpha.shape[:-2])
    S = _checks.state("initial_state", initial_state, v,
                      (*lead, k.shape[-1], v.shape[-1]))
    return *spread(lead, q, k, v, alpha), S
