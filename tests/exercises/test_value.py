"""What the checks say of values and of masks."""

import numpy as np
import pytest

from lintut.check.core import (Case, Function, Mistake, Value, Wrong,
                               difference, entry)

TABLE = Value("table", [[1, 0], [0, 1]], (
    Mistake("The first row is another.", lambda g: g[0] != [1, 0]),
    Mistake("That is all of them.", [1, 1])))


@pytest.mark.parametrize("answer, words", [
    ([[1, 1], [0, 1]], "first row"), ([[1, 0], [1, 1]], "is not"),
    ([1, 1], "all of them"), ([[0], [0, 1]], "shape"), ([0], "shape"),
    ([[1, 0], 3], "is not"), ([[0, 1, 1], [0, 1, 1]], "shape")])
def test_a_mistake_in_a_value_may_be_a_test_of_it(answer, words):
    with pytest.raises(Wrong, match=words):
        TABLE.judge(answer)


@pytest.mark.parametrize("answer, words", [
    ([1, [2, 3]], "the last"), ([1, [2, 5]], "five"), ([0, [2, 4]], "is not")])
def test_a_mistake_may_be_about_one_entry(answer, words):
    pair = Value("pair", [1, [2, 4]], (entry("It is five.", 1, 1, among=(5,)),
                                       entry("See the last.", 1, 1, is_not=4)))
    with pytest.raises(Wrong, match=words):
        pair.judge(answer)


THIRDS = Value("thirds", ["1/3", [2, "-5/7"]])


@pytest.mark.parametrize("answer, words", [
    ([0.333, [2, -0.714]], "rounded"), (["1/3", [2, -0.7143]], "rounded"),
    ([0.333, [2.001, -0.714]], "is not"), ([0.3, [2, "-5/7"]], "is not"),
    ([0.333, [2]], "is not"), ([0.333, [2, 0.714]], "is not")])
def test_a_rounded_value_is_told_so(answer, words):
    with pytest.raises(Wrong, match=words):
        THIRDS.judge(answer)


def test_a_fraction_may_have_spaces():
    assert "correct" in THIRDS.judge(["1 / 3", ["2", "−5 /7"]])


def test_a_mask_must_be_boolean():
    mask = Function("mask", lambda N: np.tri(N, dtype=bool),
                    lambda: [Case("N=3", {"N": 3})])
    assert "correct" in mask.judge(lambda N: np.tri(N) > 0)
    with pytest.raises(Wrong, match="boolean.*float64"):
        mask.judge(np.tri)


def test_an_infinite_entry_does_not_excuse_its_row():
    a, b = np.array([[1.0, 2.0]]), np.array([[np.inf, 5.0]])
    assert difference(a, b, 1e-9, nan=True)
    assert not difference(b.copy(), b, 1e-9, nan=True)
    assert difference(a, b[:, ::-1], 1e-9, nan=True)
