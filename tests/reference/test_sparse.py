"""`longformer` and `bigbird`: who sees whom, and no work beyond that."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lintut.reference import bigbird, longformer, sliding_window, softmax

from .cases import LENGTHS, agree, by_hand, draw, spoilt, survives, wild


def in_pattern(window, chosen, causal, dilation):
    """Longformer's pattern from the list of distances in reach."""
    if causal:
        steps = range(-window + 1, 1)
    elif window % 2:
        steps = range(-(window // 2), window // 2 + 1)
    else:
        steps = range(-(window // 2), window // 2)
    distances = {step * dilation for step in steps}
    return lambda i, j: ((j - i in distances or i in chosen or j in chosen)
                         and (j <= i or not causal))


def some_positions(n, number):
    return sorted({(7 * i + 3) % n for i in range(number)})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
def test_longformer_is_the_definition(n, causal):
    q, k, v = draw(n)
    for window, number, dilation in ((1, 0, 1), (4, 1, 1), (7, 3, 2),
                                     (3, 2, 5), (64, 4, 1), (5, 1, 1000)):
        chosen = some_positions(n, number)
        sees = in_pattern(window, chosen, causal, dilation)
        options = dict(window=window, global_positions=chosen, causal=causal,
                       dilation=dilation)
        mask = longformer.mask(n, **options)
        assert mask.tolist() == [[sees(i, j) for j in range(n)]
                                 for i in range(n)]
        expected = by_hand(q, k, v, sees, scale=.7)
        agree(longformer.parallel(q, k, v, **options, scale=.7), expected)
        for size in (1, 7, 64, 1000):
            agree(longformer.banded(q, k, v, **options, scale=.7,
                                    block_size=size), expected)


def test_longformer_without_globals_is_a_sliding_window():
    for causal in (False, True):
        assert np.array_equal(longformer.mask(50, 6, [], causal),
                              sliding_window.mask(50, 6, causal))
    assert longformer.mask(20, 2, range(20)).all()


def test_positions_in_any_order_and_type_are_the_same():
    expected = longformer.mask(20, 3, [2, 9])
    for same in ((9, 2), [2, 9, 9], np.array([9, 2]),
                 np.array([2, 9], np.uint8), range(2, 10, 7)):
        assert np.array_equal(longformer.mask(20, 3, same), expected)


BIRDS = [                       # block_size, n_window, n_global, n_random
    (1, 1, 0, 0), (4, 3, 2, 3), (7, 2, 1, 1), (16, 3, 0, 2), (64, 3, 2, 3),
    (5, 1, 3, 0), (3, 100, 0, 5), (3, 3, 100, 5), (3, 3, 1, 100),
    (400, 1, 0, 1),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block, w, g, r", BIRDS)
@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 100, 257])
def test_bigbird_connects_the_blocks_it_should(n, block, w, g, r, causal):
    mask = bigbird.mask(n, block, w, g, r, seed=3, causal=causal)
    count = -(-n // block)
    number = np.arange(n) // block
    # A pair of blocks is wholly visible or wholly hidden, but for causality.
    blocks = np.zeros((count, count), bool)
    np.logical_or.at(blocks, (number[:, None], number), mask)
    pairs = blocks[number[:, None], number]
    assert np.array_equal(mask, np.tril(pairs) if causal else pairs)
    for b in range(count):
        end = b + 1 if causal else count
        before = w - 1 if causal else w // 2
        after = 0 if causal else (w - 1) // 2
        fixed = set(range(max(b - before, 0), min(b + after + 1, count)))
        fixed |= set(range(min(g, end)))
        if b < g:
            fixed = set(range(end))
        seen = set(np.flatnonzero(blocks[b]).tolist())
        assert fixed <= seen <= set(range(end))
        assert len(seen - fixed) == min(r, end - len(fixed))


def test_bigbird_draws_every_block_and_by_the_seed_alone():
    drawn = [set(bigbird.connections(20, 3, 2, 2, seed)[10].tolist())
             - {0, 1, 9, 10, 11} for seed in range(200)]
    assert set.union(*drawn) == set(range(2, 20)) - {9, 10, 11}
    again = [bigbird.mask(100, 5, 3, 1, 2, seed=4) for _ in range(2)]
    assert np.array_equal(*again)
    assert not np.array_equal(again[0], bigbird.mask(100, 5, 3, 1, 2, seed=5))


def test_a_causal_bigbird_row_does_not_depend_on_the_length():
    long = bigbird.mask(100, 8, 2, 1, 2, seed=0, causal=True)
    short = bigbird.mask(61, 8, 2, 1, 2, seed=0, causal=True)
    assert np.array_equal(long[:61, :61], short)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
def test_bigbird_is_softmax_over_its_mask(n, causal):
    q, k, v = draw(n)
    for block, w, g, r in BIRDS[1:5]:
        arguments = block, w, g, r, 11, causal
        mask = bigbird.mask(n, *arguments).tolist()
        expected = by_hand(q, k, v, lambda i, j: mask[i][j], scale=.7)
        for form in (bigbird.parallel, bigbird.blocked):
            agree(form(q, k, v, *arguments, scale=.7), expected)


def longformer_forms(causal):
    options = dict(window=6, global_positions=[0, 20], causal=causal)
    return [lambda *qkv: longformer.parallel(*qkv, **options),
            lambda *qkv: longformer.banded(*qkv, **options, block_size=8),
            lambda *qkv: longformer.banded(*qkv, **options, dilation=3)]


def bigbird_forms(causal):
    options = dict(block_size=7, n_window=3, n_global=1, n_random=2, seed=0,
                   causal=causal)
    return [lambda *qkv: bigbird.parallel(*qkv, **options),
            lambda *qkv: bigbird.blocked(*qkv, **options)]


@pytest.mark.parametrize("form", longformer_forms(True) + bigbird_forms(True))
def test_the_future_changes_no_bit_of_the_past(form):
    q, k, v = draw(65, lead=(2,))
    q2, k2, v2 = draw(65, lead=(2,), seed=9, size=50)
    before = form(q, k, v)
    for t in (0, 6, 19, 20, 40, 63):
        mixed = [np.concatenate([x[:, :t + 1], y[:, t + 1:]], 1)
                 for x, y in ((q, q2), (k, k2), (v, v2))]
        after = form(*mixed)
        assert np.array_equal(before[:, :t + 1], after[:, :t + 1])
        assert not np.array_equal(before[:, t + 1:], after[:, t + 1:])


@pytest.mark.parametrize("form", longformer_forms(False)
                         + longformer_forms(True) + bigbird_forms(False)
                         + bigbird_forms(True))
def test_constant_values_leading_axes_dtype_and_new_results(form):
    q, _, _ = draw(40, lead=(2, 1))
    _, k, _ = draw(40, lead=(3,), seed=1)
    _, _, v = draw(40, seed=2)
    o = form(q, k, v)
    assert o.shape == (2, 3, 40, 3)
    for a in range(2):
        for b in range(3):
            agree(o[a, b], form(q[a, 0], k[b], v), 1e-14)
    constant = np.tile([3.7, -1e6, 1e-9], (40, 1))
    assert np.allclose(form(q, k, constant), constant, rtol=4e-15, atol=0)
    for n in (21, 40):
        qkv = draw(n, dtype=np.float32)
        o = form(*qkv)
        assert o.dtype == np.float32
        assert not any(np.shares_memory(o, x) for x in qkv)
        agree(o, form(*(x.astype(float) for x in qkv)), 1e-5)


def test_float32_stays_near_float64():
    q, k, v = draw(4096, d=64, d_v=48, dtype=np.float32)
    exact = [x.astype(float) for x in (q, k, v)]
    for form in (lambda *qkv: longformer.banded(*qkv, 128, [0, 999]),
                 lambda *qkv: bigbird.blocked(*qkv, 64, 3, 2, 3, 0)):
        agree(form(q, k, v), form(*exact), 1e-5)


@pytest.fixture
def scores(monkeypatch):
    """The number of scores of each tile that is computed."""
    sizes, attend = [], softmax.attend

    def counting(q, k, v, visible=None):
        sizes.append(q.shape[-2] * k.shape[-2])
        return attend(q, k, v, visible)

    monkeypatch.setattr(softmax, "attend", counting)
    return sizes


@pytest.mark.parametrize("causal", [False, True])
def test_longformer_compares_what_it_needs(scores, causal):
    n, w, g, size = 2000, 32, 3, 64
    for dilation in (1, 4):
        scores.clear()
        longformer.banded(*draw(n), w, some_positions(n, g), causal, dilation,
                          block_size=size)
        assert sum(scores) <= n * (w + g + size) + g * n


@pytest.mark.parametrize("causal", [False, True])
def test_bigbird_compares_what_it_needs(scores, causal):
    bigbird.blocked(*draw(2000), 16, 3, 2, 3, 0, causal)
    assert sum(scores) <= 2000 * (3 + 2 + 3) * 16 + 2 * 16 * 2000


Q, K, V = draw(6)
LONG = dict(q=Q, k=K, v=V, window=3, global_positions=[1])
BIRD = dict(q=Q, k=K, v=V, block_size=2, n_window=1, n_global=1, n_random=1,
            seed=0)
BOTH = [
    (dict(q=Q[:5]), "k must have q's length N=5"),
    (dict(v=V[:5]), "v must have k's length N=6"),
    (dict(k=K.astype(int)), "k must be float32 or float64; it is int64"),
    (dict(causal="yes"), "causal must be True or False"),
    (dict(scale=np.inf), "scale must be a finite number"),
    (dict(q=Q * 1e200, k=K * 1e200), "too large for float64"),
]
BAD_LONG = [
    (dict(window=0), "window must be at least 1"),
    (dict(dilation=0), "dilation must be at least 1"),
    (dict(dilation=1.5), "dilation must be a whole number"),
    (dict(global_positions=[6]), r"global_positions must lie in \[0, N\)"),
    (dict(global_positions=[-1]), "global_positions must lie in"),
    (dict(global_positions=[1.0]), "global_positions must be a sequence"),
    (dict(global_positions=[True] * 6), "global_positions must be a seq"),
    (dict(global_positions=2), "global_positions must be a sequence"),
]
BAD_BIRD = [
    (dict(block_size=0), "block_size must be at least 1"),
    (dict(n_window=0), "n_window must be at least 1"),
    (dict(n_global=-1), "n_global must be at least 0"),
    (dict(n_random=-1), "n_random must be at least 0"),
    (dict(n_random=.5), "n_random must be a whole number"),
    (dict(seed=None), "seed must be a whole number"),
]


@pytest.mark.parametrize("form, good, bad, message", [
    *((form, LONG, *case) for case in BOTH + BAD_LONG
      for form in (longformer.parallel, longformer.banded)),
    *((form, BIRD, *case) for case in BOTH + BAD_BIRD
      for form in (bigbird.parallel, bigbird.blocked)),
    (longformer.banded, LONG, {"block_size": 0}, "block_size must be at"),
])
def test_bad_input_is_named(form, good, bad, message):
    with pytest.raises(ValueError, match=message):
        form(**{**good, **bad})


@pytest.mark.parametrize("mask", [
    lambda N: sliding_window.mask(N, 3),
    lambda N: longformer.mask(N, 3, [0]),
    lambda N: bigbird.mask(N, 2, 1, 1, 1, seed=0)])
def test_a_mask_of_no_length_or_of_any_is_refused(mask):
    for N in (0, 2.0, True, None, 2 ** 31, 10 ** 400):
        with pytest.raises(ValueError, match="N must be"):
            mask(N)


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_any_input_is_finite_or_refused(data):
    n, d, d_v, m = (data.draw(st.integers(1, 6)) for _ in range(4))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    base = {"q": data.draw(wild(n, d, dtype=dtype)),
            "k": data.draw(wild(n, d, dtype=dtype)),
            "v": data.draw(wild(n, d_v, dtype=dtype)),
            "causal": data.draw(st.booleans()),
            "scale": data.draw(st.sampled_from([None, 0, 1e308, -3., 1e-320]))}
    count = st.integers(0, 8)
    long = {"window": data.draw(count), "dilation": data.draw(count),
            "global_positions": data.draw(st.lists(st.integers(-1, 6)))}
    bird = {name: data.draw(count) for name in (
        "block_size", "n_window", "n_global", "n_random", "seed")}
    for form, extra in ((longformer.parallel, long),
                        (longformer.banded, {**long, "block_size": m}),
                        (bigbird.parallel, bird), (bigbird.blocked, bird)):
        arguments = data.draw(spoilt({**base, **extra}))
        survives(lambda: form(**arguments), arguments)
