"""The weights viewer: its weights against lintut.reference, and its reader.
"""

import numpy as np
import pytest
from browser import skip_or_fail
from conftest import ROOT

from lintut.reference import delta, gated_delta, gla, linear, retention
from lintut.widgets import WeightsViewer, assets
from lintut.widgets.weights_viewer import QUERIES, RULES

browser = pytest.mark.browser

LOAD = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  window.lt = await import(URL.createObjectURL(blob));
}"""
RUN = """(options) => [lt.vectors(options).q, lt.vectors(options).k,
                      lt.gates(options), lt.weights(options)]"""


@pytest.fixture
def js(new_tab):
    page = new_tab().page
    page.evaluate(LOAD, assets.module("weights_viewer"))
    return page


def cases(rule):
    """Random settings; the first has one token, the second 24."""
    rng = np.random.default_rng([len(rule), ord(rule[-1])])
    for i in range(8):
        n = (1, 24)[i] if i < 2 else int(rng.integers(2, 24))
        yield dict(rule=rule, n=n, d=int(rng.integers(1, 17)),
                   seed=int(rng.integers(1000)), similarity=rng.random(),
                   queries=QUERIES[i % 3], gamma=rng.uniform(.01, 1),
                   alpha=rng.uniform(.01, 1), dip=int(rng.integers(n + 1)),
                   dip_alpha=rng.uniform(.001, 1), spread=bool(i % 2),
                   beta=rng.uniform(0, 2))


@browser
@pytest.mark.parametrize("rule", RULES)
def test_the_weights_are_the_reference(js, rule):
    """With the keys and gates that the module drew."""
    for case in cases(rule):
        q, k, a, W = (np.array(x, float) for x in js.evaluate(RUN, case))
        assert np.allclose(np.linalg.norm(k, axis=1), 1)
        beta = np.full(case["n"], case["beta"])
        gate = np.where(np.arange(1, case["n"] + 1) == case["dip"],
                        case["dip_alpha"], case["alpha"])
        if rule == "gla":
            assert np.allclose(a[:, 0], gate)
            if case["d"] > 1:
                assert np.allclose(a[:, -1], 1 if case["spread"] else gate)
        right = {"additive": lambda: retention.weights(q, k, 1),
                 "normalised": lambda: linear.weights(q, k),
                 "retention": lambda: retention.weights(q, k, case["gamma"]),
                 "gla": lambda: gla.weights(q, k, a),
                 "delta": lambda: delta.weights(q, k, beta),
                 "gated_delta": lambda: gated_delta.weights(q, k, gate, beta)
                 }[rule]()
        assert np.allclose(W, right, rtol=1e-9, atol=1e-9), case


@browser
@pytest.mark.parametrize("rule", RULES)
def test_python_draws_the_same_keys_and_weights(js, rule):
    for case in cases(rule):
        widget = WeightsViewer(**case)
        q, k, _, W = js.evaluate(RUN, case)
        for mine, theirs in zip(widget.vectors(), (q, k)):
            assert np.allclose(mine, theirs, rtol=1e-9, atol=1e-9)
        assert np.allclose(widget.weights(), W, rtol=1e-9, atol=1e-9), case


def test_similarity_is_the_mean_cosine():
    for similarity in (0, .3, .8, 1):
        cosines = []
        for seed in range(40):
            _, k = WeightsViewer(seed=seed, similarity=similarity,
                                 n=24, d=16).vectors()
            cosines.append((k @ k.T)[np.triu_indices(24, 1)].mean())
        assert np.mean(cosines) == pytest.approx(similarity, abs=.03)


# ---- the reader ----

class Reader:
    def __init__(self, page):
        self.page, self.root = page, page.locator(".lt")

    def says(self):
        return self.root.get_by_role("status").inner_text()

    def get(self, name):
        return self.page.evaluate(
            "(name) => document.querySelector('.lintut-widget').model"
            ".get(name)", name)

    def numbers(self):
        cells = self.root.locator(".lt-weights tr").nth(1).locator("td")
        return [float(x.replace("−", "-")) for x in cells.all_inner_texts()]

    def edit(self, label, text):
        box = self.root.get_by_role("textbox", name=label, exact=True)
        box.fill(text)
        box.press("Enter")
        return box

    def row_is(self, row, **options):
        widget = WeightsViewer(**options)
        assert f"Row {row}:" in self.says()
        return np.allclose(self.numbers(), widget.weights()[row - 1, :row],
                           atol=6e-4)


@browser
def test_every_control_changes_the_weights(open_page):
    options = dict(rule="gla", n=9, d=4, seed=5, dip=3)
    reader = Reader(open_page(WeightsViewer(**options)).page)
    assert reader.row_is(9, **options)
    assert reader.root.get_by_label("γ", exact=True).is_hidden()
    for label, name, text in [("α", "alpha", "0.5"),
                              ("α at the dip", "dip_alpha", "1/4"),
                              ("tokens N", "n", "7"), ("width d", "d", "3"),
                              ("seed", "seed", "11"),
                              ("dip at token (0: none)", "dip", "5")]:
        reader.edit(label, text)
        value = .25 if text == "1/4" else float(text)
        options[name] = value if "." in text or "/" in text else int(text)
        assert reader.row_is(options["n"], **options), label
    reader.root.get_by_role("checkbox").check()
    reader.root.get_by_label("Queries").select_option("first")
    reader.root.get_by_label("Similarity of the keys").fill("0.6")
    options |= dict(spread=True, queries="first", similarity=.6)
    assert reader.row_is(7, **options)
    reader.root.get_by_label("Rule", exact=True).select_option("delta")
    reader.edit("β", "1.5")
    assert reader.row_is(7, **options | dict(rule="delta", beta=1.5))
    assert reader.root.get_by_label("α", exact=True).is_hidden()
    reader.root.get_by_label("Rule", exact=True).select_option("retention")
    reader.edit("γ", "0.25")
    assert reader.row_is(7, **options | dict(rule="retention", gamma=.25))


@browser
def test_pointer_and_keys_choose_the_row(open_page):
    reader = Reader(open_page(WeightsViewer(n=10)).page)
    reader.root.get_by_role("slider", name="Row").focus()
    for key, row in [("ArrowUp", 9), ("ArrowLeft", 8), ("ArrowDown", 9),
                     ("Home", 1), ("ArrowUp", 1), ("End", 10),
                     ("ArrowRight", 10)]:
        reader.page.keyboard.press(key)
        assert reader.row_is(row, n=10)
    box = reader.root.locator(".lt-map").bounding_box()
    edge, cell = (box["width"] * x / (26 + 200) for x in (26, 20))
    reader.page.mouse.move(box["x"] + edge + 2.5 * cell,
                           box["y"] + edge + 5.5 * cell)
    assert reader.row_is(6, n=10) and reader.get("row") == 6
    W = WeightsViewer(n=10).weights()
    shown = reader.root.locator(".lt-cost").inner_text()
    assert shown.startswith("Query 6, key 3: W = ")
    assert float(shown.split("= ")[1].replace("−", "-")) == pytest.approx(
        W[5, 2], rel=1e-3)


@browser
def test_bad_numbers_are_refused_in_place(open_page):
    reader = Reader(open_page(WeightsViewer("gated_delta", n=8)).page)
    why = reader.root.locator(".lt-why")
    for label, text, reason in [
            ("α", "0", "above 0"), ("α", "1.5", "at most 1"),
            ("β", "-1", "from 0 to 2"), ("β", "x", "not a number"),
            ("tokens N", "25", "from 1 to 24"), ("width d", "0", "from 1"),
            ("seed", "1.5", "whole number"),
            ("dip at token (0: none)", "99", "from 0 to 24")]:
        box = reader.edit(label, text)
        assert reason in why.inner_text() and "stays" in why.inner_text()
        assert box.get_attribute("aria-invalid") == "true"
        assert reader.row_is(8, rule="gated_delta", n=8)
    reader.edit("β", "0")
    assert why.inner_text() == ""
    assert reader.numbers() == [0] * 8              # nothing was written
    assert "NaN" not in reader.root.inner_text()


@browser
def test_a_phone_and_signs_other_than_colour(open_page):
    page = open_page(WeightsViewer("delta", n=24), width=390).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    W = WeightsViewer("delta", n=24).weights()
    dashes = page.locator(".lt-map-minus").count()
    assert dashes == (W < -.02 * np.abs(W).max()).sum() > 50


@browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(open_page, theme):
    axe = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        skip_or_fail("axe-core is not installed: run make book")
    tab = open_page(WeightsViewer("gla", n=24), theme=theme, width=390,
                    motion=False)
    Reader(tab.page).edit("α", "7")
    tab.page.evaluate(axe.read_text(encoding="utf-8"))
    found = tab.page.evaluate("axe.run().then((r) => r.violations.map((v) =>"
                              " [v.id, v.nodes.map((n) => n.html)]))")
    assert found == []


# ---- the Python side ----

def test_repr_and_still():
    widget = WeightsViewer(n=3, queries="own", gamma=.5)
    assert repr(widget) == "WeightsViewer(rule='retention', n=3, row=3)"
    assert "<th scope=\"row\">query 1</th><td>1.00</td>" in widget.still()
    assert widget.still().count("<tr>") == 4


@pytest.mark.parametrize("bad, name", [
    ({"rule": "lstm"}, "rule"), ({"queries": "all"}, "queries"),
    ({"n": 0}, "n"), ({"n": 25}, "n"), ({"n": 2.0}, "n"), ({"d": 17}, "d"),
    ({"seed": -1}, "seed"), ({"similarity": 1.1}, "similarity"),
    ({"similarity": "x"}, "similarity"), ({"gamma": 0}, "gamma"),
    ({"alpha": float("nan")}, "alpha"), ({"dip": 25}, "dip"),
    ({"dip_alpha": 0}, "dip_alpha"), ({"beta": -.1}, "beta"),
    ({"row": 17}, "row"), ({"row": True}, "row"),
])
def test_bad_input_is_refused_by_name(bad, name):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        WeightsViewer(**bad)
