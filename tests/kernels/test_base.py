"""What all of `lintut.kernels` shares: the choice, the checks, the lists."""

import doctest
import re

import pytest
import torch

import lintut.kernels
from lintut.kernels import _backend, _blocks, _checks, _sequences

Q = torch.zeros(2, 5, 3, 64)


def test_docstring():
    assert doctest.testmod(lintut.kernels).failed == 0


@pytest.mark.parametrize("capability, dtype, chosen, why", [
    (None, torch.float32, "torch", "cpu"),
    ((7, 5), torch.float16, "torch", "7.5.*without the tensor cores"),
    ((8, 0), torch.bfloat16, "triton", "8.0 has tensor cores"),
    ((8, 9), torch.float32, "triton", "8.9 has"),
    ((9, 0), torch.float64, "torch", "float64"),
    ((12, 0), torch.float16, "triton", "12.0 has"),
])
def test_choice_follows_the_capability(capability, dtype, chosen, why):
    if capability is None:
        choice = lintut.kernels.explain(Q.to(dtype))
    else:
        with _backend.pretend(*capability):
            choice = lintut.kernels.explain(Q.to(dtype))
    assert choice.backend == chosen
    assert re.search(why, choice.reason), choice.reason


def test_choice_refuses():
    with pytest.raises(ValueError, match="backend must be one of auto"):
        lintut.kernels.explain(Q, backend="cuda")
    with pytest.raises(ValueError, match="cannot run: q is on the cpu"):
        lintut.kernels.explain(Q, backend="triton")
    with _backend.pretend(7, 5):
        with pytest.raises(ValueError, match="bfloat16, which .* 7.5 does"):
            lintut.kernels.explain(Q.bfloat16())
    with _backend.pretend(9, 0):
        with pytest.raises(ValueError, match="widths up to 256.* 300"):
            lintut.kernels.explain(Q, torch.zeros(2, 5, 3, 300), "triton")
        wide = lintut.kernels.explain(Q, torch.zeros(2, 5, 3, 300))
        assert wide.backend == "torch"


@pytest.mark.parametrize("capability, name", [
    ((7, 5), "fma"), ((8, 0), "large"), ((8, 6), "small"), ((8, 9), "small"),
    ((9, 0), "large"), ((10, 0), "large"), ((12, 0), "small")])
def test_device_class(capability, name):
    with _backend.pretend(*capability):
        assert _blocks.device_class(Q.device) == name


def test_blocks_have_reasons_and_fallbacks():
    for (kernel, kind, bits), row in _blocks.TABLE.items():
        assert kind in ("fma", "small", "large", "10.0") and bits in (16, 32)
        assert (kernel, "large", bits) in _blocks.TABLE
        assert len(row.why.split()) >= 2, (kernel, kind, bits)


def test_padded():
    assert [_blocks.padded(w, 64) for w in (1, 16, 17, 33, 64, 80, 256)] == [
        16, 16, 32, 64, 64, 64, 64]


def test_chunks_of_packed_sequences():
    got = _sequences.chunks(torch.zeros(1, 40, 1, 1), (0, 1, 34, 40), 16)
    assert (got.sequences, got.count) == (3, 5)
    assert got.spans.tolist() == [[0, 1], [1, 17], [17, 33], [33, 34],
                                  [34, 40]]
    assert got.first.tolist() == [0, 1, 4, 5]
    same = _sequences.chunks(torch.zeros(2, 17, 1, 1), None, 16)
    assert same.spans.tolist() == [[0, 16], [16, 17], [17, 33], [33, 34]]


@pytest.mark.parametrize("change, message", [
    (dict(q=[1.0]), r"q must be a torch.Tensor of shape \(B, T, H, D\)"),
    (dict(q=Q[0]), r"q must have shape \(B, T, H, D\); its shape is \(5, 3,"),
    (dict(q=Q.int()), "q must be float32, float16, .* it is int32"),
    (dict(q=Q[:, :0], k=Q[:, :0], v=Q[:, :0]), "q is empty"),
    (dict(k=Q.half()), "share one dtype; they are float32, float16"),
    (dict(k=Q[..., :3]), r"k must have q's shape \(2, 5, 3, 64\)"),
    (dict(v=Q[:, :4]), r"v must have q's axes .* \(2, 5, 3\)"),
    (dict(v=Q / 0), r"v must be finite; v\[0, 0, 0, 0\] is nan"),
])
def test_qkv_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        _checks.qkv(**(dict(q=Q, k=Q, v=Q) | change))


@pytest.mark.parametrize("got, message", [
    (Q + 1.5, r"alpha must lie in \(0, 1\]; its largest entry is 1.5"),
    (Q - 0.5, r"alpha must lie in \(0, 1\]; its smallest entry is -0.5"),
    (Q[..., 0] + 1, r"alpha must have shape \(B, T, H, D\); its shape"),
    (Q.half() + 1, "alpha must be float32, as q is, or float32"),
])
def test_gate_refuses(got, message):
    with pytest.raises(ValueError, match=message):
        _checks.gate("alpha", got, Q, per_key=True)


def test_state_and_count_refuse():
    with pytest.raises(ValueError, match="initial_state must be float32"):
        _checks.state("initial_state", Q[0].double(), Q, (5, 3, 64))
    with pytest.raises(ValueError, match=r"must have shape \(2, 5\); its"):
        _checks.state("initial_state", Q[0, 0], Q, (2, 5))
    with pytest.raises(ValueError, match="chunk_size must be at least 1"):
        _checks.count("chunk_size", 0)
    with pytest.raises(ValueError, match="chunk_size must be a whole"):
        _checks.count("chunk_size", 2.0)
    with pytest.raises(ValueError, match="16, 32, 64 or 128.* it is 48"):
        _checks.tile(48)
    with pytest.raises(ValueError, match=r"step takes one token.*\(2, 5,"):
        _checks.one_token(Q)


@pytest.mark.parametrize("got, message", [
    ([0, 5], "cu_seqlens must be a tensor of int32 or int64.* is list"),
    (torch.tensor([0.0, 5]), "it is float32 of shape"),
    (torch.tensor([0, 3, 3, 5]), r"must rise from 0 to T=5.*\[0, 3, 3, 5\]"),
    (torch.tensor([0, 4]), "must rise from 0 to T=5"),
    (torch.tensor([1, 5]), "must rise from 0 to T=5"),
])
def test_bounds_refuse(got, message):
    with pytest.raises(ValueError, match=message):
        _checks.bounds(got, Q[:1])
    with pytest.raises(ValueError, match="B=1; q's shape"):
        _checks.bounds(torch.tensor([0, 5]), Q)


def test_bounds():
    assert _checks.bounds(None, Q) is None
    assert _checks.bounds(torch.tensor([0, 2, 5]), Q[:1]) == (0, 2, 5)
