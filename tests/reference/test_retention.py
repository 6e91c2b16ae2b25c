"""`lintut.reference.retention` against its recurrence in plain Python."""

import numpy as np
import pytest
from hypothesis import strategies as st

from lintut.reference import retention

from .cases import agree, draw
from .rules import Contract, plus_outer, read


class TestRetention(Contract):
    module = retention
    names = ("gamma",)

    def gates(self, rng, n, d, lead=()):
        return (rng.uniform(.7, 1, lead),)

    def oracle(self, q, k, v, gamma, state=None):
        S = np.zeros((k.shape[1], v.shape[1])) if state is None else state
        S, o, gamma = S.tolist(), [], float(gamma)
        for query, key, value in zip(q.tolist(), k.tolist(), v.tolist()):
            S = plus_outer([[gamma * s for s in row] for row in S], key, value)
            o.append(read(S, query))
        return np.array(o), np.array(S)

    def gate_rows(self, gate, rows):
        return gate

    def bad_gates(self):
        return [
            (dict(gamma=0), r"gamma must lie in \(0, 1\]; its smallest entry "
                            "is 0"),
            (dict(gamma=1.5), r"gamma must lie in \(0, 1\]; its largest"),
            (dict(gamma=-.5), r"gamma must lie in \(0, 1\]; its smallest"),
            (dict(gamma=np.nan), "gamma must be finite"),
            (dict(gamma="0.5"), "gamma must be float32 or float64"),
            (dict(gamma=[.5, [.5]]), "gamma must be an array"),
            (dict(gamma=np.ones(3), q=np.ones((2, 6, 5))),
             "leading axes of q, k, v and gamma"),
        ]

    def wild_gates(self, data, n, d, dtype):
        return {"gamma": data.draw(st.sampled_from(
            [1, 1.0, .5, 1e-6, 1e-300, np.float32(.9), [.5], 0, 2, -1.]))}


def test_the_closed_form():
    """o_i = Σ_j γ^{i−j} (q_i·k_j) v_j."""
    q, k, v = draw(40)
    expected = [sum(.9 ** (i - j) * (q[i] @ k[j]) * v[j] for j in range(i + 1))
                for i in range(40)]
    agree(retention.parallel(q, k, v, .9), np.array(expected))


def test_gamma_099_leaves_0366_after_100_steps():
    q, k, v = np.ones((101, 1)), np.zeros((101, 1)), np.ones((101, 1))
    k[0] = 1
    for form in (retention.parallel, retention.recurrent, retention.chunkwise):
        assert form(q, k, v, .99)[100, 0] == pytest.approx(.36603, abs=5e-6)


def test_heads_have_their_own_gamma():
    q, k, v = draw(70, lead=(2, 4))
    gamma = 1 - 2.0 ** (-5 - np.arange(4))       # RetNet's: 0.96875, …
    for form in (retention.parallel, retention.recurrent, retention.chunkwise):
        o = form(q, k, v, gamma)
        for h in range(4):
            agree(o[:, h], form(q[:, h], k[:, h], v[:, h], float(gamma[h])))


def test_weights_are_what_parallel_applies():
    q, k, v = draw(30, lead=(2,))
    W = retention.weights(q, k, .8)
    agree(W @ v, retention.parallel(q, k, v, .8))
    assert W.shape == (2, 30, 30) and not np.triu(W, 1).any()
    agree(W[:, 7, 3], .8 ** 4 * (q[:, 7] * k[:, 3]).sum(-1))


@pytest.mark.parametrize("gamma", [1, .99999, .9, 1e-6])
def test_float32_for_every_gamma(gamma):
    """A γ near one, rounded to float32, is another decay after 10⁵ tokens."""
    q, k, v = draw(65536, d=4, d_v=4, dtype=np.float32)
    o = retention.chunkwise(q, k, v, gamma)
    exact = retention.recurrent(*(x.astype(float) for x in (q, k, v)), gamma)
    assert np.abs(o - exact).max() < 1e-5 * np.abs(exact).max()
