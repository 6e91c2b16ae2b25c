"""The forward kernels of the delta rules; symbols as in `gated_delta`.

    wy       T, W and Ũ of every chunk                   no state: in parallel
    scan     U and the states S, from chunk to chunk     the one sequence
    output   O of every chunk                            in parallel

A program takes one chunk (`scan`: one sequence) of one head, and of V one
block of columns (`wy`: all).  `_delta_tiles` says how tiles lie.

Instead of T = (I + A)⁻¹ diag(β) the inverse, L, is kept: W = L (β b K) and
Ũ = L (β V) come to the same, and the gradients need L.

Products take tiles of type DOT (what q is) and add in float32.  The decays,
A, its inverse and the running state are float32; PRECISION is how float32
tiles are multiplied ("tf32x3": as three products on tensor cores).
"""

import triton
import triton.language as tl

from ._delta_tiles import ends, load, products, segments, span, store


@triton.jit
def doubled(A, C: tl.constexpr, PRECISION: tl.constexpr):
    """(I + A)⁻¹: blocks of 2, 4, 8, … rows on the diagonal are inverted.

    [[X, 0], [Y, Z]] for a block of I + A has the inverse
    [[X⁻¹, 0], [−Z⁻¹ Y X⁻¹, Z⁻¹]].
    """
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    X = tl.where(i == j, 1., tl.where(i // 2 == j // 2, -A, 0.))
    size = 2
    while size < C:
        pair = (i // (2 * size) == j // (2 * size)) & (i // size != j // size)
        Y = tl.dot(tl.where(pair, A, 0.), X, input_precision=PRECISION)
        X -= tl.dot(X, Y, input_precision=PRECISION)
        size *= 2
    return X


@triton.jit
def inverse(A, C: tl.constexpr, PRECISION: tl.constexpr):
    """(I + A)⁻¹, A (C, C) strictly lower triangular.

    Above 32 rows A is taken apart first: its halves are inverted alone, with
    an eighth of the work and of the registers that products of all of A take.
    """
    if C > 32:
        half: tl.constexpr = C // 2
        A = tl.permute(tl.reshape(A, (2, half, 2, half)), (1, 3, 0, 2))
        left, right = tl.split(A)
        upper, between = tl.split(left)
        _, lower = tl.split(right)
        X = doubled(upper, half, PRECISION)
        Z = doubled(lower, half, PRECISION)
        Y = tl.dot(between, X, input_precision=PRECISION)
        Y = -tl.dot(Z, Y, input_precision=PRECISION)
        X = tl.join(tl.join(X, Y), tl.join(tl.zeros_like(Z), Z))
        X = tl.reshape(tl.permute(X, (2, 0, 3, 1)), (C, C))
    else:
        X = doubled(A, C, PRECISION)
    return X


@triton.jit
def wy(k, v, log_alpha, beta, spans, L, W, U, H, d: tl.constexpr,
       d_v: tl.constexpr, C: tl.constexpr, BK: tl.constexpr,
       BV: tl.constexpr, GATED: tl.constexpr, DOT: tl.constexpr,
       PRECISION: tl.constexpr):
    row, length = span(spans, tl.program_id(0), tl.program_id(1), H)
    i = tl.arange(0, C)
    b, _, _ = ends(log_alpha, row, H, length, C, GATED)
    write = tl.load(beta + row + i * H, mask=i < length, other=0.)

    # -- A = tril(β D ∘ K Kᵀ, -1),  L = (I + A)^-1 --
    A = products(k, k, row, H, length, d, C, BK, DOT, PRECISION)
    A *= segments(log_alpha, row, H, length, C, GATED) * write[:, None]
    A = tl.where(i[:, None] > i[None, :], A, 0.)
    X = inverse(A, C, PRECISION).to(DOT)
    store(L + row * C, H * C, i, length, i, C, X)

    # -- W = T (b K) --
    for c in range(0, d, BK):
        across = c + tl.arange(0, BK)
        x = load(k + row * d, H * d, i, length, across, d, tl.float32)
        x = (x * (write * b)[:, None]).to(DOT)
        x = tl.dot(X, x, input_precision=PRECISION)
        store(W + row * d, H * d, i, length, across, d, x)
    # -- Ũ = T V --
    for c in range(0, d_v, BV):
        columns = c + tl.arange(0, BV)
        x = load(v + row * d_v, H * d_v, i, length, columns, d_v, tl.float32)
        x = (x * write[:, None]).to(DOT)
        x = tl.dot(X, x, input_precision=PRECISION)
        store(U + row * d_v, H * d_v, i, length, columns, d_v, x)


@triton.jit
def scan(k, log_alpha, spans, first, W, U, initial, S, final, H,
         d: tl.constexpr, d_v: tl.constexpr, C: tl.constexpr,
         BK: tl.constexpr, BV: tl.constexpr, GATED: tl.constexpr,
         DOT: tl.constexpr, PRECISION: tl.constexpr):
    columns = tl.program_id(0) * BV + tl.arange(0, BV)
    sequence, head = tl.program_id(1), tl.program_id(2)
    i, across = tl.arange(0, C), tl.arange(0, BK)
    own = tl.cast(sequence * H + head, tl.int64) * d * d_v
    state = load(initial + own, d_v, across, d, columns, d_v, tl.float32)
    for chunk in range(tl.load(first + sequence),
                       tl.load(first + sequence + 1)):
        row, length = span(spans, chunk, head, H)
        _, e, whole = ends(log_alpha, row, H, length, C, GATED)
        at = tl.cast(chunk * H + head, tl.int64) * d * d_v
        store(S + at, d_v, across, d, columns, d_v, state)

        # -- U = Ũ - W S --
        w = load(W + row * d, H * d, i, length, across, d, DOT)
        u = load(U + row * d_v, H * d_v, i, length, columns, d_v, tl.float32)
        u -= tl.dot(w, state.to(DOT), input_precision=PRECISION)
        store(U + row * d_v, H * d_v, i, length, columns, d_v, u)

        # -- S' = b_C S + (e K)ᵀ U --
        x = load(k + row * d, H * d, i, length, across, d, tl.float32)
        x = tl.trans((x * e[:, None]).to(DOT))
        state = tl.dot(x, u.to(DOT), whole * state,
                       input_precision=PRECISION)
    store(final + own, d_v, across, d, columns, d_v, state)


@triton.jit
def output(q, k, log_alpha, spans, U, S, o, H, d: tl.constexpr,
           d_v: tl.constexpr, C: tl.constexpr, BK: tl.constexpr,
           BV: tl.constexpr, GATED: tl.constexpr, DOT: tl.constexpr,
           PRECISION: tl.constexpr):
    chunk, head = tl.program_id(0), tl.program_id(2)
    row, length = span(spans, chunk, head, H)
    columns = tl.program_id(1) * BV + tl.arange(0, BV)
    i, at = tl.arange(0, C), tl.cast(chunk * H + head, tl.int64) * d * d_v
    b, _, _ = ends(log_alpha, row, H, length, C, GATED)

    # -- O = b Q S + (D ∘ Q Kᵀ) U --
    O = tl.zeros((C, BV), tl.float32)
    for c in range(0, d, BK):
        across = c + tl.arange(0, BK)
        x = load(q + row * d, H * d, i, length, across, d, DOT)
        s = load(S + at, d_v, across, d, columns, d_v, DOT)
        O = tl.dot(x, s, O, input_precision=PRECISION)
    P = products(q, k, row, H, length, d, C, BK, DOT, PRECISION)
    P *= segments(log_alpha, row, H, length, C, GATED)
    u = load(U + row * d_v, H * d_v, i, length, columns, d_v, DOT)
    O = tl.dot(P.to(DOT), u, b[:, None] * O, input_precision=PRECISION)
    store(o + row * d_v, H * d_v, i, length, columns, d_v, O)
