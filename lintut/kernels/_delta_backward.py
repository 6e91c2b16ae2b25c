"""The backward kernels of the delta rules; symbols as in `gated_delta`.

    local      dU through the chunk's own outputs       in parallel
    reverse    all of dU, and dS, from the last chunk   the one sequence
    pairs      dP, dN (C, C) and dV                     in parallel
    gradient   dQ and dK                                in parallel

The last two each give their part of dβ and d log α.  dX is the loss's
gradient in X.  `wy` and `scan` run again first, so that L, W, U and the
states need not be kept from the forward pass.  With dS' for the
state that leaves the chunk, O = b Q S + (D ∘ Q Kᵀ) U and S' = b_C S + (e K)ᵀ U
give

    dU = (D ∘ Q Kᵀ)ᵀ dO + e K dS'                              (C, D_v)
    dS = b_C dS' + (b Q)ᵀ dO − Wᵀ dU                           (D, D_v)
    dP = D ∘ (dO Uᵀ)                       of Q Kᵀ             (C, C)

and U = L Y with Y = β (V − b K S), A = tril(β D ∘ K Kᵀ, −1),

    dY = Lᵀ dU                                                 (C, D_v)
    dA = −tril(dY Uᵀ, −1),  dN = β D ∘ dA  of K Kᵀ             (C, C)
    dV = β dY
    dβ = Σ_v dY ∘ (V − b K S) + Σ_j dA ∘ D ∘ K Kᵀ              (C,)
    dQ = b dO Sᵀ + dP K                                        (C, D)
    dK = dPᵀ Q + (dN + dNᵀ) K + e U dS'ᵀ − β b dY Sᵀ           (C, D)

log α_m counts in each product that α_m is a factor of: D_ij for i ≥ m > j, b_i
for i ≥ m, e_j for j < m, and b_C.  With M = dP ∘ Q Kᵀ + dN ∘ K Kᵀ, and ⟨,⟩ the
sum over a row,

    d log α_m = Σ_{i ≥ m > j} M_ij + Σ_{j < m} ⟨e_j k_j, (U dS'ᵀ)_j⟩
              + Σ_{i ≥ m} b_i (⟨q_i, (dO Sᵀ)_i⟩ − β_i ⟨k_i, (dY Sᵀ)_i⟩)
              + b_C Σ S ∘ dS'

Every term holds α_m, and none is had by subtracting: dα_m = d log α_m / α_m
keeps its digits when α_m is small.
"""

import triton
import triton.language as tl

from ._delta_tiles import ends, load, products, segments, span, store


@triton.jit
def local(q, k, log_alpha, spans, dO, dU, H, d: tl.constexpr,
          d_v: tl.constexpr, C: tl.constexpr, BK: tl.constexpr,
          BV: tl.constexpr, GATED: tl.constexpr, DOT: tl.constexpr,
          PRECISION: tl.constexpr):
    row, length = span(spans, tl.program_id(0), tl.program_id(2), H)
    columns = tl.program_id(1) * BV + tl.arange(0, BV)
    i = tl.arange(0, C)
    # -- dU = (D ∘ Q Kᵀ)ᵀ dO --
    P = products(q, k, row, H, length, d, C, BK, DOT, PRECISION)
    P = tl.trans(P * segments(log_alpha, row, H, length, C, GATED))
    do = load(dO + row * d_v, H * d_v, i, length, columns, d_v, DOT)
    do = tl.dot(P.to(DOT), do, input_precision=PRECISION)
    store(dU + row * d_v, H * d_v, i, length, columns, d_v, do)


