"""Gated linear attention on torch; its kernels, interpreted and compiled."""

import numpy as np
import pytest
import torch

from lintut.kernels import gla
from lintut.reference import gla as numpy_gla

from . import harness, recurrences


def inputs(B, T, H, D, V, dtype=torch.float64, n=None):
    x = recurrences.draw(B, T, H, D, V, n=n, dtype=dtype)
    x["S"] = x["S"].to(torch.promote_types(dtype, torch.float32))
    return x | dict(alpha=harness.gates((B, T, H, D), 5, dtype=dtype))


def run(C=64, **options):
    def call(q, k, v, S, alpha):
        return gla.chunkwise(q, k, v, alpha, initial_state=S,
                             return_state=True, chunk_size=C, **options)
    return call


def oracle(q, k, v, S, alpha):
    return recurrences.gated(q, k, v, alpha, S)


@pytest.mark.parametrize("T", [1, 2, 15, 17, 64, 65, 257])
@pytest.mark.parametrize("C", [1, 7, 64, 300])
def test_equals_the_reference(T, C):
    x = inputs(2, T, 3, 5, 7)
    q, k, v, alpha = (x[n].transpose(1, 2).numpy()
                      for n in ("q", "k", "v", "alpha"))
    expected = numpy_gla.recurrent(q, k, v, alpha=alpha,
                                   initial_state=x["S"].numpy(),
                                   return_state=True)
    o, S = run(C)(**x)
    np.testing.assert_allclose(o.transpose(1, 2), expected[0], atol=1e-11)
    np.testing.assert_allclose(S, expected[1], atol=1e-11)


@pytest.mark.parametrize("C", [7, 16])
def test_gradients_equal_the_token_loop(C):
    recurrences.compare(run(C), oracle, inputs(2, 50, 2, 5, 7), 1e-12)


def test_gradcheck():
    x = inputs(1, 5, 2, 2, 3)
    x["alpha"] = 0.5 + 0.5 * x["alpha"].clamp(max=0.98)
    torch.autograd.gradcheck(run(3), [a.requires_grad_() for a in x.values()])


@pytest.mark.parametrize("alpha", [1e-6, 1e-4, 0.01, 0.1, 1.0])
def test_constant_gates_in_float32(alpha):
    """Where a ratio of products over the chunk would overflow."""
    x = inputs(1, 130, 1, 4, 4, torch.float32)
    x["alpha"] = torch.full_like(x["alpha"], alpha)
    recurrences.compare(run(64), oracle, x, 1e-5)


def test_float32_over_4096_tokens():
    x = inputs(1, 4096, 1, 16, 8, torch.float32)
    o, S = run()(**x)
    expected, last = run()(**recurrences.wide(x))
    assert harness.row_error(o, expected) < 1e-5
    assert harness.row_error(S, last) < 1e-5


def test_split_and_carry():
    x = inputs(1, 100, 2, 5, 7)
    whole, last = run(16)(**x)
    S, parts = x.pop("S"), []
    for start, stop in ((0, 1), (1, 40), (40, 96), (96, 100)):
        o, S = run(16)(**{n: a[:, start:stop] for n, a in x.items()}, S=S)
        parts.append(o)
    assert harness.row_error(torch.cat(parts, 1), whole) < 1e-12
    assert harness.row_error(S, last) < 1e-12


def test_step_is_one_token():
    x = inputs(2, 9, 2, 5, 7)
    whole, last = run(4)(**x)
    S = x.pop("S")
    for t in range(9):
        o, S = gla.step(*(x[n][:, t:t + 1] for n in ("q", "k", "v", "alpha")),
                        initial_state=S)
        assert harness.row_error(o, whole[:, t:t + 1]) < 1e-12
    assert harness.row_error(S, last) < 1e-12


def test_packed_sequences():
    bounds = (0, 1, 36, 52)
    def packed(q, k, v, S, alpha):
        return recurrences.packed(recurrences.gated, bounds,
                                  (q, k, v, alpha), (S,))
    recurrences.compare(run(16, cu_seqlens=torch.tensor(bounds)), packed,
                        inputs(1, 52, 2, 5, 7, n=3), 1e-12)


def test_gates_of_float32_beside_float16():
    x = inputs(1, 40, 1, 8, 8, torch.float16)
    x["alpha"] = harness.gates((1, 40, 1, 8), 5, dtype=torch.float32)
    o, _ = run(16)(**x)
    expected, _ = oracle(**recurrences.wide(x))
    assert o.dtype == torch.float16
    assert harness.row_error(o, expected) < 1e-2


@pytest.mark.parametrize("alpha, message", [
    (torch.zeros(1, 20, 3, 4), r"alpha must lie in \(0, 1\]; its smallest"),
    (torch.full((1, 20, 3, 4), 1.01), "its largest entry is 1.01"),
    (torch.ones(1, 20, 3), r"alpha must have shape \(B, T, H, D\); its"),
    (torch.ones(1, 20, 3, 5), r"\(B, T, H, D\) = \(1, 20, 3, 4\); its"),
    (torch.ones(1, 20, 3, 4).half(), "alpha must be float64, as q is"),
])
def test_refuses(alpha, message):
    x = inputs(1, 20, 3, 4, 4)
    alpha = alpha.double() if alpha.dtype == torch.float32 else alpha
    with pytest.raises(ValueError, match=message):
        gla.chunkwise(x["q"], x["k"], x["v"], alpha)


@pytest.mark.kernels
def test_interpreted():
    harness.interpret("test_gla.py")


@pytest.mark.kernels
def test_compiled():
    harness.compiled("gla")
