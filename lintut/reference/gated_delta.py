"""The gated delta rule: fade the state, then correct what the key holds.

    N    length               d    width of q and k     d_v  width of v
    α    gate, in (0, 1]      (…, N)                    C    chunk size
    β    step, in [0, 2]      (…, N)
    S̄_t  α_t S_{t−1}                       (…, d, d_v)   what is left
    e_t  β_t (v_t − S̄_tᵀ k_t)              (…, d_v)      the error to write
    S_t  S̄_t + k_t e_tᵀ                    (…, d, d_v)   the state
    o_t  S_tᵀ q_t                          (…, d_v)      what is read

Yang et al. 2025, "Gated Delta Networks", section 3.1 (the rule; the paper
stores Sᵀ), 3.3 (chunks).  The error is taken on the faded state.

What is left at i of what was written at j is D_ij = α_{j+1} … α_i, always a
product and never a ratio of two: see `gla`.
"""

import numpy as np

from . import _checks
from ._layout import join, spans, split, spread, transpose
from .delta import wy


@_checks.quiet
def weights(q, k, alpha, beta):
    """The N×N matrix W with o = W v.

    W_ij = β_j q_iᵀ Π_{s=i…j+1} α_s (I − β_s k_s k_sᵀ) k_j.  Column by column,
    from the last, as `delta.weights`; what is further back has faded.
    """
    q, k, _, alpha, beta, S = _inputs(q, k, k, alpha, beta)
    N = q.shape[-2]
    W = np.zeros((*S.shape[:-2], N, N), q.dtype)
    look = q.copy()                                          # (…, N, d)
    for j in reversed(range(N)):
        seen = beta[..., j, :, None] * (look[..., j:, :] @ k[..., j, :, None])
        W[..., j:, j] = seen[..., 0]
        look[..., j:, :] -= seen * k[..., j, None, :]
        look[..., j:, :] *= alpha[..., j, None, :]
    return _checks.finite(W, q=q, k=k)


@_checks.quiet
def parallel(q, k, v, alpha, beta):
    """The definition: every pair, through all gates and corrections between.
    """
    q, k, v, alpha, beta, _ = _inputs(q, k, v, alpha, beta)
    o = weights(q, k, alpha[..., 0], beta[..., 0]) @ v
    return _checks.finite(o, q=q, k=k, v=v)


@_checks.quiet
def recurrent(q, k, v, alpha, beta, initial_state=None, return_state=False):
    """One token at a time: fade, read the old value, write the error, read.
    """
    q, k, v, alpha, beta, S = _inputs(q, k, v, alpha, beta, initial_state)
    o = np.empty(v.shape, v.dtype)
    for t in range(v.shape[-2]):
        S *= alpha[..., t, None, :]                          # (…, d, d_v)
        old = k[..., t, None, :] @ S                         # (…, 1, d_v)
        error = beta[..., t, None, :] * (v[..., t, None, :] - old)
        S += k[..., t, :, None] * error
        o[..., t, :] = (q[..., t, None, :] @ S)[..., 0, :]
    return _checks.output(o, S, return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


@_checks.quiet
def chunkwise(q, k, v, alpha, beta, chunk_size=64,
              initial_state=None, return_state=False):
    """A chunk's C errors at once, from the state it starts with (WY form).

    As `delta.chunkwise`, each overlap and each pair times what is left:
    E + L E = β (V − F K S), L_ij = β_i D_ij k_i·k_j, F_i = α_1 … α_i.
    """
    q, k, v, alpha, beta, S = _inputs(q, k, v, alpha, beta, initial_state)
    size = _checks.count("chunk_size", chunk_size)
    o = np.empty(v.shape, v.dtype)
    for rows, C in spans(v.shape[-2], size, at_once=16):
        Q, K, V, A, B = (split(x, rows, C) for x in (q, k, v, alpha, beta))
        D, F = decay(A)                          # (…, C, C), (…, C, 1)
        U, W, D, F = (x.astype(v.dtype) for x in (*wy(K, V, B, D, F), D, F))
        pairs = np.tril(Q @ transpose(K)) * D                # (…, C, C)
        Q, K = F * Q, D[..., -1, :, None] * K                # faded
        O = np.empty_like(U)
        for c in range(len(O)):
            E = U[c] - W[c] @ S                              # (…, C, d_v)
            O[c] = Q[c] @ S + pairs[c] @ E
            S = F[c][..., -1:, :] * S + transpose(K[c]) @ E  # (…, d, d_v)
        o[..., rows, :] = join(O)
    return _checks.output(o, S, return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


def decay(alpha):
    """D_ij = α_{j+1} … α_i where j ≤ i, and 0 above; F_i = α_1 … α_i.

    Row by row, for gates (…, C, 1): what was left at i − 1, faded once more,
    and a one for the token itself.  In float64, for `wy`.
    """
    C = alpha.shape[-2]
    D = np.zeros((*alpha.shape[:-1], C))
    D[..., 0, 0] = 1
    for i in range(1, C):
        D[..., i, :i] = alpha[..., i, :] * D[..., i - 1, :i]
        D[..., i, i] = 1
    return D, np.cumprod(alpha, -2, dtype=np.float64)


def _inputs(q, k, v, alpha, beta, initial_state=None):
    """All of it checked and broadcast to one lead; the gates as (…, N, 1);
    the state to start from."""
    q, k, v, lead = _checks.qkv(q, k, v)
    N = k.shape[-2:-1]
    alpha = _checks.gate("alpha", alpha, v, N, 0, 1, open_low=True)[..., None]
    beta = _checks.gate("beta", beta, v, N, 0, 2)[..., None]
    lead = _checks.lead("q, k, v, alpha and beta", lead,
                        alpha.shape[:-2], beta.shape[:-2])
    S = _checks.state("initial_state", initial_state, v,
                      (*lead, k.shape[-1], v.shape[-1]))
    return *spread(lead, q, k, v, alpha, beta), S
