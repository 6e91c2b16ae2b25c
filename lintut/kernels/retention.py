"""Retention: each head forgets at a rate of its own.

    B batch   T length   H heads   D width of q and k   D_v width of v
    γ    decay, one number a head, in (0, 1]
    S_t  = γ S_{t-1} + k_t v_tᵀ    (B, H, D, D_v)
    o_t  = S_tᵀ q_t

Sun et al. 2023, "Retentive Network", section 2.1; without its rotation, its
scale 1/√d and its group norm, which are applied outside.
"""

import torch

from . import _checks, _sequences
from ._backend import choose_backend
from ._chunked import carry, join, split


def chunkwise(q, k, v, gamma, initial_state=None, return_state=False,
              backend="auto", cu_seqlens=None, chunk_size=64):
    """Retention, a chunk at a time.

    Parameters
    ----------
    q, k : tensor (B, T, H, D), v : tensor (B, T, H, D_v)
    gamma : number, or tensor (H,), in (0, 1].  The torch path differentiates
        it; the Triton kernels do not, so "auto" then takes torch.
    initial_state : float32 (B, H, D, D_v)
    backend : "auto", "triton" or "torch"
    cu_seqlens : int tensor (n + 1,), bounds of n sequences packed into B=1;
        states then have a leading axis of n
    chunk_size : int; 16, 32, 64 or 128 on Triton

    Returns
    -------
    o (B, T, H, D_v), or (o, S) with `return_state`.

    Raises
    ------
    ValueError
        Shapes, dtypes, values; a gamma that wants a gradient from Triton.
    """
    _checks.qkv(q, k, v)
    gamma = _gamma(gamma, q)
    bounds = _checks.bounds(cu_seqlens, q)
    chunk_size = _checks.count("chunk_size", chunk_size)
    state = _state(initial_state, q, v, bounds)
    choice = choose_backend(q, (v.shape[-1],), backend)
    if choice.backend == "triton" and gamma.requires_grad:
        if backend == "triton":
            raise ValueError("gamma must not require a gradient with "
                             "backend='triton'; the torch path has one")
    if choice.backend == "triton" and not gamma.requires_grad:
        from . import retention_triton
        o, state = retention_triton.run(q, k, v, gamma, state, bounds,
                                        _checks.tile(chunk_size))
    elif bounds is not None:
        def run(q, k, v, state):
            return _torch(q, k, v, gamma, state, chunk_size)
        o, state = _sequences.each(run, bounds, (q, k, v), state)
    else:
        o, state = _torch(q, k, v, gamma, state, chunk_size)
    return (o, state) if return_state else o


def step(q, k, v, gamma, initial_state=None):
    """One token, q (B, 1, H, D): decay, write, read.  Returns (o, S)."""
    _checks.qkv(q, k, v)
    _checks.one_token(q)
    gamma = _gamma(gamma, q)
    S = _state(initial_state, q, v, None)
    q, k, x = (x[:, 0].to(S.dtype) for x in (q, k, v))
    S = gamma[:, None, None] * S + k[..., None] * x[..., None, :]
    o = (q[..., None, :] @ S)[..., 0, :]
    return o[:, None].to(v.dtype), S


def _torch(q, k, v, gamma, state, chunk_size):
    """All chunks at once; γ^(i-j) between two tokens of a chunk."""
    T, dtype, wide = q.shape[1], v.dtype, state.dtype
    q, k, v = (split(x, chunk_size) for x in (q, k, v))  # (B, H, n, C, ·)
    gamma = gamma.view(-1, 1, 1, 1)                         # (H, n, C, ·)
    start = torch.arange(0, T, chunk_size, device=q.device)
    length = (T - start).clamp(max=chunk_size).view(-1, 1, 1)
    i = torch.arange(chunk_size, device=q.device)[:, None]  # (C, 1)
    # -- scores --
    decay = (gamma ** (i - i.mT).clamp(min=0)).tril()       # (H, 1, C, C)
    P = ((q @ k.mT).to(wide) * decay).to(dtype)
    # -- state --
    left = (length - 1 - i).clamp(min=0)                    # to the end
    writes = (k * gamma ** left).to(dtype).mT @ v
    found, state = carry(writes.to(wide), (gamma ** length)[None], state)
    # -- output --
    read = (q * gamma ** (i + 1)).to(dtype) @ found.to(dtype)
    o = (P @ v).to(wide) + read.to(wide)
    return join(o, T).to(dtype), state


def _gamma(gamma, q):
    """γ as a checked tensor (H,) of the states' dtype."""
    wide, H = _checks.state_dtype(q), q.shape[2]
    if isinstance(gamma, (int, float)) and not isinstance(gamma, bool):
        gamma = torch.full((H,), gamma, dtype=wide, device=q.device)
    _checks.tensor("gamma", gamma, "(H,)", 1, like=q)
    if gamma.shape != (H,):
        raise ValueError(f"gamma must be a number or have shape (H,) = "
                         f"({H},); its shape is {tuple(gamma.shape)}")
    return _checks.within("gamma", gamma.to(wide), 0, 1, open_low=True)


def _state(initial, q, v, bounds):
    n = q.shape[0] if bounds is None else len(bounds) - 1
    shape = (n, q.shape[2], q.shape[3], v.shape[3])
    if initial is None:
        return q.new_zeros(shape, dtype=_checks.state_dtype(q))
    return _checks.state("initial_state", initial, q, shape)
