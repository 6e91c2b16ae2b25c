"""`lintut.reference.linformer` against plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lintut.reference import linformer, softmax

from .cases import (LENGTHS, agree, by_hand, draw, frozen, spoilt, survives,
                    wild)


def projections(m, n, lead=(), seed=3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return tuple(frozen(rng.normal(size=(*lead, m, n)).astype(dtype))
                 for _ in range(2))


def mixed(projection, x):
    """Projection times x, in plain Python."""
    return np.array([[math.fsum(e * y for e, y in zip(row, column))
                      for column in x.T.tolist()]
                     for row in projection.tolist()])


def expected(q, k, v, E, F, scale=None):
    return by_hand(q, mixed(E, k), mixed(F, v), lambda i, j: True, scale)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("m", [1, 4, 70])
def test_is_the_definition(n, m):
    q, k, v = draw(n)
    E, F = projections(m, n)
    agree(linformer.parallel(q, k, v, E, F), expected(q, k, v, E, F))
    agree(linformer.parallel(q, k, v, E, F, scale=.1),
          expected(q, k, v, E, F, .1))


def test_projecting_nothing_away_is_softmax():
    q, k, v = draw(40)
    order = np.random.default_rng(0).permutation(40)
    E = np.eye(40)[order]
    agree(linformer.parallel(q, k, v, E, E), softmax.parallel(q, k, v))


def test_leading_axes_broadcast_projections_too():
    q, k, v = draw(20, lead=(2, 1))
    E, F = projections(6, 20, lead=(3,))
    o = linformer.parallel(q, k, v, E, F[0])
    agree(o, np.stack([[expected(q[a, 0], k[a, 0], v[a, 0], E[b], F[0])
                        for b in range(3)] for a in range(2)]))


def test_constant_values_come_back_under_an_averaging_projection():
    q, k, _ = draw(32)
    E, _ = projections(8, 32)
    F = np.kron(np.eye(8), np.full((1, 4), .25))     # means of four values
    v = np.tile([3.7, -1e6, 1e-9], (32, 1))
    o = linformer.parallel(q, k, v, E, F)
    assert np.allclose(o, v, rtol=4e-15, atol=0)


def test_it_is_not_causal():
    q, k, v = draw(20)
    E, F = projections(4, 20)
    later = v.copy()
    later[-1] += 1
    changed = (linformer.parallel(q, k, later, E, F)
               != linformer.parallel(q, k, v, E, F))
    assert changed[0].all()


def test_float32_stays_near_float64_and_results_are_new():
    qkv = draw(4096, d=64, d_v=48, dtype=np.float32)
    # Rows of E of unit length on average, as trained ones are initialised.
    EF = tuple(E / np.float32(64) for E in projections(128, 4096,
                                                       dtype=np.float32))
    o = linformer.parallel(*qkv, *EF)
    assert o.dtype == np.float32
    assert not any(np.shares_memory(o, x) for x in (*qkv, *EF))
    agree(o, linformer.parallel(*(x.astype(float) for x in (*qkv, *EF))),
          1e-5)


Q, K, V = draw(6)
E, F = projections(3, 6)


@pytest.mark.parametrize("bad, message", [
    (dict(q=Q[:5]), "k must have q's length N=5"),
    (dict(v=V[:5]), "v must have k's length N=6"),
    (dict(key_projection=E[:, :5]),
     r"key_projection must have shape \(…, m, N\) with N=6.* \(3, 5\): "
     "a projection is tied to one length"),
    (dict(value_projection=F.T), "value_projection must .* tied to one"),
    (dict(value_projection=F[:2]), "value_projection must have key_.* m=3"),
    (dict(key_projection=E.astype(np.float32)), "key_projection must be float"),
    (dict(key_projection=E.astype(int)), "key_projection must be .* int64"),
    (dict(value_projection=F * np.nan), "value_projection must be finite"),
    (dict(key_projection=np.stack([E] * 2), q=np.stack([Q] * 3)),
     "leading axes of q, k, v, key_projection"),
    (dict(scale=None, key_projection=E * 1e307, q=Q * 9), "key_projection is"),
    (dict(value_projection=F * 1e307, v=V * 99), "value_projection is too"),
    (dict(scale="x"), "scale must be a finite number"),
])
def test_bad_input_is_named(bad, message):
    good = dict(q=Q, k=K, v=V, key_projection=E, value_projection=F)
    with pytest.raises(ValueError, match=message):
        linformer.parallel(**{**good, **bad})


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_any_input_is_finite_or_refused(data):
    n, d, d_v, m = (data.draw(st.integers(1, 6)) for _ in range(4))
    shapes = {"q": (n, d), "k": (n, d), "v": (n, d_v),
              "key_projection": (m, n), "value_projection": (m, n)}
    arguments = {name: data.draw(wild(*shape))
                 for name, shape in shapes.items()}
    arguments["scale"] = data.draw(st.sampled_from([None, 0, 1e308, -3.]))
    arguments = data.draw(spoilt(arguments))
    survives(lambda: linformer.parallel(**arguments), arguments)
