"""Retention: what was written fades by a fixed factor a token.

    N    length               d    width of q and k     d_v  width of v
    γ    decay, in (0, 1]     C    chunk size
    S_t  γ S_{t−1} + k_t v_tᵀ        (…, d, d_v)   the state
    o_t  S_tᵀ q_t                    (…, d_v)      what is read
    D    D_ij = γ^{i−j} for j ≤ i    (…, N, N)     the decay mask

Sun et al. 2023, "Retentive Network", section 2.1: equation 5 (parallel), 6
(recurrent), 7 (chunkwise).  Left out, as parts of the layer around it: the
rotation of q and k by position, group norm, the output gate.

`gamma` is a number or an array that broadcasts against the leading axes: one
value a head for q of shape (…, H, N, d) has shape (H,).  Powers of γ are
taken in float64 whatever the dtype of q: γ rounded to float32 is a slightly
other decay, and a thousand tokens later a visibly other one.
"""

import numpy as np

from . import _checks
from ._layout import transpose


@_checks.quiet
def weights(q, k, gamma):
    """The N×N matrix W with o = W v: W_ij = γ^{i−j} q_i·k_j.  Equation 5."""
    q, k, _, gamma, _ = _inputs(q, k, k, gamma)
    D = _decay(gamma, q.shape[-2]).astype(q.dtype)
    return _checks.finite(np.tril(q @ transpose(k)) * D, q=q, k=k)


@_checks.quiet
def parallel(q, k, v, gamma):
    """The definition: every pair, weighted by its distance."""
    q, k, v, gamma, _ = _inputs(q, k, v, gamma)
    return _checks.finite(weights(q, k, gamma[..., 0, 0]) @ v,
                          q=q, k=k, v=v)


@_checks.quiet
def recurrent(q, k, v, gamma, initial_state=None, return_state=False):
    """One token at a time: fade, write, read.  Equation 6."""
    q, k, v, gamma, S = _inputs(q, k, v, gamma, initial_state)
    o = np.empty((*S.shape[:-2], *v.shape[-2:]), v.dtype)
    γ = gamma.astype(v.dtype)                                # (…, 1, 1)
    for t in range(v.shape[-2]):
        S = γ * S + k[..., t, :, None] * v[..., t, None, :]  # (…, d, d_v)
        o[..., t, :] = (q[..., t, None, :] @ S)[..., 0, :]
    return _checks.finite((o, S) if return_state else o, q=q, k=k, v=v)


@_checks.quiet
def chunkwise(q, k, v, gamma, chunk_size=64,
              initial_state=None, return_state=False):
    """A chunk at a time: its own pairs, and the faded state.  Equation 7."""
    q, k, v, gamma, S = _inputs(q, k, v, gamma, initial_state)
    o = np.empty((*S.shape[:-2], *v.shape[-2:]), v.dtype)
    N = v.shape[-2]
    C = min(_checks.count("chunk_size", chunk_size), N)
    D = _decay(gamma, C).astype(v.dtype)                     # (…, C, C)
    since = (gamma ** np.arange(1, C + 1)[:, None]).astype(v.dtype)
    for t in range(0, N, C):
        Q, K, V = (x[..., t:t + C, :] for x in (q, k, v))
        n = Q.shape[-2]                                      # C, or the rest
        pairs = np.tril(Q @ transpose(K)) * D[..., :n, :n]
        o[..., t:t + n, :] = pairs @ V + since[..., :n, :] * (Q @ S)
        left = D[..., n - 1, :n, None]                       # of each at n
        S = since[..., n - 1:n, :] * S + transpose(left * K) @ V
    return _checks.finite((o, S) if return_state else o, q=q, k=k, v=v)


def _inputs(q, k, v, gamma, initial_state=None):
    """All of it checked; γ as (…, 1, 1) in float64; the state to start from.
    """
    q, k, v, lead = _checks.qkv(q, k, v)
    gamma = _checks.gate("gamma", gamma, np.float64(1), (), 0, 1,
                         open_low=True)
    lead = _checks.lead("q, k, v and gamma", lead, gamma.shape)
    S = _checks.state("initial_state", initial_state, v,
                      (*lead, k.shape[-1], v.shape[-1]))
    return q, k, v, gamma[..., None, None], S


def _decay(gamma, n):
    """D_ij = γ^{i−j} where j ≤ i, and 0 above."""
    i = np.arange(n)
    return np.tril(gamma ** np.maximum(i[:, None] - i, 0))
