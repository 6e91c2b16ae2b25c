"""Gated linear attention on Triton: the kernels put together.

The forward pass is states(k, v), scores, and outputs(q, v; S).  The backward
pass is states(q, do) from the end back, which gives R, the gradient of the
state that a chunk leaves; outputs(k, do; R) with Pᵀ, which is dv; and
`gradients`, for dq, dk and dα.
"""

import torch
import triton
from torch.autograd.function import once_differentiable

from ._blocks import blocks, padded
from ._gla_backward import gradients
from ._gla_forward import outputs, scores, states
from ._launch import launch, products
from ._sequences import chunks


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
    @once_differentiable
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
