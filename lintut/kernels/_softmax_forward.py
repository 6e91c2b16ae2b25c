"""FlashAttention's forward kernel, and what all three kernels share.

Symbols as in `lintut.kernels.softmax`.  A program owns one tile of one head
and passes over the others' tiles in steps; a tile holds the whole width, D
or V, padded to BD or BV.  Scores are in base 2: exp2 is what a GPU computes.

Tiles that no query reaches are not visited.  Of the rest most are seen
whole; those cut by an edge (the diagonal, a window's end, the last token)
take a second loop, which alone pays for comparing positions.
"""

import triton
import triton.language as tl


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
    """A tile of queries: o (B, T, H, V) and lse (B·H, T)."""
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
