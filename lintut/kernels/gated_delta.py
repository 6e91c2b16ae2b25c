"""The gated delta rule: forget, read, then write the error.

    S̄ = α_t S_{t-1}                          forget
    u_t = β_t (v_t − S̄ᵀ k_t)                 what k_t recalls, set right
    S_t = S̄ + k_t u_tᵀ,    o_t = S_tᵀ q_t    write, then read

q, k (B, T, H, D), v (B, T, H, D_v), α in (0, 1] and β in [0, 2] (B, T, H);
S (B, H, D, D_v).  `lintut.kernels.delta` is the case α = 1.  The rule is
stable for β‖k‖² ≤ 2; q and k are used as given.

A chunk of C tokens at once.  Below, Q, K (C, D), V, U, O (C, D_v) have one
token a row, β multiplies rows, and S (D, D_v) enters the chunk.  The decays
are products over segments of the chunk, never quotients of products:

    D_ij = α_{j+1} … α_i   (i ≥ j, else 0)   from token j to token i, (C, C)
    b_i  = α_1 … α_i                         from S to token i, (C,)
    e_j  = α_{j+1} … α_C                     from token j to the end, (C,)

Unrolling the rule gives S_i = b_i S + Σ_{j≤i} D_ij k_j u_jᵀ, so that u_i needs
the u_j before it, through its key alone:

    u_i = β_i (v_i − b_i Sᵀk_i − Σ_{j<i} D_ij (k_i·k_j) u_j)
    (I + A) U = β (V − b K S),      A = tril(β D ∘ K Kᵀ, −1)   (C, C)

I + A is lower triangular with ones on its diagonal.  With its inverse, S
comes in through one product only (the WY form):

    T = (I + A)⁻¹ diag(β)    W = T (b K)    Ũ = T V    (C, C) (C, D) (C, D_v)
    U  = Ũ − W S                                       (C, D_v)
    O  = b Q S + (D ∘ Q Kᵀ) U                          (C, D_v)
    S' = b_C S + (e K)ᵀ U                              (D, D_v)

T, W and Ũ need no state: all chunks at once.  Only U and S' go from chunk to
chunk.

Yang, Wang, Zhang, Shen and Kim 2024, "Parallelizing Linear Transformers with
the Delta Rule over Sequence Length", section 3.2 (WY); Yang, Kautz and
Hatamizadeh 2025, "Gated Delta Networks", section 3.3 (gates).
"""

import torch

from . import _checks, _sequences
from ._backend import choose_backend
from ._chunked import join, split


def chunkwise(q, k, v, alpha, beta, initial_state=None, return_state=False,
              backend="auto", cu_seqlens=None, chunk_size=64):
    """The gated delta rule, a chunk at a time.

    Parameters
    ----------
    q, k : tensors of shape (B, T, H, D)
    v : tensor of shape (B, T, H, D_v)
    alpha : tensor of shape (B, T, H), in (0, 1]
    beta : tensor of shape (B, T, H), in [0, 2]
    initial_state : float32 tensor of shape (B, H, D, D_v), optional
        With `cu_seqlens`, one entry a sequence instead of B.
    return_state : bool
        Return ``(o, state)`` instead of o.
    backend : "auto", "triton" or "torch"
    cu_seqlens : int tensor (sequences + 1,), optional
        Where packed sequences start and end: 0, …, T; then B = 1.
    chunk_size : int; 16, 32, 64 or 128 on Triton, whose kernels may take
        shorter chunks (the result is the same but for rounding)

    Returns
    -------
    o : tensor of shape (B, T, H, D_v), v's dtype
    state : float32 tensor, shaped as `initial_state`, if asked for

    Raises
    ------
    ValueError
        Names the argument, what it is and what it should be.
    """
    _checks.qkv(q, k, v)
    _checks.gate("alpha", alpha, q, per_key=False)
    return _chunkwise(q, k, v, alpha, beta, initial_state, return_state,
                      backend, cu_seqlens, chunk_size)


def step(q, k, v, alpha, beta, initial_state=None):
    """One token: q, k (B, 1, H, D), v (B, 1, H, D_v); returns (o, state)."""
    _checks.qkv(q, k, v)
    _checks.gate("alpha", alpha, q, per_key=False)
    return _step(q, k, v, alpha, beta, initial_state)


