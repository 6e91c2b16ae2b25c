"""`lintut.reference.linear` against sums in plain Python."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lintut.reference import feature_maps, linear

from .cases import CHUNKS, LENGTHS, agree, draw, frozen, survives, wild
from .rules import Contract, plus_outer, read, relaxed

FORMS = (linear.parallel, linear.recurrent, linear.chunkwise)


def raw(x):
    """φ(x) = x: the inputs are features already."""
    return x


def elu(x):
    return x + 1 if x > 0 else math.exp(x)


def sums(queries, keys, values, state, causal=True):
    """(o, (S, z)) of features as lists: write, then read; or write all."""
    S, z = (part.tolist() for part in state)
    seen, o = [], []
    for key, value in zip(keys, values):
        S = plus_outer(S, key, value)
        z = [a + b for a, b in zip(z, key)]
        seen.append((S, z))
    for query, (S_t, z_t) in zip(queries, seen):
        if not causal:
            S_t, z_t = seen[-1]
        total = math.fsum(a * b for a, b in zip(query, z_t))
        o.append([x / total for x in read(S_t, query)])
    return np.array(o), tuple(np.array(x) for x in seen[-1])


class TestLinear(Contract):
    module = linear

    def oracle(self, q, k, v, state=None, causal=True):
        if state is None:
            state = np.zeros((k.shape[1], v.shape[1])), np.zeros(k.shape[1])
        fq, fk = ([[elu(x) for x in row] for row in rows.tolist()]
                  for rows in (q, k))
        return sums(fq, fk, v.tolist(), state, causal)

    def start(self, rng, lead=(), d=5, d_v=3):
        return (frozen(rng.normal(size=(*lead, d, d_v))),
                frozen(rng.uniform(1, 2, size=(*lead, d))))

    def wild_state(self, data, d, d_v, dtype):
        return data.draw(st.one_of(st.none(), st.tuples(
            wild(d, d_v, dtype=dtype), wild(d, dtype=dtype))))

    @pytest.mark.parametrize("form", ["recurrent", "chunkwise"])
    def test_bad_states_are_named(self, form):
        S, z = np.ones((5, 3)), np.ones(5)
        for state in ((S,), (S, z, z), S, (S.T, z), (S, z[:4]), (S, 1.0),
                      (S, None), (None, z), (S, -99 * z), (S, z * np.nan),
                      (S.astype(np.float32), z), (S[0], z), "Sz", 3,
                      np.ones((2, 5, 3))):
            words = "initial_state|the denominator of row 0"
            with pytest.raises(ValueError, match=words):
                self.call(form, self.inputs(6), initial_state=state)
        with pytest.raises(ValueError, match="return_state"):
            self.call(form, self.inputs(6), return_state="yes")

    @pytest.mark.parametrize("begin", [False, True])
    @pytest.mark.parametrize("n", LENGTHS)
    def test_without_the_mask(self, n, begin):
        inputs = self.inputs(n)
        state = self.start(np.random.default_rng(n)) if begin else None
        expected = self.oracle(*inputs, state=state, causal=False)
        options = dict(initial_state=state, return_state=True, causal=False)
        if not begin:
            agree(linear.parallel(*inputs, causal=False), expected[0])
        agree(linear.recurrent(*inputs, **options), expected)
        for size in CHUNKS:
            agree(linear.chunkwise(*inputs, **options, chunk_size=size),
                  expected)


@pytest.mark.parametrize("form", FORMS)
def test_the_example_by_hand(form):
    """002 §5.1: weights 1/6, 2/6, 3/6, and o₃ = [10, 7]/6."""
    k = np.array([[1., 0], [0, 1], [1, 1]])
    v = np.array([[1., 0], [0, 2], [3, 1]])
    q = np.array([[1., 1], [1, 1], [1, 2]])
    agree(form(q, k, v, raw)[2], np.array([10, 7]) / 6, 1e-15)
    agree(linear.weights(q, k, raw)[2], np.array([1, 2, 3]) / 6, 1e-15)
    if form is not linear.parallel:
        _, (S, z) = form(q, k, v, raw, return_state=True)
        assert S.tolist() == [[4, 1], [3, 3]] and z.tolist() == [2, 2]


def test_the_sources_error():
    """002 §10: 4.44e-16 at seed 42, N = 17."""
    rng = np.random.default_rng(42)
    q, k, v = (rng.normal(size=(17, d)) for d in (4, 4, 3))
    gap = np.abs(linear.parallel(q, k, v) - linear.recurrent(q, k, v)).max()
    assert gap < 1e-15
    # The program printed there, whose sums run in another order.
    phi = lambda x: np.maximum(x, 0) + np.exp(np.minimum(x, 0))
    fq, fk = phi(q), phi(k)
    a = np.tril(fq @ fk.T)
    S, z, out = np.zeros((4, 3)), np.zeros(4), np.empty_like(v)
    for t in range(17):
        S += np.outer(fk[t], v[t])
        z += fk[t]
        out[t] = (fq[t] @ S) / (fq[t] @ z)
    theirs = np.abs((a @ v) / a.sum(-1, keepdims=True) - out).max()
    assert theirs == pytest.approx(4.44e-16, rel=.5)


def test_in_exact_arithmetic():
    """Small whole features, as fractions."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(1, 5, (20, d)).astype(float) for d in (3, 3, 2))
    expected = []
    for i in range(20):
        weights = [sum(Fraction(a) * Fraction(b) for a, b in zip(q[i], k[j]))
                   for j in range(i + 1)]
        expected.append([float(sum(w * Fraction(x) for w, x in
                                   zip(weights, column)) / sum(weights))
                         for column in v.T])
    for form in FORMS:
        agree(form(q, k, v, raw), np.array(expected), 1e-14)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_constant_values_come_back(form, causal):
    q, k, v = draw(300, lead=(2,))
    agree(form(q, k, np.full_like(v, 2.5), causal=causal),
          np.full(v.shape, 2.5), 1e-14)


