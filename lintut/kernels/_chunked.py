"""What the torch paths share: cutting into chunks, carrying the state.

All chunks are multiplied at once, in batched products that cuBLAS runs on
tensor cores; only the small recurrence from chunk to chunk is a loop.
"""

import torch
import torch.nn.functional as F


def split(x, chunk_size, fill=0.0):
    """(B, T, H, …) to chunks (B, H, n, C, …); `fill` ends the last one."""
    B, T, H = x.shape[:3]
    n = -(-T // chunk_size)
    x = F.pad(x, (0, 0) * (x.ndim - 2) + (0, n * chunk_size - T), value=fill)
    return x.reshape(B, n, chunk_size, H, *x.shape[3:]).movedim(3, 1)


def join(x, T):
    """The inverse: (B, H, n, C, …) to (B, T, H, …)."""
    return x.movedim(1, 3).flatten(1, 2)[:, :T]


def carry(writes, factors, state):
    """S ← factor·S + write, chunk after chunk.

    writes   (B, H, n, D, D_v)    what each chunk adds
    factors  (B, H, n, D or 1, 1) what it leaves of the state before it
    state    (B, H, D, D_v) or None

    Returns the states that the chunks find, (B, H, n, D, D_v), and the last.
    """
    S = torch.zeros_like(writes[:, :, 0]) if state is None else state
    found = []
    for write, factor in zip(writes.unbind(2), factors.unbind(2)):
        found.append(S)
        S = factor * S + write
    return torch.stack(found, 2), S
