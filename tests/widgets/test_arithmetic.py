"""The widgets' arithmetic, in the browser, against lintut.reference."""

from fractions import Fraction

import numpy as np
import pytest

from lintut.reference import linear
from lintut.reference.feature_maps import elu_plus_one
from lintut.widgets import assets

pytestmark = pytest.mark.browser

LOAD = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  window.lt = await import(URL.createObjectURL(blob));
  return typeof lt.default.render;
}"""

# Every step of both roads as texts (fractions) and as numbers.
RUN = """([texts, map]) => {
  const { F, steps, why } = lt.calculate(texts, map);
  if (why) return { why };
  const text = (x) => F === lt.exact ? `${x.n}/${x.d}` : String(x);
  const deep = (x) => Array.isArray(x) ? x.map(deep) : text(x);
  return steps.map(({ S, z, state, pairs }) => ({
    S: deep(S), z: deep(z), similarities: deep(pairs.similarities),
    state: state.numerator.map((x) => F.number(F.over(x, state.denominator))),
    pairs: pairs.numerator.map((x) => F.number(F.over(x, pairs.denominator))),
    exact: deep(state.numerator.map((x) => F.over(x, state.denominator))),
    weights: pairs.similarities.map(
      (x) => F.number(F.over(x, pairs.denominator))),
  }));
}"""


@pytest.fixture
def js(new_tab):
    page = new_tab().page
    assert page.evaluate(LOAD, assets.module("stepper")) == "function"
    return page


def texts(**parts):
    return {name: [[str(x) for x in row] for row in rows]
            for name, rows in parts.items()}


@pytest.mark.parametrize("feature_map", ["given", "elu_plus_one"])
def test_both_roads_are_linear_attention(js, feature_map):
    rng = np.random.default_rng(17)
    for n, d, d_v in [(1, 1, 1), (2, 3, 1), (5, 1, 4), (8, 4, 2), (8, 2, 4)]:
        k, q = rng.uniform(0, 3, (2, n, d)).round(6)
        v = rng.normal(0, 5, (n, d_v)).round(6)
        phi = (lambda x: x) if feature_map == "given" else elu_plus_one
        if feature_map == "elu_plus_one":
            k, q = (k - 1.7).round(6), (q - 1.7).round(6)
        steps = js.evaluate(RUN, [texts(
            k=k.tolist(), v=[[f"{x:.6f}" for x in row] for row in v],
            q=q.tolist()), feature_map])
        o = linear.parallel(q, k, v, feature_map=phi)
        weights = linear.weights(q, k, feature_map=phi)
        for t, step in enumerate(steps):
            for road in ("state", "pairs"):
                assert np.allclose(step[road], o[t], rtol=1e-12, atol=1e-12)
            assert np.allclose(step["weights"], weights[t, :t + 1],
                               rtol=1e-12, atol=1e-12)
        S = [[float(Fraction(x)) for x in row] for row in steps[-1]["S"]]
        assert np.allclose(S, phi(k).T @ v, rtol=1e-12, atol=1e-12)
        z = [float(Fraction(x)) for x in steps[-1]["z"]]
        assert np.allclose(z, phi(k).sum(0), rtol=1e-12, atol=1e-12)


def test_fractions_stay_exact(js):
    rng = np.random.default_rng(3)
    for _ in range(20):
        n, d, d_v = rng.integers(1, [9, 5, 5])
        k, q, v = ([[Fraction(int(a), int(b)) for a, b in zip(
            rng.integers(low, 1000, width), rng.integers(1, 1000, width))]
            for _ in range(n)] for low, width in ((1, d), (1, d),
                                                  (-1000, d_v)))
        steps = js.evaluate(RUN, [texts(k=k, v=v, q=q), "given"])
        for t in range(n):
            weights = [sum(a * b for a, b in zip(k[j], q[t]))
                       for j in range(t + 1)]
            o = [sum(w * v[j][i] for j, w in enumerate(weights))
                 / sum(weights) for i in range(d_v)]
            assert [Fraction(x) for x in steps[t]["exact"]] == o
            assert [Fraction(x) for x in steps[t]["similarities"]] == weights
            assert np.allclose(steps[t]["state"], [float(x) for x in o],
                               rtol=1e-14)


def test_the_hand_worked_example(js):
    steps = js.evaluate(RUN, [texts(
        k=[[1, 0], [0, 1], [1, 1]], v=[[1, 0], [0, 2], [3, 1]],
        q=[[2, 1], [1, 1], [1, 2]]), "given"])
    assert steps[2]["S"] == [["4/1", "1/1"], ["3/1", "3/1"]]
    assert steps[2]["z"] == ["2/1", "2/1"]
    assert steps[2]["similarities"] == ["1/1", "2/1", "3/1"]
    assert steps[2]["exact"] == ["5/3", "7/6"]


def test_numbers_are_read_or_refused(js):
    read = "(text) => { const { value, why } = lt.parseNumber(text); " \
           "return why ?? `${value.n}/${value.d}`; }"
    for text, value in {"2": "2/1", " -2 ": "-2/1", "−2": "-2/1",
                        "+.5": "1/2", "0.5": "1/2", "5.": "5/1",
                        "2/4": "1/2", "-1/6": "-1/6", "0/7": "0/1",
                        "0": "0/1", "1000000": "1000000/1"}.items():
        assert js.evaluate(read, text) == value, text
    for text, reason in {
            "": "empty", "  ": "empty", "abc": "not a number",
            "NaN": "not a number", "Infinity": "not a number",
            "1e9": "not a number", "1/2/3": "not a number",
            "1 2": "not a number", "-": "not a number", ".": "not a number",
            "1/": "not a number", "0x10": "not a number",
            "1/0": "divides by zero", "1000001": "beyond a million",
            "-2000000": "beyond a million", "9" * 50: "not a number",
            "0.0000001": "finer", "1/1000001": "finer"}.items():
        assert reason in js.evaluate(read, text), text


def test_shapes_and_bad_rows_are_refused(js):
    good = texts(k=[[1, 0], [0, 1]], v=[[1], [2]], q=[[1, 1], [1, 2]])
    for change, reason in [
            ({"v": [["1"]]}, "v must have one row a token"),
            ({"k": []}, "k must have one row a token"),
            ({"q": [["1"], ["1"]]}, "row 1 of q must have 2 entries"),
            ({"v": [["1"], []]}, "row 2 of v must have 1 entries"),
            ({"k": [["1", "0"], ["0", "-1"]]},
             "in row 2 of k, a feature cannot be negative"),
            ({"v": [["1"], ["x"]]}, "in row 2 of v, “x” is not a number")]:
        got = js.evaluate(RUN, [good | change, "given"])
        assert reason in got["why"], got


def test_ratios_share_one_denominator(js):
    ratios = """([as, b]) => lt.exact.ratios(
      as.map((x) => lt.parseNumber(x).value), lt.parseNumber(b).value)"""
    assert js.evaluate(ratios, [["10", "7"], "6"]) == ["10/6", "7/6"]
    assert js.evaluate(ratios, [["1/2", "1/3"], "1/4"]) == ["6/3", "4/3"]
    assert js.evaluate(ratios, [["2", "-3"], "1"]) == ["2", "−3"]