@pytest.mark.parametrize("causal", [True, False])
def test_weights_are_what_parallel_applies(causal):
    q, k, v = draw(30, lead=(2,))
    W = linear.weights(q, k, causal=causal)
    agree(W @ v, linear.parallel(q, k, v, causal=causal), 1e-14)
    agree(W.sum(-1), np.ones((2, 30)), 1e-14)
    assert np.triu(W, 1).any() != causal


def test_without_the_mask_is_the_other_order_of_products():
    """φ(Q) (φ(K)ᵀ V) and (φ(Q) φ(K)ᵀ) V; with softmax there is no such two.
    """
    q, k, v = draw(50)
    fq, fk = feature_maps.elu_plus_one(q), feature_maps.elu_plus_one(k)
    o = fq @ (fk.T @ v) / (fq @ fk.sum(0))[:, None]
    for form in FORMS:
        agree(form(q, k, v, causal=False), o)


MAPS = {
    "elu_plus_one": feature_maps.elu_plus_one,
    "squared": feature_maps.squared,
    "exp": feature_maps.exp,
    "softmax_feature": feature_maps.softmax_feature,
    "taylor": feature_maps.taylor,
    "wider": lambda x: np.concatenate([np.exp(x), np.exp(-x)], -1),
    "narrower": lambda x: np.exp(x[..., :2]),
    "two": (lambda x: np.exp(x - x.max(-1, keepdims=True)), np.exp),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("causal", [True, False])
def test_every_feature_map_in_every_form(name, causal):
    q, k, v = draw(70, lead=(2,))
    o = linear.parallel(q, k, v, MAPS[name], causal)
    agree(linear.recurrent(q, k, v, MAPS[name], causal), o)
    agree(linear.chunkwise(q, k, v, MAPS[name], causal, chunk_size=16), o)


def test_a_factor_of_the_query_cancels():
    q, k, v = draw(70)
    pair = (lambda x: 3e5 * np.exp(x), np.exp)
    agree(linear.chunkwise(q, k, v, pair), linear.chunkwise(q, k, v, np.exp))


def test_z_is_carried():
    """A state with the same S and another z reads another value."""
    q, k, v = draw(70)
    _, (S, z) = linear.recurrent(q, k, v, return_state=True)
    for form in FORMS[1:]:
        right = form(q, k, v, initial_state=(S, z))
        for wrong in (np.zeros_like(z), 2 * z):
            other = form(q, k, v, initial_state=(S, wrong))
            assert np.abs(other - right).max() > .01


# What is refused.

Q, K, V = draw(9)
WRONG_MAPS = {
    "an array": (np.ones(3), "feature_map must be a function"),
    "three": ((np.exp,) * 3, "feature_map must be a function"),
    "nothing": (None, "feature_map must be a function"),
    "a list": (lambda x: x.tolist(), r"feature_map\(.\) must be an array"),
    "a longer sequence": (lambda x: np.concatenate([x, x], -2),
                          r"feature_map\(.\) must turn"),
    "one number": (lambda x: x.sum(-1), r"feature_map\(.\) must turn"),
    "no features": (lambda x: x[..., :0], r"feature_map\(.\) must turn"),
    "another dtype": (lambda x: x.astype(np.float32),
                      r"feature_map\(.\) must turn.*float64"),
    "other widths": ((np.exp, lambda x: x[..., :2]),
                     "feature_map must give queries and keys as many"),
    "nan": (lambda x: x * np.nan, r"feature_map\(q\) must be finite"),
    "nan for one key": ((np.exp, lambda x: np.where(x == K[4, 2], np.nan, 1)),
                        r"feature_map\(k\) must be finite"),
    "inf for one query": ((lambda x: np.where(x == Q[4, 2], np.inf, 1),
                           np.exp), r"feature_map\(q\) must be finite"),
    "odd": (lambda x: np.tanh(x), r"denominator of row \d+ must be positive"),
    "zero": (lambda x: 0 * x, "denominator of row 0 must be positive"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", WRONG_MAPS)
def test_wrong_feature_maps_are_named(form, name):
    feature_map, message = WRONG_MAPS[name]
    with pytest.raises(ValueError, match=message):
        form(Q, K, V, feature_map)


@pytest.mark.parametrize("form", FORMS)
def test_a_feature_map_cannot_write_on_the_inputs(form):
    q, k, v = (np.array(x) for x in (Q, K, V))
    with pytest.raises(ValueError, match="read-only"):
        form(q, k, v, lambda x: np.exp(x, out=x))
    assert np.array_equal(q, Q) and np.array_equal(k, K)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_without_weight_is_named(form):
    """ReLU features: the third key is the first that the third query sees."""
    q = np.array([[1., -1], [1, -1], [-1, 1], [1, 1]])
    k = np.array([[1., -1], [1, -1], [2, -1], [1, 1]])
    with pytest.raises(ValueError, match="denominator of row 2 must be "
                                         "positive.*it is 0"):
        form(q, k, np.ones((4, 3)), feature_maps.relu)


@pytest.mark.parametrize("form", FORMS)
def test_weights_too_small_to_divide_by_are_refused(form):
    """e^−50 squared is 4e-44, two digits in float32: an error, not a guess."""
    q = np.full((3, 2), -50, np.float32)
    with pytest.raises(ValueError, match="denominator of row 0"):
        form(q, q, q)
    agree(form(q.astype(float), q.astype(float), q.astype(float)),
          q.astype(float))


@pytest.mark.parametrize("form", FORMS)
def test_causal_is_a_flag(form):
    for causal in (None, 1, "no", np.ones(2)):
        with pytest.raises(ValueError, match="causal must be True or False"):
            form(Q, K, V, causal=causal)


@pytest.mark.parametrize("form", FORMS)
def test_negative_features_are_fine_where_their_products_are_not(form):
    o = form(Q, K, V, lambda x: -np.exp(x))
    agree(o, form(Q, K, V, feature_maps.exp))


@pytest.mark.parametrize("form", FORMS)
def test_a_later_product_that_overflows_is_not_seen(form):
    """q₀·k₁ alone overflows, and no one reads it."""
    q = np.array([[1e30, 1], [1, 1]], np.float32)
    k = np.array([[1, 1], [1e30, 1]], np.float32)
    v = np.array([[1, 2], [3, 4]], np.float32)
    agree(form(q, k, v, raw), v, 1e-6)


@given(st.data())
@relaxed
def test_any_map_is_finite_or_refused(data):
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    q, k, v = (data.draw(wild(n, d)) for _ in range(3))
    maps = [*MAPS.values(), feature_maps.relu, feature_maps.dpfp,
            WRONG_MAPS["nan"][0], WRONG_MAPS["odd"][0], WRONG_MAPS["zero"][0]]
    options = dict(feature_map=data.draw(st.sampled_from(maps)),
                   causal=data.draw(st.booleans()))
    for form in FORMS:
        survives(lambda: form(q, k, v, **options), ["q", "k", "v", *options])
