"""delta and gated_delta: the kernels against a token loop in float64."""

import pytest
import torch

from ..delta_cases import chunkwise, errors, exact, inputs, loop, named, packed
from ..harness import row_error

BOTH = pytest.mark.parametrize("mechanism", ["delta", "gated_delta"])


def triton(mechanism, C, **options):
    return chunkwise(mechanism, backend="triton", chunk_size=C, **options)


def check(got, expected, tolerance):
    for name, x in expected.items():
        error = row_error(got[name], x)
        assert error <= tolerance, f"{name}: a row is off by {error:.2g}"


@BOTH
@pytest.mark.parametrize("T, C", [(1, 16), (15, 16), (17, 16), (50, 16), (65, 64), (100, 32)])
def test_kernels_are_the_token_loop(mechanism, T, C):
    found = inputs(mechanism, T, B=1, d=20, d_v=40, dtype=torch.float32)
    check(named(triton(mechanism, C), found), exact(found), 2e-5)
