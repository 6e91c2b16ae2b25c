"""What the kernels of the delta rules load; symbols as in `gated_delta`.

Token t of head h is row t·H + h of (tokens · H, width).  A chunk's tile has C
rows, from `row` on, H apart; from `length` on, where the chunk ends, they are
zero: a token that neither writes nor forgets.
"""

import triton
import triton.language as tl


@triton.jit
def load(base, stride, rows, height, columns, width, TYPE: tl.constexpr):
    """The tile base[rows, columns]; zeros outside of (height, width)."""
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    return tl.load(base + rows[:, None] * stride + columns[None, :],
                   mask=inside, other=0.).to(TYPE)


@triton.jit
def store(base, stride, rows, height, columns, width, x):
    """base[rows, columns] = x, inside of (height, width)."""
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    tl.store(base + rows[:, None] * stride + columns[None, :],
             x.to(base.dtype.element_ty), mask=inside)


@triton.jit
def span(spans, chunk, head, H):
    """(row, length) of a chunk: where its first token lies, its tokens."""
    start = tl.load(spans + 2 * chunk)
    row = tl.cast(start, tl.int64) * H + head
    return row, tl.load(spans + 2 * chunk + 1) - start


@triton.jit
def ends(log_alpha, row, H, length, C: tl.constexpr, GATED: tl.constexpr):
    """b (C,) and e (C,), the decays from S and to the end; b_C."""
    i = tl.arange(0, C)
    if GATED:
        own = tl.load(log_alpha + row + i * H, mask=i < length, other=0.)
        after = (i + 1 < length) & (i + 1 < C)
        following = tl.load(log_alpha + row + (i + 1) * H, mask=after,
                            other=0.)
        b = tl.exp(tl.cumsum(own, 0))
        e = tl.exp(tl.cumsum(following, 0, reverse=True))
        whole = tl.exp(tl.sum(own, 0))
    else:
        b = tl.full((C,), 1., tl.float32)
        e = b
        whole = 1.
    return b, e, whole


@triton.jit
def segments(log_alpha, row, H, length, C: tl.constexpr,
             GATED: tl.constexpr):
    """D (C, C): each segment's logs are summed alone, never subtracted."""
    i = tl.arange(0, C)
    D = tl.where(i[:, None] >= i[None, :], 1., tl.zeros((C, C), tl.float32))
    if GATED:
        own = tl.load(log_alpha + row + i * H, mask=i < length, other=0.)
        later = tl.where(i[:, None] > i[None, :], own[:, None], 0.)
        D *= tl.exp(tl.cumsum(later, 0))
    return D


@triton.jit
def products(x, y, row, H, length, d: tl.constexpr, C: tl.constexpr,
             BK: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """X Yᵀ (C, C) of a chunk's tiles X and Y (C, d)."""
    i, P = tl.arange(0, C), tl.zeros((C, C), tl.float32)
    for c in range(0, d, BK):
        across = c + tl.arange(0, BK)
        a = load(x + row * d, H * d, i, length, across, d, DOT)
        b = load(y + row * d, H * d, i, length, across, d, DOT)
        P = tl.dot(a, tl.trans(b), P, input_precision=PRECISION)
    return P
