"""Retention's kernels, interpreted, forward and backward."""

import pytest
import torch

from lintut.kernels import retention

from .. import recurrences

GAMMA = (0.96875, 0.2, 1e-6, 1.0)


def oracle(q, k, v, S):
    alpha = torch.tensor(GAMMA[:q.shape[2]]).double()[:, None].expand_as(q)
    return recurrences.gated(q, k, v, alpha, S)


def run(backend, C, cu_seqlens=None):
    def call(q, k, v, S):
        return retention.chunkwise(
            q, k, v, gamma=torch.tensor(GAMMA[:q.shape[2]]),
            initial_state=S, return_state=True, backend=backend,
            cu_seqlens=cu_seqlens, chunk_size=C)
    return call


@pytest.mark.parametrize("shape, C", [
    ((2, 1, 2, 16, 16), 16),
    ((1, 50, 4, 24, 40), 16),
    ((1, 34, 1, 80, 20), 32),
])
def test_float32(shape, C):
    recurrences.compare(run("triton", C), oracle, recurrences.draw(*shape),
                        5e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits(dtype):
    recurrences.compare(run("triton", 16), oracle,
                        recurrences.draw(1, 50, 2, 16, 32, dtype=dtype),
                        run("torch", 16))


def test_packed_sequences():
    bounds = (0, 1, 36, 52)
    def packed(q, k, v, S):
        alpha = torch.tensor(GAMMA[:2]).double()[:, None].expand_as(q)
        return recurrences.packed(recurrences.gated, bounds,
                                  (q, k, v, alpha), (S,))
    recurrences.compare(run("triton", 16, torch.tensor(bounds)), packed,
                        recurrences.draw(1, 52, 2, 16, 20, n=3), 5e-6)
