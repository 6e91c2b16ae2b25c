"""Softmax attention: the torch path, the checks, decoding, compilation.

The Triton kernels' own tests are interpreted/test_softmax.py.
"""

from functools import partial

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import lintut.reference.sliding_window
import lintut.reference.softmax
from lintut.kernels import sliding_window, softmax

from . import harness
from . import softmax_cases as cases

torch_path = partial(softmax.attention, backend="torch")


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setitem(softmax.SIDE, "cpu", 16)


@pytest.mark.parametrize("case", cases.CASES, ids=cases.name)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12),
                                              (torch.float32, 1e-5)])
def test_equals_explicit_attention(small_tiles, case, dtype, tolerance):
    cases.exact(case, "torch", dtype, tolerance)


@pytest.mark.parametrize("case", cases.HALF, ids=cases.name)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(small_tiles, case, dtype):
    cases.rounded(case, "torch", dtype)


@pytest.mark.parametrize("T, keywords", [
    (7, dict()), (9, dict(causal=True, scale=0.3)),
    (8, dict(causal=True, window=3)), (8, dict(window=4))])
def test_gradcheck(T, keywords, monkeypatch):
    monkeypatch.setitem(softmax.SIDE, "cpu", 3)
    given, _ = cases.inputs(1, 2, T, T, 3, 2)
    leaves = [x.requires_grad_() for x in given.values()]
    assert torch.autograd.gradcheck(
        lambda *x: torch_path(*x, **keywords), leaves)


def to_numpy(x):
    return x.transpose(1, 2).detach().numpy()       # (B, H, T, D)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 1, 6, 31, 500])
def test_equals_the_reference(small_tiles, causal, window):
    given, _ = cases.inputs(2, 3, 70, 70, 9, 5)
    o = torch_path(**given, causal=causal, window=window)
    own = [to_numpy(x) for x in given.values()]
    expected = (
        lintut.reference.softmax.parallel(*own, causal=causal)
        if window is None else
        lintut.reference.sliding_window.parallel(*own, window, causal=causal))
    np.testing.assert_allclose(to_numpy(o), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 2, 5, 64, 65, 200])
def test_keys_counted_in_every_row(causal, window):
    """Equal scores: a row's output is the mean over the keys it sees."""
    T = 150
    q = torch.zeros(1, T, 1, 16, dtype=torch.float64)
    v = torch.eye(T, dtype=torch.float64)[None, :, None]
    rows = sliding_window.chunkwise(q, q, v, window, causal,
                                    backend="torch")[0, :, 0]
    for i, row in enumerate(rows):
        low = i - window + 1 if causal else i - window // 2
        high = i if causal else i + (window - 1) // 2
        keys = range(max(low, 0), min(high, T - 1) + 1)
        assert (row > 0).nonzero().ravel().tolist() == list(keys)
        assert torch.allclose(row[list(keys)], row.new_tensor(1 / len(keys)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16,
                                   torch.bfloat16])
def test_constant_values_come_back(dtype):
    given, _ = cases.inputs(2, 3, 300, 300, 16, 16)
    v = torch.full_like(given["v"], 0.7).to(dtype)
    o = torch_path(given["q"].to(dtype), given["k"].to(dtype), v, causal=True)
    assert (o - v).abs().max() <= 8 * torch.finfo(dtype).eps * 0.7


def test_large_scores_do_not_overflow():
    """Scores of ±10⁶: only the largest of a row counts."""
    given, weights = cases.inputs(2, 3, 200, 200, 16, 16)
    given["q"] *= 1e6
    pairs = cases.compare(torch_path, given, weights, dict(causal=True),
                          torch.float32)
    assert cases.row_error(*pairs["o"]) < 1e-5
    assert cases.row_error(*pairs["dv"]) < 1e-5
    assert all(torch.isfinite(got).all() for got, _ in pairs.values())
    given["q"] /= 500       # qᵀk above 65,504, scores below: float16 holds
    o = torch_path(*(x.half() for x in given.values()), causal=True)
    assert (given["q"] @ given["k"].mT).abs().max() > 65_504
    assert torch.isfinite(o).all()


def test_inputs_of_any_stride():
    given, _ = cases.inputs(2, 3, 70, 70, 16, 24)
    strided = {n: x.transpose(1, 2).contiguous().transpose(1, 2)
               for n, x in given.items()}
    assert not strided["q"].is_contiguous()
    assert torch.equal(torch_path(**given), torch_path(**strided))


# -- the work and the memory --

