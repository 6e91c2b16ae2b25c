"""Softmax attention a tile at a time: FlashAttention, forward and backward.

    i, j    a query's and a key's position      p    weights of a tile
    s       scores of a tile, in base 2: log₂(e) · scale · qᵀk
    top, total, out   of a query, over the keys so far: largest score, sum of
                      2^(s - top), the same sum with each term times its v
    lse     top + log₂(total) at the end: p = 2^(s - lse)  (B·H, T), float32
    before, after     query i sees the keys i - before … i + after

No T×T matrix exists.  Forward keeps `o` and `lse`; backward computes each
tile of p again from them.  With p = softmax(s) and o = p v,

    dv = pᵀ do     dp = do vᵀ     ds = p ∘ (dp - D)     D = rowsum(do ∘ o)
    dq = scale · ds k             dk = scale · dsᵀ q

where D stands for rowsum(p ∘ dp), which would need the whole row.

Dao et al. 2022, "FlashAttention": section 3.1, algorithm 1; appendix B.2
(backward).  Dao 2023, "FlashAttention-2": section 3.1, algorithms 1 and 2.
"""

import math

import torch
from torch.autograd.function import once_differentiable

from . import _checks
from ._backend import choose_backend

LOG2E = 1 / math.log(2)

# The side of a torch tile: it keeps a GPU busy, and stays in a CPU's cache.
SIDE = dict(cuda=512, cpu=128)


def attention(q, k, v, causal=False, window=None, scale=None,
              initial_state=None, return_state=False, backend="auto"):
    """softmax(scale · q kᵀ) v over the keys that each query may see.

    Parameters
    ----------
    q : Tensor of shape (B, T, H, D)
    k : Tensor of shape (B, T', H, D); T' may differ from T if neither
        `causal` nor `window` is given
    v : Tensor of shape (B, T', H, D_v)
    causal : whether query i sees keys up to i only
    window : how many keys a query sees, its own included: the last ones if
        `causal`, else those around it (an even window has one more before)
    scale : number, 1/√D if None
    initial_state : (K, V), earlier keys (B, t, H, D) and values, which every
        query comes after; with `causal` only
    return_state : also return (K, V) after the last token; with `causal` only
    backend : "auto", "triton" or "torch"

    Returns
    -------
    o : Tensor of shape (B, T, H, D_v), or (o, (K, V))

    Raises
    ------
    ValueError
        Names the argument, what it got and what it should be.
    """
    same_length = causal or window is not None
    _checks.qkv(q, k, v, same_length)
    stateful = initial_state is not None or return_state
    if stateful and not causal:
        raise ValueError("a state is the past: initial_state and "
                         "return_state need causal=True")
    if initial_state is not None:
        k, v = extended(initial_state, k, v)
    o = _Attention.apply(q, k, v, *reach(q, k, causal, window),
                         _scale(scale, q),
                         *_path(choose_backend(q, v.shape[-1:], backend)))
    return (o, last(k, v, window)) if return_state else o


chunkwise = attention       # the name this form has in every other module


def step(q, k, v, window=None, scale=None, initial_state=None):
    """Decode one token: cache its key and value, then read the cache.

    q, k (B, 1, H, D), v (B, 1, H, D_v); `initial_state` is (K, V), shapes
    (B, t, H, D) and (B, t, H, D_v), or None before the first token.  Returns
    (o, (K, V)): the cache has grown by one, or with a window holds the last
    `window` tokens.  It is copied: the state handed in is left as it was.
    """
    _checks.qkv(q, k, v)
    _checks.one_token(q)
    if initial_state is not None:
        k, v = extended(initial_state, k, v)
    k, v = last(k, v, window)
    s = torch.einsum("bthd,bjhd->bhtj", q * _scale(scale, q), k)
    p = s.to(_checks.state_dtype(q)).softmax(-1)
    return torch.einsum("bhtj,bjhe->bthe", p.to(v.dtype), v), (k, v)


def extended(initial_state, k, v):
    """The cached keys and values, then the new ones, along T."""
    if not isinstance(initial_state, tuple) or len(initial_state) != 2:
        raise ValueError("initial_state must be a pair of tensors (K, V); "
                         f"it is {type(initial_state).__name__}")
    for name, cached, new in zip(("K", "V"), initial_state, (k, v)):
        name = f"initial_state's {name}"
        _checks.tensor(name, cached, "(B, t, H, D)", 4, like=k)
        want = (new.shape[0], cached.shape[1], *new.shape[2:])
        if cached.shape != want or cached.dtype != new.dtype:
            raise ValueError(f"{name} must be {new.dtype} of shape {want}; "
                             f"it is {cached.dtype} of {tuple(cached.shape)}")
    K, V = initial_state
    if K.shape[1] != V.shape[1]:
        raise ValueError("initial_state's K and V must have one length; they "
                         f"have {K.shape[1]} and {V.shape[1]}")
    return torch.cat([K, k], 1), torch.cat([V, v], 1)


