"""Gated linear attention's Triton kernels.

    states     S ← diag(Πα) S + Σ (x ∘ gates to the end)ᵀ y, chunk after chunk
    scores     P_ij = Σ_d q_id k_jd α_{j+1,d} … α_{i,d}, by halving (see `gla`)
    outputs    P u + (x ∘ gates from the start) S
    gradients  dq, dk and dα of a chunk, by the same halvings

The forward pass is states(k, v), scores, outputs(q, v; S).  The backward pass
is states(q, do) from the end back, which gives R, the gradient of the state
that a chunk leaves; outputs(k, do; R) with Pᵀ, which is dv; and gradients.

Products of gates are exp(M log α) with M of zeros and ones, summed by a
matrix product, so that the gradient of log α is Mᵀ times that of the sums:
every term in it contains the gate, and dα = (d log α) / α stays exact however
small the gate is.
"""

import torch
import triton
import triton.language as tl

from ._blocks import blocks, padded
from ._launch import launch, products
from ._sequences import chunks


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


def _states(x, y, alpha, state, spans, C, reverse=False):
    """Start `states`; return what the chunks find, and the last state."""
    (*_, H, D), V = x.shape, y.shape[-1]
    how, kept = products(x)
    row = blocks("gla.states", x)
    BD, BV = padded(D, row.k), padded(V, row.v)
    S = x.new_empty(spans.count, H, D, V, dtype=kept)
    last = torch.empty_like(state)
    grid = (spans.sequences * H, triton.cdiv(D, BD), triton.cdiv(V, BV))
    launch(states, grid, x, y, alpha, S, state, last, spans.spans,
           spans.first, H, D, V, C=C, BD=BD, BV=BV, REVERSE=reverse, **how,
           blocks=row)
    return S, last


def _scores(q, k, alpha, spans, C):
    *lead, H, D = q.shape
    how, kept = products(q)
    row = blocks("gla.scores", q)
    P = q.new_empty(*lead, H, C, dtype=kept)
    launch(scores, (spans.count * H,), q, k, alpha, P, spans.spans, H, D,
           C=C, BD=padded(D, row.k), LEVELS=C.bit_length() - 1, **how,
           blocks=row)
    return P


def _outputs(x, u, alpha, P, S, spans, C, reverse=False):
    (*_, H, D), V = x.shape, u.shape[-1]
    how, _ = products(x)
    row = blocks("gla.outputs", x)
    BV = padded(V, row.v)
    out = torch.empty_like(u)
    launch(outputs, (spans.count * H, triton.cdiv(V, BV)), x, u, alpha, P, S,
           out, spans.spans, H, D, V, C=C, BD=padded(D, row.k), BV=BV,
           REVERSE=reverse, **how, blocks=row)
    return out


def _gradients(q, k, v, alpha, do, S, R, spans, C):
    (*_, H, D), V = q.shape, v.shape[-1]
    how, _ = products(q)
    row = blocks("gla.gradients", q)
    BD = padded(D, row.k)
    found = tuple(map(torch.empty_like, (q, k, alpha)))
    launch(gradients, (spans.count * H, triton.cdiv(D, BD)), q, k, v, alpha,
           do, S, R, *found, spans.spans, H, D, V, C=C, BD=BD,
           BV=padded(V, row.v), LEVELS=C.bit_length() - 1, **how, blocks=row)
    return found


class _GLA(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, alpha, S, spans, C):
        S, last = _states(k, v, alpha, S, spans, C)
        P = _scores(q, k, alpha, spans, C)
        o = _outputs(q, v, alpha, P, S, spans, C)
        ctx.save_for_backward(q, k, v, alpha, P, S)
        ctx.spans, ctx.C = spans, C
        return o, last

    @staticmethod
    def backward(ctx, do, dS):
        q, k, v, alpha, P, S = ctx.saved_tensors
        spans, C, do = ctx.spans, ctx.C, do.contiguous()
        R, first = _states(q, do, alpha, dS.contiguous(), spans, C, True)
        dv = _outputs(k, do, alpha, P, R, spans, C, True)
        dq, dk, dalpha = _gradients(q, k, v, alpha, do, S, R, spans, C)
        return dq, dk, dv, dalpha, first, None, None


def run(q, k, v, alpha, state, bounds, C):
    """q, k, v, alpha (B, T, H, ·) to (o, S); checked already."""
    spans = chunks(q, bounds, C)
    q, k, v, alpha, state = (x.contiguous() for x in
                             (q, k, v, alpha, state))
    return _GLA.apply(q, k, v, alpha, state, spans, C)


def sample(d, dtype):
    """One call with gradients, for `compile_report`."""
    q, k, v, alpha = (torch.rand(1, 16, 1, d, dtype=dtype,
                                 requires_grad=True) for _ in range(4))
    return run(q, k, v, alpha, torch.zeros(1, 1, d, d), None, 64)[0]
