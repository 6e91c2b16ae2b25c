"""The limits and special cases that chapter 4 names."""

import numpy as np
import pytest

from lintut import cost
from lintut.reference import linformer, softmax


def data(N, m, d=6, d_v=4, seed=0):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(2, N, d))
    return q, k, rng.normal(size=(N, d_v)), *rng.normal(size=(2, m, N))


def neighbours(m, N):
    return np.repeat(np.eye(m), N // m, axis=1) * (m / N)


def test_the_hand_example():
    """Weights 1/4 and 3/4 on the slots 3 and 15 give 12."""
    v = np.array([2., 4, 10, 20])[:, None]
    k = np.array([0., 0, np.log(3), np.log(3)])[:, None]
    E = neighbours(2, 4)
    o = linformer.parallel(np.ones((4, 1)), k, v, E, E, scale=1)
    assert np.allclose(o, 12)
    tokens = linformer.parallel(np.ones((4, 1)), k, np.eye(4), E, E, scale=1)
    assert np.allclose(tokens, [1 / 8, 1 / 8, 3 / 8, 3 / 8])


def test_no_compression_is_softmax_in_any_order_of_the_slots():
    q, k, v, *_ = data(24, 5)
    full = softmax.parallel(q, k, v)
    for E in (np.eye(24), np.eye(24)[np.random.default_rng(1).permutation(24)]):
        assert np.allclose(linformer.parallel(q, k, v, E, E), full,
                           atol=1e-12)


@pytest.mark.parametrize("m", [1, 3, 8])
def test_the_effective_weights_have_rank_m(m):
    q, k, _, E, F = data(24, m)
    effective = linformer.parallel(q, k, np.eye(24), E, F)
    assert np.linalg.matrix_rank(effective) == m


def test_one_slot_gives_every_query_the_same():
    q, k, v, E, F = data(17, 1)
    o = linformer.parallel(q, k, v, E, F)
    assert np.allclose(o, F @ v)


def test_constant_values_come_back_if_the_rows_of_F_sum_to_one():
    q, k, _, E, F = data(24, 4)
    ones = np.ones((24, 1))
    rows = F / F.sum(-1, keepdims=True)
    assert np.allclose(linformer.parallel(q, k, ones, E, rows), 1)
    assert np.ptp(linformer.parallel(q, k, ones, E, F)) > 0.1


def test_the_ends_of_the_spectrum():
    rng = np.random.default_rng(2)
    q, k = rng.normal(size=(2, 40, 8))
    s = np.linalg.svd(softmax.weights(0 * q, k), compute_uv=False)
    assert np.isclose(s[0], 1) and s[1] < 1e-12
    s = np.linalg.svd(softmax.weights(300 * np.eye(40), np.eye(40), scale=1),
                      compute_uv=False)
    assert np.allclose(s, 1)                        # each picks itself
    causal = softmax.weights(q, k, causal=True)
    assert np.isclose(np.linalg.slogdet(causal)[1],
                      np.log(np.diag(causal)).sum())
    assert np.linalg.matrix_rank(causal) == 40


def test_the_lemma_is_about_the_product_of_lengths():
    rng = np.random.default_rng(3)
    for N in (50, 800):
        a, x = rng.normal(size=(2, N))
        lengths = np.linalg.norm(a) * np.linalg.norm(x)
        for m in (4, 64):
            E = rng.normal(size=(600, m, N)) / np.sqrt(m)
            errors = ((E @ a) * (E @ x)).sum(-1) - a @ x
            assert abs(errors.mean()) < 0.15 * lengths / np.sqrt(m)
            typical = np.sqrt(np.mean(errors ** 2)) * np.sqrt(m) / lengths
            exact = np.sqrt(1 + (a @ x / lengths) ** 2)
            assert abs(typical / exact - 1) < 0.12


def test_every_output_hears_the_future():
    q, k, v, E, F = data(32, 8)
    before = linformer.parallel(q, k, v, E, F)
    for change in (k, v):
        change[31] += 1
        after = linformer.parallel(q, k, v, E, F)
        assert (before != after).any(-1).all()
        before = after


def test_a_projection_belongs_to_one_length():
    q, k, v, E, F = data(32, 8)
    with pytest.raises(ValueError, match="N=33.*tied to one length"):
        linformer.parallel(*np.ones((3, 33, 6)), E, F)
    for n in (31, 33):
        assert cost.of("linformer", N=n, d=6, m=8).state_bytes is None


def test_within_a_slot_the_query_decides_nothing():
    rng = np.random.default_rng(6)
    E = neighbours(8, 64)
    q, k = 5 * rng.normal(size=(2, 64, 6))
    weights = linformer.parallel(q, k, np.eye(64), E, E)
    assert np.allclose(weights.reshape(64, 8, 8), weights[:, ::8, None])


def test_the_flops_are_twice_m_over_n_of_softmax():
    for N, m in ((512, 128), (4096, 128), (4096, 2048)):
        full = cost.of("softmax", N=N, d=64, causal=False)
        ours = cost.of("linformer", N=N, d=64, m=m, causal=False)
        assert ours.prefill_products * N == full.prefill_products * 2 * m
