"""Retention: what was written fades by a fixed factor a token.

    N    length               d    width of q and k     d_v  width of v
    γ    decay, in (0, 1]     C    chunk size
    S_t  γ S_{t−1} + k_t v_tᵀ        (…, d, d_v)   the state
    o_t  S_tᵀ q_t                    (…, d_v)      what is read
    D    D_ij = γ^{i−j}, j ≤ i       (…, N, N)     what is left at i of j

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
from ._layout import join, spans, split, spread, transpose


@_checks.quiet
def weights(q, k, gamma):
    """The N×N matrix W with o = W v: W_ij = γ^{i−j} q_i·k_j.  Equation 5."""
    q, k, _, gamma, _ = _inputs(q, k, k, gamma)
    D, _ = _decay(gamma, q.shape[-2], q.dtype)
    return _checks.finite(np.tril(q @ transpose(k)) * D, q=q, k=k)


@_checks.quiet
def parallel(q, k, v, gamma):
    """The definition: every pair, weighted by its distance."""
    q, k, v, _ = _checks.qkv(q, k, v)
    return _checks.finite(weights(q, k, gamma) @ v, q=q, k=k, v=v)


@_checks.quiet
def recurrent(q, k, v, gamma, initial_state=None, return_state=False):
    """One token at a time: fade, write, read.  Equation 6."""
    q, k, v, gamma, S = _inputs(q, k, v, gamma, initial_state)
    o = np.empty(v.shape, v.dtype)
    γ = gamma.astype(v.dtype)
    for t in range(v.shape[-2]):
        S = γ * S + k[..., t, :, None] * v[..., t, None, :]  # (…, d, d_v)
        o[..., t, :] = (q[..., t, None, :] @ S)[..., 0, :]
    return _checks.output(o, S, return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


@_checks.quiet
def chunkwise(q, k, v, gamma, chunk_size=64,
              initial_state=None, return_state=False):
    """Many chunks' pairs at once, then the state from chunk to chunk.

    Equation 7.
    """
    q, k, v, gamma, S = _inputs(q, k, v, gamma, initial_state)
    o = np.empty(v.shape, v.dtype)
    for rows, C in spans(v.shape[-2], _checks.count("chunk_size", chunk_size)):
        Q, K, V = (split(x, rows, C) for x in (q, k, v))     # (n, …, C, d)
        D, F = _decay(gamma, C, v.dtype)
        O = np.tril(Q @ transpose(K)) * D @ V                # pairs in a chunk
        Q, K = F * Q, transpose(D[..., -1:, :]) * K          # faded
        for c in range(len(O)):
            O[c] += Q[c] @ S                                 # (…, C, d_v)
            S = F[..., -1:, :] * S + transpose(K[c]) @ V[c]  # (…, d, d_v)
        o[..., rows, :] = join(O)
    return _checks.output(o, S, return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


def _inputs(q, k, v, gamma, initial_state=None):
    """All of it checked and broadcast to one lead; γ as (…, 1, 1) in float64;
    the state to start from."""
    q, k, v, lead = _checks.qkv(q, k, v)
    gamma = _checks.gate("gamma", gamma, np.float64(1), (), 0, 1,
                         open_low=True)[..., None, None]
    lead = _checks.lead("q, k, v and gamma", lead, gamma.shape[:-2])
    S = _checks.state("initial_state", initial_state, v,
                      (*lead, k.shape[-1], v.shape[-1]))
    return *spread(lead, q, k, v), gamma, S


def _decay(gamma, C, dtype):
    """D_ij = γ^{i−j} where j ≤ i, and 0 above; F_i = γ^{i+1}, as a column."""
    i = np.arange(C)[:, None]
    D = np.tril(gamma ** np.maximum(i - i.T, 0))             # (…, C, C)
    return D.astype(dtype), (gamma ** (i + 1)).astype(dtype)
