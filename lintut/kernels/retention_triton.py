"""Retention's Triton kernels: what chunks find, and what they read.

    states    S ← γ^C S + Σ γ^(to the end) x yᵀ, chunk after chunk
    attend    (x yᵀ ∘ γ^|i−j|) u + γ^(from the start) x S, all chunks at once

The forward pass is states(k, v), then attend(q, k, v; S).  The backward pass
is the same two kernels:

    dq_i = Σ_{j≤i} γ^(i−j) (do_i·v_j) k_j    attend(do, v, k; Sᵀ)
    dk_j = Σ_{i≥j} γ^(i−j) (v_j·do_i) q_i    attend(v, do, q; Rᵀ), reversed
    dv_j = Σ_{i≥j} γ^(i−j) (k_j·q_i) do_i    attend(k, q, do; R), reversed

where R is states(q, do) from the end back: the gradient of the state that a
chunk leaves.  Reversed, "from the start" and "to the end" change places.
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
def states(x, y, gamma, S, S_in, S_out, spans, first, H, D, V,
           C: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr,
           REVERSE: tl.constexpr, DOT: tl.constexpr,
           PRECISION: tl.constexpr):
    """One sequence's tile of S.  x (N, H, D), y (N, H, V), gamma (H,);
    S (chunks, H, D, V): what each chunk finds."""
    n, h = tl.program_id(0) // H, tl.program_id(0) % H
    rate = tl.log2(tl.load(gamma + h))
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    c = tl.program_id(2) * BV + tl.arange(0, BV)
    tile = d[:, None] * V + c[None, :]
    inside = (d < D)[:, None] & (c < V)[None, :]
    own = tl.program_id(0).to(tl.int64)
    S_now = tl.load(S_in + own * D * V + tile, mask=inside, other=0.0)
    begin, end = tl.load(first + n), tl.load(first + n + 1)
    for step in range(begin, end):
        chunk = begin + end - 1 - step if REVERSE else step
        # -- what the chunk finds --
        at = tl.cast(chunk, tl.int64) * H + h
        tl.store(S + at * D * V + tile, S_now, mask=inside)
        # -- what it leaves of that, and what it adds --
        start = tl.load(spans + 2 * chunk)
        length = tl.load(spans + 2 * chunk + 1) - start
        i = tl.arange(0, C)
        left = i + 1 if REVERSE else length - 1 - i
        rows = i < length
        at = tl.cast(start, tl.int64) * H + h
        xs = tl.load(x + at * D + d[:, None] + i[None, :] * H * D,
                     mask=(d < D)[:, None] & rows[None, :], other=0.0)
        ys = tl.load(y + at * V + i[:, None] * H * V + c[None, :],
                     mask=rows[:, None] & (c < V)[None, :], other=0.0)
        decay = tl.exp2(rate * tl.where(rows, left, 0))
        xs = xs.to(tl.float32) * decay[None, :]
        S_now = S_now * tl.exp2(rate * length) + tl.dot(
            xs.to(DOT), ys.to(DOT), input_precision=PRECISION)
    tl.store(S_out + own * D * V + tile, S_now, mask=inside)


@triton.jit
def attend(x, y, u, gamma, S, out, spans, H, X, U, SX, SU,
           C: tl.constexpr, BX: tl.constexpr, BU: tl.constexpr,
           REVERSE: tl.constexpr, DOT: tl.constexpr,
           PRECISION: tl.constexpr):
    """One chunk's tile of `out`.  x, y (N, H, X); u, out (N, H, U); S read
    with strides SX over x's width and SU over u's."""
    chunk, h = tl.program_id(0) // H, tl.program_id(0) % H
    rate = tl.log2(tl.load(gamma + h))
    start = tl.load(spans + 2 * chunk)
    length = tl.load(spans + 2 * chunk + 1) - start
    i = tl.arange(0, C)
    rows = i < length
    c = tl.program_id(1) * BU + tl.arange(0, BU)
    at = tl.cast(start, tl.int64) * H + h
    S += tl.program_id(0).to(tl.int64) * X * U
    P = tl.zeros([C, C], tl.float32)
    acc = tl.zeros([C, BU], tl.float32)
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
    # -- decay --
    since = length - 1 - i if REVERSE else i + 1
    acc *= tl.exp2(rate * tl.where(rows, since, 0))[:, None]
    apart = i[None, :] - i[:, None] if REVERSE else i[:, None] - i[None, :]
    P = tl.where(apart >= 0, P * tl.exp2(rate * tl.maximum(apart, 0)), 0.0)
    # -- output --
    valid = rows[:, None] & (c < U)[None, :]
    us = tl.load(u + at * U + i[:, None] * H * U + c[None, :], mask=valid,
                 other=0.0)
    acc += tl.dot(P.to(DOT), us.to(DOT), input_precision=PRECISION)
    tl.store(out + at * U + i[:, None] * H * U + c[None, :], acc, mask=valid)


def _states(x, y, gamma, state, spans, C, reverse=False):
    """Start `states`; return what the chunks find, and the last state."""
    (*_, H, D), V = x.shape, y.shape[-1]
    how, kept = products(x)
    row = blocks("retention.states", x)
    BD, BV = padded(D, row.k), padded(V, row.v)
    S = x.new_empty(spans.count, H, D, V, dtype=kept)
    last = torch.empty_like(state)
    grid = (spans.sequences * H, triton.cdiv(D, BD), triton.cdiv(V, BV))
    launch(states, grid, x, y, gamma, S, state, last, spans.spans,
           spans.first, H, D, V, C=C, BD=BD, BV=BV, REVERSE=reverse, **how,
           blocks=row)
    return S, last


def _attend(x, y, u, gamma, S, spans, C, transposed=False, reverse=False):
    """Start `attend`; dq and dk read the states transposed."""
    (*_, H, X), U = x.shape, u.shape[-1]
    how, _ = products(u)
    row = blocks("retention.attend", u)
    BX, BU = padded(X, row.k), padded(U, row.v)
    SX, SU = (1, X) if transposed else (U, 1)
    out = torch.empty_like(u)
    launch(attend, (spans.count * H, triton.cdiv(U, BU)), x, y, u, gamma, S,
           out, spans.spans, H, X, U, SX, SU, C=C, BX=BX, BU=BU,
           REVERSE=reverse, **how, blocks=row)
    return out


class _Retention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, gamma, S, spans, C):
        S, last = _states(k, v, gamma, S, spans, C)
        o = _attend(q, k, v, gamma, S, spans, C)
        ctx.save_for_backward(q, k, v, gamma, S)
        ctx.spans, ctx.C = spans, C
        return o, last

    @staticmethod
    @once_differentiable
    def backward(ctx, do, dS):
        q, k, v, gamma, S = ctx.saved_tensors
        spans, C, do = ctx.spans, ctx.C, do.contiguous()
        R, first = _states(q, do, gamma, dS.contiguous(), spans, C, True)
        dq = _attend(do, v, k, gamma, S, spans, C, True)
        dk = _attend(v, do, q, gamma, R, spans, C, True, True)
        dv = _attend(k, q, do, gamma, R, spans, C, False, True)
        return dq, dk, dv, None, first, None, None


def run(q, k, v, gamma, state, bounds, C):
    """q, k, v (B, T, H, ·) to (o, S); checked already."""
    spans = chunks(q, bounds, C)
    q, k, v, gamma, state = (x.contiguous() for x in
                             (q, k, v, gamma, state))
    return _Retention.apply(q, k, v, gamma, state, spans, C)


def sample(d, dtype):
    """One call with gradients, for `compile_report`."""
    q, k, v = (torch.rand(1, 16, 1, d, dtype=dtype, requires_grad=True)
               for _ in range(3))
    return run(q, k, v, torch.ones(1), torch.zeros(1, 1, d, d), None, 64)[0]
