"""The stepper as its reader meets it: every step, edits, refusals, keys."""

import re
from fractions import Fraction

import numpy as np
import pytest
from browser import skip_or_fail
from conftest import ROOT

from lintut.reference import linear
from lintut.reference.feature_maps import elu_plus_one
from lintut.widgets import Stepper

pytestmark = pytest.mark.browser

K = [[1, 0], [0, 1], [1, 1]]
V = [[1, 0], [0, 2], [3, 1]]
Q = [[2, 1], [1, 1], [1, 2]]


# The texts a road's table shows, without small notes and unseen words.
ROWS = """(road) => Object.fromEntries(["thead", "tbody", "tfoot"].map(
  (part) => [part, [...road.querySelectorAll(`${part} tr`)].map((row) =>
    [...row.children].map((cell) => {
      const copy = cell.cloneNode(true);
      copy.querySelectorAll("small, .lt-unseen").forEach((n) => n.remove());
      return copy.textContent.trim();
    }))]))"""


class Reader:
    """What someone who sees one stepper does, and sees."""

    def __init__(self, page, place=".lintut-widget"):
        self.page, self.root = page, page.locator(f"{place} .lt")
        self.answer = self.root.locator(".lt-answer")
        self.roads = self.root.locator(".lt-roads > *")

    def press(self, name):
        self.root.get_by_role("button", name=name, exact=True).click()

    def disabled(self, name):
        return self.root.get_by_role("button", name=name, exact=True) \
            .get_attribute("aria-disabled") == "true"

    def says(self):
        return self.root.get_by_role("status").inner_text()

    def state(self):
        """The first road's parts, with S, z and o as numbers where shown."""
        parts = self.roads.nth(0).evaluate(ROWS)
        rows = np.array([row[1:] for row in parts["tbody"]])
        parts |= {"S": numbers(rows[:, :-1]), "z": numbers(rows[:, -1])}
        o = parts["tfoot"][-1][1:-1]
        return parts | {"o": o if o[0] in ("?", "none") else numbers(o)}

    def pairs(self):
        """The second road's parts, with weights and o where shown."""
        parts = self.roads.nth(1).evaluate(ROWS)
        o = parts["tfoot"][-1][-1]
        if o in ("?", "none"):
            return parts | {"o": o}
        weights = [row[2] for row in parts["tbody"] if row[1] != "·"]
        return parts | {"weights": numbers(weights),
                        "o": numbers(o.strip("[]").split(", "))}

    def go(self, step):
        """What a kernel does when it sets the step."""
        self.root.evaluate("(root, step) => root.closest('.lintut-widget')"
                           ".model.set('step', step)", step)

    def edit(self, label, text):
        box = self.root.get_by_label(label, exact=True)
        box.fill(text)
        box.press("Enter")
        return box


def numbers(texts):
    texts = np.asarray(texts)
    values = [float(Fraction(t.replace("−", "-").lstrip("≈")))
              for t in texts.ravel()]
    return np.array(values).reshape(texts.shape)


def check_all_steps(reader, k, v, q, feature_map, atol):
    """Go through every phase; compare what is shown with lintut.reference."""
    q, k, v = (np.array(x, float) for x in (q, k, v))
    o = linear.parallel(q, k, v, feature_map=feature_map)
    w = linear.weights(q, k, feature_map=feature_map)
    phi = feature_map(k)

    def near(shown, right):
        assert np.allclose(shown, right, rtol=0, atol=atol)

    reader.root.get_by_label("Step", exact=True).press("Home")
    assert "Nothing is written yet" in reader.says()
    for t in range(len(k)):
        reader.press("Next")
        written = reader.state()
        assert f"Token {t + 1} is written" in reader.says()
        near(written["S"], phi[:t + 1].T @ v[:t + 1])
        near(written["z"], phi[:t + 1].sum(0))
        assert written["o"] == ["?"] * v.shape[1]
        reader.press("Next")
        read, pairs = reader.state(), reader.pairs()
        assert f"Token {t + 1} is read" in reader.says()
        assert np.array_equal(read["S"], written["S"])
        near(read["o"], o[t])
        near(pairs["o"], o[t])
        near(pairs["weights"], w[t, :t + 1])
    assert reader.disabled("Next")


