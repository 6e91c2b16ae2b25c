"""Work is counted, whichever way it is written."""

import numpy as np
import pytest

from lintut.check.work import Counted, counting

m, k, n = 50, 30, 40
asarray = np.asarray
WAYS = {
    "matmul": lambda a, b: a @ b,
    "dot": lambda a, b: np.dot(a, b),
    "method": lambda a, b: a.dot(b),
    "inner": lambda a, b: np.inner(a, b.T),
    "tensordot": lambda a, b: np.tensordot(a, b, 1),
    "multi_dot": lambda a, b: np.linalg.multi_dot([a, b]),
    "einsum": lambda a, b: np.einsum("mk,kn->mn", a, b),
    "einsum, optimised": lambda a, b: np.einsum("mk,kn->mn", a, b,
                                                optimize=True),
    "rows": lambda a, b: np.stack([b.T @ row for row in a]),
    "of joined parts": lambda a, b: np.concatenate([a[:9], a[9:]]) @ b,
    "of a product": lambda a, b: (a @ b) * 1.0,
}


@pytest.fixture
def matrices():
    rng = np.random.default_rng(0)
    Counted.calls = Counted.flops = 0
    return (rng.normal(size=(m, k)).view(Counted),
            rng.normal(size=(k, n)).view(Counted))


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_a_product_is_counted(way, matrices):
    a, b = matrices
    result = way(a, b)
    assert np.allclose(result, np.matmul(*(x.view(np.ndarray)
                                           for x in matrices)))
    assert type(result) is Counted
    assert Counted.calls >= 1
    # einsum's own estimate has four digits and counts the output once more
    assert Counted.flops == pytest.approx(2 * m * k * n, rel=0.02)


@pytest.mark.parametrize("copy", [
    lambda x: np.asarray(x, dtype=float), lambda x: np.array(x),
    lambda x: np.ascontiguousarray(x), lambda x: np.array(list(x)),
    lambda x: x.astype(float)])
def test_a_copy_counts_on(copy, matrices):
    with counting():
        copy(matrices[0]) @ matrices[1].view(np.ndarray)
    assert Counted.flops == pytest.approx(2 * m * k * n, rel=0.02)
    assert np.asarray is asarray and type(np.array([1])) is np.ndarray


def test_a_condition_may_be_counted_too(matrices):
    a, _ = matrices
    positive = a > 0
    halves = np.divide(a, 2, out=np.zeros_like(a), where=positive)
    total = np.sum(a, axis=1, where=positive)
    assert np.allclose(2 * halves.sum(1), total)


def test_numbers_taken_out_are_counted(matrices):
    a, b = matrices
    a.tolist()
    assert Counted.calls == m * k
    sum(b[i, 0] * 2 for i in range(k))
    assert Counted.calls == m * k + k


def test_three_factors_at_once_take_the_naive_work(matrices):
    a, b = matrices
    np.einsum("mk,kn,mn->k", a, b, np.ones((m, n)))
    assert Counted.flops == pytest.approx(3 * m * k * n, rel=0.02)


def test_a_loop_takes_calls(matrices):
    a, _ = matrices
    total = 0
    for row in a:
        total = total + row * 2
    assert Counted.calls == 2 * m and Counted.flops == 0