def last(k, v, window):
    """The keys and values that the next query may see."""
    if window is None:
        return k, v
    _checks.count("window", window)
    return k[:, -window:], v[:, -window:]


def reach(q, k, causal, window):
    """(before, after): query i sees the keys i - before … i + after.

    Keys that precede the first query (a cache) shift both.
    """
    offset = k.shape[1] - q.shape[1] if causal else 0
    before = after = k.shape[1] + q.shape[1]        # further than any key
    if window is not None:
        w = min(_checks.count("window", window), before)
        before, after = (w - 1, 0) if causal else (w // 2, (w - 1) // 2)
    return before - offset, (0 if causal else after) + offset


def _scale(scale, q):
    return q.shape[-1] ** -0.5 if scale is None else \
        _checks.number("scale", scale)


def _path(choice):
    """The forward and backward functions of the chosen backend."""
    if choice.backend == "torch":
        return forward, backward
    from . import softmax_triton as kernels
    return kernels.forward, kernels.backward


class _Attention(torch.autograd.Function):
    """Joins a forward and a backward, both of one backend."""

    @staticmethod
    def forward(ctx, q, k, v, before, after, scale, forward, backward):
        o, lse = forward(q, k, v, before, after, scale)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.rest, ctx.run = (before, after, scale), backward
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx, do):
        dq, dk, dv = ctx.run(do, *ctx.saved_tensors, *ctx.rest)
        return dq, dk, dv, None, None, None, None, None


# The torch path.  Inside it heads are batches: tensors are (B·H, T, D).

def forward(q, k, v, before, after, scale):
    """o (B, T, H, D_v) and lse (B·H, T)."""
    B = q.shape[0]
    q, k, v = fold(q), fold(k), fold(v)
    o = v.new_empty(*q.shape[:2], v.shape[-1])
    lse = q.new_empty(q.shape[:2], dtype=_checks.state_dtype(q))
    for rows in tiles(q, 0, q.shape[1]):
        out = torch.zeros_like(o[:, rows], dtype=lse.dtype)
        total = torch.zeros_like(lse[:, rows, None])
        # Finite, so that a tile that hides every key leaves no ∞ - ∞.
        top = torch.full_like(total, torch.finfo(lse.dtype).min)
        for columns in tiles(k, rows.start - before, rows.stop + after):
            s = scores(q, k, rows, columns, before, after, scale)
            higher = torch.maximum(top, s.amax(-1, keepdim=True))
            shrink = torch.exp2(top - higher)
            p = torch.exp2(s - higher)
            total = total * shrink + p.sum(-1, keepdim=True)
            out = out * shrink + p.to(v.dtype) @ v[:, columns]
            top = higher
        o[:, rows] = out / total
        lse[:, rows] = (top + total.log2()).squeeze(-1)
    return unfold(o, B), lse


def backward(do, q, k, v, o, lse, before, after, scale):
    """dq, dk and dv, of the shapes of q, k and v."""
    B = q.shape[0]
    do, q, k, v, o = fold(do), fold(q), fold(k), fold(v), fold(o)
    D = (do.to(lse.dtype) * o).sum(-1, keepdim=True)
    dq, dk, dv = (torch.zeros_like(x, dtype=lse.dtype) for x in (q, k, v))
    for rows in tiles(q, 0, q.shape[1]):
        for columns in tiles(k, rows.start - before, rows.stop + after):
            s = scores(q, k, rows, columns, before, after, scale)
            p = torch.exp2(s - lse[:, rows, None])
            dv[:, columns] += p.to(do.dtype).mT @ do[:, rows]
            dp = do[:, rows] @ v[:, columns].mT
            ds = (p * (dp - D[:, rows]) * scale).to(q.dtype)
            dq[:, rows] += ds @ k[:, columns]
            dk[:, columns] += ds.mT @ q[:, rows]
    return tuple(unfold(x, B).to(q.dtype) for x in (dq, dk, dv))


def scores(q, k, rows, columns, before, after, scale):
    """A tile of scores in base 2, -∞ where a query does not see a key."""
    # scale first: half precision would overflow on some qᵀk.
    s = (q[:, rows] * scale) @ k[:, columns].mT         # (B·H, rows, columns)
    i, j = (torch.arange(x.start, x.stop, device=q.device)
            for x in (rows, columns))
    ahead = j - i[:, None]
    hidden = (ahead < -before) | (ahead > after)
    return (s.to(_checks.state_dtype(q)) * LOG2E).masked_fill_(
        hidden, -math.inf)


def tiles(x, start, stop):
    """Slices that cover start … stop, as far as x (B·H, T, D) has them."""
    side = SIDE.get(x.device.type, 512)
    start, stop = max(start, 0), min(stop, x.shape[1])
    return [slice(at, min(at + side, stop))
            for at in range(start, stop, side)]


def fold(x):
    """(B, T, H, D) to (B·H, T, D)."""
    return x.transpose(1, 2).flatten(0, 1)


def unfold(x, B):
    """(B·H, T, D) to (B, T, H, D)."""
    return x.unflatten(0, (B, -1)).transpose(1, 2)