def given(x):
    return np.asarray(x, float)


def test_every_phase_and_an_edit_match_the_reference(open_page):
    reader = Reader(open_page(Stepper()).page)
    check_all_steps(reader, K, V, Q, given, 1e-12)
    assert "[10/6, 7/6] ≈ [1.667, 1.167]" in reader.answer.inner_text()
    assert "[10/6, 7/6]" in reader.says()
    pairs = reader.pairs()
    assert [row[1:3] for row in pairs["tbody"]] == [
        ["1", "1/6"], ["2", "2/6"], ["3", "3/6"]]
    assert pairs["tfoot"] == [["sum", "6", "6/6", "[10/6, 7/6]"]]
    assert reader.state()["tfoot"][1] == ["sum ↓", "10", "7", "6"]

    reader.edit("v, token 2, entry 1", "-5/3")      # at the last read
    reader.edit("φ(k), token 1, entry 2", "0.5")
    assert "Token 3 is read" in reader.says()
    check_all_steps(reader, [[1, .5], [0, 1], [1, 1]],
                    [[1, 0], [-5 / 3, 2], [3, 1]], Q, given, 1e-12)


def test_raw_numbers_with_elu_plus_one(open_page):
    rng = np.random.default_rng(8)
    k, q = rng.normal(size=(2, 5, 3)).round(2).tolist()
    v = rng.normal(size=(5, 4)).round(2).tolist()
    reader = Reader(open_page(Stepper(k, v, q, "elu_plus_one")).page)
    check_all_steps(reader, k, v, q, elu_plus_one, 6e-4)    # three decimals
    features = [float(text.removeprefix("φ ")) for text in
                reader.root.locator(".lt-tokens small").all_inner_texts()]
    rows = np.concatenate([elu_plus_one(np.array(k)),
                           elu_plus_one(np.array(q))], axis=1)
    assert np.allclose(features, rows.ravel(), atol=6e-4)


def test_the_other_features_and_back(open_page):
    reader = Reader(open_page(Stepper(step=6)).page)
    features = reader.root.get_by_label("Features")
    reader.edit("v, token 1, entry 1", "7")
    features.select_option("elu_plus_one")
    assert "Nothing is written" in reader.says()
    assert reader.root.get_by_label("k, token 1, entry 2").input_value() == (
        "-1")
    check_all_steps(reader, [[1, -1], [-.5, 2], [0, 1]], V,
                    [[.5, 0], [1, -2], [-1, 1.5]], elu_plus_one, 6e-4)
    features.select_option("given")
    check_all_steps(reader, K, [[7, 0], [0, 2], [3, 1]], Q, given, 1e-12)
    reader.press("Reset")
    check_all_steps(reader, K, V, Q, given, 1e-12)


def test_tokens_and_widths_grow_and_shrink(open_page):
    page = open_page(Stepper(step=6)).page
    reader = Reader(page)
    for _ in range(5):
        reader.press("More: tokens")
    assert reader.disabled("More: tokens")
    reader.press("More: key width")
    reader.press("Less: value width")
    assert reader.disabled("Less: value width")
    k, v, q = (page.evaluate(
        "(p) => document.querySelector('.lintut-widget').model.get(p)", part)
        for part in "kvq")
    assert np.shape(k) == np.shape(q) == (8, 3) and np.shape(v) == (8, 1)
    check_all_steps(reader, k, v, q, given, 1e-12)
    for _ in range(7):
        reader.press("Less: tokens")
    assert "Token 1 is read" in reader.says()       # the step came along
    reader.press("More: key width")
    assert reader.disabled("More: key width")
    assert len(reader.root.locator(".lt-tokens input").all()) == 4 + 1 + 4


