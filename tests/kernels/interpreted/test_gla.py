"""Gated linear attention's kernels, interpreted, forward and backward."""

import pytest
import torch

from lintut.kernels import gla

from .. import harness, recurrences


def run(backend, C, cu_seqlens=None):
    def call(q, k, v, alpha, S):
        return gla.chunkwise(
            q, k, v, alpha, initial_state=S, return_state=True,
            backend=backend, cu_seqlens=cu_seqlens, chunk_size=C)
    return call


def draw(B, T, H, D, V, **options):
    x = recurrences.draw(B, T, H, D, V, **options)
    return x | dict(alpha=harness.gates((B, T, H, D), 5,
                                        dtype=torch.float32))


@pytest.mark.parametrize("shape, C", [
    ((2, 1, 1, 16, 16), 16),
    ((1, 50, 2, 24, 40), 16),
    ((1, 34, 1, 80, 20), 32),
])
def test_float32(shape, C):
    recurrences.compare(run("triton", C), recurrences.gated, draw(*shape),
                        5e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits(dtype):
    recurrences.compare(run("triton", 16), recurrences.gated,
                        draw(1, 50, 2, 16, 32, dtype=dtype),
                        run("torch", 16))


def test_packed_sequences():
    bounds = (0, 1, 36, 52)
    def packed(q, k, v, alpha, S):
        return recurrences.packed(recurrences.gated, bounds,
                                  (q, k, v, alpha), (S,))
    recurrences.compare(run("triton", 16, torch.tensor(bounds)), packed,
                        draw(1, 52, 2, 16, 20, n=3), 5e-6)


def test_all_gates_tiny():
    """α = 1e-6 throughout: dα is as exact as the rest, entry by entry."""
    x = draw(1, 40, 1, 16, 16)
    x["alpha"] = torch.full_like(x["alpha"], 1e-6)
    w = recurrences.weights(recurrences.gated(**recurrences.wide(x)),
                            torch.float32)
    _, expected = harness.gradients(recurrences.gated, recurrences.wide(x), w)
    _, got = harness.gradients(run("triton", 16), x, w)
    error = (got["alpha"] - expected["alpha"]).abs()
    assert (error <= 1e-5 * expected["alpha"].abs().mean()).all()
