"""delta and gated_delta: the torch path; the kernels, interpreted, compiled.

The oracle is a token loop in float64, for results and gradients.
"""

import pytest
import torch
from lintut.kernels import delta, gated_delta, gated_delta_triton
from lintut.kernels._backend import pretend

from .delta_cases import (MODULES, chunkwise, errors, exact, inputs, loop,
                          named, packed)
from .harness import compiled, interpret, random, row_error

BOTH = pytest.mark.parametrize("mechanism", ["delta", "gated_delta"])
LENGTHS = (1, 15, 17, 63, 65, 100)


def check(got, expected, tolerance):
    for name, x in expected.items():
        error = row_error(got[name], x)
        assert error <= tolerance, f"{name}: a row is off by {error:.2g}"


@BOTH
@pytest.mark.parametrize("T, C", [*((T, 64) for T in LENGTHS), (257, 64),
                                  (257, 256), (50, 7), (9, 1), (30, 100)])
def test_torch_path_is_the_token_loop(mechanism, T, C):
    found = inputs(mechanism, T, B=1 if T > 100 else 2)
    check(named(chunkwise(mechanism, chunk_size=C), found), exact(found),
          1e-9)


@BOTH
def test_float32(mechanism):
    found = inputs(mechanism, 200, dtype=torch.float32)
    check(named(chunkwise(mechanism), found), exact(found), 2e-5)


@BOTH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits(mechanism, dtype):
    """A few roundings of the largest entry; states in float32."""
    found = inputs(mechanism, 200, d=32, d_v=24, dtype=dtype)
    got = named(chunkwise(mechanism), found)
    assert got["o"].dtype == dtype and got["state"].dtype == torch.float32
    for name, error in errors(got, exact(found)).items():
        assert error < 6 * torch.finfo(dtype).eps, name


@BOTH
def test_gradcheck(mechanism):
    found = {n: x.requires_grad_()
             for n, x in inputs(mechanism, 8, B=1, d=3, d_v=2).items()
             if n != "beta"}
    # beta stays inside [0, 2], so that a finite difference does too; alpha
    # as well, and away from 0, where it would be coarse
    beta = 0.1 + random((1, 8, 2), 5).sigmoid().mul(1.8).requires_grad_()
    if "alpha" in found:
        found["alpha"] = (random((1, 8, 2), 6).sigmoid() * 0.9 + 0.05
                          ).requires_grad_()

    def run(beta, *rest):
        return chunkwise(mechanism, chunk_size=3)(
            beta=beta, **dict(zip(found, rest)))
    assert torch.autograd.gradcheck(run, (beta, *found.values()))


@BOTH
def test_packed_sequences_do_not_meet(mechanism):
    lengths = [1, 40, 17, 33]
    found = inputs(mechanism, sum(lengths), B=1, sequences=len(lengths))
    bounds = torch.tensor([0, *lengths]).cumsum(0)
    check(named(chunkwise(mechanism, chunk_size=16, cu_seqlens=bounds),
                found), exact(found, packed(loop, lengths)), 1e-9)


@BOTH
def test_carried_state_is_one_pass(mechanism):
    found = inputs(mechanism, 90)
    o, S = loop(**found)
    state, parts = found.pop("initial_state"), []
    for start, stop in ((0, 1), (1, 30), (30, 64), (64, 90)):
        part, state = chunkwise(mechanism, chunk_size=16)(
            **{n: x[:, start:stop] for n, x in found.items()},
            initial_state=state)
        parts.append(part)
    check({"o": torch.cat(parts, 1), "state": state}, {"o": o, "state": S},
          1e-10)


@BOTH
def test_step_is_one_turn_of_the_loop(mechanism):
    found = inputs(mechanism, 5)
    o, S = loop(**found)
    state, parts = found.pop("initial_state"), []
    for t in range(5):
        part, state = MODULES[mechanism].step(
            **{n: x[:, t:t + 1] for n, x in found.items()},
            initial_state=state)
        parts.append(part)
    check({"o": torch.cat(parts, 1), "state": state}, {"o": o, "state": S},
          1e-12)


