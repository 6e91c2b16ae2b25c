"""Linear attention on torch; its Triton kernels, interpreted and compiled."""

import numpy as np
import pytest
import torch

from lintut.kernels import linear
from lintut.reference import linear as numpy_linear

from . import harness, recurrences


def inputs(B, T, H, D, V, dtype=torch.float64, n=None):
    x = recurrences.draw(B, T, H, D, V, n=n, dtype=dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x["S"] = x["S"].to(wide)
    return x | dict(z=x["S"][..., 0].abs() + 0.5)


def run(C=64, **options):
    def call(q, k, v, S, z):
        o, state = linear.chunkwise(q, k, v, initial_state=(S, z),
                                    return_state=True, chunk_size=C,
                                    **options)
        return o, *state
    return call


def oracle(q, k, v, S, z):
    return recurrences.linear(linear.elu_plus_one(q), linear.elu_plus_one(k),
                              v, S, z)


@pytest.mark.parametrize("T", [1, 2, 15, 17, 64, 65, 257])
@pytest.mark.parametrize("C", [1, 7, 64, 300])
def test_equals_the_reference(T, C):
    x = inputs(2, T, 3, 5, 7)
    q, k, v = (x[n].transpose(1, 2).numpy() for n in "qkv")
    state = x["S"].numpy(), x["z"].numpy()
    expected = numpy_linear.recurrent(q, k, v, initial_state=state,
                                      return_state=True)
    o, (S, z) = linear.chunkwise(
        *(x[n] for n in "qkv"), initial_state=(x["S"], x["z"]),
        return_state=True, chunk_size=C)
    np.testing.assert_allclose(o.transpose(1, 2), expected[0], rtol=1e-10)
    np.testing.assert_allclose(S, expected[1][0], rtol=1e-10)
    np.testing.assert_allclose(z, expected[1][1], rtol=1e-10)


def test_gradients_equal_the_token_loop():
    recurrences.compare(run(16), oracle, inputs(2, 50, 2, 5, 7), 1e-12)


def test_gradcheck():
    x = inputs(1, 5, 2, 2, 3)
    torch.autograd.gradcheck(run(2), [a.requires_grad_() for a in x.values()])


def test_float32_over_4096_tokens():
    x = inputs(1, 4096, 1, 16, 8, torch.float32)
    o, *state = run()(**x)
    expected, *last = run()(**recurrences.wide(x))
    assert harness.row_error(o, expected) < 1e-5
    assert harness.row_error(state[0], last[0]) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_constant_values_come_back(dtype):
    """Also where sums over the sequence leave float16's range."""
    q, k = harness.random((2, 1, 5000, 1, 16), 1, 2.0).to(dtype)
    v = torch.full((1, 5000, 1, 3), 100.0, dtype=dtype, requires_grad=True)
    o = linear.chunkwise(q, k, v)
    tiny = torch.finfo(dtype).eps
    assert ((o - 100).abs() <= 400 * tiny).all()
    o.sum().backward()
    assert torch.isfinite(v.grad).all() and v.grad.dtype == dtype


def test_split_and_carry():
    x = inputs(1, 100, 2, 5, 7)
    whole, S, z = run(16)(**x)
    state, parts = (x["S"], x["z"]), []
    for start, stop in ((0, 1), (1, 40), (40, 96), (96, 100)):
        o, state = linear.chunkwise(
            *(x[n][:, start:stop] for n in "qkv"), initial_state=state,
            return_state=True, chunk_size=16)
        parts.append(o)
    assert harness.row_error(torch.cat(parts, 1), whole) < 1e-12
    assert harness.row_error(state[0], S) < 1e-12
    assert harness.row_error(state[1][None], z[None]) < 1e-12


def test_step_is_one_token():
    x = inputs(2, 9, 2, 5, 7)
    whole, S, z = run(4)(**x)
    state = x["S"], x["z"]
    for t in range(9):
        o, state = linear.step(*(x[n][:, t:t + 1] for n in "qkv"),
                               initial_state=state)
        assert harness.row_error(o, whole[:, t:t + 1]) < 1e-12
    assert harness.row_error(state[0], S) < 1e-12


def test_packed_sequences():
    bounds = (0, 1, 36, 52)
    def packed(q, k, v, S, z):
        return recurrences.packed(oracle, bounds, (q, k, v), (S, z))
    recurrences.compare(run(16, cu_seqlens=torch.tensor(bounds)), packed,
                        inputs(1, 52, 2, 5, 7, n=3), 1e-12)


def test_the_future_changes_nothing():
    x = inputs(1, 50, 1, 4, 4)
    before = run(16)(**x)[0]
    for name in "qkv":
        x[name] = x[name].clone()
        x[name][:, 30:] += 1
    assert torch.equal(run(16)(**x)[0][:, :30], before[:, :30])


def test_feature_maps():
    x = inputs(1, 20, 1, 4, 3)
    def wide(y):
        return torch.cat([y.exp(), 2 * y.exp()], -1)
    o, (S, z) = linear.chunkwise(*(x[n] for n in "qkv"), feature_map=wide,
                                 return_state=True)
    assert S.shape == (1, 1, 8, 3) and z.shape == (1, 1, 8)
    q, k = wide(x["q"]), 3 * x["k"].exp().repeat(1, 1, 1, 2)
    expected = recurrences.linear(q, k, x["v"], 0 * S, 0 * z)[0]
    got = linear.chunkwise(
        *(x[n] for n in "qkv"),
        feature_map=(wide, lambda y: 3 * y.exp().repeat(1, 1, 1, 2)))
    assert harness.row_error(got, expected) < 1e-12


def test_elu_plus_one_far_below_zero():
    x = torch.tensor([-80.0, -1.0, 0.0, 2.0], requires_grad=True)
    y = linear.elu_plus_one(x)
    y.sum().backward()
    expected = [np.exp(-80.0), np.exp(-1.0), 1, 3]
    np.testing.assert_allclose(y.detach(), expected, rtol=1e-6)
    np.testing.assert_allclose(x.grad, [*expected[:3], 1], rtol=1e-6)


@pytest.mark.parametrize("change, message", [
    (dict(feature_map=3), "feature_map must be a function, or a pair"),
    (dict(feature_map=lambda x: x[:, :1]),
     r"feature_map\(q\) must keep q's axes .*\(1, 1, 1, 4\)"),
    (dict(feature_map=(lambda x: x, lambda x: x[..., :2])),
     "feature_map must give q and k one width r"),
    (dict(feature_map=lambda x: 0 * x), "denominator .* must be positive; "
     "its smallest value is 0"),
    (dict(initial_state=torch.zeros(1)), r"must be a pair \(S, z\)"),
    (dict(initial_state=(torch.zeros(1, 1, 4, 4).double(),) * 2),
     r"initial_state's z must have shape"),
    (dict(chunk_size=0), "chunk_size must be at least 1"),
    (dict(backend="triton"), "backend='triton' cannot run"),
    (dict(k=torch.full((1, 20, 1, 4), float("nan")).double()),
     r"k must be finite; k\[0, 0, 0, 0\] is nan"),
])
def test_refuses(change, message):
    x = inputs(1, 20, 1, 4, 4)
    with pytest.raises(ValueError, match=message):
        linear.chunkwise(**({n: x[n] for n in "qkv"} | change))


@pytest.mark.kernels
def test_interpreted():
    harness.interpret("test_linear.py")


@pytest.mark.kernels
def test_compiled():
    harness.compiled("linear")
