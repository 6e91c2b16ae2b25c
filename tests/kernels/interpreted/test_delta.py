"""delta and gated_delta: the kernels, interpreted, forward and backward."""

import importlib

import pytest
import torch

from lintut.kernels import gated_delta_triton

from ..delta_cases import (MODULES, chunkwise, errors, exact, inputs, loop,
                           named, packed)
from ..harness import row_error

BOTH = pytest.mark.parametrize("mechanism", ["delta", "gated_delta"])


@pytest.fixture
def any_chunk(monkeypatch):
    """Chunks as long as asked for, in float32 too."""
    monkeypatch.setattr(gated_delta_triton, "longest_chunk", lambda q: 128)


def triton(mechanism, C, **options):
    return chunkwise(mechanism, backend="triton", chunk_size=C, **options)


def check(got, expected, tolerance=1e-5):
    for name, x in expected.items():
        error = row_error(got[name], x)
        assert error <= tolerance, f"{name}: a row is off by {error:.2g}"


@BOTH
@pytest.mark.parametrize("T, C", [(1, 16), (15, 16), (17, 16), (63, 16),
                                  (65, 64), (100, 32)])
def test_kernels_are_the_token_loop(any_chunk, mechanism, T, C):
    found = inputs(mechanism, T, B=1, d=20, d_v=40, dtype=torch.float32)
    before = {n: x.clone() for n, x in found.items()}
    check(named(triton(mechanism, C), found), exact(found))
    assert all(torch.equal(found[n], x) for n, x in before.items())


@pytest.mark.parametrize("T, C", [(257, 64), (130, 128)])
def test_long_chunks(any_chunk, T, C):
    found = inputs("gated_delta", T, B=1, H=1, d=16, d_v=24,
                   dtype=torch.float32)
    check(named(triton("gated_delta", C), found), exact(found))


@BOTH
@pytest.mark.parametrize("B, H, d, d_v", [(2, 3, 16, 24), (1, 1, 72, 33),
                                          (1, 1, 130, 65)])
def test_widths(mechanism, B, H, d, d_v):
    """Several blocks of d and of d_v, the last one ragged."""
    found = inputs(mechanism, 35, B=B, H=H, d=d, d_v=d_v,
                   dtype=torch.float32)
    check(named(triton(mechanism, 16), found), exact(found))


@BOTH
def test_packed_sequences_do_not_meet(mechanism):
    lengths = [1, 40, 16, 3]
    found = inputs(mechanism, sum(lengths), B=1, d=16, d_v=20,
                   sequences=len(lengths), dtype=torch.float32)
    bounds = torch.tensor([0, *lengths]).cumsum(0)
    check(named(triton(mechanism, 16, cu_seqlens=bounds), found),
          exact(found, packed(loop, lengths)))


@BOTH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_no_worse_than_torch(mechanism, dtype):
    """At most twice the torch path's error."""
    found = inputs(mechanism, 150, B=1, d=32, d_v=16, dtype=dtype)
    expected = exact(found)
    ours = named(triton(mechanism, 64), found)
    assert ours["o"].dtype == dtype and ours["state"].dtype == torch.float32
    plain = errors(named(chunkwise(mechanism), found), expected)
    for name, error in errors(ours, expected).items():
        assert error <= 2 * plain[name], name


@BOTH
def test_kernels_are_the_reference(mechanism):
    """In float64, whose layout is (B, H, T, D)."""
    reference = importlib.import_module(f"lintut.reference.{mechanism}")
    found = inputs(mechanism, 70, d=18, d_v=30, dtype=torch.float32)
    o, S = reference.recurrent(
        **{n: x.double().transpose(1, 2).numpy() for n, x in found.items()
           if n != "initial_state"},
        initial_state=found["initial_state"].double().numpy(),
        return_state=True)
    got, state = triton(mechanism, 32)(**found)
    check({"o": got, "state": state},
          {"o": torch.from_numpy(o).transpose(1, 2),
           "state": torch.from_numpy(S)})


def test_all_gates_tiny():
    """α = 1e-6 throughout: dα is as exact as the rest, entry by entry."""
    found = inputs("gated_delta", 40, B=1, d=16, d_v=16, dtype=torch.float32)
    found["alpha"].fill_(1e-6)
    expected = exact(found)["dalpha"]
    got = named(triton("gated_delta", 16), found)["dalpha"]
    error = (got - expected).abs() / expected.abs().mean()
    assert error.max() < 1e-5


def test_small_gates_cost_later_tokens_no_digits(any_chunk):
    """40 gates of 1e-6, then 24 near one, in one chunk."""
    found = inputs("gated_delta", 64, B=1, H=1, d=16, d_v=16,
                   dtype=torch.float32)
    found["alpha"][:, :40] = 1e-6
    found["alpha"][:, 40:] = 0.999
    check(named(triton("gated_delta", 64), found), exact(found))


def test_one_key_again_and_again_returns_the_last_value(any_chunk):
    """β=1, ‖k‖=1: A is all ones, whose powers grow like binomials."""
    found = inputs("delta", 130, B=1, H=1, d=16, d_v=16,
                   dtype=torch.float32)
    found["k"].zero_()
    found["k"][..., 1] = 1
    o = triton("delta", 64)(**found | {"q": found["k"],
                                       "beta": torch.ones(1, 130, 1)})[0]
    assert row_error(o, found["v"]) < 1e-5


@BOTH
def test_strided_inputs_and_one_gradient(mechanism):
    """(B, H, T, D) in memory, and only k wants a gradient."""
    found = inputs(mechanism, 20, d=16, d_v=16, dtype=torch.float32)
    strided = {n: x if n == "initial_state" else
               x.transpose(1, 2).contiguous().transpose(1, 2)
               for n, x in found.items()}
    k = strided["k"].requires_grad_()
    o = triton(mechanism, 16)(**strided)[0]
    (dk,) = torch.autograd.grad(o.sum(), k)
    dense = {n: x.double() for n, x in found.items()}
    k = dense["k"].requires_grad_()
    expected = loop(**dense)[0]
    check({"o": o, "dk": dk}, {"o": expected, "dk": torch.autograd.grad(
        expected.sum(), k)[0]})


def test_chunk_size_is_a_tile():
    found = inputs("delta", 6, dtype=torch.float32)
    with pytest.raises(ValueError, match="chunk_size must be 16, 32, 64"):
        MODULES["delta"].chunkwise(**found, backend="triton", chunk_size=20)
