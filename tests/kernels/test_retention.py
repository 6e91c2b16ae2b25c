"""Retention on torch; its Triton kernels, interpreted and compiled."""

import numpy as np
import pytest
import torch

from lintut.kernels import _backend, retention
from lintut.reference import retention as numpy_retention

from . import harness, recurrences

GAMMA = torch.tensor([0.96875, 1e-6, 1.0], dtype=torch.float64)


def inputs(B, T, H, D, V, dtype=torch.float64, n=None):
    x = recurrences.draw(B, T, H, D, V, n=n, dtype=dtype)
    x["S"] = x["S"].to(torch.promote_types(dtype, torch.float32))
    return x


def run(C=64, **options):
    def call(q, k, v, S, gamma=None):
        gamma = GAMMA[:q.shape[2]] if gamma is None else gamma
        return retention.chunkwise(q, k, v, gamma, initial_state=S,
                                   return_state=True, chunk_size=C, **options)
    return call


def oracle(q, k, v, S, gamma=None):
    gamma = GAMMA[:q.shape[2]] if gamma is None else gamma
    return recurrences.gated(q, k, v, gamma[:, None].expand_as(q), S)


@pytest.mark.parametrize("T", [1, 2, 15, 17, 64, 65, 257])
@pytest.mark.parametrize("C", [1, 7, 64, 300])
def test_equals_the_reference(T, C):
    x = inputs(2, T, 3, 5, 7)
    o, S = run(C)(**x)
    for h, gamma in enumerate(GAMMA.tolist()):
        q, k, v = (x[n][:, :, h].numpy() for n in "qkv")
        expected = numpy_retention.recurrent(
            q, k, v, gamma=gamma, initial_state=x["S"][:, h].numpy(),
            return_state=True)
        np.testing.assert_allclose(o[:, :, h], expected[0], atol=1e-11)
        np.testing.assert_allclose(S[:, h], expected[1], atol=1e-11)


def test_gradients_equal_the_token_loop():
    recurrences.compare(run(16), oracle, inputs(2, 50, 3, 5, 7), 1e-12)


def test_gamma_has_a_gradient_too():
    gamma = torch.tensor([0.9, 0.3], dtype=torch.float64)
    recurrences.compare(run(16), oracle,
                        inputs(1, 50, 2, 5, 7) | dict(gamma=gamma), 1e-12)


def test_gradcheck():
    x = inputs(1, 5, 2, 2, 3) | dict(gamma=torch.tensor([0.9, 0.4]).double())
    torch.autograd.gradcheck(run(2), [a.requires_grad_() for a in x.values()])


def test_float32_over_4096_tokens():
    x = inputs(1, 4096, 2, 16, 8, torch.float32)
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
    x = inputs(2, 9, 3, 5, 7)
    whole, last = run(4)(**x)
    S = x["S"]
    for t in range(9):
        o, S = retention.step(*(x[n][:, t:t + 1] for n in "qkv"), GAMMA, S)
        assert harness.row_error(o, whole[:, t:t + 1]) < 1e-12
    assert harness.row_error(S, last) < 1e-12


def test_packed_sequences():
    bounds = (0, 1, 36, 52)
    def packed(q, k, v, S):
        return recurrences.packed(oracle, bounds, (q, k, v), (S,))
    recurrences.compare(run(16, cu_seqlens=torch.tensor(bounds)), packed,
                        inputs(1, 52, 2, 5, 7, n=3), 1e-12)


def test_gamma_as_a_number():
    x = inputs(1, 20, 3, 4, 3)
    one = retention.chunkwise(x["q"], x["k"], x["v"], 0.5)
    all_of_it = retention.chunkwise(x["q"], x["k"], x["v"],
                                    torch.full((3,), 0.5))
    assert torch.equal(one, all_of_it)


@pytest.mark.parametrize("gamma, message", [
    (1.5, r"gamma must lie in \(0, 1\]; its largest entry is 1.5"),
    (0.0, r"gamma must lie in \(0, 1\]; its smallest entry is 0"),
    (torch.ones(2), r"gamma must be a number or have shape \(H,\) = \(3,\)"),
    (torch.ones(3, 1), r"gamma must have shape \(H,\); its shape is"),
    ("slow", r"gamma must be a torch.Tensor of shape \(H,\)"),
])
def test_refuses(gamma, message):
    x = inputs(1, 20, 3, 4, 4)
    with pytest.raises(ValueError, match=message):
        retention.chunkwise(x["q"], x["k"], x["v"], gamma)


def test_gamma_with_a_gradient_stays_on_torch():
    x = inputs(1, 20, 2, 4, 4, torch.float32)
    x["gamma"] = torch.tensor([0.5, 0.9], requires_grad=True)
    with _backend.pretend(9, 0):
        o, _ = run()(**x)                   # on a GPU "auto" means Triton
        with pytest.raises(ValueError, match="gamma must not require a grad"):
            run(backend="triton")(**x)
    o.sum().backward()
    assert torch.isfinite(x["gamma"].grad).all()


@pytest.mark.kernels
def test_interpreted():
    harness.interpret("test_retention.py")


@pytest.mark.kernels
def test_compiled():
    harness.compiled("retention")
