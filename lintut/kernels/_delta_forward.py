"""The forward kernels of the delta rules; symbols as in `gated_delta`.

    wy       T, W and Ũ of every chunk                   no state: in parallel
    scan     U and the states S, from chunk to chunk     the one sequence
    output   O of every chunk                            in parallel

A program takes one chunk (`scan`: one sequence) of one head and holds a
column block of V, or all of it.  Row i of a (C, ·) tile is token start + i;
at and past `length` tiles are zero, gates one.  H is the number of heads, so
that tokens lie H·d apart.  Instead of T = (I + A)⁻¹ diag(β), the inverse L
is kept: W = L (β b K) and Ũ = L (β V) are the same, and the gradients need L.

Products take q's dtype and add in float32; A, its inverse, the decays and
the running state are float32.  PRECISION is how float32 tiles are multiplied:
"tf32x3" (tensor cores, three products for one, close to float32) or "ieee".
"""

import triton
import triton.language as tl


@triton.jit
def load(base, stride, rows, height, columns, width):
    """The tile base[rows, columns]; zeros outside of (height, width)."""
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    return tl.load(base + rows[:, None] * stride + columns[None, :],
                   mask=inside, other=0.)


@triton.jit
def store(base, stride, rows, height, columns, width, x):
    """base[rows, columns] = x, inside of (height, width)."""
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    tl.store(base + rows[:, None] * stride + columns[None, :],
             x.to(base.dtype.element_ty), mask=inside)


@triton.jit
def bounds(spans, chunk, head, H):
    """(row, length): the chunk's first row of (tokens · H), its tokens."""
    start = tl.load(spans + 2 * chunk)
    row = tl.cast(start, tl.int64) * H + head
    return row, tl.load(spans + 2 * chunk + 1) - start


@triton.jit
def ends(log_alpha, row, H, length, C: tl.constexpr, GATED: tl.constexpr):
    """(b, e, b_C): decays from the state and to the end, (C,), (C,), ()."""
    i = tl.arange(0, C)
    if GATED:
        log_alpha += row
        own = tl.load(log_alpha + i * H, mask=i < length, other=0.)
        after = (i + 1 < length) & (i + 1 < C)
        next = tl.load(log_alpha + (i + 1) * H, mask=after, other=0.)
        return (tl.exp(tl.cumsum(own, 0)),
                tl.exp(tl.cumsum(next, 0, reverse=True)),
                tl.exp(tl.sum(own, 0)))
    else:
        one = tl.full((C,), 1., tl.float32)
        return one, one, 1.


@triton.jit
def segments(log_alpha, row, H, length, C: tl.constexpr,
             GATED: tl.constexpr):
    """D (C, C): each segment's logs are summed alone, never subtracted."""
    i = tl.arange(0, C)
    triangle = i[:, None] >= i[None, :]
    if GATED:
        own = tl.load(log_alpha + row + i * H, mask=i < length, other=0.)
        later = tl.where(i[:, None] > i[None, :], own[:, None], 0.)
        return tl.where(triangle, tl.exp(tl.cumsum(later, 0)), 0.)
    else:
        return tl.where(triangle, 1., 0.)


