"""`lintut.reference.softmax` against plain Python, and form against form."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lintut.reference import softmax

from .cases import (CHUNKS, LENGTHS, agree, by_hand, cut, draw, frozen,
                    spoilt, survives, wild)


def everything(i, j):
    return True


def past(i, j):
    return j <= i


def random_mask(n, lead=(), seed=0):
    """Half of the pairs, and always the diagonal."""
    rng = np.random.default_rng(seed)
    return frozen((rng.random((*lead, n, n)) < .5) | np.eye(n, dtype=bool))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("causal", [False, True])
def test_parallel_and_blocked_are_the_definition(n, causal):
    q, k, v = draw(n)
    expected = by_hand(q, k, v, past if causal else everything, scale=.7)
    agree(softmax.parallel(q, k, v, causal=causal, scale=.7), expected)
    for size in CHUNKS:
        agree(softmax.blocked(q, k, v, causal=causal, scale=.7,
                              block_size=size), expected)


@pytest.mark.parametrize("n", LENGTHS)
def test_recurrent_is_the_causal_definition(n):
    q, k, v = draw(n)
    o, state = softmax.recurrent(q, k, v, return_state=True)
    agree(o, by_hand(q, k, v, past))
    assert np.array_equal(state[0], k) and np.array_equal(state[1], v)
    agree(softmax.recurrent(q, k, v, scale=-.4),
          by_hand(q, k, v, past, scale=-.4))


def test_default_scale_is_one_over_root_d():
    q, k, v = draw(33, d=9)
    for form in (softmax.parallel, softmax.blocked):
        agree(form(q, k, v), by_hand(q, k, v, everything, scale=1 / 3))
    agree(softmax.recurrent(q, k, v), by_hand(q, k, v, past, scale=1 / 3))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [2, 17, 65])
def test_mask(n, causal):
    q, k, v = draw(n)
    mask = random_mask(n)
    expected = by_hand(q, k, v, lambda i, j:
                       mask[i, j] and (not causal or j <= i))
    agree(softmax.parallel(q, k, v, causal, mask), expected)
    for size in CHUNKS:
        agree(softmax.blocked(q, k, v, causal, mask, block_size=size),
              expected)


def test_mask_of_keys_alone_and_of_a_batch():
    q, k, v = draw(20)
    keys = frozen(np.arange(20) % 3 > 0)
    expected = by_hand(q, k, v, lambda i, j: j % 3 > 0)
    batch = random_mask(20, lead=(4,))
    for form in (softmax.parallel, softmax.blocked):
        agree(form(q, k, v, mask=keys), expected)
        agree(form(q, k, v, mask=batch), np.stack([
            by_hand(q, k, v, lambda i, j: one[i, j]) for one in batch]))


def test_leading_axes_broadcast():
    q, _, _ = draw(18, lead=(2, 1))
    _, k, _ = draw(18, lead=(3,), seed=1)
    _, _, v = draw(18, seed=2)
    for sees, forms in ((everything, (softmax.parallel, softmax.blocked)),
                        (past, (softmax.recurrent,))):
        expected = np.stack([[by_hand(one[0], other, v, sees) for other in k]
                             for one in q])
        for form in forms:
            agree(form(q, k, v), expected)


def test_weights_are_the_rows_of_the_average():
    q, k, v = draw(30, lead=(2,))
    for options in ({}, {"causal": True}, {"mask": random_mask(30)},
                    {"scale": 3.}):
        weights = softmax.weights(q, k, **options)
        agree(weights.sum(-1), np.ones((2, 30)), 1e-14)
        agree(weights @ v, softmax.parallel(q, k, v, **options), 1e-14)
    assert not np.triu(softmax.weights(q, k, causal=True), 1).any()


@given(st.integers(2, 40), st.data())
@settings(max_examples=60, deadline=None)
def test_split_and_carry_is_one_pass(n, data):
    q, k, v = draw(n, lead=(2,))
    ends = sorted(data.draw(st.sets(st.integers(1, n - 1), max_size=3)))
    whole, final = softmax.recurrent(q, k, v, return_state=True)
    state, parts = None, []
    for start, stop in zip([0, *ends], [*ends, n]):
        o, state = softmax.recurrent(*cut((q, k, v), start, stop),
                                     initial_state=state, return_state=True)
        parts.append(o)
    agree(np.concatenate(parts, -2), whole, 1e-13)
    agree(state, final, 0)


def test_initial_state_is_earlier_tokens():
    q, k, v = draw(25, lead=(3,))
    _, K, V = draw(9, lead=(3,), seed=5)
    o = softmax.recurrent(q, k, v, initial_state=(K, V))
    keys, values = np.concatenate([K, k], 1), np.concatenate([V, v], 1)
    agree(o, np.stack([by_hand(q[h], keys[h], values[h],
                               lambda i, j: j <= i + 9) for h in range(3)]))


FORMS = [
    lambda q, k, v: softmax.parallel(q, k, v, causal=True),
    lambda q, k, v: softmax.blocked(q, k, v, causal=True, block_size=16),
    lambda q, k, v: softmax.blocked(q, k, v, causal=True, block_size=7),
    softmax.recurrent,
]


@pytest.mark.parametrize("form", FORMS)
def test_the_future_changes_no_bit_of_the_past(form):
    q, k, v = draw(65, lead=(2,))
    q2, k2, v2 = draw(65, lead=(2,), seed=9, size=50)
    before = form(q, k, v)
    for t in (0, 1, 16, 40, 63):
        mixed = [np.concatenate([x[:, :t + 1], y[:, t + 1:]], 1)
                 for x, y in ((q, q2), (k, k2), (v, v2))]
        after = form(*mixed)
        assert np.array_equal(before[:, :t + 1], after[:, :t + 1])
        assert not np.array_equal(before[:, t + 1:], after[:, t + 1:])


@pytest.mark.parametrize("form", FORMS + [softmax.parallel, softmax.blocked])
@pytest.mark.parametrize("size", [1., 100., 1e5])
def test_constant_values_come_back(form, size):
    q, k, _ = draw(100, size=size)
    v = np.tile([3.7, -1e6, 1e-9], (100, 1))
    assert np.allclose(form(q, k, v), v, rtol=4e-15, atol=0)


@pytest.mark.parametrize("form", FORMS + [softmax.parallel, softmax.blocked])
def test_large_scores_do_not_overflow(form):
    q, k, v = draw(40, size=300.)     # exp of these scores is infinite
    sees = past if form in FORMS else everything
    agree(form(q, k, v), by_hand(q, k, v, sees))


@pytest.mark.parametrize("causal", [False, True])
def test_float32_stays_near_float64(causal):
    q, k, v = draw(4096, d=64, d_v=48, dtype=np.float32)
    exact = softmax.parallel(*(x.astype(float) for x in (q, k, v)), causal)
    for o in (softmax.parallel(q, k, v, causal),
              softmax.blocked(q, k, v, causal)):
        assert o.dtype == np.float32
        agree(o, exact, 1e-5)
    if causal:
        agree(softmax.recurrent(q[:512], k[:512], v[:512]), exact[:512], 1e-5)


def test_dtype_kept_and_results_are_new():
    for dtype in (np.float32, np.float64):
        for n in (1, 10):
            q, k, v = draw(n, dtype=dtype)
            state = draw(4, dtype=dtype)[1:]
            results = [softmax.parallel(q, k, v), softmax.blocked(q, k, v),
                       softmax.weights(q, k)]
            o, (K, V) = softmax.recurrent(q, k, v, initial_state=state,
                                          return_state=True)
            for x in (*results, o, K, V):
                assert x.dtype == dtype and x.flags.writeable
                assert not any(np.shares_memory(x, y)
                               for y in (q, k, v, *state))


def test_blocked_holds_no_square():
    q, k, v = draw(4096, d=8, d_v=8)
    tracemalloc.start()
    softmax.blocked(q, k, v, causal=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4096 * 4096 / 4       # bytes; the scores alone take 8·4096²


@pytest.mark.parametrize("causal, tiles", [(False, 7 * 7), (True, 7 * 8 / 2)])
def test_blocked_skips_the_tiles_above_the_diagonal(monkeypatch, causal,
                                                    tiles):
    seen, absorb = [], softmax.absorb

    def counting(*args):
        seen.append(args[3].shape)
        return absorb(*args)

    monkeypatch.setattr(softmax, "absorb", counting)
    softmax.blocked(*draw(100), causal=causal, block_size=16)
    assert len(seen) == tiles and max(seen) == (16, 16)


@pytest.mark.parametrize("form", [softmax.parallel, softmax.blocked,
                                  lambda q, k, v, *a: softmax.weights(q, k,
                                                                      *a)])
def test_a_row_that_sees_nothing_is_named(form):
    q, k, v = draw(6)
    mask = np.ones((6, 6), bool)
    mask[3] = False
    with pytest.raises(ValueError, match="mask.* row 3 has none"):
        form(q, k, v, False, mask)
    mask[3, 4] = True
    form(q, k, v, False, mask)
    with pytest.raises(ValueError, match="earlier one; row 3 has none"):
        form(q, k, v, True, mask)
    batch = np.ones((2, 6, 6), bool)
    batch[1, 5] = False
    with pytest.raises(ValueError, match=r"row 5 has none \(at \[1, 5\]\)"):
        form(q, k, v, False, batch)


Q, K, V = draw(6)
BAD = [
    (dict(q=Q[:5]), "k must have q's length N=5"),
    (dict(k=K[:, :4]), "k must have q's width d=5"),
    (dict(v=V[:5]), "v must have k's length N=6"),
    (dict(q=Q[0]), "q must have shape"),
    (dict(q=Q[:0], k=K[:0], v=V[:0]), "q is empty"),
    (dict(v=V[:, :0]), "v is empty"),
    (dict(q=np.where(Q == Q[2, 1], np.nan, Q)), r"q\[2, 1\] is nan"),
    (dict(v=V + np.inf), "v must be finite"),
    (dict(q=Q.astype(int)), "q must be float32 or float64; it is int64"),
    (dict(k=K + 0j), "k must be float32 or float64; it is complex128"),
    (dict(v=V.astype(np.float32)), "must share one dtype"),
    (dict(k=np.stack([K] * 2), v=np.stack([V] * 3)), "do not broadcast"),
    (dict(scale=np.inf), "scale must be a finite number"),
    (dict(scale="1"), "scale must be a finite number"),
    (dict(q=Q * 1e200, k=K * 1e200), "too large for float64"),
    (dict(scale=1e308), "scale is too large"),
]
BAD_PAIRS = [
    (dict(causal=2), "causal must be True or False"),
    (dict(mask=np.ones((6, 6))), "mask must be boolean.* float64"),
    (dict(mask=np.ones((5, 6), bool)), r"mask must broadcast to \(…, 6, 6\)"),
    (dict(mask=np.ones((2, 6, 6), bool), q=np.stack([Q] * 3)),
     "leading axes of q, k, v and mask"),
]
BAD_STATE = [
    (dict(initial_state=3), r"initial_state must be a pair \(K, V\)"),
    (dict(initial_state=(K, V, V)), "initial_state must be a pair"),
    (dict(initial_state=(K, V[:4])), "initial_state must hold K"),
    (dict(initial_state=(V, K)), "initial_state must hold K"),
    (dict(initial_state=(K[:, :1], V)), "initial_state must hold K"),
    (dict(initial_state=(K * np.nan, V)), "K of initial_state must be finite"),
    (dict(initial_state=(np.stack([K] * 2), np.stack([V] * 2))),
     "leading axes of initial_state"),
    (dict(initial_state=(K * 3e307, V), scale=100.),
     "initial_state is too large"),
    (dict(causal=False), "causal must be True here"),
    (dict(return_state=1), "return_state must be True or False"),
]


@pytest.mark.parametrize("form, bad, message", [
    *((softmax.parallel, *case) for case in BAD + BAD_PAIRS),
    *((softmax.blocked, *case) for case in BAD + BAD_PAIRS),
    *((softmax.recurrent, *case) for case in BAD + BAD_STATE),
    *((softmax.blocked, {"block_size": size}, "block_size must be")
      for size in (0, -3, 2.0, None, True)),
])
def test_bad_input_is_named(form, bad, message):
    with pytest.raises(ValueError, match=message):
        form(**{"q": Q, "k": K, "v": V, **bad})


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_any_input_is_finite_or_refused(data):
    n, d, d_v, m = (data.draw(st.integers(1, 6)) for _ in range(4))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    base = {"q": data.draw(wild(n, d, dtype=dtype)),
            "k": data.draw(wild(n, d, dtype=dtype)),
            "v": data.draw(wild(n, d_v, dtype=dtype)),
            "scale": data.draw(st.sampled_from([None, 0, 1e308, -3., 1e-320]))}
    pairs = {"causal": data.draw(st.booleans()),
             "mask": np.random.default_rng(n).random((n, n)) < .7}
    state = {"initial_state": (data.draw(wild(m, d, dtype=dtype)),
                               data.draw(wild(m, d_v, dtype=dtype))),
             "return_state": True}
    for form, extra in ((softmax.parallel, pairs),
                        (softmax.blocked, {**pairs, "block_size": m}),
                        (softmax.recurrent, state)):
        arguments = data.draw(spoilt({**base, **extra}))
        survives(lambda: form(**arguments), arguments)
