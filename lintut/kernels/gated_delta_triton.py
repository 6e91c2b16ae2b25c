"""The delta rules on Triton: which kernels run, on which blocks.

The kernels are in `_delta_forward` and `_delta_backward`, the mathematics in
`gated_delta`.  ``log_alpha=None`` is α = 1: `delta`.
"""

import torch
import triton

from . import _checks, _sequences
from . import _delta_backward as backward
from . import _delta_forward as forward
from ._blocks import TABLE, Blocks, blocks, device_class, padded
from ._launch import launch

TABLE |= {
    ("delta_wy", "large", 16): Blocks(64, 64, 4, 2, ""),
    ("delta_scan", "large", 16): Blocks(256, 32, 4, 2, ""),
    ("delta_output", "large", 16): Blocks(64, 64, 4, 2, ""),
    ("delta_local", "large", 16): Blocks(64, 64, 4, 2, ""),
    ("delta_reverse", "large", 16): Blocks(256, 32, 4, 2, ""),
    ("delta_gradient", "large", 16): Blocks(64, 64, 8, 2, ""),
}
for _key, _row in list(TABLE.items()):
    if _key[0].startswith("delta_") and _key[2] == 16:
        TABLE[(*_key[:2], 32)] = _row


def run(q, k, v, log_alpha, beta, state, bounds, chunk_size):
    """(o, final state); the gates' logs and β float32, a state always."""
    return _GatedDelta.apply(q, k, v, log_alpha, beta, state, bounds,
                             chunk_size)


def sample(d, dtype, gated=True):
    """One call for `compile_report`."""
    def make(*shape, dtype=dtype):
        return torch.rand(shape, dtype=dtype).requires_grad_()
    gate = make(1, 64, 1, dtype=torch.float32)
    qkv = (make(1, 64, 1, d) for _ in range(3))
    return run(*qkv, gate.log() if gated else None, gate,
               make(1, 1, d, d, dtype=torch.float32), None, 64)[0]


class _GatedDelta(torch.autograd.Function):

    @staticmethod
    def forward(ctx, q, k, v, log_alpha, beta, state, bounds, C):
        q, k, v, beta, state = (x.contiguous()
                                for x in (q, k, v, beta, state))
        log_alpha = None if log_alpha is None else log_alpha.contiguous()
        ctx.save_for_backward(q, k, v, log_alpha, beta, state)
        ctx.bounds, ctx.C = bounds, C
        call = _Call(q, v, log_alpha, bounds, C)
        _, _, U, S, final = call.states(k, v, beta, state)
        o = torch.empty_like(v)
        call("delta_output", forward.output, call.by_chunk_and_column,
             q, k, log_alpha, call.chunks.spans, U, S, o)
        return o, final

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dO, dfinal):
        q, k, v, log_alpha, beta, state = ctx.saved_tensors
        call = _Call(q, v, log_alpha, ctx.bounds, ctx.C)
        spans, first = call.chunks.spans, call.chunks.first
        dO, dfinal = dO.contiguous(), dfinal.contiguous()
        L, W, U, S, _ = call.states(k, v, beta, state)
        dU, dS, dinitial = (torch.empty_like(x) for x in (U, S, state))
        call("delta_local", backward.local, call.by_chunk_and_column,
             q, k, log_alpha, spans, dO, dU)
        call("delta_reverse", backward.reverse, call.by_sequence,
             q, k, log_alpha, spans, first, W, dO, dfinal, dU, dS, dinitial)
        dq, dk, dv, dbeta = (torch.empty_like(x) for x in (q, k, v, beta))
        dlog = None if log_alpha is None else torch.empty_like(log_alpha)
        call("delta_gradient", backward.gradient, call.by_chunk,
             q, k, v, log_alpha, beta, spans, L, U, S, dO, dU, dS,
             dq, dk, dv, dlog, dbeta)
        return dq, dk, dv, dlog, dbeta, dinitial, None, None


class _Call:
    """What all kernels of one call share: sizes, chunks, grids."""

    def __init__(self, q, v, log_alpha, bounds, C):
        self.q, self.log_alpha, self.C = q, log_alpha, C
        self.H, self.d, self.d_v = q.shape[2], q.shape[3], v.shape[3]
        self.chunks = _sequences.chunks(q, bounds, C)
        fma = device_class(q.device) == "fma"
        self.precision = "ieee" if fma else "tf32x3"

    # The grids, given how many column blocks V has.
    def by_chunk(self, columns):
        return self.chunks.count, self.H

    def by_chunk_and_column(self, columns):
        return self.chunks.count, columns, self.H

    def by_sequence(self, columns):
        return columns, self.chunks.sequences, self.H

    def __call__(self, name, kernel, grid, *args):
        row = blocks(name, self.q)
        BK, BV = padded(self.d, row.k), padded(self.d_v, row.v)
        over_d = {"BD" if "BD" in kernel.arg_names else "BK": BK}
        launch(kernel, grid(triton.cdiv(self.d_v, BV)), *args, self.H,
               blocks=row, d=self.d, d_v=self.d_v, C=self.C, **over_d, BV=BV,
               GATED=self.log_alpha is not None, PRECISION=self.precision)

    def states(self, k, v, beta, state):
        """L, W, U, the state that enters each chunk, and the last one."""
        L = k.new_empty(*k.shape[:3], self.C)
        W, U, final = (torch.empty_like(x) for x in (k, v, state))
        S = k.new_empty(self.chunks.count, self.H, self.d, self.d_v)
        spans = self.chunks.spans
        self("delta_wy", forward.wy, self.by_chunk,
             k, v, self.log_alpha, beta, spans, L, W, U)
        self("delta_scan", forward.scan, self.by_sequence,
             k, self.log_alpha, spans, self.chunks.first, W, U, state, S,
             final)
        return L, W, U, S, final
