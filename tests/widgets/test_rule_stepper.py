"""The rule stepper: its arithmetic against lintut.reference, and its reader.
"""

import json
import re

import numpy as np
import pytest
from browser import skip_or_fail
from conftest import ROOT

from lintut.reference import delta, gated_delta, gla, linear, retention
from lintut.widgets import RuleStepper, assets
from lintut.widgets.rule_stepper import PRESETS, RULES

browser = pytest.mark.browser
TRUE_RULES = [rule for rule in RULES if rule != "misplaced"]

LOAD = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  window.lt = await import(URL.createObjectURL(blob));
}"""
RUN = """(texts) => {
  const { F, steps, why } = lt.calculate(texts);
  if (why) return { why };
  const deep = (x) => x === null || x === undefined ? null :
    Array.isArray(x) ? x.map(deep) : F.number(x);
  return Object.fromEntries(Object.entries(steps).map(([rule, rows]) =>
    [rule, rows.map(({ S, o, weights, held, error, z }) =>
      deep([S, o, weights, held || null, error, z]))]));
}"""


@pytest.fixture
def js(new_tab):
    page = new_tab().page
    page.evaluate(LOAD, assets.module("rule_stepper"))
    return page


def draw(rng, n, d, d_v):
    """Random data: positive k and q, so that the normalised rule reads."""
    return dict(k=rng.uniform(.01, 1, (n, d)), v=rng.normal(0, 5, (n, d_v)),
                q=rng.uniform(.01, 1, (n, d)), gamma=rng.uniform(.01, 1),
                channels=rng.uniform(.001, 1, (n, d)),
                alpha=rng.uniform(.001, 1, n), beta=rng.uniform(0, 2, n))


def texts(x):
    """As a reader would type them: at most six decimals."""
    return ([texts(y) for y in x] if isinstance(x, (list, np.ndarray))
            else f"{x:.6f}".rstrip("0").rstrip("."))


def reference(x):
    """rule → (weights (N, N), o (N, d_v), the last S)."""
    q, k, v, alpha, beta = (x[name] for name in
                            ("q", "k", "v", "alpha", "beta"))

    def one(module, *gates):
        o, S = module.recurrent(q, k, v, *gates, return_state=True)
        return module.weights(q, k, *gates), o, S

    def same(features):
        return features

    o, (S, _) = linear.recurrent(q, k, v, same, return_state=True)
    return {"normalised": (linear.weights(q, k, same), o, S),
            "additive": one(retention, 1),
            "retention": one(retention, x["gamma"]),
            "gla": one(gla, x["channels"]), "delta": one(delta, beta),
            "gated_delta": one(gated_delta, alpha, beta)}


@browser
def test_every_rule_is_the_reference(js):
    rng = np.random.default_rng(9)
    for n, d, d_v in [(1, 1, 2), (8, 2, 3), (8, 4, 1), (5, 3, 4), (7, 1, 2)]:
        x = draw(rng, n, d, d_v)
        typed = {name: texts(value) for name, value in x.items()}
        x = {name: np.vectorize(float)(value) for name, value in typed.items()}
        steps = js.evaluate(RUN, typed)
        for rule, (weights, o, S) in reference(x).items():
            got = steps[rule]
            assert np.allclose(got[-1][0], S, rtol=1e-9, atol=1e-9), rule
            for t in range(n):
                assert np.allclose(got[t][1], o[t], rtol=1e-9, atol=1e-9)
                assert np.allclose(got[t][2], weights[t, :t + 1],
                                   rtol=1e-9, atol=1e-9), (rule, t)


@browser
def test_the_misplaced_error_is_what_it_says(js):
    rng = np.random.default_rng(2)
    x = draw(rng, 8, 3, 2)
    typed = {name: texts(value) for name, value in x.items()}
    steps = js.evaluate(RUN, typed)["misplaced"]
    right = RuleStepper("forget", keys=typed["k"], values=typed["v"],
                        queries=typed["q"], alpha=typed["alpha"],
                        beta=typed["beta"]).outputs("misplaced")
    v = np.vectorize(float)(typed["v"])
    for t, step in enumerate(steps):
        assert np.allclose(step[1], right[t], rtol=1e-9, atol=1e-9)
        assert np.allclose(np.array(step[2]) @ v[:t + 1], right[t],
                           rtol=1e-9, atol=1e-9)


@browser
def test_held_and_error(js):
    """e = β (v − S̄ᵀk), from the state before, faded."""
    rng = np.random.default_rng(4)
    typed = {name: texts(value) for name, value in draw(rng, 6, 3, 2).items()}
    x = {name: np.vectorize(float)(value) for name, value in typed.items()}
    steps = js.evaluate(RUN, typed)
    for rule, fade in (("delta", np.ones(6)), ("gated_delta", x["alpha"])):
        S = np.zeros((3, 2))
        for t, (now, _, _, held, error, _) in enumerate(steps[rule]):
            assert np.allclose(held, fade[t] * S.T @ x["k"][t], atol=1e-9)
            assert np.allclose(
                error, x["beta"][t] * (x["v"][t] - held), atol=1e-9)
            S = np.array(now)
    assert steps["gla"][0][3] is None


@browser
def test_the_examples_give_what_their_chapters_say(js):
    def reads(preset, t):
        data = {name: PRESETS[preset][name] for name in
                ("k", "v", "q", "gamma", "channels", "alpha", "beta")}
        steps = js.evaluate(RUN, data)
        return {rule: steps[rule][t - 1][1][0] for rule in steps}

    two = reads("two-then-five", 2)
    assert (two["additive"], two["normalised"], two["delta"]) == (7, 3.5, 5)
    alike = reads("similar-keys", 3)
    assert alike["additive"] == 5 and alike["normalised"] == 3.125
    assert alike["delta"] == pytest.approx(4.28)
    gap = [reads("long-gap", t) for t in range(1, 7)]
    assert [read["retention"] for read in gap] == [32, 16, 8, 4, 2, 1]
    assert {read["gla"] for read in gap} == {32}
    forget = reads("forget", 3)
    assert (forget["gated_delta"], forget["misplaced"]) == (0, -.5)
    assert (forget["delta"], forget["gla"]) == (0, .5)
    assert reads("forget", 4)["delta"] == 1
    assert reads("forget", 4)["gated_delta"] == pytest.approx(.05)


@browser
def test_bad_texts_are_refused_with_a_reason(js):
    good = {name: PRESETS["forget"][name] for name in
            ("k", "v", "q", "gamma", "channels", "alpha", "beta")}
    for change, reason in [
            ({"gamma": "0"}, "γ must lie above 0"),
            ({"gamma": "1.1"}, "γ must lie above 0"),
            ({"alpha": ["1", "1", "1", "-1"]}, "in row 4 of alpha, α must"),
            ({"beta": ["1", "1", "1", "2.1"]}, "in row 4 of beta, β must"),
            ({"beta": ["1"]}, "beta must have one row a token"),
            ({"channels": [["1"]] * 4}, "row 1 of channels must have 2"),
            ({"v": [["1"], ["x"], ["1"], ["1"]]}, "“x” is not a number"),
            ({"k": []}, "k must have one row")]:
        assert reason in js.evaluate(RUN, good | change)["why"], change


# ---- the reader ----

class Reader:
    def __init__(self, page):
        self.page, self.root = page, page.locator(".lt")
        self.answer = self.root.locator(".lt-answer")

    def press(self, name):
        self.root.get_by_role("button", name=name, exact=True).click()

    def says(self):
        return self.root.get_by_role("status").inner_text()

    def card(self, name):
        return self.root.locator(".lt-rules").get_by_role(
            "group", name=name, exact=True).inner_text()

    def names(self):
        return self.root.locator(".lt-rules .lt-title").all_inner_texts()

    def get(self, name):
        return self.page.evaluate(
            "(name) => document.querySelector('.lintut-widget').model"
            ".get(name)", name)

    def edit(self, label, text):
        box = self.root.get_by_role("textbox", name=label, exact=True)
        box.fill(text)
        box.press("Enter")
        return box


@browser
def test_two_then_five_from_end_to_end(open_page):
    reader = Reader(open_page(RuleStepper()).page)
    assert reader.names() == ["additive", "normalised", "delta"]
    assert "Nothing is written" in reader.says()
    cells = reader.root.locator(".lt-rules tbody td.lt-S")
    assert [text.strip() for text in cells.all_inner_texts()] == ["0"] * 6
    for _ in range(3):
        reader.press("Next")
    assert "delta holds 2, so writes 3" in reader.says()
    assert "Predict first" in reader.answer.inner_text()
    for rule, guess in (("additive", "7"), ("normalised", "7"),
                        ("delta", "3")):
        reader.root.get_by_label(f"Your o₂ of {rule}").fill(guess)
    reader.press("Check")
    answer = reader.answer.inner_text()
    assert "additive: 7 You said 7: right." in answer
    assert "7/2 = 3.5 You said 7: no: that is what additive reads" in answer
    assert "5 You said 3: no: that is the error it writes" in answer
    assert "o₂ = 1·v₁ + 1·v₂" in reader.card("additive")
    assert "o₂ = 1/2·v₁ + 1/2·v₂" in reader.card("normalised")
    assert "o₂ = 0·v₁ + 1·v₂" in reader.card("delta")


@browser
def test_rules_come_and_go_and_bring_their_gates(open_page):
    reader = Reader(open_page(RuleStepper(step=4)).page)
    assert reader.root.get_by_label("γ", exact=True).count() == 0
    for name in ("retention", "gated delta", "GLA"):
        reader.root.get_by_role("checkbox", name=name, exact=True).check()
    assert reader.names() == ["additive", "normalised", "retention", "GLA",
                              "delta", "gated delta"]
    reader.edit("γ", "1/4")
    assert "o₂ = 1/4·v₁ + 1·v₂" in reader.card("retention")
    reader.edit("α (GLA), token 2, entry 1", "0.125")
    assert "o₂ = 0.125·v₁ + 1·v₂" in reader.card("GLA")
    reader.edit("β, token 2", "0.5")
    assert "o₂ = 0.5·v₁ + 0.5·v₂" in reader.card("delta")
    assert "o₂ = 0.25·v₁ + 0.5·v₂" in reader.card("gated delta")
    for name in reader.names():
        reader.root.get_by_role("checkbox", name=name, exact=True).click()
    assert reader.names() == ["gated delta"]            # one stays
    assert reader.get("rules") == ["gated_delta"]


@browser
def test_bad_numbers_are_refused_in_place(open_page):
    reader = Reader(open_page(RuleStepper("forget", step=6)).page)
    why = reader.root.locator(".lt-why").last
    before = reader.card("gated delta")
    for label, text, reason in [
            ("β, token 3", "2.5", "β must lie from 0 to 2. It stays 1"),
            ("α, token 3", "0", "α must lie above 0"),
            ("α (GLA), token 1, entry 2", "-1", "α must lie above 0"),
            ("k, token 1, entry 1", "abc", "not a number"),
            ("v, token 1", "99999999", "beyond a million"),
            ("q, token 1, entry 1", "1/0", "divides by zero")]:
        box = reader.edit(label, text)
        assert reason in why.inner_text(), label
        assert box.get_attribute("aria-invalid") == "true"
        assert reader.card("gated delta") == before
    reader.edit("tokens", "12")
    assert "from 1 to 8" in why.inner_text()
    reader.edit("v, token 2", "3")
    assert why.inner_text() == ""
    assert reader.card("gated delta") != before


@browser
def test_extreme_numbers_break_nothing(open_page):
    reader = Reader(open_page(RuleStepper(
        rules=list(RULES), keys=[["999999", "-1/999"]] * 8,
        values=[["0.000001", 1000000]] * 8,
        queries=[["-3/7", 1]] * 8, gamma="0.000001",
        alpha=["0.000001"] * 8, beta=[2] * 8, step=16), width=390).page)
    text = reader.root.inner_text()
    assert "NaN" not in text and "Infinity" not in text
    assert "No read: z·q is not positive." in reader.card("normalised")
    assert reader.page.evaluate(
        "document.documentElement.scrollWidth") == 390


@browser
def test_examples_tokens_and_reset(open_page):
    reader = Reader(open_page(RuleStepper(step=4)).page)
    reader.root.get_by_label("Example").select_option("long-gap")
    assert reader.names() == ["additive", "retention", "GLA"]
    reader.root.get_by_label("Step", exact=True).press("End")
    assert "o₆ = 1/32·v₁" in reader.card("retention")
    reader.press("More: tokens")
    reader.root.get_by_label("Step", exact=True).press("End")
    assert "o₇ = 1/64·v₁" in reader.card("retention")
    reader.edit("tokens", "2")
    assert "o₂ = 1/2·v₁" in reader.card("retention")
    assert [len(reader.get(name)) for name in
            ("k", "v", "q", "channels", "alpha", "beta")] == [2] * 6
    reader.press("Reset")
    assert reader.get("preset") == "two-then-five"
    assert reader.names() == ["additive", "normalised", "delta"]


@browser
def test_keys_play_and_a_skipped_prediction(open_page):
    tab = open_page(RuleStepper())
    tab.page.clock.install()
    tab.page.reload()
    reader = Reader(tab.page)
    reader.press("Play")
    tab.page.clock.run_for(20_000)
    assert "Token 2 is written" in reader.says()    # waits for a prediction
    reader.press("Check")
    assert "at least one rule" in reader.answer.inner_text()
    box = reader.root.get_by_label("Your o₂ of delta")
    box.fill("what")
    reader.press("Check")
    assert "delta: “what” is not a number" in reader.answer.inner_text()
    reader.press("Skip")
    assert "You said" not in reader.answer.inner_text()
    for key, words in [("Home", "Nothing"), ("ArrowRight", "1 is written"),
                       ("End", "Token 2 is read"),
                       ("ArrowLeft", "Token 2 is written")]:
        tab.page.keyboard.press(key)
        assert words in reader.says()
    box.focus()
    tab.page.keyboard.press("Home")                 # moves the caret alone
    assert "Token 2 is written" in reader.says()


@browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(open_page, theme):
    axe = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        skip_or_fail("axe-core is not installed: run make book")
    tab = open_page(RuleStepper(step=3), theme=theme, width=390,
                    motion=False)
    reader = Reader(tab.page)
    tab.page.evaluate(axe.read_text(encoding="utf-8"))
    for action in (lambda: None, lambda: reader.press("Skip"),
                   lambda: reader.edit("β, token 1", "7")):
        action()
        found = tab.page.evaluate(
            "axe.run().then((r) => r.violations.map((v) =>"
            " [v.id, v.nodes.map((n) => n.html)]))")
        assert found == []


# ---- the Python side ----

def test_repr_state_and_still():
    widget = RuleStepper(step=3)
    assert repr(widget) == (
        "RuleStepper(preset='two-then-five', rules=['additive', "
        "'normalised', 'delta'], step=3, tokens=2)")
    state = json.loads(re.search("data-state=\"(.*?)\"", widget.html())[1]
                       .replace("&quot;", '"').replace("&#x27;", "'"))
    assert state["k"] == [["1", "0"], ["1", "0"]] and state["gamma"] == "1/2"
    assert "<td>7</td><td>3.5</td><td>5</td>" in widget.still()
    assert "<td>−0.5</td>" in RuleStepper("forget").still()
    assert "<td>none</td>" in RuleStepper(keys=[[-1, 0], [1, 0]]).still()


def test_outputs_are_the_reference():
    x = draw(np.random.default_rng(1), 6, 3, 2)
    widget = RuleStepper(rules=TRUE_RULES, **{
        {"k": "keys", "v": "values", "q": "queries"}.get(name, name):
        np.round(value, 6).tolist() for name, value in x.items()})
    x = {name: np.round(value, 6) for name, value in x.items()}
    for rule, (_, o, _) in reference(x).items():
        assert np.allclose(widget.outputs(rule), o, rtol=1e-12), rule


def test_gates_left_out():
    widget = RuleStepper("forget", keys=[[1]], values=[[2]], queries=[[1]])
    assert (widget.channels, widget.alpha, widget.beta) == (
        [["1"]], ["1"], ["1"])
    widget = RuleStepper("forget", alpha=[.5, .5, .25, 1])
    assert widget.channels == [["0.5", "0.5"], ["0.5", "0.5"],
                               ["0.25", "0.25"], ["1", "1"]]


@pytest.mark.parametrize("bad, name", [
    ({"preset": "none"}, "preset"), ({"rules": []}, "rules"),
    ({"rules": ["lstm"]}, "rules"), ({"step": 5}, "step"),
    ({"step": -1}, "step"), ({"gamma": 0}, "gamma"), ({"gamma": 2}, "gamma"),
    ({"gamma": "x"}, "gamma"), ({"alpha": [1]}, "alpha"),
    ({"alpha": [1, 0]}, "alpha"), ({"beta": [1, 2.1]}, "beta"),
    ({"beta": [1, -1]}, "beta"), ({"channels": [[1, 1]]}, "channels"),
    ({"channels": [[1], [1]]}, "channels"),
    ({"channels": [[1, 2], [1, 1]]}, "channels"),
    ({"keys": [[1, 0]]}, "values"), ({"values": [["a"], [1]]}, "values"),
])
def test_bad_input_is_refused_by_name(bad, name):
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        RuleStepper(**bad)