@triton.jit
def reverse(q, k, log_alpha, spans, first, W, dO, dfinal, dU, dS, dinitial,
            H, d: tl.constexpr, d_v: tl.constexpr, C: tl.constexpr,
            BK: tl.constexpr, BV: tl.constexpr, GATED: tl.constexpr,
            DOT: tl.constexpr, PRECISION: tl.constexpr):
    columns = tl.program_id(0) * BV + tl.arange(0, BV)
    sequence, head = tl.program_id(1), tl.program_id(2)
    i, across = tl.arange(0, C), tl.arange(0, BK)
    own = tl.cast(sequence * H + head, tl.int64) * d * d_v
    ds = load(dfinal + own, d_v, across, d, columns, d_v, tl.float32)
    begin = tl.load(first + sequence)
    end = tl.load(first + sequence + 1)
    for n in range(end - begin):
        chunk = end - 1 - n
        row, length = span(spans, chunk, head, H)
        b, e, whole = ends(log_alpha, row, H, length, C, GATED)
        at = tl.cast(chunk * H + head, tl.int64) * d * d_v
        store(dS + at, d_v, across, d, columns, d_v, ds)

        # -- dU += e K dS' --
        x = load(k + row * d, H * d, i, length, across, d, tl.float32)
        x = (x * e[:, None]).to(DOT)
        du = load(dU + row * d_v, H * d_v, i, length, columns, d_v,
                  tl.float32)
        du = tl.dot(x, ds.to(DOT), du, input_precision=PRECISION)
        store(dU + row * d_v, H * d_v, i, length, columns, d_v, du)

        # -- dS = b_C dS' + (b Q)ᵀ dO - Wᵀ dU --
        x = load(q + row * d, H * d, i, length, across, d, tl.float32)
        x = tl.trans((x * b[:, None]).to(DOT))
        do = load(dO + row * d_v, H * d_v, i, length, columns, d_v, DOT)
        w = load(W + row * d, H * d, i, length, across, d, DOT)
        ds = tl.dot(x, do, whole * ds, input_precision=PRECISION)
        ds -= tl.dot(tl.trans(w), du.to(DOT), input_precision=PRECISION)
    store(dinitial + own, d_v, across, d, columns, d_v, ds)


@triton.jit
def pairs(q, k, v, log_alpha, beta, spans, L, U, dO, dU, dP, dN, dV,
          dlog_alpha, dbeta, H, d: tl.constexpr, d_v: tl.constexpr,
          C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
          GATED: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr):
    row, length = span(spans, tl.program_id(0), tl.program_id(1), H)
    i = tl.arange(0, C)
    later = i[:, None] > i[None, :]
    write = tl.load(beta + row + i * H, mask=i < length, other=0.)
    LT = tl.trans(load(L + row * C, H * C, i, length, i, C, DOT))

    # -- dY = Lᵀ dU,  dV = β dY,  dP = D ∘ dO Uᵀ,  dA = -tril(dY Uᵀ, -1) --
    gP, gA = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    gwrite = tl.zeros((C,), tl.float32)
    for c in range(0, d_v, BV):
        columns = c + tl.arange(0, BV)
        x = load(v + row * d_v, H * d_v, i, length, columns, d_v, DOT)
        u = load(U + row * d_v, H * d_v, i, length, columns, d_v, DOT)
        do = load(dO + row * d_v, H * d_v, i, length, columns, d_v, DOT)
        du = load(dU + row * d_v, H * d_v, i, length, columns, d_v, DOT)
        dy = tl.dot(LT, du, input_precision=PRECISION)
        gP = tl.dot(do, tl.trans(u), gP, input_precision=PRECISION)
        gA = tl.dot(dy.to(DOT), tl.trans(u), gA, input_precision=PRECISION)
        gwrite += tl.sum(dy * x, 1)
        dy *= write[:, None]
        store(dV + row * d_v, H * d_v, i, length, columns, d_v, dy)
    D = segments(log_alpha, row, H, length, C, GATED)
    gP *= D
    gA = tl.where(later, -gA * D, 0.)

    # -- dN = β D ∘ dA, and its transpose --
    gN = gA * write[:, None]
    store(dP + row * C, H * C, i, length, i, C, gP)
    store(dN + row * C, H * C, i, length, i, C, gN + tl.trans(gN))

    # -- dβ: Σ dY ∘ V + Σ dA ∘ D ∘ K Kᵀ --
    gA *= products(k, k, row, H, length, d, C, BK, DOT, PRECISION)
    gwrite += tl.sum(gA, 1)
    tl.store(dbeta + row + i * H, gwrite, mask=i < length)

    # -- d log α_m: Σ_{i ≥ m > j} M_ij --
    if GATED:
        M = gP * products(q, k, row, H, length, d, C, BK, DOT, PRECISION)
        M = tl.cumsum(M + write[:, None] * gA, 0, reverse=True)
        g = tl.sum(tl.where(later, M, 0.), 1)
        tl.store(dlog_alpha + row + i * H, g, mask=i < length)


