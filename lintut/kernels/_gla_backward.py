"""The gradients of gated linear attention, by the halvings of the scores.

A halving's factors are exp(M log α); the gradient of log α is Mᵀ times that
of M log α.  Every term in it contains the gate itself, so dα = (d log α) / α
stays exact however small the gate is: no difference of cumulative sums over
the whole chunk, in which a small gate's part would drown.
"""

import triton
import triton.language as tl

from ._gla_forward import halving, stretch, tile


@triton.jit
def gradients(q, k, v, alpha, do, S, R, dq, dk, dalpha, spans, H, D, V,
              C: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr,
              LEVELS: tl.constexpr, DOT: tl.constexpr,
              PRECISION: tl.constexpr):
    """One chunk's tile of dq, dk and dα, all (N, H, D).  S is what the chunk
    finds, R the gradient of what it leaves."""
    chunk, h = tl.program_id(0) // H, tl.program_id(0) % H
    start = tl.load(spans + 2 * chunk)
    i = tl.arange(0, C)
    rows = i < tl.load(spans + 2 * chunk + 1) - start
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    at = tl.cast(start, tl.int64) * H + h
    states_at = tl.program_id(0).to(tl.int64) * D * V
    dP = tl.zeros([C, C], tl.float32)
    dqs = tl.zeros([C, BD], tl.float32)
    dks = tl.zeros([C, BD], tl.float32)
    both = tl.zeros([BD], tl.float32)
    for first in range(0, V, BV):
        c = first + tl.arange(0, BV)
        dos = tile(do, at, i, c, V, H, rows).to(DOT)
        vs = tile(v, at, i, c, V, H, rows).to(DOT)
        grid = states_at + d[:, None] * V + c[None, :]
        inside = (d < D)[:, None] & (c < V)[None, :]
        Ss = tl.load(S + grid, mask=inside, other=0.0)
        Rs = tl.load(R + grid, mask=inside, other=0.0)
        dP += tl.dot(dos, tl.trans(vs), input_precision=PRECISION)
        dqs += tl.dot(dos, tl.trans(Ss).to(DOT), input_precision=PRECISION)
        dks += tl.dot(vs, tl.trans(Rs).to(DOT), input_precision=PRECISION)
        both += tl.sum(Ss.to(tl.float32) * Rs.to(tl.float32), 1)
    qs = tile(q, at, i, d, D, H, rows).to(tl.float32)
    ks = tile(k, at, i, d, D, H, rows).to(tl.float32)
    gate = tile(alpha, at, i, d, D, H, rows, 1.0).to(tl.float32)
    log = tl.log(gate)
    # -- through the states --
    upto, after = stretch(i, True), stretch(i, False)
    dqs *= tl.exp(tl.dot(upto, log, input_precision=PRECISION))
    dks *= tl.exp(tl.dot(after, log, input_precision=PRECISION))
    dlog = tl.dot(tl.trans(upto), qs * dqs, input_precision=PRECISION)
    dlog += tl.dot(tl.trans(after), ks * dks, input_precision=PRECISION)
    dlog += (both * tl.exp(tl.sum(log, 0)))[None, :]
    # -- i = j --
    own = tl.sum(tl.where(i[:, None] == i[None, :], dP, 0.0), 1)[:, None]
    dqs += own * ks
    dks += own * qs
    # -- i > j, by the cut between them --
    for level in range(LEVELS):
        M, apart = halving(i, level)
        gates = tl.exp(tl.dot(M, log, input_precision=PRECISION))
        pairs = tl.where(apart, dP, 0.0).to(DOT)
        late = gates * tl.dot(pairs, (ks * gates).to(DOT),
                              input_precision=PRECISION)
        early = gates * tl.dot(tl.trans(pairs), (qs * gates).to(DOT),
                               input_precision=PRECISION)
        dqs += late
        dks += early
        dlog += tl.dot(tl.trans(M), qs * late + ks * early,
                       input_precision=PRECISION)
    grid = at * D + i[:, None] * H * D + d[None, :]
    valid = rows[:, None] & (d < D)[None, :]
    tl.store(dq + grid, dqs, mask=valid)
    tl.store(dk + grid, dks, mask=valid)
    tl.store(dalpha + grid, dlog / gate, mask=valid)
