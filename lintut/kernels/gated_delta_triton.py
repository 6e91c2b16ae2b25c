"""The delta rules on Triton: which kernels run, in which order.

The kernels are in `_delta_forward` and `_delta_backward`, the mathematics in
`gated_delta`.  ``log_alpha=None`` is α = 1: `delta`.
"""

import torch
import triton
import triton.language as tl

from . import _delta_backward as backward
from . import _delta_forward as forward
from ._blocks import blocks, device_class, padded
from ._launch import launch, products
from ._sequences import chunks


# The kernels' rows in the block table; the others have "delta.chunk".
ROWS = dict(scan="delta.scan", reverse="delta.scan",
            gradient="delta.gradient")


def longest_chunk(q):
    """The most rows of a tile at which the kernels spill no registers.

    A chunk shorter than asked for changes nothing but rounding.
    """
    if device_class(q.device) == "fma":
        return 32 if q.shape[-1] <= 64 else 16
    return 32 if q.dtype == torch.float32 else 64


class _Call:
    """What the kernels of one call share; it starts them."""

    def __init__(self, q, v, log_alpha, bounds, C):
        (_, _, self.H, self.d), self.d_v = q.shape, v.shape[-1]
        C = min(C, longest_chunk(q))
        self.q, self.chunks = q, chunks(q, bounds, C)
        how, self.kept = products(q)
        if q.dtype == torch.float16:
            # The rule corrects what it wrote: its states do not grow with T,
            # and half of tf32's bytes hold them.
            how["DOT"], self.kept = tl.float16, torch.float16
        if q.dtype != torch.float32 and how["PRECISION"] != "ieee":
            how["PRECISION"] = "tf32x3"             # of the inverse
        self.constants = dict(d=self.d, d_v=self.d_v, C=C,
                              GATED=log_alpha is not None, **how)

    def sizes(self, kernel):
        """Sides of the kernel's blocks over d and d_v, and its table row."""
        row = blocks(ROWS.get(kernel.__name__, "delta.chunk"), self.q)
        return padded(self.d, row.k), padded(self.d_v, row.v), row

    def __call__(self, kernel, grid, *args):
        """Start a kernel; `grid` names what its programs share out."""
        BK, BV, row = self.sizes(kernel)
        count = dict(chunks=self.chunks.count, heads=self.H,
                     sequences=self.chunks.sequences,
                     rows=triton.cdiv(self.d, BK),
                     columns=triton.cdiv(self.d_v, BV))
        launch(kernel, tuple(count[axis] for axis in grid.split()), *args,
               self.H, blocks=row, BK=BK, BV=BV, **self.constants)

    def states(self, k, v, log_alpha, beta, state):
        """L, W, U, the state before each chunk, and the last state."""
        kept, C = self.kept, self.constants["C"]
        L = k.new_empty(*k.shape[:3], C, dtype=kept)
        W, U = (torch.empty_like(x, dtype=kept) for x in (k, v))
        S = k.new_empty(self.chunks.count, *state.shape[1:], dtype=kept)
        final, spans = torch.empty_like(state), self.chunks.spans
        self(forward.wy, "chunks heads",
             k, v, log_alpha, beta, spans, L, W, U)
        self(forward.scan, "columns sequences heads",
             k, log_alpha, spans, self.chunks.first, W, U, state, S, final)
        return L, W, U, S, final


class _GatedDelta(torch.autograd.Function):

    @staticmethod
    def forward(ctx, q, k, v, log_alpha, beta, state, bounds, C):
        ctx.save_for_backward(q, k, v, log_alpha, beta, state)
        ctx.bounds, ctx.C = bounds, C
        call, o = _Call(q, v, log_alpha, bounds, C), torch.empty_like(v)
        _, _, U, S, final = call.states(k, v, log_alpha, beta, state)
        call(forward.output, "chunks columns heads",
             q, k, log_alpha, call.chunks.spans, U, S, o)
        return o, final

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dO, dfinal):
        q, k, v, log_alpha, beta, state = ctx.saved_tensors
        call = _Call(q, v, log_alpha, ctx.bounds, ctx.C)
        spans, dO, dfinal = call.chunks.spans, *map(_dense, (dO, dfinal))
        L, W, U, S, _ = call.states(k, v, log_alpha, beta, state)
        dU, dS, dP, dN = (torch.empty_like(x) for x in (U, S, L, L))
        dq, dk, dv, dstate = (torch.empty_like(x) for x in (q, k, v, state))
        call(backward.local, "chunks columns heads",
             q, k, log_alpha, spans, dO, dU)
        call(backward.reverse, "columns sequences heads",
             q, k, log_alpha, spans, call.chunks.first, W, dO, dfinal, dU,
             dS, dstate)
        # dβ and d log α: one part from `pairs`, one from each block of d.
        parts = 1 + triton.cdiv(call.d, call.sizes(backward.gradient)[0])
        dbeta = beta.new_empty(parts, *beta.shape)
        dlog = log_alpha if log_alpha is None else torch.empty_like(dbeta)
        call(backward.pairs, "chunks heads",
             q, k, v, log_alpha, beta, spans, L, U, dO, dU, dP, dN, dv,
             _part(dlog, 0), dbeta[0])
        call(backward.gradient, "chunks rows heads",
             q, k, log_alpha, beta, spans, L, U, S, dO, dU, dS, dP, dN,
             dq, dk, _part(dlog, 1), dbeta[1], beta.numel())
        dlog = dlog if dlog is None else dlog.sum(0)
        return dq, dk, dv, dlog, dbeta.sum(0), dstate, None, None


def _dense(x):
    return None if x is None else x.contiguous()


def _part(x, n):
    return None if x is None else x[n]


def run(q, k, v, log_alpha, beta, state, bounds, C):
    """(o, last state); log α (or None), β and the state are float32."""
    tensors = map(_dense, (q, k, v, log_alpha, beta, state))
    return _GatedDelta.apply(*tensors, bounds, C)


def sample(d, dtype, gated=True):
    """One call with gradients, for `compile_report`."""
    q, k, v = (torch.rand(1, 16, 1, d, dtype=dtype, requires_grad=True)
               for _ in range(3))
    gate = torch.rand(1, 16, 1)
    return run(q, k, v, gate.log() if gated else None, gate,
               torch.zeros(1, 1, d, d), None, 64)[0]
