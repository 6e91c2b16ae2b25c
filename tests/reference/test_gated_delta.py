"""`lintut.reference.gated_delta` against its recurrence in plain Python."""

import numpy as np
import pytest

from lintut.reference import delta, gated_delta, gla, retention

from .cases import agree, draw, wild
from .rules import Contract, decades, plus_outer, read, steps


class TestGatedDelta(Contract):
    module = gated_delta
    names = ("alpha", "beta")

    def gates(self, rng, n, d, lead=()):
        return decades(rng, (*lead, n)), steps(rng, (*lead, n))

    def oracle(self, q, k, v, alpha, beta, state=None):
        S = np.zeros((k.shape[1], v.shape[1])) if state is None else state
        S, o = S.tolist(), []
        for query, key, value, a, b in zip(*(x.tolist() for x in
                                             (q, k, v, alpha, beta))):
            S = [[a * s for s in row] for row in S]
            old = read(S, key)
            S = plus_outer(S, key, [b * (new - was)
                                    for new, was in zip(value, old)])
            o.append(read(S, query))
        return np.array(o), np.array(S)

    def bad_gates(self):
        half = np.full(6, .5)
        return [
            (dict(alpha=half * 0), r"alpha must lie in \(0, 1\]"),
            (dict(alpha=half + 1), r"alpha must lie in \(0, 1\]; its largest"),
            (dict(alpha=half[:5]), r"alpha must have shape \(…, 6\)"),
            (dict(alpha=.5), "alpha must have shape"),
            (dict(beta=half - 1), r"beta must lie in \[0, 2\]; its smallest"),
            (dict(beta=half + 2), r"beta must lie in \[0, 2\]; its largest"),
            (dict(beta=half[:5]), r"beta must have shape \(…, 6\)"),
            (dict(alpha=half * np.nan), "alpha must be finite"),
            (dict(alpha=np.full((3, 6), .5), beta=np.full((2, 6), .5)),
             "leading axes of q, k, v, alpha and beta"),
        ]

    def wild_gates(self, data, n, d, dtype):
        return {"alpha": np.abs(data.draw(wild(n, dtype=dtype))),
                "beta": np.abs(data.draw(wild(n, dtype=dtype)))}


FORMS = (gated_delta.recurrent, gated_delta.chunkwise)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [1, 2, 64])
def test_the_error_is_taken_on_the_faded_state(form, chunk):
    """S = k = β = 1, α = .5, v = 0 leaves 0; without α in the error, −.5."""
    one, size = np.ones((1, 1)), {}
    if form is gated_delta.chunkwise:
        size = {"chunk_size": chunk}
    _, S = form(one, one, 0 * one, np.array([.5]), np.array([1.]), **size,
                initial_state=one, return_state=True)
    assert S[0, 0] == 0


def test_every_gate_one_is_delta():
    q, k, v, _, beta = TestGatedDelta().inputs(150)
    S = np.random.default_rng(0).normal(size=(5, 3))
    state = dict(initial_state=S, return_state=True)
    agree(gated_delta.chunkwise(q, k, v, np.ones(150), beta, **state),
          delta.recurrent(q, k, v, beta, **state))


def test_steps_of_zero_only_fade():
    q, k, v, alpha, _ = TestGatedDelta().inputs(30)
    S = np.random.default_rng(0).normal(size=(5, 3))
    _, left = gated_delta.chunkwise(q, k, v, alpha, np.zeros(30), chunk_size=7,
                                    initial_state=S, return_state=True)
    agree(left, S * alpha.prod())


def test_keys_orthogonal_within_reach_make_it_retention():
    """With k_t orthogonal to all that is stored there is nothing to correct.
    """
    q, _, v = draw(6, d=6)
    k = np.eye(6)
    alpha = np.full(6, .8)
    agree(gated_delta.chunkwise(q, k, v, alpha, np.ones(6), chunk_size=4),
          retention.recurrent(q, k, v, .8))
    agree(gated_delta.parallel(q, k, v, alpha, np.ones(6)),
          gla.parallel(q, k, v, np.full((6, 6), .8)))


def test_weights_are_the_products_of_fading_reflections():
    """W_ij = β_j q_iᵀ M_i … M_{j+1} k_j with M_s = α_s (I − β_s k_s k_sᵀ)."""
    q, k, _, alpha, beta = TestGatedDelta().inputs(12, seed=4)
    W = gated_delta.weights(q, k, alpha, beta)
    for i in range(12):
        for j in range(12):
            row = q[i]
            for s in range(i, j, -1):
                M = np.eye(5) - beta[s] * np.outer(k[s], k[s])
                row = alpha[s] * row @ M
            expected = beta[j] * row @ k[j] if j <= i else 0
            assert W[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("C", [1, 2, 5, 16])
def test_decay(C):
    alpha = np.random.default_rng(C).random((2, C, 1))
    D, F = gated_delta.decay(alpha)
    for i in range(C):
        agree(F[:, i, 0], alpha[:, :i + 1, 0].prod(1))
        for j in range(C):
            expected = alpha[:, j + 1:i + 1, 0].prod(1) * (j <= i)
            agree(D[:, i, j], expected)


@pytest.mark.parametrize("low", [1e-6, 1e-3])
@pytest.mark.parametrize("n, tolerance", [(4096, 1e-5), (65536, 1e-4)])
def test_float32_when_every_gate_is_small(n, tolerance, low):
    q, k, v, _, beta = TestGatedDelta().inputs(n, d=4, dtype=np.float32)
    inputs = q, k, v, np.full(n, low, np.float32), beta
    o = gated_delta.chunkwise(*inputs)
    exact = gated_delta.recurrent(*(x.astype(float) for x in inputs))
    assert np.abs(o - exact).max() < tolerance * np.abs(exact).max()
