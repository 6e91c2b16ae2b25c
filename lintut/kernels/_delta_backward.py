"""The backward kernels of the delta rules; symbols as in `gated_delta`.

    local      dU through the chunk's own outputs      in parallel
    reverse    all of dU, and dS, from the last chunk  the one sequence
    gradient   dQ, dK, dV, dβ, d log α of every chunk  in parallel

dX is the loss's gradient in X.  `wy` and `scan` run again first, so that L,
W, U and the states need not be kept from the forward pass.  With dS' for the
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

from ._delta_forward import bounds, ends, load, segments, store


@triton.jit
def local(q, k, log_alpha, spans, dO, dU, H, d: tl.constexpr,
          d_v: tl.constexpr, C: tl.constexpr, BK: tl.constexpr,
          BV: tl.constexpr, GATED: tl.constexpr, PRECISION: tl.constexpr):
    row, length = bounds(spans, tl.program_id(0), tl.program_id(2), H)
    columns = tl.program_id(1) * BV + tl.arange(0, BV)
    i = tl.arange(0, C)
    D = segments(log_alpha, row, H, length, C, GATED)

    # -- dU = (D ∘ Q Kᵀ)ᵀ dO --
    P = tl.zeros((C, C), tl.float32)
    for c in range(0, d, BK):
        across = c + tl.arange(0, BK)
        x = load(q + row * d, H * d, i, length, across, d)
        y = load(k + row * d, H * d, i, length, across, d)
        P = tl.dot(x, tl.trans(y), P, input_precision=PRECISION)
    do = load(dO + row * d_v, H * d_v, i, length, columns, d_v)
    du = tl.dot(tl.trans((P * D).to(do.dtype)), do,
                input_precision=PRECISION)
    store(dU + row * d_v, H * d_v, i, length, columns, d_v, du)


@triton.jit
def reverse(q, k, log_alpha, spans, first, W, dO, dfinal, dU, dS, dinitial,
            H, d: tl.constexpr, d_v: tl.constexpr, C: tl.constexpr,
            BD: tl.constexpr, BV: tl.constexpr, GATED: tl.constexpr,
            PRECISION: tl.constexpr):
    sequence, head = tl.program_id(1), tl.program_id(2)
    columns = tl.program_id(0) * BV + tl.arange(0, BV)
    i, across = tl.arange(0, C), tl.arange(0, BD)
    own = tl.cast(sequence * H + head, tl.int64) * d * d_v
    ds = load(dfinal + own, d_v, across, d, columns, d_v)
    begin = tl.load(first + sequence)
    stop = tl.load(first + sequence + 1)
    for n in range(stop - begin):
        chunk = stop - 1 - n
        row, length = bounds(spans, chunk, head, H)
        b, e, whole = ends(log_alpha, row, H, length, C, GATED)
        out = ds.to(k.dtype.element_ty)
        at = tl.cast(chunk * H + head, tl.int64) * d * d_v
        store(dS + at, d_v, across, d, columns, d_v, out)

        # -- dU += e K dS' --
        x = load(k + row * d, H * d, i, length, across, d)
        x = (x.to(tl.float32) * e[:, None]).to(out.dtype)
        du = load(dU + row * d_v, H * d_v, i, length, columns, d_v)
        du = (du + tl.dot(x, out, input_precision=PRECISION)).to(out.dtype)
        store(dU + row * d_v, H * d_v, i, length, columns, d_v, du)

        # -- dS = b_C dS' + (b Q)ᵀ dO - Wᵀ dU --
        x = load(q + row * d, H * d, i, length, across, d)
        x = (x.to(tl.float32) * b[:, None]).to(out.dtype)
        do = load(dO + row * d_v, H * d_v, i, length, columns, d_v)
        w = load(W + row * d, H * d, i, length, across, d)
        ds = tl.dot(tl.trans(x), do, whole * ds, input_precision=PRECISION)
        ds -= tl.dot(tl.trans(w), du, input_precision=PRECISION)
    store(dinitial + own, d_v, across, d, columns, d_v, ds)


@triton.jit
def gradient(q, k, v, log_alpha, beta, spans, L, U, S, dO, dU, dS, dQ, dK,
             dV, dlog_alpha, dbeta, H, d: tl.constexpr, d_v: tl.constexpr,
             C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
             GATED: tl.constexpr, PRECISION: tl.constexpr):
    chunk, head = tl.program_id(0), tl.program_id(1)
    row, length = bounds(spans, chunk, head, H)
    i, at = tl.arange(0, C), tl.cast(chunk * H + head, tl.int64) * d * d_v
    D = segments(log_alpha, row, H, length, C, GATED)
    b, e, whole = ends(log_alpha, row, H, length, C, GATED)
    write = tl.load(beta + row + i * H, mask=i < length, other=0.)
    LT = tl.trans(load(L + row * C, H * C, i, length, i, C))

    # -- Q Kᵀ,  K Kᵀ --
    P, N = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    for c in range(0, d, BK):
        across = c + tl.arange(0, BK)
        x = load(q + row * d, H * d, i, length, across, d)
        y = load(k + row * d, H * d, i, length, across, d)
        P = tl.dot(x, tl.trans(y), P, input_precision=PRECISION)
        N = tl.dot(y, tl.trans(y), N, input_precision=PRECISION)

    # -- dY = Lᵀ dU,  dV = β dY,  dP = D ∘ dO Uᵀ,  dA = -tril(dY Uᵀ, -1) --
    dP, dA = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    dwrite = tl.zeros((C,), tl.float32)
    for c in range(0, d_v, BV):
        columns = c + tl.arange(0, BV)
        x = load(v + row * d_v, H * d_v, i, length, columns, d_v)
        u = load(U + row * d_v, H * d_v, i, length, columns, d_v)
        do = load(dO + row * d_v, H * d_v, i, length, columns, d_v)
        du = load(dU + row * d_v, H * d_v, i, length, columns, d_v)
        dy = tl.dot(LT, du, input_precision=PRECISION)
        dP = tl.dot(do, tl.trans(u), dP, input_precision=PRECISION)
        dA = tl.dot(dy.to(u.dtype), tl.trans(u), dA,
                    input_precision=PRECISION)
        dwrite += tl.sum(dy * x, 1)
        dy *= write[:, None]
        store(dV + row * d_v, H * d_v, i, length, columns, d_v, dy)
    dP *= D
    dA = tl.where(i[:, None] > i[None, :], -dA * D, 0.)
    dwrite += tl.sum(dA * N, 1)
    dN = dA * write[:, None]
    M = dP * P + dN * N
    dP = dP.to(LT.dtype)
    dN = (dN + tl.trans(dN)).to(LT.dtype)

    # -- dQ = b dO Sᵀ + dP K,  dK = dPᵀ Q + (dN + dNᵀ) K
    #    + e U dS'ᵀ - β b dY Sᵀ --
    from_b, from_e = tl.zeros((C,), tl.float32), tl.zeros((C,), tl.float32)
    from_whole = 0.
    for c in range(0, d, BK):
        across = c + tl.arange(0, BK)
        gq = tl.zeros((C, BK), tl.float32)
        gk, gy = tl.zeros_like(gq), tl.zeros_like(gq)
        for f in range(0, d_v, BV):
            columns = f + tl.arange(0, BV)
            s = load(S + at, d_v, across, d, columns, d_v)
            ds = load(dS + at, d_v, across, d, columns, d_v)
            u = load(U + row * d_v, H * d_v, i, length, columns, d_v)
            do = load(dO + row * d_v, H * d_v, i, length, columns, d_v)
            du = load(dU + row * d_v, H * d_v, i, length, columns, d_v)
            gq = tl.dot(do, tl.trans(s), gq, input_precision=PRECISION)
            gk = tl.dot(u, tl.trans(ds), gk, input_precision=PRECISION)
            gy = tl.dot(du, tl.trans(s), gy, input_precision=PRECISION)
            from_whole += tl.sum(s.to(tl.float32) * ds.to(tl.float32))
        x = load(q + row * d, H * d, i, length, across, d)
        y = load(k + row * d, H * d, i, length, across, d)
        gq *= b[:, None]
        gk *= e[:, None]
        gy = tl.dot(LT, gy.to(LT.dtype), input_precision=PRECISION)
        gy *= b[:, None]
        read = tl.sum(y * gy, 1)
        dwrite -= read
        from_b += tl.sum(x * gq, 1) - write * read
        from_e += tl.sum(y * gk, 1)
        gq = tl.dot(dP, y, gq, input_precision=PRECISION)
        gk = tl.dot(tl.trans(dP), x, gk - write[:, None] * gy,
                    input_precision=PRECISION)
        gk = tl.dot(dN, y, gk, input_precision=PRECISION)
        store(dQ + row * d, H * d, i, length, across, d, gq)
        store(dK + row * d, H * d, i, length, across, d, gk)
    tl.store(dbeta + row + i * H, dwrite, mask=i < length)

    # -- d log α_m: all products that α_m is a factor of --
    if GATED:
        M = tl.cumsum(M, 0, reverse=True) + from_e[None, :]
        dlog = tl.sum(tl.where(i[None, :] < i[:, None], M, 0.), 1)
        dlog += tl.cumsum(from_b, 0, reverse=True) + whole * from_whole
        tl.store(dlog_alpha + row + i * H, dlog, mask=i < length)
