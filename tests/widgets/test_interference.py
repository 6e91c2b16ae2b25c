"""Interference: its memories against lintut.reference, and its reader."""

import numpy as np
import pytest
from browser import skip_or_fail
from conftest import ROOT

from lintut.widgets import Interference, assets

browser = pytest.mark.browser
LOAD = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  window.lt = await import(URL.createObjectURL(blob));
}"""


@browser
def test_memories_are_the_reference(new_tab):
    page = new_tab().page
    page.evaluate(LOAD, assets.module("interference"))
    rng = np.random.default_rng(7)
    refused = 0
    for case in range(40):
        n = int(rng.integers(1, 7))
        # multiples of 90 too: exact zeros and twins
        angles = (rng.integers(0, 360, n) if case % 2 else
                  90 * rng.integers(0, 4, n)).tolist()
        values = rng.normal(0, 5, n).round(6).tolist()
        passes = int(rng.integers(1, 6))
        want = Interference(angles, values, passes, 0).reads()
        got = page.evaluate(
            "([a, v, p]) => lt.memories(a, v, p)", [angles, values, passes])
        for rule, reads in want.items():
            ours = [np.nan if x is None else x for x in got[rule]]
            assert np.allclose(ours, reads, rtol=1e-9, atol=1e-9,
                               equal_nan=True), (rule, angles)
            refused += np.isnan(reads).sum()
        error = page.evaluate("([r, v]) => lt.rms(r, v)",
                              [got["delta"], values])
        assert np.isclose(error, np.sqrt(np.mean(
            (want["delta"] - values) ** 2)), atol=1e-9)
    assert refused                              # z·k ≤ 0 was met


class Reader:
    def __init__(self, page):
        self.page, self.root = page, page.locator(".lintut-widget .lt")

    def says(self):
        return self.root.get_by_role("status").inner_text()

    def row(self, j):
        return self.root.locator("tbody tr").nth(j).locator(
            "td.lt-o").all_inner_texts()

    def key(self, j):
        return self.root.get_by_role("slider", name=f"Key {j}, angle")

    def write(self, label, text):
        box = self.root.get_by_role("textbox", name=label, exact=True)
        box.fill(text)
        box.press("Enter")
        return box

    def press(self, name):
        self.root.get_by_role("button", name=name, exact=True).click()


@browser
def test_keys_turn_by_arrows_by_number_and_by_hand(open_page):
    reader = Reader(open_page(Interference()).page)
    assert "additive 0," in reader.says() and "delta 0." in reader.says()
    reader.key(2).focus()
    for _ in range(2):
        reader.page.keyboard.press("PageDown")
    assert reader.key(2).get_attribute("aria-valuetext") == "60°"
    assert [x.split("\n")[0] for x in reader.row(0)] == ["2", "1.333", "1.75"]
    assert reader.row(1)[2].split() == ["2", "exact"]
    reader.page.keyboard.press("ArrowLeft")
    assert reader.key(2).get_attribute("aria-valuenow") == "59"
    reader.write("Angle of key 2", "−270")
    assert reader.key(2).get_attribute("aria-valuenow") == "90"
    reader.write("Value of key 1", "1/2")
    assert reader.row(0)[0].split() == ["0.5", "exact"]
    knob = reader.key(2).locator("circle").bounding_box()
    frame = reader.root.locator(".lt-circle").bounding_box()
    centre = [frame[a] + frame[b] / 2 for a, b in (("x", "width"),
                                                   ("y", "height"))]
    reader.page.mouse.move(knob["x"] + knob["width"] / 2,
                           knob["y"] + knob["height"] / 2)
    reader.page.mouse.down()
    reader.page.mouse.move(centre[0] - 70, centre[1] + 70)
    reader.page.mouse.up()
    assert reader.key(2).get_attribute("aria-valuenow") == "225"
    assert "normalised 3.621" in reader.says()
    reader.key(2).focus()
    for _ in range(3):
        reader.page.keyboard.press("PageDown")
    assert "normalised has no read" in reader.says()
    reader.press("Reset")
    assert reader.row(0)[0].split() == ["1", "exact"]


@browser
def test_more_keys_examples_and_passes(open_page):
    reader = Reader(open_page(Interference()).page)
    reader.root.get_by_label("Example").select_option("60° apart")
    assert [x.split("\n")[0] for x in reader.row(0)] == ["2", "1.333", "1.75"]
    reader.write("passes of delta", "50")
    assert "delta 0." in reader.says()          # two keys, two dimensions
    reader.root.get_by_label("Example").select_option("one key twice")
    assert reader.row(0)[0].split("\n")[0] == "4"
    for _ in range(3):
        reader.press("More: keys")
    assert reader.root.get_by_role("slider").count() == 6
    assert "6 keys in two dimensions" in reader.says()
    reader.write("keys", "1")
    assert reader.says() == ("1 key in two dimensions. Error: additive 0, "
                             "normalised 0, delta 0.")


@browser
def test_bad_input_is_refused_in_place(open_page):
    reader = Reader(open_page(Interference()).page)
    why, before = reader.root.get_by_role("alert"), reader.says()
    for label, text, reason in [
            ("Angle of key 1", "abc", "not a number"),
            ("Angle of key 1", "0.5", "whole degrees only. It stays 0"),
            ("Value of key 2", "", "it is empty"),
            ("Value of key 2", "1/0", "divides by zero"),
            ("Value of key 2", "9999999", "beyond a million. It stays 2"),
            ("keys", "7", "from 1 to 6"), ("keys", "0", "from 1 to 6"),
            ("passes of delta", "-1", "from 1 to 50")]:
        box = reader.write(label, text)
        assert reason in why.inner_text(), label
        assert box.get_attribute("aria-invalid") == "true"
        assert reader.says() == before
    reader.write("Angle of key 1", "999999")
    reader.write("Value of key 2", "-999999")
    text = reader.root.inner_text()
    assert "NaN" not in text and "Infinity" not in text
    reader.page.evaluate("document.querySelector('.lintut-widget').model"
                         ".set('passes', 0)")           # as a kernel might
    assert "cannot be used" in reader.says()


@browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_and_axe(open_page, theme):
    axe = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        skip_or_fail("axe-core is not installed: run make book")
    page = open_page(Interference([0, 90, 0, 120, 240, 300],
                                  ["-1/3", 2, 3, 999999, 5, 6]),
                     theme=theme, width=390, motion=False).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    Reader(page).write("keys", "abc")
    page.evaluate(axe.read_text(encoding="utf-8"))
    assert page.evaluate("axe.run().then((r) => r.violations.map((v) =>"
                         " [v.id, v.nodes.map((n) => n.html)]))") == []


def test_repr_and_still():
    widget = Interference([0, -300])
    assert repr(widget) == ("Interference(angles=[0, 60], values=['1', '2'], "
                            "passes=1)")
    assert "<td>2</td><td>1.333</td><td>1.75</td>" in widget.still()
    assert "<td>−1</td><td>none</td><td>−2</td>" in (
        Interference([0, 180]).still())


@pytest.mark.parametrize("bad, name", [
    ({"angles": []}, "angles"), ({"angles": [0.5]}, "angles"),
    ({"angles": [0] * 7}, "angles"), ({"values": [1]}, "values"),
    ({"values": ["x", 1]}, "values"), ({"values": ["1/0", 1]}, "values"),
    ({"values": [1e7, 1]}, "values"), ({"passes": 0}, "passes"),
    ({"passes": 51}, "passes"), ({"chosen": 2}, "chosen")])
def test_bad_arguments_are_refused_by_name(bad, name):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        Interference(**bad)
