"""`lintut.reference.feature_maps` against each map written for one vector."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lintut.reference import feature_maps

from .cases import agree, draw, frozen, survives, wild
from .rules import relaxed


def softmax(x):
    e = [math.exp(x_i) for x_i in x]
    return [e_i / sum(e) for e_i in e]


def dpfp(x, nu):
    p = [max(x_i, 0) for x_i in x] + [max(-x_i, 0) for x_i in x]
    return [p[i] * p[(i + s) % len(p)]
            for s in range(1, nu + 1) for i in range(len(p))]


BY_HAND = {
    "identity": list,
    "elu_plus_one": lambda x: [y + 1 if y > 0 else math.exp(y) for y in x],
    "relu": lambda x: [max(y, 0) for y in x],
    "squared_relu": lambda x: [max(y, 0) ** 2 for y in x],
    "squared": lambda x: [y * y for y in x],
    "exp": lambda x: [math.exp(y) for y in x],
    "softmax_feature": softmax,
    "dpfp": lambda x: dpfp(x, 1),
    "taylor": lambda x: [1, *x, *(a * b / math.sqrt(2) for a in x for b in x)],
}


@pytest.mark.parametrize("name", BY_HAND)
def test_each_map(name):
    x, _, _ = draw(12, d=4, lead=(2,))
    φ = getattr(feature_maps, name)
    expected = [[BY_HAND[name](row) for row in rows] for rows in x.tolist()]
    agree(φ(x), np.array(expected), 1e-14)
    agree(φ(x[0, 3]), np.array(expected[0][3]), 1e-14)      # one vector
    single = φ(x.astype(np.float32))
    assert single.dtype == np.float32
    agree(single, np.array(expected), 1e-5)
    assert not np.shares_memory(φ(x), x)


def test_every_map_is_tested():
    found = {name for name, φ in vars(feature_maps).items()
             if hasattr(φ, "unchecked")}
    assert found == set(BY_HAND)


@pytest.mark.parametrize("nu", [1, 2, 3, 7])
def test_dpfp(nu):
    x, _, _ = draw(12, d=4)
    f = feature_maps.dpfp(x, nu=nu)
    agree(f, np.array([dpfp(row, nu) for row in x.tolist()]), 1e-14)
    assert f.shape == (12, 8 * nu)
    for bad in (0, 8, 1.0, "one"):
        with pytest.raises(ValueError, match="nu must be"):
            feature_maps.dpfp(x, nu=bad)


def test_taylor_is_the_series_of_exp():
    x, y, _ = draw(30, d=4)
    dots = (x * y).sum(-1)
    kernel = (feature_maps.taylor(x) * feature_maps.taylor(y)).sum(-1)
    assert np.allclose(kernel, 1 + dots + dots ** 2 / 2, rtol=1e-13)
    assert kernel.min() >= .5
    near = feature_maps.taylor(x / 100) @ feature_maps.taylor(y / 100).T
    assert np.abs(near - np.exp(x @ y.T / 1e4)).max() < 1e-8


def test_elu_plus_one_is_another_kernel_than_exp():
    """φ(3) = 4 where e³ = 20.1; φ(0)·φ(0) = d where e⁰ = 1."""
    φ = feature_maps.elu_plus_one
    assert φ(np.array([3.0]))[0] == 4
    assert (φ(np.zeros(7)) ** 2).sum() == 7


@pytest.mark.parametrize("name", BY_HAND)
def test_bad_input_is_named(name):
    φ = getattr(feature_maps, name)
    for bad in (np.ones((2, 3), int), np.ones((2, 3), complex), 1.0, [[1], [1,
                2]], np.ones((2, 0)), np.array([1, np.nan]), "x", None):
        with pytest.raises(ValueError, match="x "):
            φ(bad)


@given(st.data())
@relaxed
def test_any_input_is_finite_or_refused(data):
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    x = data.draw(wild(2, data.draw(st.integers(1, 5)), dtype=dtype))
    for name in BY_HAND:
        survives(lambda: getattr(feature_maps, name)(frozen(x)), ["x"])
