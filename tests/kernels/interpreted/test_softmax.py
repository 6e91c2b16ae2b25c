"""Softmax attention's Triton kernels, interpreted, against explicit float64.

Outputs are poisoned with NaN before they are written (see conftest.py).
"""

from functools import partial

import pytest
import torch

from lintut.kernels import softmax, softmax_triton
from lintut.kernels._blocks import Blocks

from .. import softmax_cases as cases

kernels = partial(softmax.attention, backend="triton")


@pytest.fixture
def tiles(monkeypatch, request):
    """Small tiles, so that a short sequence has several."""
    row = Blocks(*request.param, 4, 2, "for these tests")
    monkeypatch.setattr(softmax_triton, "blocks", lambda *_: row)


many = pytest.mark.parametrize("tiles", [(32, 16), (16, 32)], indirect=True)
each = pytest.mark.parametrize("case", cases.CASES, ids=cases.name)


@many
@each
def test_equals_explicit_attention(tiles, case):
    cases.exact(case, "triton", torch.float32, 1e-5)


@pytest.mark.parametrize("tiles", [(32, 32)], indirect=True)
@pytest.mark.parametrize("case", cases.HALF, ids=cases.name)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(tiles, case, dtype):
    cases.rounded(case, "triton", dtype)
