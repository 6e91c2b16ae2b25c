"""Softmax attention's Triton kernels, interpreted, against explicit float64.

Outputs are poisoned with NaN before they are written (see conftest.py).
"""

from functools import partial

import pytest
import torch

from lintut.kernels import softmax, softmax_triton
from lintut.kernels._blocks import Blocks

from .. import harness
from .. import softmax_cases as cases

# Rows past the end divide 0 by 0, and are not stored.
pytestmark = pytest.mark.filterwarnings(
    "ignore:(invalid|divide by zero).*:RuntimeWarning")

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


@pytest.mark.parametrize("d, d_v", [(128, 16), (16, 200)])
def test_the_table_s_own_tiles(d, d_v):
    cases.exact((1, 1, 150, 150, d, d_v, dict(causal=True)), "triton",
                torch.float32, 1e-5)


@pytest.mark.parametrize("tiles", [(16, 32)], indirect=True)
@pytest.mark.parametrize("window", [None, 20])
def test_split_equals_one_pass(tiles, window):
    """With a cache the first query comes after the first key."""
    given, _ = cases.inputs(1, 2, 90, 90, 16, 24)
    given = {name: x.float() for name, x in given.items()}
    whole, last = kernels(**given, causal=True, window=window,
                          return_state=True)
    state, parts = None, []
    for start, stop in ((0, 1), (1, 41), (41, 90)):
        o, state = kernels(*(x[:, start:stop] for x in given.values()),
                           causal=True, window=window, initial_state=state,
                           return_state=True)
        parts.append(o)
    assert cases.row_error(torch.cat(parts, 1), whole.double()) < 1e-5
    assert all(map(torch.equal, state, last))


@pytest.mark.parametrize("tiles", [(16, 16)], indirect=True)
def test_gradient_of_the_cache(tiles):
    given, weights = cases.inputs(1, 2, 20, 20, 16, 16)
    given |= dict(K=harness.random((1, 2, 37, 16), 7).transpose(1, 2),
                  V=harness.random((1, 2, 37, 16), 8).transpose(1, 2))

    def with_cache(attend):
        def run(q, k, v, K, V):
            return attend(q, k, v, K, V)
        return run

    found = harness.gradients(with_cache(
        lambda q, k, v, K, V: kernels(q, k, v, causal=True, window=30,
                                      initial_state=(K, V))),
        {name: x.float() for name, x in given.items()}, [weights])[1]
    expected = harness.gradients(with_cache(
        lambda q, k, v, K, V: cases.explicit(
            q, torch.cat([K, k], 1), torch.cat([V, v], 1), causal=True,
            window=30)), given, [weights])[1]
    for name in given:
        assert cases.row_error(found[name], expected[name]) < 1e-5, name


@pytest.mark.parametrize("tiles", [(32, 16)], indirect=True)
@pytest.mark.parametrize("causal, window", [(True, 1), (True, 17), (False, 1),
                                            (False, 2), (False, 33)])
def test_keys_counted_in_every_row(tiles, causal, window):
    """Equal scores: a row's output is the mean over the keys it sees."""
    T = 50
    q = torch.zeros(1, T, 1, 16)
    rows = kernels(q, q, torch.eye(T)[None, :, None], causal=causal,
                   window=window)[0, :, 0]
    see = cases.visible(T, T, causal, window)
    assert torch.equal(rows > 0, see)
    assert torch.allclose(rows.sum(1), torch.ones(T))


@pytest.mark.parametrize("tiles", [(16, 32)], indirect=True)
def test_large_scores_and_constant_values(tiles):
    given, weights = cases.inputs(1, 1, 70, 70, 16, 16)
    given["q"] *= 1e6
    pairs = cases.compare(kernels, given, weights, dict(causal=True),
                          torch.float32)
    assert cases.row_error(*pairs["o"]) < 1e-5
    assert cases.row_error(*pairs["dv"]) < 1e-5
    assert all(torch.isfinite(got).all() for got, _ in pairs.values())
    q, k, v = (x.float() for x in given.values())
    o = kernels(q / 1e6, k, torch.full_like(v, 0.7))
    assert (o - 0.7).abs().max() <= 8 * torch.finfo(o.dtype).eps * 0.7


def test_the_two_backends_agree_on_strided_inputs():
    given, _ = cases.inputs(1, 2, 40, 40, 16, 24)
    strided = [x.float().transpose(1, 2).contiguous().transpose(1, 2)
               for x in given.values()]
    assert not strided[0].is_contiguous()
    torch_path = partial(softmax.attention, backend="torch")
    assert torch.allclose(kernels(*strided), torch_path(*strided), atol=1e-5)
