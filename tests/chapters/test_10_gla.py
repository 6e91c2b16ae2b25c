"""The limits and special cases that chapter 10 names."""

import numpy as np
import pytest

from lintut.reference import delta, gla, retention


def data(N, d=5, d_v=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [x.astype(dtype) for x in (*rng.normal(size=(2, N, d)),
                                      rng.normal(size=(N, d_v)))]


def by_ratio(q, k, v, alpha):
    """The chapter's wrong way."""
    b = np.cumsum(np.log(alpha), axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.tril((q * np.exp(b)) @ (k * np.exp(-b)).T) @ v


def test_the_hand_worked_example():
    k = np.array([[1., 0], [0, 1], [1, 1]])
    v = np.array([[1., 0], [0, 2], [3, 1]])
    q = np.array([[0., 0], [0, 0], [1, 2]])
    alpha = np.array([[1, 1], [1, .5], [.5, 1]])
    o, S = gla.recurrent(q, k, v, alpha, return_state=True)
    assert S.tolist() == [[7 / 2, 1], [3, 3]]
    assert o[2].tolist() == [19 / 2, 7]
    assert gla.weights(q, k, alpha)[2].tolist() == [1 / 2, 2, 3]


@pytest.mark.parametrize("alpha, token", [(1e-4, 10), (.01, 20), (.1, 39)])
def test_the_ratio_overflows_and_the_reference_does_not(alpha, token):
    """The rows before that token are right, it and all later are lost."""
    x = data(64, 8, 5, dtype=np.float32)
    gates = np.full((64, 8), alpha, np.float32)
    right = gla.recurrent(*(y.astype(float) for y in (*x, gates)))
    o = by_ratio(*x, gates)
    assert np.isfinite(o[:token - 1]).all()
    assert np.abs(o - right)[:token - 1].max() < 1e-4
    assert not np.isfinite(o[token - 1:]).any()
    for form in (gla.chunkwise, gla.parallel):
        assert np.abs(form(*x, gates) - right).max() < 1e-5


def test_one_strong_gate_is_enough_for_the_ratio_to_break():
    x = data(64, 8, 5, dtype=np.float32)
    gates = np.full((64, 8), .99, np.float32)
    gates[20] = 1e-40
    o = by_ratio(*x, gates)
    assert np.isfinite(o[:20]).all() and not np.isfinite(o[20:]).any()
    right = gla.recurrent(*(y.astype(float) for y in (*x, gates)))
    assert np.abs(gla.chunkwise(*x, gates) - right).max() < 1e-4


def test_the_identity_of_the_border():
    """The product over s = j+1 … i splits at every m, j < m ≤ i."""
    alpha = np.random.default_rng(0).uniform(.1, 1, 12)
    for i in range(12):
        for j in range(i):
            whole = alpha[j + 1:i + 1].prod()
            for m in range(j + 1, i + 1):
                assert whole == pytest.approx(
                    alpha[m:i + 1].prod() * alpha[j + 1:m].prod())


@pytest.mark.parametrize("C", [16, 21, 64])
def test_every_pair_is_separated_by_one_border(C):
    """The halvings of `fade`, and the picture's level: the highest bit in
    which i and j differ."""
    seen = np.zeros((C, C), int)
    level = np.zeros((C, C), int)
    h = 1
    while h < C:
        for s in range(0, C - h, 2 * h):
            square = slice(s + h, s + 2 * h), slice(s, s + h)
            seen[square] += 1
            level[square] = h.bit_length()
        h *= 2
    assert np.array_equal(seen, np.tri(C, k=-1, dtype=int))
    i = np.arange(C)
    assert np.array_equal(level, np.tril(np.frexp(i[:, None] ^ i)[1], -1))


def test_differences_of_log_sums_lose_digits_with_length():
    gates = np.random.default_rng(0).uniform(.5, 1, 65536).astype(np.float32)
    b = np.cumsum(np.log(gates))
    error = np.abs(np.exp(b[1:] - b[:-1]) / gates[1:] - 1)
    assert error[:15].max() < 1e-6
    assert error.max() > 100 * error[:255].max()


@pytest.mark.parametrize("gamma", [1, .9, 2.0 ** -10])
def test_one_gate_for_all_is_retention(gamma):
    q, k, v = data(150)
    for form in (gla.parallel, gla.recurrent, gla.chunkwise):
        assert np.allclose(form(q, k, v, np.full(q.shape, float(gamma))),
                           retention.parallel(q, k, v, gamma),
                           rtol=0, atol=1e-11)


def test_a_gate_fades_what_was_there_before_its_token():
    q, k, v = np.ones((2, 1)), np.ones((2, 1)), np.array([[8.0], [1.0]])
    alpha = np.array([[.5], [.25]])
    assert gla.recurrent(q, k, v, alpha)[:, 0].tolist() == [8, 3]


def test_the_root_lengthens_each_half_life_sixteen_times():
    for x in (-4.0, 0.0, 4.0):
        sigmoid = 1 / (1 + np.exp(-x))
        lives = [np.log(.5) / np.log(g) for g in (sigmoid,
                                                  sigmoid ** (1 / 16))]
        assert lives[1] == pytest.approx(16 * lives[0])
    assert .5 ** (1 / 16) == pytest.approx(.9576, abs=5e-5)


@pytest.mark.parametrize("form", ["recurrent", "chunkwise"])
def test_padding_leaves_the_state(form):
    """k = 0 alone fades it; k = 0 with α = 1 changes no bit."""
    q, k, v = data(9)
    alpha = np.random.default_rng(1).uniform(.6, 1, k.shape)
    S0 = np.random.default_rng(2).normal(size=(5, 3))
    run = getattr(gla, form)

    def state(k, alpha, n=9):
        return run(q[:n], k[:n], v[:n], alpha[:n], initial_state=S0,
                   return_state=True)

    real = (np.arange(9) < 5)[:, None]
    alone = state(k, alpha, 5)
    half = state(k * real, alpha)
    right = state(k * real, np.where(real, alpha, 1))
    assert np.allclose(right[1], alone[1], rtol=1e-15, atol=0)
    assert np.allclose(half[0][:5], alone[0])   # what makes it easy to miss
    assert np.linalg.norm(half[1]) < .6 * np.linalg.norm(alone[1])
    assert np.abs(state(k, alpha)[1] - alone[1]).max() > .5


def test_padding_before_the_text_needs_no_gate():
    q, k, v = data(9)
    alpha = np.random.default_rng(1).uniform(.6, 1, k.shape)
    real = (np.arange(9) >= 4)[:, None]
    o, S = gla.chunkwise(q, k * real, v, alpha, return_state=True)
    alone = gla.chunkwise(q[4:], k[4:], v[4:], alpha[4:], return_state=True)
    assert np.allclose(o[4:], alone[0]) and np.allclose(S, alone[1])


def test_a_dip_hides_the_block_before_it():
    q, k, _ = data(20)
    alpha = np.full((20, 5), .97)
    open_, dip = gla.weights(q, k, alpha), alpha.copy()
    dip[8] = .05
    ratio = gla.weights(q, k, dip)[np.tri(20) > 0] / open_[np.tri(20) > 0]
    i, j = np.nonzero(np.tri(20))
    hidden = (i >= 8) & (j < 8)
    assert np.allclose(ratio[hidden], .05 / .97)
    assert np.allclose(ratio[~hidden], 1)


def test_forgetting_is_by_channel_and_the_delta_rule_is_not():
    key, other = np.array([.6, .8]), np.array([.8, -.6])
    k, v = np.stack([key, other, key]), np.array([[2.0], [7], [5]])

    def reads(S):
        return [(x @ S)[0] for x in (key, other)]

    alpha = np.ones((3, 2))
    _, S = gla.recurrent(k, k, v, alpha, return_state=True)
    assert np.allclose(reads(S), [7, 7])
    alpha[2] = 1e-6
    _, S = gla.recurrent(k, k, v, alpha, return_state=True)
    assert np.allclose(reads(S), [5, 0], atol=1e-4)
    _, S = delta.recurrent(k, k, v, np.ones(3), return_state=True)
    assert np.allclose(reads(S), [5, 7])
