"""The forward kernels of gated linear attention; symbols as in `gla`.

    states     S ← diag(Πα) S + Σ (x ∘ gates to the end)ᵀ y, chunk after chunk
    scores     P_ij = Σ_d q_id k_jd α_{j+1,d} … α_{i,d}, by halving
    outputs    P u + (x ∘ gates from the start) S

Tokens of all sequences lie in one row, H·width apart; `spans` says where each
chunk starts and stops, `first` which chunk is a sequence's first.  Rows at
and past a chunk's end are zero, their gates one.

Products of gates are exp(M log α), with M of zeros and ones: a matrix product
sums the logs of a stretch, and no sum is ever taken from another.
"""

import triton
import triton.language as tl


@triton.jit
def tile(x, at, i, c, W, H, rows, other=0.0):
    """Rows i, columns c of x (N, H, W) from row `at`; `other` outside."""
    return tl.load(x + at * W + i[:, None] * H * W + c[None, :],
                   mask=rows[:, None] & (c < W)[None, :], other=other)


@triton.jit
def stretch(i, UPTO: tl.constexpr):
    """M[t, s]: the gates from a chunk's start up to t, or those after t."""
    M = i[None, :] <= i[:, None] if UPTO else i[None, :] > i[:, None]
    return M.to(tl.float32)


@triton.jit
def halving(i, level):
    """Cuts between blocks of 2^level tokens.  M[t, s]: the gates between t
    and its cut; apart[t, s]: does a cut separate the pair?"""
    t, s = i[:, None], i[None, :]
    late = ((t >> level) & 1) == 1
    inside = (late & (s <= t)) | ((late == 0) & (s > t))
    M = ((t >> level) == (s >> level)) & inside
    return M.to(tl.float32), late & ((s >> level) == (t >> level) - 1)


@triton.jit
def states(x, y, alpha, S, S_in, S_out, spans, first, H, D, V,
           C: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr,
           REVERSE: tl.constexpr, DOT: tl.constexpr,
           PRECISION: tl.constexpr):
    """One sequence's tile of S.  x, alpha (N, H, D), y (N, H, V);
    S (chunks, H, D, V): what each chunk finds."""
    n, h = tl.program_id(0) // H, tl.program_id(0) % H
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    c = tl.program_id(2) * BV + tl.arange(0, BV)
    i = tl.arange(0, C)
    M = stretch(i, REVERSE)
    grid = d[:, None] * V + c[None, :]
    inside = (d < D)[:, None] & (c < V)[None, :]
    own = tl.program_id(0).to(tl.int64)
    S_now = tl.load(S_in + own * D * V + grid, mask=inside, other=0.0)
    begin, end = tl.load(first + n), tl.load(first + n + 1)
    for step in range(begin, end):
        chunk = begin + end - 1 - step if REVERSE else step
        # -- what the chunk finds --
        at = tl.cast(chunk, tl.int64) * H + h
        tl.store(S + at * D * V + grid, S_now, mask=inside)
        # -- what it leaves of that, and what it adds --
        start = tl.load(spans + 2 * chunk)
        rows = i < tl.load(spans + 2 * chunk + 1) - start
        at = tl.cast(start, tl.int64) * H + h
        log = tl.log(tile(alpha, at, i, d, D, H, rows, 1.0).to(tl.float32))
        gates = tl.exp(tl.dot(M, log, input_precision=PRECISION))
        xs = tile(x, at, i, d, D, H, rows).to(tl.float32) * gates
        ys = tile(y, at, i, c, V, H, rows)
        S_now = S_now * tl.exp(tl.sum(log, 0))[:, None] + tl.dot(
            tl.trans(xs).to(DOT), ys.to(DOT), input_precision=PRECISION)
    tl.store(S_out + own * D * V + grid, S_now, mask=inside)


@triton.jit
def scores(q, k, alpha, P, spans, H, D, C: tl.constexpr, BD: tl.constexpr,
           LEVELS: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """One chunk's P (C, C), a row of it beside each token: (N, H, C)."""
    chunk, h = tl.program_id(0) // H, tl.program_id(0) % H
    start = tl.load(spans + 2 * chunk)
    i = tl.arange(0, C)
    rows = i < tl.load(spans + 2 * chunk + 1) - start
    at = tl.cast(start, tl.int64) * H + h
    acc = tl.zeros([C, C], tl.float32)
    for first in range(0, D, BD):
        d = first + tl.arange(0, BD)
        qs = tile(q, at, i, d, D, H, rows).to(tl.float32)
        ks = tile(k, at, i, d, D, H, rows).to(tl.float32)
        log = tl.log(tile(alpha, at, i, d, D, H, rows, 1.0).to(tl.float32))
        # -- i = j --
        acc += tl.where(i[:, None] == i[None, :],
                        tl.sum(qs * ks, 1)[:, None], 0.0)
        # -- i > j, by the cut between them --
        for level in range(LEVELS):
            M, apart = halving(i, level)
            gates = tl.exp(tl.dot(M, log, input_precision=PRECISION))
            pairs = tl.dot((qs * gates).to(DOT),
                           tl.trans(ks * gates).to(DOT),
                           input_precision=PRECISION)
            acc += tl.where(apart, pairs, 0.0)
    tl.store(P + at * C + i[:, None] * H * C + i[None, :], acc,
             mask=rows[:, None])


@triton.jit
def outputs(x, u, alpha, P, S, out, spans, H, D, V,
            C: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr,
            REVERSE: tl.constexpr, DOT: tl.constexpr,
            PRECISION: tl.constexpr):
    """One chunk's tile of `out`.  x, alpha (N, H, D); u, out (N, H, V)."""
    chunk, h = tl.program_id(0) // H, tl.program_id(0) % H
    start = tl.load(spans + 2 * chunk)
    i = tl.arange(0, C)
    rows = i < tl.load(spans + 2 * chunk + 1) - start
    M = stretch(i, not REVERSE)
    c = tl.program_id(1) * BV + tl.arange(0, BV)
    at = tl.cast(start, tl.int64) * H + h
    S += tl.program_id(0).to(tl.int64) * D * V
    # -- from the chunk --
    Ps = tile(P, at, i, i, C, H, rows)
    if REVERSE:
        Ps = tl.trans(Ps)
    us = tile(u, at, i, c, V, H, rows)
    acc = tl.dot(Ps.to(DOT), us.to(DOT), input_precision=PRECISION)
    # -- from the state --
    for first in range(0, D, BD):
        d = first + tl.arange(0, BD)
        log = tl.log(tile(alpha, at, i, d, D, H, rows, 1.0).to(tl.float32))
        gates = tl.exp(tl.dot(M, log, input_precision=PRECISION))
        xs = tile(x, at, i, d, D, H, rows).to(tl.float32) * gates
        Ss = tl.load(S + d[:, None] * V + c[None, :],
                     mask=(d < D)[:, None] & (c < V)[None, :], other=0.0)
        acc += tl.dot(xs.to(DOT), Ss.to(DOT), input_precision=PRECISION)
    tl.store(out + at * V + i[:, None] * H * V + c[None, :], acc,
             mask=rows[:, None] & (c < V)[None, :])
