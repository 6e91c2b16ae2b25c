"""The feature explorer: its arithmetic against lintut, and its reader."""

import numpy as np
import pytest
from browser import skip_or_fail
from conftest import ROOT

from lintut.reference import performer, softmax
from lintut.widgets import FeatureExplorer, assets

browser = pytest.mark.browser
KINDS = ("positive", "hyperbolic", "trigonometric")
LOAD = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  window.lt = await import(URL.createObjectURL(blob));
}"""


@pytest.fixture
def js(new_tab):
    page = new_tab().page
    page.evaluate(LOAD, assets.module("feature_explorer"))
    return page


@browser
def test_features_are_the_reference(js):
    rng = np.random.default_rng(2)
    for case in range(18):
        kind = KINDS[case % 3]
        m, d = (int(n) for n in rng.integers(1, 9, 2))
        x, Ω = rng.normal(size=(5, d)), rng.normal(size=(m, d))
        got = js.evaluate("([x, rows, kind]) => x.map((one) =>"
                          " lt.features(one, rows, kind))",
                          [x.tolist(), Ω.tolist(), kind])
        want = performer.features(x, Ω, kind)
        assert np.allclose(got, want, rtol=1e-12, atol=1e-12)
    q, k = rng.normal(size=(2, 7, 4))
    v = rng.normal(size=(7, 1))
    got = js.evaluate("([A, v]) => lt.outputs(A, v)",
                      [np.exp(q @ k.T / 2).tolist(), v[:, 0].tolist()])
    assert np.allclose(got, softmax.parallel(q, k, v)[:, 0], rtol=1e-12)


@browser
def test_rows_are_normal_and_orthogonal(js):
    Ω = np.array(js.evaluate("lt.projection(6400, 8, lt.normals(3), true)"))
    blocks = Ω.reshape(-1, 8, 8)
    gram = blocks @ blocks.swapaxes(-1, -2)
    off = gram[:, ~np.eye(8, dtype=bool)]
    assert np.abs(off).max() < 1e-9
    square = (Ω ** 2).sum(-1)                       # χ²: mean 8, variance 16
    assert abs(square.mean() - 8) < 0.2 and abs(square.var() - 16) < 1.5
    assert np.abs(Ω.T @ Ω / 6400 - np.eye(8)).max() < 0.06
    assert np.abs(Ω.mean(0)).max() < 0.06
    free = np.array(js.evaluate("lt.projection(9, 8, lt.normals(3), false)"))
    assert free.shape == (9, 8) and abs((free[:2] @ free[2])[0]) > 1e-6
    assert np.shape(js.evaluate(
        "lt.projection(11, 8, lt.normals(3), true)")) == (11, 8)


@browser
def test_lemma_2_is_the_measured_variance(js):
    rng = np.random.default_rng(5)
    x, y = 0.5 * rng.normal(size=(2, 4))
    for kind in KINDS:
        rows, draws = 6, 20_000
        r = rows if kind == "positive" else 2 * rows
        Ω = rng.normal(size=(draws * rows, 4))
        f = performer.features(np.stack([x, y]), Ω, kind)
        each = (f[0] * f[1]).reshape(-1, draws, rows) * draws
        found = each.sum((0, 2))            # one estimate a draw of 6 rows
        want = js.evaluate("([x, y, r, kind]) => lt.lemma2(x, y, r, kind)",
                           [x.tolist(), y.tolist(), r, kind])
        measured = np.mean((found - np.exp(x @ y)) ** 2)
        assert abs(measured / want - 1) < 0.1, kind


@browser
def test_what_is_explored_is_one_data_set(js):
    def run(**options):
        return js.evaluate("lt.explore", FeatureExplorer(**options).state())

    first, again = run(), run()
    assert first == again
    other = run(seed=1, kind="trigonometric")
    assert other["kernel"] == first["kernel"]
    assert other["averaging"] == first["averaging"]
    assert other["estimate"] != first["estimate"]
    kernel, estimate = (np.array(first[x]) for x in ("kernel", "estimate"))
    assert kernel.shape == estimate.shape == (24, 24)
    free = run(orthogonal=False)
    assert 0.5 < free["measured"] / free["predicted"] < 2
    assert first["measured"] < free["predicted"]    # orthogonal rows help
    large = run(n_features=256)
    assert large["median"] < first["median"] / 3
    assert run(scale=2.0)["below"] == 0
    assert run(scale=2.0, kind="trigonometric")["below"] > 0


class Reader:
    def __init__(self, page):
        self.page, self.root = page, page.locator(".lintut-widget .lt")

    def says(self):
        return self.root.get_by_role("status").inner_text()

    def write(self, label, text):
        box = self.root.get_by_role("textbox", name=label, exact=True)
        box.fill(text)
        box.press("Enter")
        return box


@browser
def test_what_is_shown_and_how_it_is_chosen(open_page):
    reader = Reader(open_page(FeatureExplorer()).page)
    first = reader.says()
    assert first.startswith("32 positive features, orthogonal rows, σ = 0.5")
    assert "below the" in first
    reader.root.get_by_label("Kind").select_option("trigonometric")
    reader.root.get_by_label("Features r").select_option("4")
    reader.root.get_by_label("orthogonal rows").uncheck()
    reader.write("Scale σ", "2")
    words = reader.says()
    assert words.startswith("4 trigonometric features, independent rows")
    assert "above the" in words and "estimates are zero or less" in words
    slider = reader.root.get_by_label("Scale σ, in tenths")
    slider.focus()
    reader.page.keyboard.press("Home")
    assert "σ = 0.1" in reader.says()
    reader.root.get_by_role("button", name="More: seed").click()
    assert reader.root.get_by_role("textbox", name="seed").input_value() == (
        "1")
    reader.root.get_by_role("button", name="Reset").click()
    assert reader.says() == first


@browser
def test_bad_input_is_refused_in_place(open_page):
    reader = Reader(open_page(FeatureExplorer()).page)
    why, before = reader.root.get_by_role("alert"), reader.says()
    for label, text, reason in [
            ("Scale σ", "abc", "not a number"), ("Scale σ", "0", "above 0"),
            ("Scale σ", "-1", "above 0"), ("Scale σ", "999", "at most 3"),
            ("Scale σ", "", "it is empty"), ("Scale σ", "1/0", "by zero"),
            ("seed", "-1", "whole number"), ("seed", "1.5", "whole number")]:
        box = reader.write(label, text)
        assert reason in why.inner_text(), label
        assert box.get_attribute("aria-invalid") == "true"
        assert reader.says() == before
    reader.write("Scale σ", "3")
    reader.root.get_by_label("Kind").select_option("hyperbolic")
    text = reader.root.inner_text()
    assert "NaN" not in text and "Infinity" not in text
    reader.page.evaluate("document.querySelector('.lintut-widget').model"
                         ".set('n_features', 3)")       # as a kernel might
    assert "cannot be used" in reader.says()


@browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_and_axe(open_page, theme):
    axe = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        skip_or_fail("axe-core is not installed: run make book")
    page = open_page(FeatureExplorer(scale=3), theme=theme, width=390,
                     motion=False).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    Reader(page).write("seed", "abc")
    page.evaluate(axe.read_text(encoding="utf-8"))
    assert page.evaluate("axe.run().then((r) => r.violations.map((v) =>"
                         " [v.id, v.nodes.map((n) => n.html)]))") == []


def test_repr_and_still():
    widget = FeatureExplorer(64)
    assert repr(widget) == (
        "FeatureExplorer(n_features=64, kind='positive', orthogonal=True, "
        "scale=0.5, seed=0)")
    assert "mean of V" in widget.still() and "nan" not in widget.still()
    errors = widget.errors()
    assert errors["positive"] < errors["the mean of V"]


@pytest.mark.parametrize("bad, name", [
    ({"n_features": 3}, "n_features"), ({"n_features": 512}, "n_features"),
    ({"kind": "cosine"}, "kind"), ({"orthogonal": "yes"}, "orthogonal"),
    ({"scale": 0}, "scale"), ({"scale": float("nan")}, "scale"),
    ({"scale": 4}, "scale"), ({"scale": "1"}, "scale"), ({"seed": -1}, "seed"),
    ({"seed": 1.5}, "seed")])
def test_bad_arguments_are_refused_by_name(bad, name):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        FeatureExplorer(**bad)
