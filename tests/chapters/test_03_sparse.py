"""The limits and special cases that chapter 3 names."""

import numpy as np
import pytest

from lintut import reach
from lintut.reference import bigbird, longformer, sliding_window, softmax


def data(N, d=5, d_v=3, seed=0):
    rng = np.random.default_rng(seed)
    return (*rng.normal(size=(2, N, d)), rng.normal(size=(N, d_v)))


@pytest.mark.parametrize("N, w", [(6, 3), (17, 1), (17, 17), (40, 9)])
def test_the_window_counts_itself_and_its_pairs(N, w):
    mask = sliding_window.mask(N, w)
    assert mask.sum(-1).tolist() == [min(i + 1, w) for i in range(N)]
    assert mask.sum() == w * N - w * (w - 1) // 2


def test_longformers_own_window_is_one_larger():
    """Its w has w/2 keys on each side, and not the query."""
    w, N = 4, 15
    ours = longformer.mask(N, w + 1, [])
    inner = np.array([[abs(i - j) <= w // 2 for j in range(N)]
                      for i in range(N)])
    assert np.array_equal(ours, inner)


def test_no_query_at_all_is_a_moving_average():
    v = np.array([3., 6, 0, 9, 3, 6])[:, None]
    zero = np.zeros((6, 1))
    o = sliding_window.banded(zero, zero, v, 3)
    assert np.allclose(o[:, 0], [3, 4.5, 3, 5, 4, 6])
    o = sliding_window.banded(zero, zero, o, 3)
    assert np.allclose(o[-1], 5)


def test_a_window_of_the_whole_length_is_full_attention():
    q, k, v = data(33)
    for form in (sliding_window.parallel, sliding_window.banded,
                 sliding_window.recurrent):
        assert np.allclose(form(q, k, v, 33),
                           softmax.parallel(q, k, v, causal=True),
                           atol=1e-12)


def test_globals_everywhere_are_full_attention():
    q, k, v = data(20)
    for causal in (True, False):
        full = softmax.parallel(q, k, v, causal=causal)
        assert np.allclose(longformer.banded(
            q, k, v, 1, range(20), causal=causal), full, atol=1e-12)
        assert np.allclose(bigbird.blocked(
            q, k, v, 3, 1, 7, 0, 0, causal=causal), full, atol=1e-12)


@pytest.mark.parametrize("w, L", [(1, 5), (2, 3), (4, 3), (8, 5)])
def test_reach_and_share_of_a_causal_window(w, L):
    N = 60
    mask = sliding_window.mask(N, w)
    hops = reach.hops(mask)
    for i in (0, 7, N - 1):
        heard = (0 <= hops[i]) & (hops[i] <= L)
        assert heard.sum() == min(i + 1, L * (w - 1) + 1)
    share = reach.shares(mask, L)[-1]
    assert np.isclose(share[N - 1 - L * (w - 1)], float(w) ** -L)
    assert np.isclose(np.arange(N)[::-1] @ share, L * (w - 1) / 2)


def test_a_global_token_makes_the_diameter_two_only_if_it_sees_the_future():
    N, w = 64, 9
    assert reach.hops(longformer.mask(N, w, [0])).max() == 2
    causal = reach.hops(longformer.mask(N, w, [0], causal=True))
    plain = reach.hops(sliding_window.mask(N, w))
    assert np.array_equal(causal[:, 1:], plain[:, 1:])
    assert (causal[1:, 0] == 1).all()
    often = longformer.mask(N, w, range(0, N, 8), causal=True)
    assert reach.hops(often).max() == 2


def test_random_links_shorten_the_way():
    for N in (64, 256):
        window = reach.hops(bigbird.mask(N, 1, 3, 0, 0, 0)).max()
        assert window == N - 1
        for seed in range(3):
            random = reach.hops(bigbird.mask(N, 1, 3, 0, 3, seed))
            assert 0 < random.max() <= np.log2(N) and (random >= 0).all()


def leaks(mask, depth):
    """The rows that a later token moves."""
    x = np.random.default_rng(4).normal(size=(len(mask), 5))

    def run(x):
        for _ in range(depth):
            x = (x + softmax.parallel(x, x, x, mask=mask)) / 2
        return x

    before, rows = run(x.copy()), set()
    for j in range(len(mask)):
        changed = x.copy()
        changed[j] += 1
        moved = (run(changed) != before).any(-1)
        rows |= set(np.flatnonzero(moved[:j]).tolist())
    return rows


def test_what_half_a_repair_leaks():
    N, G = 16, [0, 8]
    half = sliding_window.mask(N, 4)
    half[G], half[:, G] = True, True
    assert leaks(half, 1) == set(range(9))      # 0 … 7 see 8; 8 sees all
    assert leaks(half, 2) == set(range(N - 1))
    assert leaks(longformer.mask(N, 4, G, causal=True), 3) == set()
    assert leaks(bigbird.mask(N, 2, 1, 1, 1, 0, causal=True), 3) == set()
    assert leaks(longformer.mask(N, 4, G), 2) == set(range(N - 1))


def test_the_rolling_cache_may_be_cut_anywhere():
    q, k, v = data(40, seed=2)
    whole = sliding_window.parallel(q, k, v, 7)
    for cut in (1, 6, 7, 8, 39):
        first, state = sliding_window.recurrent(
            q[:cut], k[:cut], v[:cut], 7, return_state=True)
        assert len(state[0]) == min(cut, 7)
        second = sliding_window.banded(q[cut:], k[cut:], v[cut:], 7,
                                       initial_state=state)
        assert np.allclose(np.concatenate([first, second]), whole,
                           atol=1e-12)


def test_outside_the_window_a_perfect_match_counts_nothing():
    N = 64
    k, v = np.zeros((N, 8)), np.zeros((N, 1))
    k[3], v[3] = 5, 1
    q = np.full((N, 8), 5.)
    assert sliding_window.banded(q, k, v, 32)[-1] == 0
    assert softmax.parallel(q, k, v, causal=True)[-1] > 0.999
