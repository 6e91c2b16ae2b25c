"""The limits and special cases that chapter 11 names."""

from fractions import Fraction

import numpy as np
import pytest

from lintut.reference import delta, linear, retention
from lintut.reference.feature_maps import identity

FORMS = (delta.parallel, delta.recurrent, delta.chunkwise)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def one_step(k, v, beta, S):
    """The state after one token."""
    return delta.recurrent(k[None], k[None], v[None], np.array([beta]),
                           initial_state=S, return_state=True)[1]


def loop(q, k, v, beta, S):
    """Token by token, and the errors; no code of lintut."""
    o, E = [], []
    for q_t, k_t, v_t, b in zip(q, k, v, beta):
        E.append(b * (v_t - S.T @ k_t))
        S = S + np.outer(k_t, E[-1])
        o.append(S.T @ q_t)
    return np.array(o), np.array(E), S


@pytest.fixture
def chunk():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 7, 5))
    k = unit(k)
    v, S = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    return q, k, v, 2 * rng.random(7), S


@pytest.mark.parametrize("form", FORMS)
def test_a_unit_key_holds_what_was_written_last(form):
    """2, 5, 1, 4, 4, 2: the sum ends at 18, the normalised one at 3."""
    k, v = np.tile([.6, .8], (6, 1)), np.array([[2., 5, 1, 4, 4, 2]]).T
    assert np.allclose(form(k, k, v, np.ones(6)), v, atol=1e-14)
    assert retention.parallel(k, k, v, 1)[1::4, 0] == pytest.approx([7, 18])
    assert linear.parallel(k, k, v, identity)[1::4, 0] == pytest.approx(
        [3.5, 3])


@pytest.mark.parametrize("length2, read", [("1/2", 3), (1, 5), (2, 6),
                                           (4, -4)])
def test_two_then_five_by_the_keys_length(length2, read):
    length2 = float(Fraction(length2))
    k = np.tile([.6, .8], (2, 1)) * length2 ** .5
    v = np.array([[2.], [5.]])
    assert delta.parallel(k, k, v, np.ones(2))[1, 0] == pytest.approx(read)
    # The sum scales with the length, the mean does not see it.
    assert retention.parallel(k, k, v, 1)[1, 0] == pytest.approx(7 * length2)
    assert linear.parallel(k, k, v, identity)[1, 0] == pytest.approx(3.5)
    if length2 >= .5:                       # else β exceeds 2
        o = delta.parallel(k, k, v, np.full(2, 1 / length2))
        assert o[1, 0] == pytest.approx(5)


def test_the_share_of_the_new_is_beta_times_the_squared_length(chunk):
    _, k, v, _, S = chunk
    k = 1.3 * k[0]
    after = one_step(k, v[0], .7, S).T @ k
    share = .7 * 1.3 ** 2
    assert np.allclose(after, (1 - share) * (S.T @ k) + share * v[0])


@pytest.mark.parametrize("beta", [0.3, 1.0, 2.0])
def test_one_step_of_gradient_descent(chunk, beta):
    """Finite differences of ½‖Sᵀk − v‖², exact for a quadratic."""
    _, k, v, _, S = chunk
    k, v, h = 1.2 * k[0], v[0], 1e-3

    def loss(S):
        return ((S.T @ k - v) ** 2).sum() / 2

    gradient = np.empty_like(S)
    for at in np.ndindex(S.shape):
        H = np.zeros_like(S)
        H[at] = h
        gradient[at] = (loss(S + H) - loss(S - H)) / (2 * h)
    assert np.abs(gradient).min() > 1e-6
    assert np.allclose(one_step(k, v, beta, S), S - beta * gradient,
                       atol=1e-10)


def test_a_least_mean_squares_filter():
    rng = np.random.default_rng(1960)
    h, μ, w = rng.normal(size=8), 0.05, np.zeros(8)
    x = np.lib.stride_tricks.sliding_window_view(rng.normal(size=307), 8)
    x = x[:, ::-1].copy()
    y = x @ h
    for x_t, y_t in zip(x, y):
        w = w + μ * (y_t - w @ x_t) * x_t
    for form in (delta.recurrent, delta.chunkwise):
        _, S = form(x, x, y[:, None], np.full(300, μ), return_state=True)
        assert np.allclose(S[:, 0], w, atol=1e-12)
    assert np.linalg.norm(w - h) < 0.02 * np.linalg.norm(h)


@pytest.mark.parametrize("share, factor", [(0, 1), (.5, .5), (1, 0), (2, -1),
                                           (3, -2), (4, -3)])
def test_old_content_is_multiplied_by_one_less_the_step(share, factor):
    rng = np.random.default_rng(2)
    k, S = unit(rng.normal(size=6)), rng.normal(size=(6, 3))
    after = one_step(k * max(share, 1) ** .5, np.zeros(3), float(min(share, 1)), S)
    assert np.allclose(k @ after, factor * (k @ S), atol=1e-12)
    across = S - np.outer(k, k @ S)
    assert np.allclose(after - np.outer(k, k @ after), across, atol=1e-12)


def test_ten_steps_too_long_grow_to_59049():
    k = np.tile([0., 2], (10, 1))
    _, S = delta.recurrent(k, k, np.zeros((10, 1)), np.ones(10),
                           initial_state=np.ones((2, 1)), return_state=True)
    assert S[:, 0].tolist() == [1, 59049]


