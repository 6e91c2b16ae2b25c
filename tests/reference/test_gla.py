"""`lintut.reference.gla` against its recurrence in plain Python."""

from fractions import Fraction

import numpy as np
import pytest

from lintut.reference import gla, retention

from .cases import agree, draw, wild
from .rules import Contract, decades, plus_outer, read


class TestGLA(Contract):
    module = gla
    names = ("alpha",)
    gate_tail = (slice(None),)

    def gates(self, rng, n, d, lead=()):
        return (decades(rng, (*lead, n, d)),)

    def oracle(self, q, k, v, alpha, state=None):
        S = np.zeros((k.shape[1], v.shape[1])) if state is None else state
        S, o = S.tolist(), []
        for query, key, value, gate in zip(*(x.tolist()
                                             for x in (q, k, v, alpha))):
            S = [[a * s for s in row] for row, a in zip(S, gate)]
            S = plus_outer(S, key, value)
            o.append(read(S, query))
        return np.array(o), np.array(S)

    def gate_rows(self, gate, rows):
        return gate[..., rows, :]

    def bad_gates(self):
        alpha = np.full((6, 5), .5)
        return [
            (dict(alpha=alpha * 0), r"alpha must lie in \(0, 1\]"),
            (dict(alpha=alpha - .7), r"alpha must lie in \(0, 1\]; its "
                                     "smallest entry is -0.2"),
            (dict(alpha=alpha + 1), r"alpha must lie in \(0, 1\]; its largest "
                                    "entry is 1.5"),
            (dict(alpha=alpha[:, :1]), r"alpha must have shape \(…, 6, 5\)"),
            (dict(alpha=alpha[:5]), r"alpha must have shape \(…, 6, 5\)"),
            (dict(alpha=.5), "alpha must have shape"),
            (dict(alpha=alpha * np.nan), "alpha must be finite"),
            (dict(alpha=np.stack([alpha] * 3), q=np.ones((2, 6, 5))),
             "leading axes of q, k, v and alpha"),
        ]

    def wild_gates(self, data, n, d, dtype):
        return {"alpha": np.abs(data.draw(wild(n, d, dtype=dtype)))}


@pytest.mark.parametrize("low", [1e-6, 1e-4, .5])
@pytest.mark.parametrize("n, tolerance", [(4096, 1e-5), (65536, 1e-4)])
def test_float32_when_every_gate_is_small(n, tolerance, low):
    q, k, v = draw(n, d=4, d_v=3, dtype=np.float32)
    alpha = np.full((n, 4), low, np.float32)
    alpha[:, 0] = 1                              # beside one that keeps all
    o = gla.chunkwise(q, k, v, alpha)
    exact = gla.recurrent(*(x.astype(float) for x in (q, k, v, alpha)))
    assert np.abs(o - exact).max() < tolerance * np.abs(exact).max()


def test_float32_when_every_gate_is_near_one():
    """The same gate everywhere is rounded the same way in every chunk."""
    q, k, v = draw(4096, d=4, d_v=3, dtype=np.float32)
    gates = 1 - np.geomspace(1e-5, 1e-2, 30)
    alpha = np.float32(gates[:, None, None] * np.ones((4096, 4)))
    o = gla.chunkwise(q, k, v, alpha)
    exact = gla.recurrent(*(x.astype(float) for x in (q, k, v, alpha)))
    error = np.abs(o - exact).max((-1, -2)) / np.abs(exact).max((-1, -2))
    assert error.max() < 5e-6, gates[error.argmax()]


def test_weights_in_exact_arithmetic():
    """W_ij = Σ_c q_ic k_jc α_{j+1,c} … α_ic, in fractions."""
    rng = np.random.default_rng(0)
    q, k, alpha = rng.random((9, 2)), rng.random((9, 2)), rng.random((9, 2))
    W = gla.weights(q, k, alpha)
    for i in range(9):
        for j in range(i + 1):
            total = Fraction(0)
            for c in range(2):
                term = Fraction(q[i, c]) * Fraction(k[j, c])
                for s in range(j + 1, i + 1):
                    term *= Fraction(alpha[s, c])
                total += term
            assert W[i, j] == pytest.approx(float(total), rel=1e-13)
    assert not np.triu(W, 1).any()


@pytest.mark.parametrize("C", [1, 2, 3, 7, 16, 33])
def test_fade_in_segments(C):
    """Pairs, both ends' products and the whole product, one by one."""
    rng = np.random.default_rng(C)
    q, k, alpha = (rng.random((2, C, 3)) for _ in range(3))
    pairs, from_start, to_end, left = gla.fade(q, k, alpha)
    agree(pairs, gla.weights(q, k, alpha))
    for i in range(C):
        agree(from_start[:, i], q[:, i] * alpha[:, :i + 1].prod(1))
        agree(to_end[:, i], k[:, i] * alpha[:, i + 1:].prod(1))
    agree(left, alpha.prod(1))


def test_equal_gates_are_retention():
    q, k, v = draw(100)
    agree(gla.chunkwise(q, k, v, np.full(q.shape, .9)),
          retention.recurrent(q, k, v, .9))


def test_a_gate_fades_its_own_row_of_the_state():
    q = k = np.zeros((2, 2))
    v = np.zeros((2, 3))
    _, S = gla.recurrent(q, k, v, np.array([[.5, 1], [.5, .1]]),
                         initial_state=np.ones((2, 3)), return_state=True)
    agree(S, np.array([[.25] * 3, [.1] * 3]))
