"""`lintut.reference.hybrid`: each head by its rule, both states carried."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lintut.reference import hybrid, linear, sliding_window
from lintut.reference.feature_maps import relu

from .cases import (CHUNKS, LENGTHS, agree, by_hand, cut, draw, frozen,
                    leaves, spoilt, survives, wild)

HEADS = ("linear", "window", "linear")


def linear_by_hand(q, k, v):
    """One head of linear attention with ELU + 1, in plain Python."""
    def phi(x):
        return [[y + 1 if y > 0 else math.exp(y) for y in row]
                for row in x.tolist()]

    rows, keys, values = [], phi(k), v.tolist()
    for i, query in enumerate(phi(q)):
        weights = [math.fsum(a * b for a, b in zip(query, key))
                   for key in keys[:i + 1]]
        rows.append([math.fsum(w * value[c] for w, value in
                               zip(weights, values)) / math.fsum(weights)
                     for c in range(v.shape[-1])])
    return np.array(rows)


def expected(q, k, v, window, heads, scale=None):
    return np.stack([
        by_hand(q[h], k[h], v[h], lambda i, j: 0 <= i - j < window, scale)
        if head == "window" else linear_by_hand(q[h], k[h], v[h])
        for h, head in enumerate(heads)])


@pytest.mark.parametrize("n", LENGTHS)
def test_all_forms_are_the_definition(n):
    q, k, v = draw(n, lead=(3,))
    result = expected(q, k, v, 6, HEADS, scale=.7)
    agree(hybrid.parallel(q, k, v, 6, HEADS, scale=.7), result)
    agree(hybrid.recurrent(q, k, v, 6, HEADS, scale=.7), result)
    for size in CHUNKS:
        agree(hybrid.chunkwise(q, k, v, 6, HEADS, scale=.7, chunk_size=size),
              result)


FORMS = [hybrid.parallel, hybrid.recurrent, hybrid.chunkwise]


@pytest.mark.parametrize("form", FORMS)
def test_feature_map_and_leading_axes_reach_every_form(form):
    q, _, _ = draw(20, lead=(2, 1, 1))
    _, k, _ = draw(20, lead=(3,), seed=1)       # one k a head, shared
    _, _, v = draw(20, seed=2)                  # one v for all
    q = np.abs(q)                               # so that ReLU sees something
    k = np.abs(k)
    o = form(q, k, v, 4, HEADS, feature_map=relu)
    assert o.shape == (2, 1, 3, 20, 3)
    for a in range(2):
        agree(o[a, 0, 1], sliding_window.parallel(q[a, 0, 0], k[1], v, 4))
        for h in (0, 2):
            agree(o[a, 0, h], linear.parallel(q[a, 0, 0], k[h], v, relu))


@pytest.mark.parametrize("form", [hybrid.recurrent, hybrid.chunkwise])
def test_the_state_is_both_states(form):
    q, k, v = draw(30, lead=(2, 3))
    (K, V), (S, z) = form(q, k, v, 4, HEADS, return_state=True)[1]
    agree((K, V), (k[:, 1:2, -4:], v[:, 1:2, -4:]), 0)
    assert S.shape == (2, 2, 5, 3) and z.shape == (2, 2, 5)
    agree((S, z), linear.recurrent(q[:, ::2], k[:, ::2], v[:, ::2],
                                   return_state=True)[1])


@given(st.integers(2, 40), st.integers(1, 12), st.integers(1, 9), st.data())
@settings(max_examples=60, deadline=None)
def test_split_and_carry_is_one_pass_in_any_mix_of_forms(n, window, size,
                                                         data):
    q, k, v = draw(n, lead=(3,))
    ends = sorted(data.draw(st.sets(st.integers(1, n - 1), max_size=3)))
    state, parts = None, []
    for start, stop in zip([0, *ends], [*ends, n]):
        chunked = data.draw(st.booleans())
        form = hybrid.chunkwise if chunked else hybrid.recurrent
        o, state = form(*cut((q, k, v), start, stop), window, HEADS,
                        initial_state=state, return_state=True,
                        **({"chunk_size": size} if chunked else {}))
        parts.append(o)
    agree(np.concatenate(parts, -2),
          hybrid.parallel(q, k, v, window, HEADS), 1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_the_future_changes_no_bit_of_the_past(form):
    q, k, v = draw(65, lead=(3,))
    q2, k2, v2 = draw(65, lead=(3,), seed=9)
    before = form(q, k, v, 6, HEADS)
    for t in (0, 15, 40, 63):
        mixed = [np.concatenate([x[:, :t + 1], y[:, t + 1:]], 1)
                 for x, y in ((q, q2), (k, k2), (v, v2))]
        after = form(*mixed, 6, HEADS)
        assert np.array_equal(before[:, :t + 1], after[:, :t + 1])
        assert not np.array_equal(before[:, t + 1:], after[:, t + 1:])


@pytest.mark.parametrize("form", FORMS)
def test_constant_values_dtype_and_new_results(form):
    q, k, v = draw(100, lead=(3,), dtype=np.float32)
    constant = frozen(np.tile(np.float32([3.7, -1e6, 1e-9]), (3, 100, 1)))
    o = form(q, k, constant, 6, HEADS)
    assert o.dtype == np.float32
    assert np.allclose(o, constant, rtol=2e-6, atol=0)
    o = form(q, k, v, 6, HEADS)
    agree(o, form(*(x.astype(float) for x in (q, k, v)), 6, HEADS), 1e-5)
    if form is not hybrid.parallel:
        first = draw(1, lead=(3,), dtype=np.float32)
        state = form(*first, 6, HEADS, return_state=True)[1]
        held = [x.copy() for x in leaves(state)]
        result = form(q, k, v, 6, HEADS, initial_state=state,
                      return_state=True)
        for old, x in zip(held, leaves(state)):
            assert np.array_equal(old, x)
        for x in leaves(result):
            assert x.dtype == np.float32
            assert not any(np.shares_memory(x, y)
                           for y in (q, k, v, *leaves(state)))


@pytest.mark.parametrize("N, bound", [(4096, 1e-5), (65536, 1e-4)])
def test_float32_stays_near_float64_at_length(N, bound):
    q, k, v = draw(N, lead=(3,), dtype=np.float32)
    o = hybrid.chunkwise(q, k, v, 16, HEADS)
    exact = hybrid.chunkwise(*(x.astype(float) for x in (q, k, v)), 16, HEADS)
    assert o.dtype == np.float32
    assert np.abs(o - exact).max() <= bound * np.abs(exact).max()


Q, K, V = draw(6, lead=(3,))
STATE = hybrid.recurrent(Q, K, V, 3, HEADS, return_state=True)[1]
BAD = [
    (dict(q=Q[:, :5]), "k must have q's length N=5"),
    (dict(q=Q[0], k=K[0], v=V[0]), "must have a head axis"),
    (dict(window=0), "window must be at least 1"),
    (dict(heads=HEADS[:2]), "heads must be H=3 words"),
    (dict(heads="window"), "heads must be H=3 words"),
    (dict(heads=("window",) * 3), "for one kind alone use its module"),
    (dict(heads=("window", "linear", "dense")), "heads must be H=3 words"),
    (dict(feature_map=3), "feature_map must be a function"),
    (dict(scale=np.nan), "scale must be a finite number"),
]
BAD_STATE = [
    (dict(initial_state=STATE[0] + STATE[1]), "initial_state must be a pair"),
    (dict(initial_state=STATE[::-1]), "initial_state"),
    (dict(return_state=3), "return_state must be True or False"),
]


@pytest.mark.parametrize("form, bad, message", [
    *((form, *case) for case in BAD for form in FORMS),
    *((form, *case) for case in BAD_STATE for form in FORMS[1:]),
    (hybrid.chunkwise, {"chunk_size": 0}, "chunk_size must be at least 1"),
])
def test_bad_input_is_named(form, bad, message):
    good = dict(q=Q, k=K, v=V, window=3, heads=HEADS)
    with pytest.raises(ValueError, match=message):
        form(**{**good, **bad})


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_any_input_is_finite_or_refused(data):
    n, d, d_v, m = (data.draw(st.integers(1, 5)) for _ in range(4))
    state = None
    if data.draw(st.booleans()):
        state = ((data.draw(wild(1, m, d)), data.draw(wild(1, m, d_v))),
                 (data.draw(wild(2, d, d_v)), data.draw(wild(2, d))))
    base = {"q": data.draw(wild(3, n, d)), "k": data.draw(wild(3, n, d)),
            "v": data.draw(wild(3, n, d_v)), "heads": HEADS,
            "window": data.draw(st.integers(0, 8)),
            "scale": data.draw(st.sampled_from([None, 0, 1e308, -3.]))}
    carried = {"initial_state": state, "return_state": True}
    for form, extra in ((hybrid.parallel, {}), (hybrid.recurrent, carried),
                        (hybrid.chunkwise, {**carried, "chunk_size": m})):
        arguments = data.draw(spoilt({**base, **extra}))
        survives(lambda: form(**arguments),
                 (*arguments, "denominator", "feature_map"))
