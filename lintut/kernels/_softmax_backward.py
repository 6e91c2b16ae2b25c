"""FlashAttention's backward kernels; see `_softmax_forward`.

grad_q_kernel goes first: a program has a tile of do and o at hand, and so
computes D = rowsum(do ∘ o) once, for itself and for grad_kv_kernel.
"""

import triton
import triton.language as tl

from ._softmax_forward import hide, own, read, span, write


@triton.jit
def grad_q_kernel(q, k, v, o, do, lse, delta, dq, H, T, T_k, before, after,
                  scale, scale2, D: tl.constexpr, V: tl.constexpr,
                  BD: tl.constexpr, BV: tl.constexpr, ROWS: tl.constexpr,
                  COLS: tl.constexpr, DOT: tl.constexpr,
                  PRECISION: tl.constexpr):
    """A tile of queries: dq, and D for the other kernel (B·H, T)."""
    tiles = tl.cdiv(T, ROWS)
    head = tl.program_id(0) // tiles
    i0 = (tiles - 1 - tl.program_id(0) % tiles) * ROWS
    i = i0 + tl.arange(0, ROWS)
    k, v = own(k, head, T_k, H, D), own(v, head, T_k, H, V)
    q_i = read(own(q, head, T, H, D), i0, T, H, D, ROWS, BD).to(DOT)
    do_i = read(own(do, head, T, H, V), i0, T, H, V, ROWS, BV)
    o_i = read(own(o, head, T, H, V), i0, T, H, V, ROWS, BV)
    # -- D = rowsum(do ∘ o) --
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
    """A tile of queries: dq, and D for the other kernel (B·H, T)."""
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
