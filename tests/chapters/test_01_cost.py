"""What chapter 1 states and `tests/test_cost.py` does not cover."""

import numpy as np
import pytest

from lintut import cost
from lintut.reference import softmax


@pytest.mark.parametrize("N, d, d_v", [(1, 1, 1), (37, 8, 5), (64, 3, 16)])
def test_what_a_whole_sequence_moves(N, d, d_v):
    """Inputs and output once; scores and weights out and in."""
    q, k = np.random.default_rng(0).normal(size=(2, N, d))
    v = np.ones((N, d_v))
    o = softmax.parallel(q, k, v)
    scores = q @ k.T
    elements = (q.size + k.size + v.size + o.size
                + 2 * (scores.size + softmax.normalise(scores).size))
    moved = cost.of("softmax", N=N, d=d, d_v=d_v, causal=False,
                    dtype="float32").bytes_moved
    assert moved == 4 * elements == 4 * (2 * N * (d + d_v) + 4 * N * N)