@triton.jit
def gradient(q, k, log_alpha, beta, spans, L, U, S, dO, dU, dS, dP, dN, dQ,
             dK, dlog_alpha, dbeta, rows, H, d: tl.constexpr,
             d_v: tl.constexpr, C: tl.constexpr, BK: tl.constexpr,
             BV: tl.constexpr, GATED: tl.constexpr, DOT: tl.constexpr,
             PRECISION: tl.constexpr):
    chunk, block = tl.program_id(0), tl.program_id(1)
    head = tl.program_id(2)
    row, length = span(spans, chunk, head, H)
    i, across = tl.arange(0, C), block * BK + tl.arange(0, BK)
    at = tl.cast(chunk * H + head, tl.int64) * d * d_v

    # -- dO Sᵀ,  U dS'ᵀ,  dU Sᵀ --
    gq = tl.zeros((C, BK), tl.float32)
    gk, gy, kept = tl.zeros_like(gq), tl.zeros_like(gq), 0.
    for c in range(0, d_v, BV):
        columns = c + tl.arange(0, BV)
        s = load(S + at, d_v, across, d, columns, d_v, DOT)
        ds = load(dS + at, d_v, across, d, columns, d_v, DOT)
        u = load(U + row * d_v, H * d_v, i, length, columns, d_v, DOT)
        do = load(dO + row * d_v, H * d_v, i, length, columns, d_v, DOT)
        du = load(dU + row * d_v, H * d_v, i, length, columns, d_v, DOT)
        gq = tl.dot(do, tl.trans(s), gq, input_precision=PRECISION)
        gk = tl.dot(u, tl.trans(ds), gk, input_precision=PRECISION)
        gy = tl.dot(du, tl.trans(s), gy, input_precision=PRECISION)
        kept += tl.sum(s.to(tl.float32) * ds.to(tl.float32))

    # -- dY Sᵀ = Lᵀ (dU Sᵀ), and the decays --
    b, e, whole = ends(log_alpha, row, H, length, C, GATED)
    LT = tl.trans(load(L + row * C, H * C, i, length, i, C, DOT))
    gy = tl.dot(LT, gy.to(DOT), input_precision=PRECISION) * b[:, None]
    gq *= b[:, None]
    gk *= e[:, None]

    # -- dβ and d log α_m: through b_i (i ≥ m), e_j (j < m), b_C --
    x = load(q + row * d, H * d, i, length, across, d, DOT)
    y = load(k + row * d, H * d, i, length, across, d, DOT)
    write = tl.load(beta + row + i * H, mask=i < length, other=0.)
    read = tl.sum(y * gy, 1)
    part = tl.cast(block, tl.int64) * rows + row
    tl.store(dbeta + part + i * H, -read, mask=i < length)
    if GATED:
        g = tl.cumsum(tl.sum(x * gq, 1) - write * read, 0, reverse=True)
        g += whole * kept + tl.sum(tl.where(
            i[:, None] > i[None, :], tl.sum(y * gk, 1)[None, :], 0.), 1)
        tl.store(dlog_alpha + part + i * H, g, mask=i < length)

    # -- dQ = b dO Sᵀ + dP K --
    gP = load(dP + row * C, H * C, i, length, i, C, DOT)
    gq = tl.dot(gP, y, gq, input_precision=PRECISION)
    store(dQ + row * d, H * d, i, length, across, d, gq)
    # -- dK = dPᵀ Q + (dN + dNᵀ) K + e U dS'ᵀ - β b dY Sᵀ --
    gN = load(dN + row * C, H * C, i, length, i, C, DOT)
    gk = tl.dot(gN, y, gk - write[:, None] * gy, input_precision=PRECISION)
    gk = tl.dot(tl.trans(gP), x, gk, input_precision=PRECISION)
    store(dK + row * d, H * d, i, length, across, d, gk)
