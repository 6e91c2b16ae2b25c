"""The online softmax in JavaScript is lintut.reference.softmax's."""

import random

import numpy as np
import pytest

from lintut.reference import softmax
from lintut.widgets import OnlineSoftmax

browser = pytest.mark.browser
IMPORT = """const blob = new Blob([text], {type: "text/javascript"});
            const module = await import(URL.createObjectURL(blob));"""


@pytest.fixture
def live(open_page):
    def start(widget=None, **options):
        page = open_page(widget or OnlineSoftmax(), **options).page
        page.wait_for_selector('.lintut-widget[data-live="yes"]',
                               timeout=30_000)
        return page
    return start


@browser
def test_states_and_output_are_the_references(live):
    page, draw = live(), random.Random(2)
    for _ in range(12):
        n, size = draw.randint(1, 12), draw.randint(1, 5)
        scores = [round(draw.uniform(-40, 40), 3) for _ in range(n)]
        values = [round(draw.uniform(-9, 9), 3) for _ in range(n)]
        states, plain = page.evaluate(
            f"async ([text, s, v, size]) => {{ {IMPORT} return "
            "[module.online(s, v, size), module.plain(s, v)]; }",
            [OnlineSoftmax._esm, scores, values, size])
        expected = OnlineSoftmax(scores, values, size).states()
        got = [[s["top"], s["total"], s["out"]] for s in states[1:]]
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        w = softmax.normalise(np.array(scores))
        assert plain["o"] == pytest.approx(w @ values, rel=1e-12, abs=1e-12)
        assert got[-1][2] / got[-1][1] == pytest.approx(plain["o"], rel=1e-12,
                                                        abs=1e-12)


@browser
def test_stepping_predicting_and_overflow(live):
    page = live(OnlineSoftmax(scores=[800, 1, 900], values=[1, 2, 3], size=1))
    root = page.locator(".lt")
    page.get_by_label("The last sum ℓ").fill("2")
    page.get_by_role("button", name="Check").click()
    assert "not this one" not in root.locator(".lt-answer").inner_text()
    assert "leaves out the shrinking" in root.locator(
        ".lt-answer").inner_text()
    root.locator(".lt-bar button").first.focus()
    page.keyboard.press("End")
    text = root.inner_text()
    assert "overflows float64" in text and "NaN" not in text
    assert "Tile 3 of 3" in text
    page.keyboard.press("Home")
    page.get_by_role("button", name="Next").click()
    assert "After tile 1: largest 800" in root.locator(
        ".lt-says").inner_text()


@browser
def test_bad_input_is_refused_in_place(live):
    page = live(width=390)
    root = page.locator(".lt")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for label, text, reason in [
            ("score 2", "abc", "not a number"), ("value 1", "", "is empty"),
            ("score 1", "1/0", "divides by zero"),
            ("score 1", "9999999", "beyond a million"),
            ("keys N", "13", "from 1 to 12"), ("tile B", "0", "from 1 to 12")]:
        page.get_by_label(label, exact=True).last.fill(text)
        page.keyboard.press("Tab")
        assert reason in root.locator("p.lt-why").inner_text(), label
    page.get_by_label("score 1", exact=True).fill("-1000000")
    page.keyboard.press("Tab")
    root.locator(".lt-bar button").first.focus()
    page.keyboard.press("End")
    assert "NaN" not in root.inner_text()


def test_repr_still_and_arguments():
    widget = OnlineSoftmax()
    assert repr(widget) == "OnlineSoftmax(N=6, size=2, step=0)"
    s, v = np.array(widget.scores, float), np.array(widget.values, float)
    o = (np.exp(s) @ v) / np.exp(s).sum()
    assert f"<td>{o:.3f}</td>" in widget.still()
    for bad in (dict(scores=[]), dict(values=[1]), dict(scores=["x"]),
                dict(size=0), dict(step=4), dict(step=-1), dict(size=13)):
        with pytest.raises(ValueError, match=f"^{next(iter(bad))} must"):
            OnlineSoftmax(**bad)
