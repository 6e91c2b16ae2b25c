"""`lintut.reference.sliding_window`: which keys, and the same in O(Nw)."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lintut.reference import sliding_window, softmax

from .cases import (CHUNKS, LENGTHS, agree, by_hand, cut, draw, spoilt,
                    survives, wild)

WINDOWS = (1, 2, 3, 8, 64, 1000)


def visible(window, causal):
    """Whom a query sees, from the list of its distances to them."""
    if causal:
        distances = range(-window + 1, 1)
    elif window % 2:
        distances = range(-(window // 2), window // 2 + 1)
    else:
        distances = range(-(window // 2), window // 2)
    return lambda i, j: j - i in distances


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", WINDOWS)
def test_each_row_counts_window_keys_itself_among_them(window, causal):
    mask = sliding_window.mask(100, window, causal)
    assert mask.dtype == bool and mask.shape == (100, 100)
    assert mask.diagonal().all()
    counts = mask.sum(1)
    if causal:
        assert (counts == np.minimum(np.arange(100) + 1, window)).all()
    else:
        assert (counts[window // 2:100 - window // 2] == window).all()
    assert counts.max() <= window
    assert all(mask[i, j] == visible(window, causal)(i, j)
               for i in range(100) for j in range(100))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("window", WINDOWS)
def test_all_forms_are_the_definition(n, window):
    q, k, v = draw(n)
    for causal in (True, False):
        expected = by_hand(q, k, v, visible(window, causal), scale=.7)
        agree(sliding_window.parallel(q, k, v, window, causal, scale=.7),
              expected)
        for size in CHUNKS:
            agree(sliding_window.banded(q, k, v, window, causal, scale=.7,
                                        block_size=size), expected)
        if causal:
            agree(sliding_window.recurrent(q, k, v, window, scale=.7),
                  expected)


@pytest.mark.parametrize("form", ["parallel", "banded", "recurrent"])
def test_default_scale_leading_axes_and_constant_values(form):
    form = getattr(sliding_window, form)
    q, _, _ = draw(40, d=9, lead=(2, 1))
    _, k, _ = draw(40, d=9, lead=(3,), seed=1)
    _, _, v = draw(40, seed=2)
    agree(form(q, k, v, window=7), np.stack(
        [[by_hand(one[0], other, v, visible(7, True), scale=1 / 3)
          for other in k] for one in q]))
    constant = np.tile([3.7, -1e6, 1e-9], (40, 1))
    result = form(q, k, constant, window=7)
    assert np.allclose(result, constant, rtol=4e-15, atol=0)


def test_window_of_one_copies_and_a_wide_window_is_softmax():
    q, k, v = draw(50)
    for form in (sliding_window.parallel, sliding_window.banded,
                 sliding_window.recurrent):
        agree(form(q, k, v, window=1), v, 0)
        agree(form(q, k, v, window=50), softmax.parallel(q, k, v, causal=True))
        agree(form(q, k, v, window=10 ** 30),
              softmax.parallel(q, k, v, causal=True))


@given(st.integers(2, 40), st.integers(1, 12), st.integers(1, 9), st.data())
@settings(max_examples=100, deadline=None)
def test_split_and_carry_is_one_pass_in_any_mix_of_forms(n, window, size,
                                                         data):
    q, k, v = draw(n, lead=(2,))
    ends = sorted(data.draw(st.sets(st.integers(1, n - 1), max_size=3)))
    state, parts = None, []
    for start, stop in zip([0, *ends], [*ends, n]):
        banded = data.draw(st.booleans())
        form = sliding_window.banded if banded else sliding_window.recurrent
        o, state = form(*cut((q, k, v), start, stop), window,
                        initial_state=state, return_state=True,
                        **({"block_size": size} if banded else {}))
        parts.append(o)
    agree(np.concatenate(parts, -2),
          sliding_window.parallel(q, k, v, window), 1e-13)
    agree(state, cut((k, v), max(n - window, 0), n), 0)


@pytest.mark.parametrize("form", [sliding_window.recurrent,
                                  sliding_window.banded])
@pytest.mark.parametrize("held", [1, 3, 6])
def test_initial_state_is_earlier_tokens(form, held):
    q, k, v = draw(25)
    K, V = draw(held, seed=5)[1:]
    o, state = form(q, k, v, 6, initial_state=(K, V), return_state=True)
    keys, values = np.concatenate([K, k]), np.concatenate([V, v])
    agree(o, by_hand(q, keys, values,
                     lambda i, j: 0 <= i + held - j < 6))
    agree(state, (k[-6:], v[-6:]), 0)


def test_cache_is_short_while_few_tokens_were_seen():
    q, k, v = draw(3, lead=(2,))
    for form in (sliding_window.recurrent, sliding_window.banded):
        K, V = form(q, k, v, 8, return_state=True)[1]
        assert np.array_equal(K, k) and np.array_equal(V, v)


@pytest.mark.parametrize("form", [
    lambda *qkv: sliding_window.parallel(*qkv, 9),
    lambda *qkv: sliding_window.banded(*qkv, 9, block_size=16),
    lambda *qkv: sliding_window.recurrent(*qkv, 9)])
def test_neither_the_future_nor_what_left_the_window_changes_a_bit(form):
    q, k, v = draw(65)
    q2, k2, v2 = draw(65, seed=9, size=50)
    before = form(q, k, v)
    for t in (0, 8, 15, 16, 40, 63):
        keep = np.abs(np.arange(65) - t + 4) <= 4       # t - 8 … t
        mixed = [np.where(keep[:, None], x, y)
                 for x, y in ((q, q2), (k, k2), (v, v2))]
        assert np.array_equal(form(*mixed)[t], before[t])
        if t >= 8:
            keep[t - 8] = False
            k3 = np.where(keep[:, None], k, k2)
            assert not np.array_equal(form(q, k3, v)[t], before[t])


def test_float32_stays_near_float64():
    q, k, v = draw(4096, d=64, d_v=48, dtype=np.float32)
    exact = sliding_window.banded(*(x.astype(float) for x in (q, k, v)), 100)
    for form in (sliding_window.parallel, sliding_window.banded,
                 sliding_window.recurrent):
        agree(form(q, k, v, 100), exact, 1e-5)


def test_dtype_kept_and_results_are_new():
    for dtype in (np.float32, np.float64):
        for n in (1, 10):
            q, k, v = draw(n, dtype=dtype)
            state = draw(4, dtype=dtype)[1:]
            results = [sliding_window.parallel(q, k, v, 5)]
            for form in (sliding_window.banded, sliding_window.recurrent):
                o, (K, V) = form(q, k, v, 5, initial_state=state,
                                 return_state=True)
                results += [o, K, V]
            for x in results:
                assert x.dtype == dtype and x.flags.writeable
                assert not any(np.shares_memory(x, y)
                               for y in (q, k, v, *state))


@pytest.mark.parametrize("causal", [True, False])
def test_banded_compares_no_more_than_the_band(monkeypatch, causal):
    scores, attend = [], softmax.attend

    def counting(q, k, v, visible=None):
        scores.append(q.shape[-2] * k.shape[-2])
        return attend(q, k, v, visible)

    monkeypatch.setattr(softmax, "attend", counting)
    for n, window, size in ((1000, 16, 64), (1000, 200, 64), (500, 3, 1)):
        scores.clear()
        sliding_window.banded(*draw(n), window, causal, block_size=size)
        assert sum(scores) <= n * (window + size - 1)
        assert max(scores) <= size * (window + size - 1)


def test_banded_holds_no_square():
    q, k, v = draw(8192, d=8, d_v=8)
    tracemalloc.start()
    sliding_window.banded(q, k, v, 32)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8192 * 8 * 8 * 8      # some copies of q, k, v and o


Q, K, V = draw(6)
BAD = [
    (dict(q=Q[:5]), "k must have q's length N=5"),
    (dict(k=K[:, :4]), "k must have q's width d=5"),
    (dict(v=V[:5]), "v must have k's length N=6"),
    (dict(q=Q.astype(int)), "q must be float32 or float64; it is int64"),
    (dict(window=0), "window must be at least 1; it is 0"),
    (dict(window=2.0), "window must be a whole number; it is 2.0"),
    (dict(window=True), "window must be a whole number"),
    (dict(causal=None), "causal must be True or False"),
    (dict(scale=np.nan), "scale must be a finite number"),
    (dict(q=Q * 1e200, k=K * 1e200), "too large for float64"),
]
BAD_STATE = [
    (dict(initial_state=draw(4)[1:]), "at most window=3 tokens; it holds 4"),
    (dict(initial_state=(K[:2], V[:1])), "initial_state must hold K"),
    (dict(initial_state="KV"), "initial_state must be a pair"),
    (dict(initial_state=draw(2)[1:], causal=False), "causal must be True"),
    (dict(return_state=True, causal=False), "causal must be True"),
    (dict(return_state="yes"), "return_state must be True or False"),
]


@pytest.mark.parametrize("form, bad, message", [
    *((sliding_window.parallel, *case) for case in BAD),
    *((sliding_window.banded, *case) for case in BAD + BAD_STATE),
    *((sliding_window.recurrent, *case) for case in BAD + BAD_STATE),
    (sliding_window.banded, {"block_size": 0}, "block_size must be at least"),
    (sliding_window.recurrent, {"causal": False}, "causal must be True"),
])
def test_bad_input_is_named(form, bad, message):
    with pytest.raises(ValueError, match=message):
        form(**{"q": Q, "k": K, "v": V, "window": 3, **bad})


def test_bad_mask_arguments_are_named():
    for arguments, message in (((0, 3), "N must be at least 1"),
                               ((6, 0), "window must be at least 1"),
                               ((6, 3, "no"), "causal must be")):
        with pytest.raises(ValueError, match=message):
            sliding_window.mask(*arguments)


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_any_input_is_finite_or_refused(data):
    n, d, d_v, m = (data.draw(st.integers(1, 6)) for _ in range(4))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    base = {"q": data.draw(wild(n, d, dtype=dtype)),
            "k": data.draw(wild(n, d, dtype=dtype)),
            "v": data.draw(wild(n, d_v, dtype=dtype)),
            "window": data.draw(st.integers(0, 8)),
            "causal": data.draw(st.booleans()),
            "scale": data.draw(st.sampled_from([None, 0, 1e308, -3., 1e-320]))}
    state = {"initial_state": (data.draw(wild(m, d, dtype=dtype)),
                               data.draw(wild(m, d_v, dtype=dtype))),
             "return_state": data.draw(st.booleans())}
    for form, extra in ((sliding_window.parallel, {}),
                        (sliding_window.banded, {"block_size": m}),
                        (sliding_window.banded, {**state, "block_size": m}),
                        (sliding_window.recurrent, state)):
        arguments = data.draw(spoilt({**base, **extra}))
        survives(lambda: form(**arguments), arguments)
