"""Sequences of different lengths, packed one after another in a row.

The torch paths take them apart (`each`).  The Triton kernels know no other
case: a batch (B, T, …) is the packed row of B sequences of length T, and
`Chunks` lists where each chunk starts and stops.
"""

import functools
from dataclasses import dataclass

import torch


def each(run, bounds, tensors, state):
    """Run a chunkwise path on every packed sequence; put results together.

    ``run(*tensors, state) -> (o, state)`` gets slices (1, t, …); `state` is a
    tensor or a tuple of tensors with a leading axis of one entry a sequence,
    or None.
    """
    outputs, states = [], []
    for n, (start, stop) in enumerate(zip(bounds, bounds[1:])):
        own = (None if state is None else
               tuple(x[n:n + 1] for x in state) if isinstance(state, tuple)
               else state[n:n + 1])
        o, final = run(*(x[:, start:stop] for x in tensors), own)
        outputs.append(o)
        states.append(final)
    if isinstance(states[0], tuple):
        return torch.cat(outputs, 1), tuple(map(torch.cat, zip(*states)))
    return torch.cat(outputs, 1), torch.cat(states)


@dataclass(frozen=True)
class Chunks:
    """The chunks of a packed row of sequences.

    sequences : how many there are
    count     : how many chunks they have together
    spans     : int32 (count, 2), each chunk's first token and its end
    first     : int32 (sequences + 1,), each sequence's first chunk
    """
    sequences: int
    count: int
    spans: torch.Tensor
    first: torch.Tensor


def chunks(q, bounds, chunk_size):
    """The chunks of q (B, T, H, D), or of the sequences packed in it."""
    B, T = q.shape[:2]
    if bounds is None:
        bounds = tuple(range(0, B * T + 1, T))
    return _chunks(bounds, chunk_size, q.device)


@functools.lru_cache(maxsize=64)
def _chunks(bounds, chunk_size, device):
    spans, first = [], [0]
    for start, stop in zip(bounds, bounds[1:]):
        spans += [(c, min(c + chunk_size, stop))
                  for c in range(start, stop, chunk_size)]
        first.append(len(spans))
    return Chunks(len(bounds) - 1, len(spans),
                  torch.tensor(spans, dtype=torch.int32, device=device),
                  torch.tensor(first, dtype=torch.int32, device=device))
