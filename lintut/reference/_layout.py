"""Broadcasting, transposing, and cutting a sequence into chunks and back."""

import numpy as np


def transpose(x):
    """The last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def spread(lead, *arrays):
    """Each array (…, N, width) broadcast to (*lead, N, width); no copies."""
    return [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in arrays]


def spans(N, chunk_size, at_once=32):
    """Cut N rows into spans of whole chunks, and what is left over.

    Yields (rows, C): a slice of the sequence, and the chunk size in it.
    `at_once` is large enough to spread Python's cost over many chunks, and
    small enough that a span stays in the cache.
    """
    C = min(chunk_size, N)
    whole = N - N % C
    for start in range(0, whole, at_once * C):
        yield slice(start, min(start + at_once * C, whole)), C
    if whole < N:
        yield slice(whole, N), N - whole


def split(x, rows, C):
    """Those rows of x (…, N, d) as n chunks (n, …, C, d)."""
    x = x[..., rows, :]
    return np.moveaxis(x.reshape(*x.shape[:-2], -1, C, x.shape[-1]), -3, 0)


def join(chunks):
    """n chunks (n, …, C, d) as one sequence (…, n·C, d)."""
    x = np.moveaxis(chunks, 0, -3)
    return x.reshape(*x.shape[:-3], -1, x.shape[-1])