@BOTH
def test_no_state_given_is_a_state_of_zeros(mechanism):
    found = inputs(mechanism, 20)
    zeros = torch.zeros_like(found.pop("initial_state"))
    run = chunkwise(mechanism, chunk_size=8)
    check({"o": run(**found)[0]},
          {"o": loop(**found, initial_state=zeros)[0]}, 1e-10)
    module = MODULES[mechanism]
    first = {n: x[:, :1] for n, x in found.items()}
    assert torch.equal(module.step(**first)[0],
                       module.step(**first, initial_state=zeros)[0])
    assert torch.equal(module.chunkwise(**found, chunk_size=8),
                       run(**found)[0])


def test_gate_of_one_is_the_delta_rule():
    found = inputs("delta", 40)
    alpha = torch.ones_like(found["beta"])
    check({"o": gated_delta.chunkwise(**found, alpha=alpha, chunk_size=16)},
          {"o": delta.chunkwise(**found, chunk_size=16)}, 1e-14)


def test_one_key_again_and_again_returns_the_last_value():
    """β=1, ‖k‖=1: A is all ones, whose powers grow like binomials."""
    k = torch.zeros(1, 200, 1, 4)
    k[..., 1] = 1
    v = random((1, 200, 1, 3), 0).float()
    o = delta.chunkwise(k, k, v, torch.ones(1, 200, 1))
    assert row_error(o, v) < 1e-5


def test_error_is_taken_on_the_decayed_state():
    """S=k=β=1, α=½, v=0 leaves 0; without α in the error, −½."""
    one = torch.ones(1, 1, 1, 1)
    o = gated_delta.chunkwise(one, one, 0 * one, one[0] / 2, one[0],
                              initial_state=one)
    assert o.item() == 0


def test_small_gates_cost_later_tokens_no_digits():
    """40 gates of 1e-6, then 24 near one, in one chunk, in float32."""
    found = inputs("gated_delta", 64, dtype=torch.float32)
    found["alpha"][:, :40] = 1e-6
    found["alpha"][:, 40:] = 0.999
    check(named(chunkwise("gated_delta"), found), exact(found), 1e-5)


@BOTH
@pytest.mark.parametrize("name, change, message", [
    ("beta", lambda x: x + 2, r"beta must lie in \[0, 2\]"),
    ("beta", lambda x: x[:, 1:], r"beta must have shape \(B, T, H\)"),
    ("v", lambda x: x[:, 1:], "v must have q's axes"),
    ("k", lambda x: x.half(), "must share one dtype"),
    ("initial_state", lambda x: x.mT, "initial_state must have shape"),
    ("initial_state", lambda x: x.half(), "initial_state must be float64")])
def test_refusals(mechanism, name, change, message):
    found = inputs(mechanism, 6)
    found[name] = change(found[name])
    with pytest.raises(ValueError, match=message):
        MODULES[mechanism].chunkwise(**found)


@pytest.mark.parametrize("bad", [0.0, -0.2, 1.5])
def test_gate_out_of_range(bad):
    found = inputs("gated_delta", 6)
    found["alpha"][0, 3, 1] = bad
    with pytest.raises(ValueError, match=r"alpha must lie in \(0, 1\]"):
        gated_delta.chunkwise(**found)


@pytest.mark.kernels
def test_interpreted():
    interpret("test_delta.py")


@BOTH
@pytest.mark.kernels
def test_compiled(mechanism):
    compiled(mechanism)


@pytest.mark.parametrize("capability, dtype, d, rows", [
    ((7, 5), torch.float16, 64, 32), ((7, 5), torch.float16, 128, 16),
    ((9, 0), torch.float16, 128, 64), ((9, 0), torch.float32, 128, 32)])
def test_chunks_are_short_enough_not_to_spill(capability, dtype, d, rows):
    q = torch.zeros(1, 1, 1, d, dtype=dtype)
    with pretend(*capability):
        assert gated_delta_triton.longest_chunk(q) == rows