def test_bad_numbers_are_refused_in_place(open_page):
    reader = Reader(open_page(Stepper(step=6)).page)
    before = reader.state()["tbody"]
    why = reader.root.locator(".lt-card .lt-why")
    for text, reason in {
            "abc": "not a number", "": "empty", "1/0": "divides by zero",
            "99999999": "beyond a million", "NaN": "not a number",
            "-1": "a feature cannot be negative"}.items():
        box = reader.edit("φ(k), token 2, entry 1", text)
        assert reason in why.inner_text() and "stays 0" in why.inner_text()
        assert box.get_attribute("aria-invalid") == "true"
        assert reader.state()["tbody"] == before
    reader.edit("φ(k), token 2, entry 1", "3")
    assert why.inner_text() == ""
    assert box.get_attribute("aria-invalid") == "false"
    assert reader.state()["S"].tolist() == [[4, 7], [3, 3]]


def test_a_negative_value_is_welcome(open_page):
    reader = Reader(open_page(Stepper(step=6)).page)
    reader.edit("v, token 3, entry 1", "-3")
    assert np.allclose(reader.state()["o"], [(1 - 9) / 6, 7 / 6])
    assert "−8/6" in reader.says()


def test_a_read_without_weight_is_refused_with_its_reason(open_page):
    reader = Reader(open_page(Stepper(step=1)).page)
    reader.edit("φ(q), token 1, entry 1", "0")
    assert "Nothing to predict" in reader.answer.inner_text()
    reader.press("Next")
    assert "cannot be read: z·φ(q₁) = 0" in reader.says()
    assert reader.answer.inner_text() == "No o₁ here."
    assert reader.state()["o"] == ["none", "none"]
    assert reader.pairs()["o"] == "none"
    assert "NaN" not in reader.root.inner_text()
    reader.press("Next")                            # and it goes on
    reader.press("Next")
    assert np.allclose(reader.state()["o"], [.5, 1])


def test_a_prediction_is_compared(open_page):
    reader = Reader(open_page(Stepper()).page)
    for step, guess, verdict in [
            (1, ["2", "0"], "before it is divided by z·φ(q) = 2"),
            (1, ["1", "0"], "Right: with one token written"),
            (3, ["1/2", "1"], "Right."), (3, ["0", "2"], "v₂ alone"),
            (5, ["10/6", "7/6"], "Right."), (5, ["1.67", "1.17"], "Right."),
            (5, ["4", "3"], "the sum of the values"),
            (5, ["4/3", "1"], "the plain mean"),
            (5, ["9", "9"], "Not this time")]:
        reader.go(step)
        assert "Predict first" in reader.answer.inner_text()
        for i, text in enumerate(guess, 1):
            reader.root.get_by_label(re.compile(f"Your o., entry {i}")) \
                .fill(text)
        reader.press("Check")
        answer = reader.answer.inner_text()
        assert "You predicted" in answer and verdict in answer
        assert "is read" in reader.says()


def test_a_prediction_can_be_skipped_or_refused(open_page):
    reader = Reader(open_page(Stepper(step=1)).page)
    box = reader.root.get_by_label("Your o₁, entry 1")
    box.fill("what")
    reader.press("Check")
    assert "Entry 1: “what” is not a number" in reader.answer.inner_text()
    assert "is written" in reader.says()
    reader.press("Skip")
    assert "is read" in reader.says()
    assert "predicted" not in reader.answer.inner_text()
    assert reader.page.evaluate("document.activeElement.textContent") == "Next"


def test_keys_step_but_do_not_disturb_typing(open_page):
    reader = Reader(open_page(Stepper()).page)
    page = reader.page
    page.evaluate("document.addEventListener('keydown', () => window.leaked ="
                  " true)")
    reader.root.get_by_role("button", name="Next", exact=True).focus()
    for key, words in [("ArrowRight", "Token 1 is written"),
                       ("ArrowRight", "Token 1 is read"),
                       ("ArrowLeft", "Token 1 is written"),
                       ("End", "Token 3 is read"),
                       ("ArrowRight", "Token 3 is read"),
                       ("Home", "Nothing is written"),
                       ("ArrowLeft", "Nothing is written")]:
        page.keyboard.press(key)
        assert words in reader.says()
    assert not page.evaluate("window.leaked")
    slider = reader.root.get_by_label("Step", exact=True)
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    assert slider.get_attribute("aria-valuetext") == "token 1 of 3: read"
    reader.root.get_by_label("v, token 1, entry 1").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Home")
    assert "Token 1 is read" in reader.says()