def test_within_the_bound_nothing_grows_whatever_the_keys():
    rng = np.random.default_rng(3)
    S = np.eye(4)
    for _ in range(300):
        length2 = rng.uniform(0.1, 3)
        beta = rng.uniform(0, min(2, 2 / length2))
        k = unit(rng.normal(size=4)) * length2 ** .5
        before, S = S, one_step(k, np.zeros(4), beta, S)
        assert np.linalg.norm(S, 2) <= np.linalg.norm(before, 2) + 1e-12


def test_a_write_moves_another_key_by_overlap_times_error(chunk):
    _, k, v, _, S = chunk
    after = one_step(k[0], v[0], 1., S)
    error = v[0] - S.T @ k[0]
    for c in (0, .3, -.8, 1):
        across = unit(k[1] - (k[1] @ k[0]) * k[0])
        other = c * k[0] + np.sqrt(1 - c * c) * across
        assert np.allclose((after - S).T @ other, c * error, atol=1e-12)


def test_two_records_who_bears_the_error():
    rng, c = np.random.default_rng(4), .6
    found = np.zeros(4)
    for _ in range(2000):
        k = np.linalg.qr(rng.normal(size=(8, 2)))[0].T
        k[1] = c * k[0] + .8 * k[1]
        v = rng.normal(size=(2, 4))
        _, S = delta.recurrent(k, k, v, np.ones(2), return_state=True)
        for i, state in enumerate((k.T @ v, S)):
            found[2 * i:2 * i + 2] += ((k @ state - v) ** 2).mean(1) / 2000
    assert np.allclose(found[:3], [c**2, c**2, c**2 * (1 + c**2)], rtol=.06)
    assert found[3] < 1e-20


def test_asked_with_its_own_key_a_token_reads_itself_alone():
    from lintut.widgets import WeightsViewer
    viewer = WeightsViewer("delta", queries="own", similarity=0.6)
    assert np.allclose(viewer.weights(), np.eye(16), atol=1e-12)
    _, k = viewer.vectors()
    assert (k @ k.T)[np.triu_indices(16, 1)].mean() > 0.4   # they overlap


def test_a_negative_weight_of_vectors_without_a_negative_entry():
    k = np.array([[1, 0], [.6, .8]])
    for q, row in (([1., 0], [.64, .6]), ([.6, .8], [0, 1]),
                   ([0., 1], [-.48, .8])):
        A = delta.weights(np.array([q, q]), k, np.ones(2))
        assert np.allclose(A[1], row, atol=1e-15)


def test_the_steps_to_the_wy_form(chunk):
    q, k, v, beta, S0 = chunk
    o, E, S = loop(q, k, v, beta, S0)
    B = np.diag(beta)
    L = np.tril(B @ k @ k.T, -1)
    U, W = delta.wy(k, v, beta[:, None])
    assert np.allclose(S, S0 + k.T @ E)
    assert np.allclose(E + L @ E, B @ (v - k @ S0))
    assert np.allclose(delta.inverse(L) @ (np.eye(7) + L), np.eye(7))
    assert np.allclose(E, U - W @ S0)
    assert np.allclose(o, q @ S0 + np.tril(q @ k.T) @ E)
    product = np.eye(5)
    for k_t, b in zip(k, beta):
        product = (np.eye(5) - b * np.outer(k_t, k_t)) @ product
    assert np.allclose(product, np.eye(5) - k.T @ W)


@pytest.mark.parametrize("C", [1, 2, 3, 7, 100])
def test_the_forms_agree_from_a_state(chunk, C):
    o, _, S = loop(*chunk)
    *x, S0 = chunk
    got, end = delta.chunkwise(*x, chunk_size=C, initial_state=S0,
                               return_state=True)
    assert np.allclose(got, o, atol=1e-12) and np.allclose(end, S, atol=1e-12)


def test_forgetting_w_passes_with_one_chunk_and_no_state(chunk):
    *x, S0 = chunk

    def without_w(q, k, v, beta, C, S):
        o = []
        for t in range(0, len(v), C):
            Q, K, V, b = (y[t:t + C] for y in (q, k, v, beta[:, None]))
            E, _ = delta.wy(K, V, b)
            o.append(Q @ S + np.tril(Q @ K.T) @ E)
            S = S + K.T @ E
        return np.concatenate(o)

    for C, S, right in ((7, 0 * S0, True), (7, S0, False), (3, 0 * S0, False)):
        off = np.abs(without_w(*x, C, S) - loop(*x, S)[0]).max()
        assert off < 1e-12 if right else off > 1e-2


def test_clearing_takes_a_token_for_each_direction():
    rng = np.random.default_rng(8)
    S, ranks = rng.normal(size=(8, 8)), []
    for key in np.linalg.qr(rng.normal(size=(8, 8)))[0]:
        S = one_step(key, np.zeros(8), 1., S)
        ranks.append(np.linalg.matrix_rank(S, tol=1e-9))
    assert ranks == list(range(7, -1, -1))


def test_a_constant_value_need_not_come_back():
    k = np.array([[1, 0], [.6, .8]])
    o = delta.parallel(k[::-1], k, np.ones((2, 1)), np.ones(2))
    assert o[1, 0] == pytest.approx(1.24)
