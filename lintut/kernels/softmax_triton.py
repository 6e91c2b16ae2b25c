"""FlashAttention's Triton kernels: one forward, two backward.

    forward    a tile of queries: o and lse, over the key tiles it reaches
    grad_q     a tile of queries: D and dq, over the same tiles
    grad_kv    a tile of keys: dk and dv, over the query tiles that reach it

The equations and names are those of `lintut.kernels.softmax`.  A program
owns one tile of one head and passes over the others' tiles in steps; a tile
holds the whole width.  Scores are in base 2, as exp2 is what a GPU computes.

Tiles that no query reaches are not visited.  Of the rest most are seen
whole; those cut by an edge (the diagonal, a window's end, the last token)
take a second loop, which alone pays for comparing positions.
"""

import torch
import triton
import triton.language as tl

from ._backend import interpreting
from ._blocks import blocks, padded
from ._launch import launch, products

LOG2E = 1.4426950408889634


@triton.jit
def own(x, head, T, H, WIDTH: tl.constexpr):
    """Where a head of x (B, T, H, WIDTH) starts."""
    return x + (tl.cast(head // H, tl.int64) * T * H + head % H) * WIDTH


@triton.jit
def tile(x, at, H, WIDTH: tl.constexpr, SIDE: tl.constexpr,
         PAD: tl.constexpr):
    """Pointers to the tokens at … at + SIDE of a head of x."""
    offsets = (tl.arange(0, SIDE)[:, None] * H * WIDTH
               + tl.arange(0, PAD)[None, :])
    return x + tl.cast(at, tl.int64) * H * WIDTH + offsets


@triton.jit
def inside(at, T, WIDTH: tl.constexpr, SIDE: tl.constexpr,
           PAD: tl.constexpr):
    """Which entries of such a tile exist."""
    return ((at + tl.arange(0, SIDE) < T)[:, None]
            & (tl.arange(0, PAD) < WIDTH)[None, :])


@triton.jit
def read(x, at, T, H, WIDTH: tl.constexpr, SIDE: tl.constexpr,
         PAD: tl.constexpr):
    return tl.load(tile(x, at, H, WIDTH, SIDE, PAD),
                   mask=inside(at, T, WIDTH, SIDE, PAD), other=0.0)


@triton.jit
def write(x, value, at, T, H, WIDTH: tl.constexpr, SIDE: tl.constexpr,
          PAD: tl.constexpr):
    tl.store(tile(x, at, H, WIDTH, SIDE, PAD), value.to(x.dtype.element_ty),
             mask=inside(at, T, WIDTH, SIDE, PAD))


@triton.jit
def span(at, T, before, after, SIDE: tl.constexpr, STEP: tl.constexpr):
    """The tiles that the tokens at … at + SIDE reach, in a row of T tokens.

    Returns first, end; and of the tiles between, those seen whole start at
    `whole` and take up `length` tokens.
    """
    first = tl.maximum(0, at - before) // STEP * STEP
    end = tl.minimum(T, at + SIDE + after)
    whole = tl.cdiv(tl.maximum(0, at + SIDE - 1 - before), STEP) * STEP
    stop = tl.minimum(T, at + 1 + after) // STEP * STEP
    return first, end, whole, tl.maximum(0, stop - whole)


@triton.jit
def hide(s, i, j, T, before, after):
    """-∞ for the pairs in which i does not see j."""
    return tl.where((i - before <= j) & (j <= i + after) & (j < T), s,
                    float("-inf"))


@triton.jit
def forward_kernel(q, k, v, o, lse, H, T, T_k, before, after, scale2,
                   D: tl.constexpr, V: tl.constexpr, BD: tl.constexpr,
                   BV: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
                   DOT: tl.constexpr, PRECISION: tl.constexpr):
    tiles = tl.cdiv(T, ROWS)
    head = tl.program_id(0) // tiles
    i0 = (tiles - 1 - tl.program_id(0) % tiles) * ROWS  # longest rows first
    i = i0 + tl.arange(0, ROWS)
    k, v = own(k, head, T_k, H, D), own(v, head, T_k, H, V)
    q_i = read(own(q, head, T, H, D), i0, T, H, D, ROWS, BD).to(DOT)
    # Finite, so that a tile that hides every key leaves no ∞ - ∞.
    top = tl.full([ROWS], -3.4e38, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    out = tl.zeros([ROWS, BV], tl.float32)
    first, end, whole, length = span(i0, T_k, before, after, ROWS, COLS)
    for CUT in tl.static_range(2):
        for at in tl.range(first if CUT else whole,
                           end - length if CUT else whole + length, COLS):
            j0 = tl.where(at < whole, at, at + length) if CUT else at
            k_j = read(k, j0, T_k, H, D, COLS, BD).to(DOT)
            v_j = read(v, j0, T_k, H, V, COLS, BV).to(DOT)
            # -- scores --
            s = tl.dot(q_i, tl.trans(k_j), input_precision=PRECISION) * scale2
            if CUT:
                j = j0 + tl.arange(0, COLS)
                s = hide(s, i[:, None], j[None, :], T_k, before, after)
            # -- a higher maximum shrinks what was summed --
            higher = tl.maximum(top, tl.max(s, 1))
            shrink = tl.exp2(top - higher)
            p = tl.exp2(s - higher[:, None])
            # -- sums --
            total = total * shrink + tl.sum(p, 1)
            out = tl.dot(p.to(DOT), v_j, out * shrink[:, None],
                         input_precision=PRECISION)
            top = higher
    # -- output --
    write(own(o, head, T, H, V), out / total[:, None], i0, T, H, V, ROWS, BV)
    tl.store(lse + head * T + i, top + tl.log2(total), mask=i < T)


@triton.jit
def grad_q_kernel(q, k, v, o, do, lse, delta, dq, H, T, T_k, before, after,
                  scale, scale2, D: tl.constexpr, V: tl.constexpr,
                  BD: tl.constexpr, BV: tl.constexpr, ROWS: tl.constexpr,
                  COLS: tl.constexpr, DOT: tl.constexpr,
                  PRECISION: tl.constexpr):
    tiles = tl.cdiv(T, ROWS)
    head = tl.program_id(0) // tiles
    i0 = (tiles - 1 - tl.program_id(0) % tiles) * ROWS
    i = i0 + tl.arange(0, ROWS)
    k, v = own(k, head, T_k, H, D), own(v, head, T_k, H, V)
    q_i = read(own(q, head, T, H, D), i0, T, H, D, ROWS, BD).to(DOT)
    do_i = read(own(do, head, T, H, V), i0, T, H, V, ROWS, BV)
    o_i = read(own(o, head, T, H, V), i0, T, H, V, ROWS, BV)
    # -- D = rowsum(do ∘ o), kept for the other kernel --
    D_i = tl.sum(do_i.to(tl.float32) * o_i.to(tl.float32), 1)
    tl.store(delta + head * T + i, D_i, mask=i < T)
    do_i = do_i.to(DOT)
    lse_i = tl.load(lse + head * T + i, mask=i < T, other=float("inf"))
    dq_i = tl.zeros([ROWS, BD], tl.float32)
    first, end, whole, length = span(i0, T_k, before, after, ROWS, COLS)
    for CUT in tl.static_range(2):
        for at in tl.range(first if CUT else whole,
                           end - length if CUT else whole + length, COLS):
            j0 = tl.where(at < whole, at, at + length) if CUT else at
            k_j = read(k, j0, T_k, H, D, COLS, BD).to(DOT)
            v_j = read(v, j0, T_k, H, V, COLS, BV).to(DOT)
            # -- scores and weights again --
            s = tl.dot(q_i, tl.trans(k_j), input_precision=PRECISION) * scale2
            if CUT:
                j = j0 + tl.arange(0, COLS)
                s = hide(s, i[:, None], j[None, :], T_k, before, after)
            p = tl.exp2(s - lse_i[:, None])
            # -- ds = p ∘ (dp - D) --
            dp = tl.dot(do_i, tl.trans(v_j), input_precision=PRECISION)
            ds = p * (dp - D_i[:, None])
            dq_i = tl.dot(ds.to(DOT), k_j, dq_i, input_precision=PRECISION)
    write(own(dq, head, T, H, D), dq_i * scale, i0, T, H, D, ROWS, BD)


@triton.jit
def grad_kv_kernel(q, k, v, do, lse, delta, dk, dv, H, T, T_k, before, after,
                   scale, scale2, D: tl.constexpr, V: tl.constexpr,
                   BD: tl.constexpr, BV: tl.constexpr, ROWS: tl.constexpr,
                   COLS: tl.constexpr, DOT: tl.constexpr,
                   PRECISION: tl.constexpr):
    tiles = tl.cdiv(T_k, COLS)
    head = tl.program_id(0) // tiles
    j0 = tl.program_id(0) % tiles * COLS        # longest columns first
    j = j0 + tl.arange(0, COLS)
    q, do = own(q, head, T, H, D), own(do, head, T, H, V)
    k_j = read(own(k, head, T_k, H, D), j0, T_k, H, D, COLS, BD).to(DOT)
    v_j = read(own(v, head, T_k, H, V), j0, T_k, H, V, COLS, BV).to(DOT)
    dk_j = tl.zeros([COLS, BD], tl.float32)
    dv_j = tl.zeros([COLS, BV], tl.float32)
    # Key j is seen by the queries j - after … j + before.
    first, end, whole, length = span(j0, T, after, before, COLS, ROWS)
    for CUT in tl.static_range(2):
        for at in tl.range(first if CUT else whole,
                           end - length if CUT else whole + length, ROWS):
            i0 = tl.where(at < whole, at, at + length) if CUT else at
            i = i0 + tl.arange(0, ROWS)
            q_i = read(q, i0, T, H, D, ROWS, BD).to(DOT)
            do_i = read(do, i0, T, H, V, ROWS, BV).to(DOT)
            lse_i = tl.load(lse + head * T + i, mask=i < T, other=0.0)
            D_i = tl.load(delta + head * T + i, mask=i < T, other=0.0)
            # -- scores and weights again, transposed --
            s = tl.dot(k_j, tl.trans(q_i), input_precision=PRECISION) * scale2
            if CUT:
                s = hide(s, j[:, None], i[None, :], T, after, before)
            p = tl.exp2(s - lse_i[None, :])
            # -- dv = pᵀ do --
            dv_j = tl.dot(p.to(DOT), do_i, dv_j, input_precision=PRECISION)
            # -- ds = p ∘ (dp - D) --
            dp = tl.dot(v_j, tl.trans(do_i), input_precision=PRECISION)
            ds = p * (dp - D_i[None, :])
            dk_j = tl.dot(ds.to(DOT), q_i, dk_j, input_precision=PRECISION)
    write(own(dk, head, T_k, H, D), dk_j * scale, j0, T_k, H, D, COLS, BD)
    write(own(dv, head, T_k, H, V), dv_j, j0, T_k, H, V, COLS, BV)


def forward(q, k, v, before, after, scale):
    """o (B, T, H, D_v) and lse (B·H, T), as `softmax.forward`."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (B, T, H, _), T_k = q.shape, k.shape[1]
    o = q.new_empty(*q.shape[:3], v.shape[-1])
    lse = q.new_empty(B * H, T, dtype=torch.float32)
    row, constants = _shapes("forward", q, v)
    launch(forward_kernel, (B * H * triton.cdiv(T, row.k),), q, k, v, o, lse,
           H, T, T_k, before, after, scale * LOG2E, blocks=row, **constants)
    return o, lse


def backward(do, q, k, v, o, lse, before, after, scale):
    """dq, dk and dv, as `softmax.backward`."""
    do, q, k, v = (x.contiguous() for x in (do, q, k, v))
    (B, T, H, _), T_k = q.shape, k.shape[1]
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty_like(lse)
    rest = (H, T, T_k, before, after, scale, scale * LOG2E)
    row, constants = _shapes("grad_q", q, v)
    launch(grad_q_kernel, (B * H * triton.cdiv(T, row.k),), q, k, v, o, do,
           lse, delta, dq, *rest, blocks=row, **constants)
    row, constants = _shapes("grad_kv", q, v)
    launch(grad_kv_kernel, (B * H * triton.cdiv(T_k, row.v),), q, k, v, do,
           lse, delta, dk, dv, *rest, blocks=row, **constants)
    return dq, dk, dv


def _shapes(kernel, q, v):
    """The table's row for a kernel and the wider of d and d_v; constants."""
    D, V = q.shape[-1], v.shape[-1]
    BD, BV = padded(D, 256), padded(V, 256)
    row = blocks(f"softmax.{kernel}.{max(BD, BV, 64)}", q)
    how, _ = products(q)
    if q.dtype == torch.float16:
        how["DOT"] = tl.float16         # p ≤ 1, and sums are float32
    return row, dict(D=D, V=V, BD=BD, BV=BV, ROWS=row.k, COLS=row.v, **how)


def sample(d, dtype):
    """One causal call on a small input (see `compile_report`)."""
    from .softmax import attention
    q, k, v = (torch.ones(1, 256, 16, d, dtype=dtype, requires_grad=True)
               for _ in range(3))
    return attention(q, k, v, causal=True, backend="triton")
