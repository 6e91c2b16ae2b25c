"""FlashAttention on Triton: the kernels put together.

    forward    a tile of queries: o and lse, over the key tiles it reaches
    grad_q     a tile of queries: D and dq, over the same tiles
    grad_kv    a tile of keys: dk and dv, over the query tiles that reach it
"""

import torch
import triton
import triton.language as tl

from ._blocks import blocks, padded
from ._launch import launch, products
from ._softmax_backward import grad_kv_kernel, grad_q_kernel
from ._softmax_forward import forward_kernel

LOG2E = 1.4426950408889634


def forward(q, k, v, before, after, scale):
    """o (B, T, H, D_v) and lse (B·H, T), as `softmax.forward`."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    (B, T, H, _), T_k = q.shape, k.shape[1]
    o = q.new_empty(*q.shape[:3], v.shape[-1])
    lse = q.new_empty(B * H, T, dtype=torch.float32)
    row, constants = _shapes("forward", q, v)
    launch(forward_kernel, (B * H * triton.cdiv(T, row.k),), q, k, v, o, lse,
           H, T, T_k, before, after, scale * LOG2E, blocks=row, **constants)
    return o, lse


def backward(do, q, k, v, o, lse, before, after, scale):
    """dq, dk and dv, as `softmax.backward`."""
    do, q, k, v = (x.contiguous() for x in (do, q, k, v))
    (B, T, H, _), T_k = q.shape, k.shape[1]
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty_like(lse)
    rest = (H, T, T_k, before, after, scale, scale * LOG2E)
    row, constants = _shapes("grad_q", q, v)
    launch(grad_q_kernel, (B * H * triton.cdiv(T, row.k),), q, k, v, o, do,
           lse, delta, dq, *rest, blocks=row, **constants)
    row, constants = _shapes("grad_kv", q, v)
    launch(grad_kv_kernel, (B * H * triton.cdiv(T_k, row.v),), q, k, v, do,
           lse, delta, dk, dv, *rest, blocks=row, **constants)
    return dq, dk, dv


def _shapes(kernel, q, v):
    """The table's row for a kernel and the wider of d and d_v; constants."""
    D, V = q.shape[-1], v.shape[-1]
    BD, BV = padded(D, 256), padded(V, 256)
    row = blocks(f"softmax.{kernel}.{max(BD, BV, 64)}", q)
    how, _ = products(q)
    if q.dtype == torch.float16:
        how["DOT"] = tl.float16         # p ≤ 1, and sums are float32
    return row, dict(D=D, V=V, BD=BD, BV=BV, ROWS=row.k, COLS=row.v, **how)


def sample(d, dtype):
    """One causal call on a small input (see `compile_report`)."""
    from .softmax import attention
    q, k, v = (torch.ones(1, 256, 16, d, dtype=dtype, requires_grad=True)
               for _ in range(3))
    return attention(q, k, v, causal=True, backend="triton")
