"""The limits and special cases that chapter 9 names."""

from fractions import Fraction

import numpy as np
import pytest

from lintut.reference import linear, retention

HEADS = 1 - 2.0 ** (-5 - np.arange(8))
FORMS = ("parallel", "recurrent", "chunkwise")


def data(N, d=5, d_v=3, lead=(), seed=0):
    rng = np.random.default_rng(seed)
    return (*rng.normal(size=(2, *lead, N, d)),
            rng.normal(size=(*lead, N, d_v)))


def test_the_hand_worked_example_on_both_roads():
    k = np.array([[1., 0], [0, 1], [1, 1]])
    v = np.array([[1., 0], [0, 2], [3, 1]])
    q = np.array([[0., 0], [0, 0], [1, 2]])
    o, S = retention.recurrent(q, k, v, .5, return_state=True)
    assert S.tolist() == [[13 / 4, 1], [3, 2]]
    assert o[2].tolist() == [37 / 4, 5]
    assert retention.weights(q, k, .5)[2].tolist() == [1 / 4, 1, 3]


def test_half_lives_and_e_foldings():
    """What is left is read from the code, not from the formula."""
    def left(gamma, n):
        ones = np.ones((n + 1, 1))
        k = np.eye(n + 1, 1)                    # one record, at the start
        return float(retention.chunkwise(ones, k, ones, gamma)[-1, 0])

    for gamma, half_life in zip(HEADS, (21.8, 44.0, 88.4)):
        assert np.log(2) / -np.log(gamma) == pytest.approx(half_life, abs=.05)
        n = int(half_life)
        assert left(gamma, n) > .5 > left(gamma, n + 1)
        n = int(1 / -np.log(gamma))
        assert left(gamma, n) > np.exp(-1) > left(gamma, n + 1)
    assert left(.99, 100) == pytest.approx(.36603, abs=5e-6)
    assert left(HEADS[0], 1000) == pytest.approx(1.6e-14, rel=.05)


def test_each_head_remembers_twice_as_long():
    e_foldings = 1 / -np.log(HEADS)
    assert np.allclose(e_foldings[1:] / e_foldings[:-1], 2, rtol=.01)
    assert np.allclose(e_foldings, 2.0 ** (5 + np.arange(8)), rtol=.02)


def test_three_forms_with_a_gamma_a_head():
    q, k, v = data(257, 8, 5, (4,))
    o = retention.parallel(q, k, v, HEADS[:4])
    for form in FORMS:
        got = getattr(retention, form)(q, k, v, HEADS[:4])
        assert np.allclose(got, o, rtol=0, atol=1e-11)
    apart = [retention.parallel(q[h], k[h], v[h], HEADS[h]) for h in range(4)]
    assert np.allclose(o, apart, rtol=0, atol=1e-11)
    assert np.abs(o[0] - o[1]).max() > .1


def test_gamma_1_is_linear_attention_without_its_denominator():
    q, k, v = data(70)
    k, q = np.abs(k), np.abs(q)
    plain = retention.chunkwise(q, k, v, 1)
    total = (q * np.cumsum(k, 0)).sum(-1, keepdims=True)
    assert np.allclose(plain / total, linear.parallel(
        q, k, v, feature_map=lambda x: x), rtol=1e-12)


@pytest.mark.parametrize("gamma", [.5, .96875])
def test_the_state_is_bounded(gamma):
    """|S| ≤ m/(1 − γ), and equal writes come near it."""
    k, v = np.ones((2000, 2)), np.full((2000, 3), 7.0)
    _, S = retention.recurrent(k, k, v, gamma, return_state=True)
    assert np.all(S <= 7 / (1 - gamma) + 1e-9)
    assert np.allclose(S, 7 / (1 - gamma))
    assert retention.weights(k[:16, :1], k[:16, :1], .9)[-1].sum() == (
        pytest.approx(8.147, abs=5e-4))


@pytest.mark.parametrize("n", [1, 16, 64, 256])
def test_the_decay_that_suits_a_distance(n):
    gamma = np.linspace(.4, 1, 400_001)[:-1]
    signal = gamma ** n * np.sqrt(1 - gamma ** 2)
    assert gamma[signal.argmax()] == pytest.approx(np.sqrt(n / (n + 1)),
                                                   abs=1e-5)
    if n > 1:
        half_life = np.log(2) / -np.log(gamma[signal.argmax()])
        assert half_life == pytest.approx(1.4 * n, rel=.05)


def test_interference_has_the_size_that_is_said():
    """σ² = 1/(d (1 − γ²)) for random unit keys and values of variance 1."""
    d, gamma, n = 32, .95, 20
    rng = np.random.default_rng(3)
    k, v = rng.normal(size=(4096, d)), rng.normal(size=(4096, 16))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    o = retention.chunkwise(np.roll(k, n, axis=0), k, v, gamma)
    noise = (o - gamma ** n * np.roll(v, n, axis=0))[512:]
    expected = (1 / (1 - gamma ** 2) - gamma ** (2 * n)) / d
    assert noise.var() == pytest.approx(expected, rel=.05)


@pytest.mark.parametrize("dtype, gamma, token", [
    (np.float32, .5, 150), (np.float32, .96875, 3055),
    (np.float64, .5, 1075), (np.float64, .96875, 23245)])
def test_a_ratio_of_two_powers_goes_wrong(dtype, gamma, token):
    """From that token γ^i/γ^{i−1} is off by 0.1%; the reference is not."""
    powers = (gamma ** np.arange(token + 3000)).astype(dtype)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = powers[1:] / powers[:-1]
    wrong = ~(np.abs(ratio / gamma - 1) < 1e-3)
    assert wrong.argmax() + 1 == token
    assert np.isnan(ratio[-1])
    x = np.ones((token + 10, 1), dtype)
    k = x.copy()
    k[:-2] = 0                                  # the last two tokens write
    for form in ("recurrent", "chunkwise"):
        o = getattr(retention, form)(x, k, x, gamma)
        assert o[-1, 0] == pytest.approx(1 + gamma, rel=1e-6)


@pytest.mark.parametrize("dtype, tokens", [(np.float32, 524),
                                           (np.float64, 1158)])
def test_a_record_is_rounded_away(dtype, tokens):
    """Below half an ulp of a state of size 1; and not a tenth earlier."""
    gamma = HEADS[0]
    half = np.finfo(dtype).eps / 2
    assert gamma ** tokens < half < gamma ** (tokens - 1)
    one = dtype(1)
    assert one + dtype(gamma ** (tokens + 1)) == one
    assert one + dtype(gamma ** (tokens * .9)) != one


@pytest.mark.parametrize("tokens, equal", [(1000, True), (100, False)])
def test_a_decay_cannot_be_undone(tokens, equal):
    k = np.ones((2, tokens + 1, 1), np.float32)
    k[1, 0] = 0                                 # without the first record
    _, S = retention.recurrent(k, k, np.ones_like(k), HEADS[0],
                               return_state=True)
    assert (S[0, 0, 0] == S[1, 0, 0]) == equal


def test_a_decay_does_not_overwrite():
    """2 then 5 under one key: 2γ + 5, in exact arithmetic."""
    k, v = np.ones((2, 1)), np.array([[2.0], [5]])
    assert Fraction(float(retention.recurrent(k, k, v, .5)[1, 0])) == 6
