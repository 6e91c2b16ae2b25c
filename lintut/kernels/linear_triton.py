"""Linear attention's Triton kernels: what chunks find, and what they read.

    states    S ← S + xᵀy and z ← z + Σ w x, chunk after chunk
    attend    tril(x yᵀ) u + x S, all chunks at once

The forward pass is states(k, v), then attend(q, k, v; S, z), divided by the
weight q·z.  With g = do / weight and e = −(do·o) / weight, the gradients of
numerator and weight, the backward pass is the same two kernels:

    dq_i = Σ_{j≤i} (g_i·v_j + e_i) k_j      attend(g, v, k; Sᵀ)
    dk_j = Σ_{i≥j} (v_j·g_i + e_i) q_i      attend(v, g, q; Rᵀ), reversed
    dv_j = Σ_{i≥j} (k_j·q_i) g_i            attend(k, q, g; R), reversed

where R = Σ q_i g_iᵀ and r = Σ e_i q_i are states(q, g) from the end back.
Tokens of all sequences lie in one row; `spans` says where each chunk starts
and stops, `first` which chunk is a sequence's first.
"""

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

from ._blocks import blocks, padded
from ._launch import launch, products
from ._sequences import chunks


@triton.jit
def states(x, y, w, S, z, S_in, z_in, S_out, z_out, spans, first, H, D, V,
           C: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr,
           REVERSE: tl.constexpr, DOT: tl.constexpr,
           PRECISION: tl.constexpr):
    """One sequence's tile of S.  x (N, H, D), y (N, H, V), w (N, H) or None;
    S (chunks, H, D, V) and z (chunks, H, D): what each chunk finds."""
    n, h = tl.program_id(0) // H, tl.program_id(0) % H
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    c = tl.program_id(2) * BV + tl.arange(0, BV)
    tile = d[:, None] * V + c[None, :]
    inside = (d < D)[:, None] & (c < V)[None, :]
    sums = (d < D) & (tl.program_id(2) == 0)    # one column of tiles keeps z
    own = tl.program_id(0).to(tl.int64)
    S_now = tl.load(S_in + own * D * V + tile, mask=inside, other=0.0)
    z_now = tl.load(z_in + own * D + d, mask=d < D, other=0.0)
    begin, end = tl.load(first + n), tl.load(first + n + 1)
    for step in range(begin, end):
        chunk = begin + end - 1 - step if REVERSE else step
        # -- what the chunk finds --
        at = tl.cast(chunk, tl.int64) * H + h
        tl.store(S + at * D * V + tile, S_now, mask=inside)
        tl.store(z + at * D + d, z_now, mask=sums)
        # -- what it adds --
        start = tl.load(spans + 2 * chunk)
        i = tl.arange(0, C)
        rows = i < tl.load(spans + 2 * chunk + 1) - start
        at = tl.cast(start, tl.int64) * H + h
        xs = tl.load(x + at * D + d[:, None] + i[None, :] * H * D,
                     mask=(d < D)[:, None] & rows[None, :], other=0.0)
        ys = tl.load(y + at * V + i[:, None] * H * V + c[None, :],
                     mask=rows[:, None] & (c < V)[None, :], other=0.0)
        S_now += tl.dot(xs.to(DOT), ys.to(DOT), input_precision=PRECISION)
        xs = xs.to(tl.float32)
        if w is not None:
            xs *= tl.load(w + at + i * H, mask=rows, other=0.0)[None, :]
        z_now += tl.sum(xs, 1)
    tl.store(S_out + own * D * V + tile, S_now, mask=inside)
    tl.store(z_out + own * D + d, z_now, mask=sums)