class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation returns."""
    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        for x in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(x, torch.Tensor):
                self.entries = max(self.entries, x.numel())
        return result


def test_no_square_is_built():
    T = 2048
    x = torch.randn(1, T, 1, 16, requires_grad=True)
    with Largest() as seen:
        torch_path(x, x, x, causal=True).sum().backward()
    assert seen.entries <= T * 16               # the tensors themselves
    with Largest() as seen:
        cases.explicit(x, x, x)
    assert seen.entries == T * T                # the measure sees a square


@pytest.mark.parametrize("window, most", [(None, 0.54), (128, 0.14)])
def test_hidden_tiles_are_skipped(window, most):
    """The triangle is half of the square; a window is a band of it."""
    T = 2048
    x = torch.randn(1, T, 1, 16, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        torch_path(x, x, x, causal=True, window=window).sum().backward()
    square = 2 * T * T * 16 * 7         # two products forward, five back
    assert counter.get_total_flops() <= most * square


# -- a state, and decoding --

@pytest.mark.parametrize("window", [None, 1, 7, 90])
def test_split_in_four_equals_one_pass(window):
    given, _ = cases.inputs(2, 3, 200, 200, 16, 12)
    whole, last = torch_path(**given, causal=True, window=window,
                             return_state=True)
    state, parts = None, []
    for start, stop in ((0, 1), (1, 70), (70, 199), (199, 200)):
        o, state = torch_path(
            *(x[:, start:stop] for x in given.values()), causal=True,
            window=window, initial_state=state, return_state=True)
        parts.append(o)
    assert torch.allclose(torch.cat(parts, 1), whole, rtol=0, atol=1e-13)
    for x, y, full in zip(state, last, (given["k"], given["v"])):
        assert torch.equal(x, y)
        assert torch.equal(x, full if window is None else full[:, -window:])


@pytest.mark.parametrize("window", [None, 1, 7])
def test_step_equals_one_pass(window):
    given, _ = cases.inputs(2, 3, 30, 30, 16, 12)
    whole, last = torch_path(**given, causal=True, window=window,
                             return_state=True)
    state = None
    for t in range(30):
        before = None if state is None else [x.clone() for x in state]
        o, after = softmax.step(*(x[:, t:t + 1] for x in given.values()),
                                window=window, initial_state=state)
        assert torch.allclose(o, whole[:, t:t + 1], rtol=0, atol=1e-13)
        assert before is None or all(map(torch.equal, before, state))
        state = after
    assert all(map(torch.equal, state, last))


def test_gradient_of_the_state():
    given, weights = cases.inputs(2, 3, 40, 40, 16, 12)
    K, V = (harness.random((2, 25, 3, w), s) for w, s in ((16, 7), (12, 8)))

    def run(q, k, v, K, V):
        return torch_path(q, k, v, causal=True, initial_state=(K, V))

    def oracle(q, k, v, K, V):
        return cases.explicit(q, torch.cat([K, k], 1), torch.cat([V, v], 1),
                              causal=True)

    given |= dict(K=K, V=V)
    (o,), found = harness.gradients(run, given, [weights])
    (want,), expected = harness.gradients(oracle, given, [weights])
    assert harness.row_error(o, want) < 1e-12
    for n in given:
        assert harness.row_error(found[n], expected[n]) < 1e-12, n


def test_sliding_window_is_softmax_with_a_window():
    given, _ = cases.inputs(2, 3, 50, 50, 16, 12)
    for causal in (True, False):
        assert torch.equal(
            sliding_window.chunkwise(**given, window=9, causal=causal),
            softmax.chunkwise(**given, window=9, causal=causal))
    one = {n: x[:, :1] for n, x in given.items()}
    o, (K, V) = sliding_window.step(
        **one, window=4, initial_state=(given["k"], given["v"]))
    assert K.shape[1] == V.shape[1] == 4


X = torch.randn(2, 5, 3, 16)


@pytest.mark.parametrize("change, message", [
    (dict(k=X[:, :4], v=X[:, :4], causal=True), "k must have q's shape"),
    (dict(k=X[:, :4], v=X[:, :4], window=3), "k must have q's shape"),
    (dict(k=X[:, :, :2]), "k must have q's shape .*, T aside"),
    (dict(v=X[:, :4]), r"v must have k's axes \(B, T, H\) = \(2, 5, 3\)"),
    (dict(window=0), "window must be at least 1; it is 0"),
    (dict(window=2.0), "window must be a whole number; it is 2.0"),
    (dict(scale=float("nan")), "scale must be a finite number; it is nan"),
    (dict(scale="1"), "scale must be a finite number; it is '1'"),
    (dict(backend="cuda"), "backend must be one of"),
    (dict(return_state=True), "return_state need causal=True"),
    (dict(initial_state=X, causal=True), "a pair of tensors .* is Tensor"),
    (dict(initial_state=(X, X[..., :9]), causal=True),
     r"initial_state's V must be .* \(2, 5, 3, 16\); it is .* \(2, 5, 3, 9"),
    (dict(initial_state=(X, X[:, :2]), causal=True), "one length; .* 5 and 2"),
    (dict(initial_state=(X.half(), X), causal=True), "initial_state's K must"),
    (dict(q=X / 0), "q must be finite"),
])
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        softmax.attention(**(dict(q=X, k=X, v=X) | change))


def test_step_refuses():
    with pytest.raises(ValueError, match="step takes one token"):
        softmax.step(X, X, X)
    with pytest.raises(ValueError, match="window must be at least 1"):
        softmax.step(X[:, :1], X[:, :1], X[:, :1], window=0)


# -- the kernels --

@pytest.mark.kernels
def test_interpreted():
    harness.interpret("test_softmax.py")


@pytest.mark.kernels
def test_compiled():
    harness.compiled("softmax")
