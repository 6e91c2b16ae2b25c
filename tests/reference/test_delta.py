"""`lintut.reference.delta` against its recurrence in plain Python."""

import numpy as np
import pytest

from lintut.reference import delta, linear

from .cases import agree, draw, wild
from .rules import Contract, plus_outer, read, steps


class TestDelta(Contract):
    module = delta
    names = ("beta",)

    def gates(self, rng, n, d, lead=()):
        return (steps(rng, (*lead, n)),)

    def oracle(self, q, k, v, beta, state=None):
        S = np.zeros((k.shape[1], v.shape[1])) if state is None else state
        S, o = S.tolist(), []
        for query, key, value, b in zip(*(x.tolist()
                                          for x in (q, k, v, beta))):
            old = read(S, key)
            S = plus_outer(S, key, [b * (new - was)
                                    for new, was in zip(value, old)])
            o.append(read(S, query))
        return np.array(o), np.array(S)

    def bad_gates(self):
        beta = np.ones(6)
        return [
            (dict(beta=beta - 1.5), r"beta must lie in \[0, 2\]; its smallest "
                                    "entry is -0.5"),
            (dict(beta=beta + 1.5), r"beta must lie in \[0, 2\]; its largest "
                                    "entry is 2.5"),
            (dict(beta=beta[:5]), r"beta must have shape \(…, 6\)"),
            (dict(beta=beta[:, None]), r"beta must have shape \(…, 6\)"),
            (dict(beta=1), "beta must have shape"),
            (dict(beta=beta * np.inf), "beta must be finite"),
            (dict(beta=np.ones((3, 6)), q=np.ones((2, 6, 5))),
             "leading axes of q, k, v and beta"),
        ]

    def wild_gates(self, data, n, d, dtype):
        return {"beta": np.abs(data.draw(wild(n, dtype=dtype)))}


FORMS = (delta.parallel, delta.recurrent, delta.chunkwise)


@pytest.mark.parametrize("form", FORMS)
def test_two_then_five(form):
    """One unit key, first 2 and then 5: the later value stays.

    Adding gives 7, the normalised sum 3.5.  With ‖k‖² = 2 or β ≠ 1 the
    value read is not 5.
    """
    k, v, one = np.array([[.6, .8]] * 2), np.array([[2.], [5.]]), np.ones(2)
    assert form(k, k, v, one)[1, 0] == pytest.approx(5, abs=1e-14)
    same = k, k, v, lambda x: x
    assert (k @ k.T @ v)[1, 0] == pytest.approx(7)
    assert linear.recurrent(*same)[1, 0] == pytest.approx(3.5)
    long = k * np.sqrt(2)
    assert form(k, long, v, one)[1, 0] == pytest.approx(
        np.sqrt(2) * 2 + np.sqrt(2) * (5 - 4))
    assert form(k, k, v, one / 2)[1, 0] == pytest.approx(1 + (5 - 1) / 2)


@pytest.mark.parametrize("form", FORMS)
def test_a_key_too_long_grows(form):
    """β‖k‖² = 4: each step multiplies by 1 − 4, and 3¹⁰ = 59,049."""
    n = 11
    q, k, v = np.ones((n, 1)), np.full((n, 1), 2.0), np.zeros((n, 1))
    v[0], beta = 1, np.ones(n)
    beta[0] = .5                                     # S = 1 after the first
    o = form(q, k, v, beta)
    agree(o[:, 0], (-3.0) ** np.arange(n), 1e-9)
    assert abs(o[10, 0]) == pytest.approx(59049)


def test_steps_of_two_do_not_grow():
    """β‖k‖² = 2 reflects: a state keeps its size, in float32 too."""
    _, k, v = draw(4096, d=4, d_v=3, seed=5)
    k = (k / np.linalg.norm(k, axis=-1, keepdims=True)).astype(np.float32)
    S = np.ones((4, 3), np.float32)
    beta = np.full(4096, 2, np.float32)
    _, left = delta.chunkwise(k, k, 0 * v.astype(np.float32), beta,
                              initial_state=S, return_state=True)
    assert np.linalg.norm(left) == pytest.approx(np.linalg.norm(S), rel=1e-4)


@pytest.mark.parametrize("d", [4, 16])
def test_float32_at_the_edge_of_stability(d):
    """All steps 2: no error ever fades, and T's rows cancel most."""
    q, k, v = draw(4096, d=d, d_v=8, seed=1)
    k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    inputs = [x.astype(np.float32) for x in (q, k, v, np.full(4096, 2.))]
    o = delta.chunkwise(*inputs)
    exact = delta.recurrent(*(x.astype(float) for x in inputs))
    assert np.abs(o - exact).max() < 1e-5 * np.abs(exact).max()


def test_orthogonal_keys_do_not_disturb_each_other():
    k, v = np.eye(4), np.arange(12.0).reshape(4, 3)
    _, S = delta.recurrent(k, k, v, np.ones(4), return_state=True)
    agree(S, v)
    _, S = delta.chunkwise(k[:1], k[:1], v[:1] + 9, np.ones(1),
                           initial_state=S, return_state=True)
    agree(S, np.concatenate([v[:1] + 9, v[1:]]))


def test_one_step_is_gradient_descent():
    """S − β ∇ ½‖Sᵀk − v‖², the gradient by differences."""
    rng = np.random.default_rng(0)
    S, k, v = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3)

    def loss(S):
        return ((S.T @ k - v) ** 2).sum() / 2

    h, slope = 1e-6, np.zeros_like(S)
    for at in np.ndindex(S.shape):
        e = np.zeros_like(S)
        e[at] = h
        slope[at] = (loss(S + e) - loss(S - e)) / (2 * h)
    _, new = delta.recurrent(k[None], k[None], v[None], np.array([.3]),
                             initial_state=S, return_state=True)
    agree(new, S - .3 * slope, 1e-7)


def test_weights_are_the_product_of_reflections():
    """W_ij = β_j q_iᵀ M_i … M_{j+1} k_j with M_s = I − β_s k_s k_sᵀ."""
    q, k, _ = draw(12)
    k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    beta = np.random.default_rng(0).uniform(0, 2, 12)
    W = delta.weights(q, k, beta)
    for i in range(12):
        for j in range(12):
            row = q[i]
            for s in range(i, j, -1):
                row = row @ (np.eye(5) - beta[s] * np.outer(k[s], k[s]))
            expected = beta[j] * row @ k[j] if j <= i else 0
            assert W[i, j] == pytest.approx(expected, abs=1e-14)


def test_weights_are_the_wy_form_of_one_chunk():
    """W = tril(Q Kᵀ) (I + tril(β K Kᵀ, −1))⁻¹ diag(β)."""
    q, k, _, beta = TestDelta().inputs(40)
    L = np.tril(beta[:, None] * (k @ k.T), -1)
    W = np.tril(q @ k.T) @ np.linalg.inv(np.eye(40) + L) * beta
    agree(delta.weights(q, k, beta), W)


@pytest.mark.parametrize("C", [1, 2, 3, 16, 33])
def test_inverse(C):
    L = np.tril(np.random.default_rng(C).normal(size=(2, C, C)), -1)
    product = delta.inverse(L) @ (np.eye(C) + L)
    assert np.abs(product - np.eye(C)).max() < 1e-9