@triton.jit
def attend(x, y, u, S, z, e, out, weight, spans, H, X, U, SX, SU,
           C: tl.constexpr, BX: tl.constexpr, BU: tl.constexpr,
           RESULT: tl.constexpr, DOT: tl.constexpr,
           PRECISION: tl.constexpr):
    """One chunk's tile of `out`.  x, y (N, H, X); u, out (N, H, U); S read
    with strides SX over x's width and SU over u's; e, weight (N, H).
    RESULT is "o", "dq", "dk" or "dv"."""
    chunk, h = tl.program_id(0) // H, tl.program_id(0) % H
    start = tl.load(spans + 2 * chunk)
    i = tl.arange(0, C)
    rows = i < tl.load(spans + 2 * chunk + 1) - start
    c = tl.program_id(1) * BU + tl.arange(0, BU)
    at = tl.cast(start, tl.int64) * H + h
    S += tl.program_id(0).to(tl.int64) * X * U
    P = tl.zeros([C, C], tl.float32)
    acc = tl.zeros([C, BU], tl.float32)
    total = tl.zeros([C], tl.float32)
    for first in range(0, X, BX):
        b = first + tl.arange(0, BX)
        grid = i[:, None] * H * X + b[None, :]
        valid = rows[:, None] & (b < X)[None, :]
        xs = tl.load(x + at * X + grid, mask=valid, other=0.0)
        ys = tl.load(y + at * X + grid, mask=valid, other=0.0)
        # -- scores --
        P += tl.dot(xs.to(DOT), tl.trans(ys).to(DOT),
                    input_precision=PRECISION)
        # -- state --
        Ss = tl.load(S + b[:, None] * SX + c[None, :] * SU,
                     mask=(b < X)[:, None] & (c < U)[None, :], other=0.0)
        acc += tl.dot(xs.to(DOT), Ss.to(DOT), input_precision=PRECISION)
        if RESULT == "o":
            zs = tl.load(z + tl.program_id(0).to(tl.int64) * X + b,
                         mask=b < X, other=0.0)
            total += tl.sum(xs.to(tl.float32) * zs[None, :], 1)
    # -- the weight's part of dq and dk --
    if RESULT == "dq" or RESULT == "dk":
        zs = tl.load(z + tl.program_id(0).to(tl.int64) * U + c,
                     mask=c < U, other=0.0)
        es = tl.load(e + at + i * H, mask=rows, other=0.0)
        P += es[:, None] if RESULT == "dq" else es[None, :]
        acc += es[:, None] * zs[None, :] if RESULT == "dq" else zs[None, :]
    # -- output --
    past = i[:, None] >= i[None, :]
    if RESULT == "dk" or RESULT == "dv":
        past = i[:, None] <= i[None, :]
    P = tl.where(past, P, 0.0)
    valid = rows[:, None] & (c < U)[None, :]
    us = tl.load(u + at * U + i[:, None] * H * U + c[None, :], mask=valid,
                 other=0.0)
    acc += tl.dot(P.to(DOT), us.to(DOT), input_precision=PRECISION)
    if RESULT == "o":
        total = tl.where(rows, total + tl.sum(P, 1), 1.0)
        acc /= total[:, None]
        tl.store(weight + at + i * H, total,
                 mask=rows & (tl.program_id(1) == 0))
    tl.store(out + at * U + i[:, None] * H * U + c[None, :], acc, mask=valid)


def _states(x, y, w, state, spans, C, reverse=False):
    """Start `states`; return what the chunks find, and the last state."""
    (*_, H, D), V = x.shape, y.shape[-1]
    how, kept = products(x)
    row = blocks("linear.states", x)
    BD, BV = padded(D, row.k), padded(V, row.v)
    S = x.new_empty(spans.count, H, D, V, dtype=kept)
    z = x.new_empty(spans.count, H, D, dtype=torch.float32)
    last = tuple(map(torch.empty_like, state))
    grid = (spans.sequences * H, triton.cdiv(D, BD), triton.cdiv(V, BV))
    launch(states, grid, x, y, w, S, z, *state, *last, spans.spans,
           spans.first, H, D, V, C=C, BD=BD, BV=BV, REVERSE=reverse, **how,
           blocks=row)
    return (S, z), last


def _attend(like, result, x, y, u, found, e, weight, spans, C):
    """Start `attend`; "dq" and "dk" read the states transposed."""
    (*_, H, X), U = x.shape, u.shape[-1]
    how, _ = products(like)
    row = blocks("linear.attend", like)
    BX, BU = padded(X, row.k), padded(U, row.v)
    SX, SU = (U, 1) if result in ("o", "dv") else (1, X)
    out = torch.empty_like(u, dtype=like.dtype)
    launch(attend, (spans.count * H, triton.cdiv(U, BU)), x, y, u, *found, e,
           out, weight, spans.spans, H, X, U, SX, SU, C=C, BX=BX, BU=BU,
           RESULT=result, **how, blocks=row)
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, S, z, spans, C):
        found, last = _states(k, v, None, (S, z), spans, C)
        weight = q.new_empty(q.shape[:-1], dtype=torch.float32)
        o = _attend(q, "o", q, k, v, found, None, weight, spans, C)
        ctx.save_for_backward(q, k, v, o, weight, *found)
        ctx.spans, ctx.C = spans, C
        return o, *last

    @staticmethod
    @once_differentiable
    def backward(ctx, do, dS, dz):
        q, k, v, o, weight, *found = ctx.saved_tensors
        spans, C = ctx.spans, ctx.C
        do = do.float()
        g = (do / weight[..., None]).contiguous()
        g = g.bfloat16() if v.dtype == torch.bfloat16 else g
        e = -(do * o).sum(-1) / weight
        later, first = _states(q, g, e, (dS.contiguous(), dz.contiguous()),
                               spans, C, reverse=True)
        dq = _attend(q, "dq", g, v, k, found, e, None, spans, C)
        dk = _attend(q, "dk", v, g, q, later, e, None, spans, C)
        dv = _attend(q, "dv", k, q, g, later, None, None, spans, C)
        return dq, dk, dv, *first, None, None


def run(q, k, v, state, bounds, C):
    """φ(q), φ(k) (B, T, H, r) and v to (o, (S, z)); checked already."""
    spans = chunks(q, bounds, C)
    q, k, v, S, z = (x.contiguous() for x in (q, k, v, *state))
    o, *last = _Linear.apply(q, k, v, S, z, spans, C)
    return o, tuple(last)


def sample(d, dtype):
    """One call with gradients, for `compile_report`."""
    q, k, v = (torch.rand(1, 16, 1, d, dtype=dtype, requires_grad=True)
               for _ in range(3))
    S, z = torch.zeros(1, 1, d, d), torch.zeros(1, 1, d)
    return run(q, k, v, (S, z), None, 64)[0]