def _step(q, k, v, alpha, beta, initial_state):
    """One token; `alpha` None is α = 1."""
    _checks.one_token(q)
    _checks.gate("beta", beta, q, per_key=False, high=2.0, open_low=False)
    B, _, H, d = q.shape
    S = _checks.state("initial_state", initial_state, q,
                      (B, H, d, v.shape[-1]))
    precise = _checks.state_dtype(q)
    q, k, u, beta = (x[:, 0].to(precise) for x in (q, k, v, beta))
    if S is None:
        S = q.new_zeros(B, H, d, v.shape[-1])
    if alpha is not None:
        S = alpha[:, 0, :, None, None].to(precise) * S
    u = beta[..., None] * (u - _read(S, k))
    S = S + k[..., :, None] * u[..., None, :]            # (B, H, D, D_v)
    return _read(S, q)[:, None].to(v.dtype), S


def _read(S, q):
    """Sᵀq: (B, H, D, D_v), (B, H, D) → (B, H, D_v)."""
    return (q[..., None, :] @ S)[..., 0, :]


def _chunkwise(q, k, v, alpha, beta, initial_state, return_state, backend,
               cu_seqlens, chunk_size):
    """Both rules, q, k and v checked; `alpha` None is α = 1."""
    _checks.gate("beta", beta, q, per_key=False, high=2.0, open_low=False)
    _checks.count("chunk_size", chunk_size)
    bounds = _checks.bounds(cu_seqlens, q)
    sequences = len(bounds) - 1 if bounds else q.shape[0]
    S = _checks.state("initial_state", initial_state, q,
                      (sequences, q.shape[2], q.shape[3], v.shape[3]))
    precise = _checks.state_dtype(q)
    log_alpha = None if alpha is None else alpha.to(precise).log()
    beta = beta.to(precise)
    if S is None:
        S = q.new_zeros(sequences, *q.shape[2:], v.shape[3], dtype=precise)
    if choose_backend(q, (v.shape[-1],), backend).backend == "triton":
        from . import gated_delta_triton
        o, S = gated_delta_triton.run(q, k, v, log_alpha, beta, S, bounds,
                                      _checks.tile(chunk_size))
        return (o, S) if return_state else o
    if log_alpha is None:
        log_alpha = torch.zeros_like(beta)

    def run(*tensors):
        return _torch(*tensors, min(chunk_size, tensors[0].shape[1]))

    tensors = q, k, v, log_alpha, beta
    o, S = (_sequences.each(run, bounds, tensors, S) if bounds else
            run(*tensors, S))
    return (o, S) if return_state else o


def _torch(q, k, v, log_alpha, beta, S, C):
    """All chunks of equally long sequences: (o, S)."""
    length, low = q.shape[1], q.dtype
    q, k, v = (split(x, C) for x in (q, k, v))        # (B, H, chunks, C, D)
    log_alpha, beta = (split(x[..., None], C) for x in (log_alpha, beta))
    D = _segments(log_alpha).exp().tril()              # (B, H, chunks, C, C)
    b = log_alpha.cumsum(-2).exp()                     # (B, H, chunks, C, 1)
    e = D[..., -1, :, None]

    # T = (I + A)^-1 diag(β)
    A = (beta * D * (k @ k.mT)).tril(-1)
    T = torch.linalg.solve_triangular(
        A + torch.eye(C, dtype=A.dtype, device=A.device),
        torch.diag_embed(beta[..., 0]), upper=False, unitriangular=True)
    # W = T (b K),  Ũ = T V
    W, U = (T.to(low) @ x for x in ((b * k).to(low), v))

    into, written = [], []
    for n in range(q.shape[2]):
        # U = Ũ − W S,  S' = b_C S + (e K)ᵀ U
        into.append(S.to(low))
        written.append(U[:, :, n] - W[:, :, n] @ into[-1])
        left = (e[:, :, n] * k[:, :, n]).to(low)
        S = b[:, :, n, -1:] * S + left.mT @ written[-1]
    # O = b Q S + (D ∘ Q Kᵀ) U
    o = (b * (q @ torch.stack(into, 2))
         + (D * (q @ k.mT)).to(low) @ torch.stack(written, 2))
    return join(o, length).to(low), S


def _segments(log_alpha):
    """log α_{j+1} + … + log α_i at (i, j): (…, C, 1) → (…, C, C).

    Each is summed alone: a difference of two long sums would lose the digits
    of a short segment that follows small gates.
    """
    C = log_alpha.shape[-2]
    later = torch.ones(C, C, device=log_alpha.device).tril(-1)
    return (log_alpha * later).cumsum(-2)
