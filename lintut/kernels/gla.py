"""Gated linear attention: every key dimension forgets at its own rate.

    B batch   T length   H heads   D width of q and k   D_v width of v
    α_t  gates in (0, 1]                   (B, T, H, D)
    S_t  = diag(α_t) S_{t-1} + k_t v_tᵀ    (B, H, D, D_v)
    o_t  = S_tᵀ q_t

Inside a chunk, o_i needs Σ_d q_id k_jd α_{j+1,d} … α_{i,d} for every j < i:
a product of gates that starts and ends elsewhere for every pair.  A ratio of
two products over the whole chunk overflows for small gates.  Halving does
not: cut the chunk in two, take the pairs that the cut separates, and write
their product as

    (α_{j+1} … α_cut) · (α_{cut+1} … α_i)

two factors of at most one, the first k_j's own, the second q_i's, so that
the pairs are one matrix product.  Then halve the halves.  Each pair j < i is
separated by exactly one cut; i = j has no gates at all.

Yang et al. 2024, "Gated Linear Attention Transformers", section 4, whose two
levels of chunks these halvings replace.
"""

import torch
import torch.nn.functional as F

from . import _checks, _sequences
from ._backend import choose_backend
from ._chunked import carry, join, split


def chunkwise(q, k, v, alpha, initial_state=None, return_state=False,
              backend="auto", cu_seqlens=None, chunk_size=64):
    """Gated linear attention, a chunk at a time.

    Parameters
    ----------
    q, k : tensor (B, T, H, D), v : tensor (B, T, H, D_v)
    alpha : tensor (B, T, H, D), in (0, 1], of q's dtype or float32
    initial_state : float32 (B, H, D, D_v)
    backend : "auto", "triton" or "torch"
    cu_seqlens : int tensor (n + 1,), bounds of n sequences packed into B=1;
        states then have a leading axis of n
    chunk_size : int; 16, 32, 64 or 128 on Triton

    Returns
    -------
    o (B, T, H, D_v), or (o, S) with `return_state`.
    """
    _checks.qkv(q, k, v)
    _checks.gate("alpha", alpha, q, per_key=True)
    bounds = _checks.bounds(cu_seqlens, q)
    chunk_size = _checks.count("chunk_size", chunk_size)
    state = _state(initial_state, q, v, bounds)
    choice = choose_backend(q, (v.shape[-1],), backend)
    if choice.backend == "triton":
        from . import gla_triton
        o, state = gla_triton.run(q, k, v, alpha, state, bounds,
                                  _checks.tile(chunk_size))
    elif bounds is not None:
        def run(q, k, v, alpha, state):
            return _torch(q, k, v, alpha, state, chunk_size)
        o, state = _sequences.each(run, bounds, (q, k, v, alpha), state)
    else:
        o, state = _torch(q, k, v, alpha, state, chunk_size)
    return (o, state) if return_state else o


def step(q, k, v, alpha, initial_state=None):
    """One token, q (B, 1, H, D): decay, write, read.  Returns (o, S)."""
    _checks.qkv(q, k, v)
    _checks.one_token(q)
    _checks.gate("alpha", alpha, q, per_key=True)
    S = _state(initial_state, q, v, None)
    q, k, x, alpha = (x[:, 0].to(S.dtype) for x in (q, k, v, alpha))
    S = alpha[..., None] * S + k[..., None] * x[..., None, :]
    o = (q[..., None, :] @ S)[..., 0, :]
    return o[:, None].to(v.dtype), S


def _torch(q, k, v, alpha, state, chunk_size):
    """All chunks at once; gates as logs, summed only inside a half."""
    T, dtype, wide = q.shape[1], v.dtype, state.dtype
    log = split(alpha.to(wide).log(), chunk_size)       # (B, H, n, C, D)
    q, k, v = (split(x, chunk_size) for x in (q, k, v))
    after, upto = _gates(log)
    # -- state --
    writes = (k * after).to(dtype).mT @ v
    found, state = carry(writes.to(wide), upto[..., -1, :, None], state)
    # -- output --
    read = (q * upto).to(dtype) @ found.to(dtype)
    o = read.to(wide) + _inside(q, k, v, log)
    return join(o, T).to(dtype), state


def _gates(log):
    """For each token of a stretch (…, C, D): the product of the gates after
    it, to the end, and of those from the start up to its own."""
    upto = log.cumsum(-2)
    after = log.flip(-2).cumsum(-2).flip(-2)[..., 1:, :]
    return F.pad(after, (0, 0, 0, 1)).exp(), upto.exp()


def _inside(q, k, v, log):
    """What the tokens of a chunk (…, C, ·) read from one another."""
    C, wide = q.shape[-2], log.dtype
    side = 1 << (C - 1).bit_length()                    # C, a power of two
    q, k, v, log = (F.pad(x, (0, 0, 0, side - C)) for x in (q, k, v, log))
    o = (q * k).to(wide).sum(-1, keepdim=True) * v      # i = j
    half = side // 2
    while half:
        q2, k2, v2, log2 = (x.unflatten(-2, (-1, 2, half))
                            for x in (q, k, v, log))
        after = _gates(log2[..., 0, :, :])[0]           # (…, half, D)
        upto = _gates(log2[..., 1, :, :])[1]
        P = ((q2[..., 1, :, :] * upto).to(v.dtype)
             @ (k2[..., 0, :, :] * after).to(v.dtype).mT)
        late = (P @ v2[..., 0, :, :]).to(wide)          # (…, half, D_v)
        o = o + F.pad(late[..., None, :, :],
                      (0, 0, 0, 0, 1, 0)).flatten(-4, -2)
        half //= 2
    return o[..., :C, :]


def _state(initial, q, v, bounds):
    n = q.shape[0] if bounds is None else len(bounds) - 1
    shape = (n, q.shape[2], q.shape[3], v.shape[3])
    if initial is None:
        return q.new_zeros(shape, dtype=_checks.state_dtype(q))
    return _checks.state("initial_state", initial, q, shape)