@triton.jit
def wy(k, v, log_alpha, beta, spans, L, W, U, H, d: tl.constexpr,
       d_v: tl.constexpr, C: tl.constexpr, BK: tl.constexpr,
       BV: tl.constexpr, GATED: tl.constexpr, PRECISION: tl.constexpr):
    head = tl.program_id(1)
    row, length = bounds(spans, tl.program_id(0), head, H)
    i, low = tl.arange(0, C), k.dtype.element_ty
    D = segments(log_alpha, row, H, length, C, GATED)
    b, _, _ = ends(log_alpha, row, H, length, C, GATED)
    write = tl.load(beta + row + i * H, mask=i < length, other=0.)

    # -- A = tril(β D ∘ K Kᵀ, -1) --
    A = tl.zeros((C, C), tl.float32)
    for c in range(0, d, BK):
        x = load(k + row * d, H * d, i, length, c + tl.arange(0, BK), d)
        A = tl.dot(x, tl.trans(x), A, input_precision=PRECISION)
    A = tl.where(i[:, None] > i[None, :], write[:, None] * D * A, 0.)

    # -- L = (I + A)^-1: blocks of 1, 2, 4, … rows on the diagonal are
    #    inverted; two of them and A between them make one twice as big --
    X = tl.where(i[:, None] == i[None, :], 1., tl.zeros((C, C), tl.float32))
    size = 1
    while size < C:
        a, z = i[:, None] // size, i[None, :] // size
        between = tl.where((a // 2 == z // 2) & (a != z), A, 0.)
        X -= tl.dot(X, tl.dot(between, X, input_precision=PRECISION),
                    input_precision=PRECISION)
        size *= 2
    X = X.to(low)
    store(L + row * C, H * C, i, length, i, C, X)

    # -- W = T (b K),  Ũ = T V --
    for c in range(0, d, BK):
        columns = c + tl.arange(0, BK)
        x = load(k + row * d, H * d, i, length, columns, d).to(tl.float32)
        x = tl.dot(X, (x * (write * b)[:, None]).to(low),
                   input_precision=PRECISION)
        store(W + row * d, H * d, i, length, columns, d, x)
    for c in range(0, d_v, BV):
        columns = c + tl.arange(0, BV)
        x = load(v + row * d_v, H * d_v, i, length, columns, d_v)
        x = tl.dot(X, (x.to(tl.float32) * write[:, None]).to(low),
                   input_precision=PRECISION)
        store(U + row * d_v, H * d_v, i, length, columns, d_v, x)


@triton.jit
def scan(k, log_alpha, spans, first, W, U, initial, S, final, H,
         d: tl.constexpr, d_v: tl.constexpr, C: tl.constexpr,
         BD: tl.constexpr, BV: tl.constexpr, GATED: tl.constexpr,
         PRECISION: tl.constexpr):
    sequence, head = tl.program_id(1), tl.program_id(2)
    columns = tl.program_id(0) * BV + tl.arange(0, BV)
    i, across = tl.arange(0, C), tl.arange(0, BD)
    own = tl.cast(sequence * H + head, tl.int64) * d * d_v
    state = load(initial + own, d_v, across, d, columns, d_v)
    for chunk in range(tl.load(first + sequence),
                       tl.load(first + sequence + 1)):
        row, length = bounds(spans, chunk, head, H)
        _, e, whole = ends(log_alpha, row, H, length, C, GATED)
        into = state.to(k.dtype.element_ty)
        at = tl.cast(chunk * H + head, tl.int64) * d * d_v
        store(S + at, d_v, across, d, columns, d_v, into)

        # -- U = Ũ - W S --
        w = load(W + row * d, H * d, i, length, across, d)
        u = load(U + row * d_v, H * d_v, i, length, columns, d_v)
        u = (u - tl.dot(w, into, input_precision=PRECISION)).to(into.dtype)
        store(U + row * d_v, H * d_v, i, length, columns, d_v, u)

        # -- S' = b_C S + (e K)ᵀ U --
        x = load(k + row * d, H * d, i, length, across, d)
        x = (x.to(tl.float32) * e[:, None]).to(into.dtype)
        state = tl.dot(tl.trans(x), u, whole * state,
                       input_precision=PRECISION)
    store(final + own, d_v, across, d, columns, d_v, state)


@triton.jit
def output(q, k, log_alpha, spans, U, S, o, H, d: tl.constexpr,
           d_v: tl.constexpr, C: tl.constexpr, BK: tl.constexpr,
           BV: tl.constexpr, GATED: tl.constexpr, PRECISION: tl.constexpr):
    chunk, head = tl.program_id(0), tl.program_id(2)
    row, length = bounds(spans, chunk, head, H)
    columns = tl.program_id(1) * BV + tl.arange(0, BV)
    i, at = tl.arange(0, C), tl.cast(chunk * H + head, tl.int64) * d * d_v
    D = segments(log_alpha, row, H, length, C, GATED)
    b, _, _ = ends(log_alpha, row, H, length, C, GATED)

    # -- O = b Q S + (D ∘ Q Kᵀ) U --
    P, O = tl.zeros((C, C), tl.float32), tl.zeros((C, BV), tl.float32)
    for c in range(0, d, BK):
        across = c + tl.arange(0, BK)
        x = load(q + row * d, H * d, i, length, across, d)
        y = load(k + row * d, H * d, i, length, across, d)
        s = load(S + at, d_v, across, d, columns, d_v)
        P = tl.dot(x, tl.trans(y), P, input_precision=PRECISION)
        O = tl.dot(x, s, O, input_precision=PRECISION)
    u = load(U + row * d_v, H * d_v, i, length, columns, d_v)
    O = tl.dot((P * D).to(u.dtype), u, b[:, None] * O,
               input_precision=PRECISION)
    store(o + row * d_v, H * d_v, i, length, columns, d_v, O)
