"""The delta rule: read what the key holds, then write only the error.

    N    length               d    width of q and k     d_v  width of v
    β    step, in [0, 2]      (…, N)                    C    chunk size
    e_t  β_t (v_t − S_{t−1}ᵀ k_t)          (…, d_v)      the error to write
    S_t  S_{t−1} + k_t e_tᵀ                (…, d, d_v)   the state
    o_t  S_tᵀ q_t                          (…, d_v)      what is read

Schlag et al. 2021, "Linear Transformers Are Secretly Fast Weight
Programmers", section 4.2 (the rule).  Yang et al. 2024, "Parallelizing Linear
Transformers with the Delta Rule over Sequence Length", section 3 (chunks).

The step multiplies S by I − β_t k_t k_tᵀ, which never lengthens a vector as
long as 0 ≤ β_t ‖k_t‖² ≤ 2: keys of unit length are the caller's part.
"""

import numpy as np

from . import _checks
from ._layout import join, spans, split, spread, transpose


@_checks.quiet
def weights(q, k, beta):
    """The N×N matrix W with o = W v.

    W_ij = β_j q_iᵀ (I − β_i k_i k_iᵀ) … (I − β_{j+1} k_{j+1} k_{j+1}ᵀ) k_j.
    Column by column, from the last: each query looks back, and what it sees
    of a token is hidden from it in all earlier ones.
    """
    q, k, _, beta, S = _inputs(q, k, k, beta)
    N = q.shape[-2]
    W = np.zeros((*S.shape[:-2], N, N), q.dtype)
    look = q.copy()                                          # (…, N, d)
    for j in reversed(range(N)):
        seen = beta[..., j, :, None] * (look[..., j:, :] @ k[..., j, :, None])
        W[..., j:, j] = seen[..., 0]
        look[..., j:, :] -= seen * k[..., j, None, :]
    return _checks.finite(W, q=q, k=k)


@_checks.quiet
def parallel(q, k, v, beta):
    """The definition: every pair, through all the corrections between."""
    q, k, v, beta, _ = _inputs(q, k, v, beta)
    return _checks.finite(weights(q, k, beta[..., 0]) @ v, q=q, k=k, v=v)


@_checks.quiet
def recurrent(q, k, v, beta, initial_state=None, return_state=False):
    """One token at a time: read the old value, write the error, read."""
    q, k, v, beta, S = _inputs(q, k, v, beta, initial_state)
    o = np.empty(v.shape, v.dtype)
    for t in range(v.shape[-2]):
        old = k[..., t, None, :] @ S                         # (…, 1, d_v)
        error = beta[..., t, None, :] * (v[..., t, None, :] - old)
        S += k[..., t, :, None] * error                      # (…, d, d_v)
        o[..., t, :] = (q[..., t, None, :] @ S)[..., 0, :]
    return _checks.output(o, S, return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


@_checks.quiet
def chunkwise(q, k, v, beta, chunk_size=64,
              initial_state=None, return_state=False):
    """A chunk's C errors at once, from the state it starts with (WY form).

    An error depends on the earlier ones of its chunk, through the keys'
    overlaps L_ij = β_i k_i·k_j, j < i:  E + L E = β (V − K S), see `wy`.
    """
    q, k, v, beta, S = _inputs(q, k, v, beta, initial_state)
    size = _checks.count("chunk_size", chunk_size)
    o = np.empty(v.shape, v.dtype)
    for rows, C in spans(v.shape[-2], size, at_once=16):
        Q, K, V, B = (split(x, rows, C) for x in (q, k, v, beta))
        U, W = (x.astype(v.dtype) for x in wy(K, V, B))
        pairs = np.tril(Q @ transpose(K))                    # (…, C, C)
        O = np.empty_like(U)
        for c in range(len(O)):
            E = U[c] - W[c] @ S                              # (…, C, d_v)
            O[c] = Q[c] @ S + pairs[c] @ E
            S = S + transpose(K[c]) @ E                      # (…, d, d_v)
        o[..., rows, :] = join(O)
    return _checks.output(o, S, return_state, q=q, k=k, v=v,
                          initial_state=initial_state)


def wy(K, V, beta, D=1, F=1):
    """U (…, C, d_v) and W (…, C, d) of chunks whose errors are E = U − W S.

    (I + L) E = β (V − F K S) with L_ij = β_i D_ij k_i·k_j, j < i; D and F are
    the fading inside the chunk (`gated_delta`).  In float64 whatever comes
    in: rows of T K are sums that cancel, and what float32 loses there stays
    in the state.
    """
    K, V, beta = (x.astype(np.float64) for x in (K, V, beta))
    L = K @ transpose(K)                                     # (…, C, C)
    L *= beta * D
    T = inverse(L) * transpose(beta)
    return T @ V, T @ (F * K)


def inverse(L):
    """T = (I + L)⁻¹ for L (…, C, C) strictly lower triangular, row by row.

    Row i of (I + L) T = I says T_i = I_i − Σ_{j<i} L_ij T_j.  What L holds
    elsewhere than below its diagonal is not read.
    """
    C = L.shape[-1]
    T = np.zeros_like(L)
    T[..., np.arange(C), np.arange(C)] = 1
    for i in range(1, C):
        T[..., i, :i] = -(L[..., i, None, :i] @ T[..., :i, :i])[..., 0, :]
    return T


def _inputs(q, k, v, beta, initial_state=None):
    """All of it checked and broadcast to one lead; β as (…, N, 1); the state
    to start from."""
    q, k, v, lead = _checks.qkv(q, k, v)
    beta = _checks.gate("beta", beta, v, k.shape[-2:-1], 0, 2)[..., None]
    lead = _checks.lead("q, k, v and beta", lead, beta.shape[:-2])
    S = _checks.state("initial_state", initial_state, v,
                      (*lead, k.shape[-1], v.shape[-1]))
    return *spread(lead, q, k, v, beta), S
