"""Linear attention's kernels, interpreted, forward and backward."""

import pytest
import torch

from lintut.kernels import linear

from .. import recurrences


def features(q, k):
    return linear.elu_plus_one(q), linear.elu_plus_one(k)


def oracle(q, k, v, S, z):
    return recurrences.linear(*features(q, k), v, S, z)


def run(backend, C, cu_seqlens=None):
    def call(q, k, v, S, z):
        o, state = linear.chunkwise(
            q, k, v, initial_state=(S, z), return_state=True,
            backend=backend, cu_seqlens=cu_seqlens, chunk_size=C)
        return o, *state
    return call


def draw(*shape, **options):
    x = recurrences.draw(*shape, **options)
    return x | dict(z=x["S"][..., 0].abs() + 0.5)


@pytest.mark.parametrize("shape, C", [
    ((2, 1, 1, 16, 16), 16),
    ((1, 50, 2, 24, 40), 16),       # four chunks, the last of two tokens
    ((1, 34, 1, 80, 20), 32),       # two tiles of D
])
def test_float32(shape, C):
    recurrences.compare(run("triton", C), oracle, draw(*shape), 3e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits(dtype):
    recurrences.compare(run("triton", 16), oracle,
                        draw(1, 50, 2, 16, 32, dtype=dtype),
                        run("torch", 16))


def test_packed_sequences():
    bounds = (0, 1, 36, 52)
    def packed(q, k, v, S, z):
        return recurrences.packed(recurrences.linear, bounds,
                                  (*features(q, k), v), (S, z))
    recurrences.compare(run("triton", 16, torch.tensor(bounds)), packed,
                        draw(1, 52, 2, 16, 20, n=3), 3e-6)


def test_large_sums_in_float16():
    """S and z reach 2·10⁵; float16 ends at 65,504."""
    q, k, v = torch.ones(3, 1, 100, 1, 16).half()
    z = torch.full((1, 1, 16), 2e5)
    S = z[..., None].expand(1, 1, 16, 16) * 1.0
    o = linear.chunkwise(q, k, v, initial_state=(S, z), backend="triton",
                         chunk_size=32)
    assert torch.equal(o, v)
