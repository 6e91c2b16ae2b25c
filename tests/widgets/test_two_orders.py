"""Two orders: its products and counts against NumPy and lintut.cost."""

from fractions import Fraction

import numpy as np
import pytest
from browser import skip_or_fail
from conftest import ROOT

from lintut import cost
from lintut.reference import linear
from lintut.reference.feature_maps import identity
from lintut.widgets import TwoOrders, assets

browser = pytest.mark.browser
LOAD = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  window.lt = await import(URL.createObjectURL(blob));
}"""
RUN = """([q, k, v]) => {
  const both = lt.orders(lt.decimal, q, k, v);
  return Object.fromEntries(Object.entries(both).map(([side, road]) => [side,
    { ...road, counted: road.cells.reduce((n, c) => n + c.terms.length, 0) }]
  ));
}"""


def sizes(case):
    rng = np.random.default_rng(case)
    N, r, d_v = (1, 1, 1) if not case else rng.integers(1, (7, 5, 5))
    return int(N), int(r), int(d_v), rng


@browser
def test_both_orders_are_linear_attention_and_cost_what_cost_says(new_tab):
    page = new_tab().page
    page.evaluate(LOAD, assets.module("two_orders"))
    for case in range(25):
        N, r, d_v, rng = sizes(case)
        q, k = rng.uniform(.1, 2, (2, N, r))
        v = rng.normal(size=(N, d_v))
        got = page.evaluate(RUN, [q.tolist(), k.tolist(), v.tolist()])
        right = linear.parallel(q, k, v, identity, causal=False)
        for side in ("left", "right"):
            result = np.array(got[side]["result"])
            total = q @ k.sum(0)
            assert np.allclose(result / total[:, None], right, rtol=1e-12)
            by = [cell["by"] for cell in got[side]["cells"]]
            assert by == sorted(set(by)) and by[-1] == got[side]["total"]
            assert got[side]["counted"] == got[side]["total"]
        assert np.allclose(got["left"]["middle"], q @ k.T)
        assert np.allclose(got["right"]["middle"], k.T @ v)
        size = dict(N=N, d=r, r=r, d_v=d_v, causal=False)
        left = cost.of("linear", "parallel", **size).prefill_products // 2
        # the cost of the sums has z in it: N·r to add up, N·r to read
        sums = cost.of("linear", "sums", **size).prefill_products // 2
        assert got["left"]["total"] == left
        assert got["right"]["total"] == sums - N * r
        assert (left, sums - N * r) == TwoOrders(
            k.round(3).tolist(), v.round(3).tolist(),
            q.round(3).tolist()).counts()


class Reader:
    def __init__(self, page):
        self.page, self.root = page, page.locator(".lintut-widget .lt")

    def says(self):
        return self.root.get_by_role("status").inner_text()

    def press(self, name):
        self.root.get_by_role("button", name=name, exact=True).click()

    def write(self, label, text):
        box = self.root.get_by_role("textbox", name=label, exact=True)
        box.fill(text)
        box.press("Enter")
        return box

    def table(self, side, which):
        cells = self.root.locator(".lt-roads .lt-card").nth(
            ("left", "right").index(side)).locator("table").nth(which)
        return [[x.split()[0] for x in row.locator("td").all_inner_texts()
                 if x] for row in cells.locator("tbody tr").all()]


@browser
def test_steps_edits_and_the_prediction(open_page):
    reader = Reader(open_page(TwoOrders()).page)
    reader.write("Multiplications of (φ(Q) φ(K)ᵀ) V", "32")
    reader.write("Multiplications of φ(Q) (φ(K)ᵀ V)", "32")
    answer = reader.root.locator(".lt-answer").inner_text()
    assert "32 for (φ(Q) φ(K)ᵀ) V (32 is one of the two products)" in answer
    assert "32 for φ(Q) (φ(K)ᵀ V) (right)" in answer
    reader.press("Next")                # left: 2 a cell; right: 4 a cell
    assert reader.says() == ("After 2 multiplications each: left 1 of 24 "
                             "cells, right 0 of 12 cells.")
    reader.page.keyboard.press("ArrowRight")
    assert "After 4" in reader.says() and "right 1 of 12" in reader.says()
    assert reader.table("left", 0)[0] == ["2", "1", "·", "·"]
    assert reader.table("right", 0) == [["4", "·"], ["·", "·"]]
    assert "1·1 + 0·0 + 1·3 + 2·0 = 4" in reader.root.inner_text()
    reader.page.keyboard.press("ArrowLeft")
    assert "After 2" in reader.says()
    reader.page.keyboard.press("End")
    assert reader.says() == ("Both orders give the same result: 64 "
                             "multiplications against 32.")
    assert reader.table("left", 1) == reader.table("right", 1) == [
        ["11", "10"], ["7", "7"], ["10", "11"], ["3", "4"]]
    reader.write("v₁, entry 1", "-1/2")
    assert reader.table("left", 1) == reader.table("right", 1)
    assert reader.table("right", 1)[0][0] == str(11 - 2 * Fraction(3, 2))
    reader.write("features r", "4")
    reader.press("Less: tokens N")
    reader.root.get_by_role("slider").focus()
    reader.page.keyboard.press("End")
    assert "54 multiplications against 48" in reader.says()   # N²(r+d_v)
    assert reader.table("left", 1) == reader.table("right", 1)
    reader.press("Reset")
    assert reader.says().startswith("After 0")
    assert reader.root.get_by_text("Predict first.").count() == 1


@browser
def test_play_runs_to_the_end_and_no_clock_under_reduced_motion(open_page):
    reader = Reader(open_page(TwoOrders([[1]], [[2]], [[3]]),
                              motion=False).page)
    reader.press("Play")
    assert "finished" not in reader.root.locator(
        ".lt-cost").first.inner_text()
    reader.press("Play")
    assert "same result: 2 multiplications against 2" in reader.says()


@browser
def test_bad_input_is_refused_in_place(open_page):
    reader = Reader(open_page(TwoOrders()).page)
    why, before = reader.root.get_by_role("alert").last, reader.says()
    for label, text, reason in [
            ("φ(q)₁, entry 2", "abc", "not a number"),
            ("v₄, entry 1", "", "it is empty"),
            ("v₄, entry 1", "1/0", "divides by zero. It stays 0"),
            ("φ(k)₂, entry 1", "99999999", "beyond a million"),
            ("tokens N", "7", "from 1 to 6"), ("tokens N", "0", "from 1"),
            ("features r", "-1", "from 1 to 4"),
            ("width dᵥ", "2.5", "from 1 to 4")]:
        box = reader.write(label, text)
        assert reason in why.inner_text(), label
        assert box.get_attribute("aria-invalid") == "true"
        assert reader.says() == before
    reader.write("Multiplications of (φ(Q) φ(K)ᵀ) V", "many")
    assert "whole number" in reader.root.locator(".lt-answer").inner_text()
    reader.write("v₁, entry 1", "999999")
    reader.page.keyboard.press("Escape")
    assert "NaN" not in reader.root.inner_text()
    reader.page.evaluate("document.querySelector('.lintut-widget').model"
                         ".set('k', [['x']])")          # as a kernel might
    assert "cannot be used" in reader.says()


@browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_and_axe(open_page, theme):
    axe = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        skip_or_fail("axe-core is not installed: run make book")
    rows = [["-1/3", 2, 3, 999999]] * 6
    page = open_page(TwoOrders(rows, rows, rows, done=150), theme=theme,
                     width=390, motion=False).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    Reader(page).write("tokens N", "abc")
    page.evaluate(axe.read_text(encoding="utf-8"))
    assert page.evaluate("axe.run().then((r) => r.violations.map((v) =>"
                         " [v.id, v.nodes.map((n) => n.html)]))") == []


def test_repr_and_still():
    widget = TwoOrders()
    assert repr(widget) == "TwoOrders(N=4, r=2, d_v=2, done=0)"
    still = widget.still()
    assert still.count("[[11, 10], [7, 7], [10, 11], [3, 4]]") == 2
    assert "<td>64</td>" in still and "<td>32</td>" in still


@pytest.mark.parametrize("bad, name", [
    ({"keys": [[1]] * 7}, "keys"), ({"keys": [[1, 2], [1]]}, "keys"),
    ({"keys": [[]]}, "keys"), ({"values": [[1]]}, "values"),
    ({"values": [[1] * 5] * 4}, "values"), ({"values": [["x"]] * 4}, "values"),
    ({"queries": [[1]] * 4}, "queries"), ({"done": 65}, "done"),
    ({"done": -1}, "done"), ({"done": True}, "done")])
def test_bad_arguments_are_refused_by_name(bad, name):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        TwoOrders(**bad)
