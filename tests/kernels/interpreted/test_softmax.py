"""Softmax attention's Triton kernels, interpreted, against explicit float64.

Outputs are poisoned with NaN before they are written (see conftest.py).
"""

from functools import partial

import pytest
import torch
import triton
import triton.language as tl

from lintut.kernels import softmax, softmax_triton
from lintut.kernels._blocks import Blocks
from lintut.kernels._softmax_forward import span

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


@triton.jit
def spans(out, at, before, after, T, SIDE: tl.constexpr,
          STEP: tl.constexpr):
    """`span` for 2,048 cases at once."""
    n = tl.arange(0, 2048)
    found = span(tl.load(at + n), T, tl.load(before + n),
                 tl.load(after + n), SIDE, STEP)
    for part in tl.static_range(4):
        tl.store(out + 4 * n + part, found[part])


@pytest.mark.parametrize("SIDE, STEP", [(16, 4), (4, 16), (8, 8)])
@pytest.mark.parametrize("T", [33, 48])
def test_spans(SIDE, STEP, T):
    """Every pair in reach is visited once; a whole tile has no other pair,
    and a tile that is cut has some, but not all."""
    sizes = (0, 1, 2, 3, 6, 7, 8, 14, 15, 16, 40)
    asked = [(at, before, after) for at in range(0, T, SIDE)
             for before in (-5, -1, *sizes)      # below 0 with a cache
             for after in sizes if before + after >= 0 and at - before < T]
    table = torch.zeros(3, 2048, dtype=torch.int32)
    table[:, :len(asked)] = torch.tensor(asked).mT
    out = torch.zeros(2048, 4, dtype=torch.int32)
    spans[(1,)](out, *table, T, SIDE, STEP)
    for (at, before, after), own in zip(asked, out.tolist()):
        first, end, whole, length = own
        see = {j: sum(i - before <= j <= i + after
                      for i in range(at, at + SIDE)) for j in range(T)}
        cut = [j0 if j0 < whole else j0 + length
               for j0 in range(first, end - length, STEP)]
        full = range(whole, whole + length, STEP)
        visited = [j for j0 in [*cut, *full] for j in range(j0, j0 + STEP)
                   if j < T]
        assert len(visited) == len(set(visited))
        assert {j for j in see if see[j]} <= set(visited)
        for j0 in full:
            assert all(see.get(j) == SIDE for j in range(j0, j0 + STEP))
        for j0 in cut:
            part = [see[j] for j in range(j0, min(j0 + STEP, T))]
            assert any(part) or at + SIDE > T
            assert len(part) < STEP or min(part) < SIDE