def test_play_asks_first_then_runs_to_the_end(open_page):
    tab = open_page(Stepper())
    tab.page.clock.install()
    tab.page.reload()
    reader = Reader(tab.page)
    reader.press("Play")
    assert "Token 1 is written" in reader.says()
    reader.root.get_by_role("button", name="Pause").wait_for()
    tab.page.clock.run_for(10_000)
    assert "Token 1 is written" in reader.says()    # waits for a prediction
    reader.press("Play")
    tab.page.clock.run_for(1_900)
    assert "Token 2 is written" in reader.says()
    reader.press("Pause")
    tab.page.clock.run_for(10_000)
    assert "Token 2 is written" in reader.says()
    reader.press("Play")
    tab.page.clock.run_for(20_000)
    assert "Token 3 is read" in reader.says()
    reader.press("Play")                            # from the start again
    assert "Token 1 is written" in reader.says()


def test_reduced_motion_stops_the_clock_and_the_animations(open_page):
    tab = open_page(Stepper(step=6), motion=False)
    tab.page.clock.install()
    tab.page.reload()
    reader = Reader(tab.page)
    reader.press("Play")                            # one step a press
    assert "Token 1 is written" in reader.says()
    tab.page.clock.run_for(10_000)
    assert "Token 1 is written" in reader.says()
    reader.press("Play")                            # stays to be predicted
    reader.press("Play")
    assert "Token 1 is read" in reader.says()
    assert reader.page.evaluate("document.getAnimations().length") == 0


def test_motion_elsewhere(open_page):
    reader = Reader(open_page(Stepper()).page)
    reader.press("Next")
    assert reader.page.evaluate("document.getAnimations().length") > 0


def test_signs_other_than_colour(open_page):
    reader = Reader(open_page(Stepper(step=3)).page)
    style = """(road, mark) => {
      const cell = road.querySelector(`td.lt-mark-${mark}`);
      const { outlineStyle, outlineWidth } = getComputedStyle(cell);
      return `${outlineStyle} ${outlineWidth} ${cell.textContent}`;
    }"""
    assert reader.roads.nth(0).evaluate(style, "write") == (
        "solid 3px 20 + 1·2 (written now)")
    assert "write" in reader.root.locator(".lt-count").inner_text()
    reader.press("Next")
    assert reader.roads.nth(0).evaluate(style, "read") == (
        "dashed 2px 11·1 = 1 (read now)")
    assert "read" in reader.root.locator(".lt-count").inner_text()


def test_a_phone_scrolls_only_inside_boxes(open_page):
    big = Stepper([[1, 0, 2, 3]] * 8, [[1000, .125, 3, 4]] * 8,
                  [["1/7", 1, 2, "3/11"]] * 8)
    page = open_page(Stepper(), big, width=350).page
    small, large = (Reader(page, f".lintut-widget:nth-of-type({n})")
                    for n in (1, 2))
    for step in (0, 5, 6):
        small.go(step)
        large.go(step)
        assert page.evaluate("document.documentElement.scrollWidth") == 350
        assert small.root.evaluate("""(root) =>      // needs no scrolling
            [...root.querySelectorAll(".lt-scroll")]
            .every((box) => box.scrollWidth <= box.clientWidth)""")
    page.wait_for_function("""() => document.querySelectorAll(
      ".lintut-widget:nth-of-type(2) .lt-scroll[tabindex='0'][aria-label]"
      ).length === 3""")                             # reachable by keyboard


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(open_page, theme):
    axe = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        skip_or_fail("axe-core is not installed: run make book")
    raw = Stepper(K, V, Q, "elu_plus_one", step=6)
    tab = open_page(Stepper(step=5), Stepper(step=2), raw, theme=theme,
                    width=390, motion=False)
    reader = Reader(tab.page, ".lintut-widget:nth-of-type(1)")
    reader.edit("φ(k), token 2, entry 1", "abc")
    tab.page.evaluate(axe.read_text(encoding="utf-8"))
    found = tab.page.evaluate("axe.run().then((r) => r.violations.map((v) =>"
                              " [v.id, v.nodes.map((n) => n.html)]))")
    assert found == []
