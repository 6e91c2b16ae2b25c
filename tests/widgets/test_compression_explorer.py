"""The compression explorer: its arithmetic against lintut, and its reader."""

import re

import numpy as np
import pytest
from browser import skip_or_fail
from conftest import ROOT

from lintut.reference import linformer, softmax
from lintut.widgets import CompressionExplorer, assets

LOAD = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  window.lt = await import(URL.createObjectURL(blob));
}"""
MEASURE = """(options) => {
  const parts = lt.tokens(options);
  return { ...parts, ...lt.measure(options), E: [1, 2, options.N].map(
    (m) => lt.projection(options, parts.G, m)) };
}"""


@pytest.fixture
def js(new_tab):
    page = new_tab().page
    page.evaluate(LOAD, assets.module("compression_explorer"))
    return page


def off(x, o):
    return np.linalg.norm(x - o) / np.linalg.norm(o)


@pytest.mark.browser
def test_the_same_arrays_give_the_same_attention(js):
    rng = np.random.default_rng(0)
    for N, m, d, d_v in [(1, 1, 1, 2), (5, 2, 3, 1), (17, 5, 4, 6),
                         (40, 40, 8, 3)]:
        q, k = 2 * rng.normal(size=(2, N, d))
        v = rng.normal(size=(N, d_v))
        E, F = rng.normal(size=(2, m, N))
        arrays = [x.tolist() for x in (q, k, v, E, F)]
        o = js.evaluate("(x) => lt.linformer(...x)", arrays)
        assert np.allclose(o, linformer.parallel(q, k, v, E, F), atol=1e-12)
        o = js.evaluate("(x) => lt.softmax(...x)", arrays[:3])
        assert np.allclose(o, softmax.parallel(q, k, v), atol=1e-12)


@pytest.mark.browser
def test_singular_values_are_numpys(js):
    rng = np.random.default_rng(1)
    low = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 20))
    for A in (rng.normal(size=(33, 33)), low, np.eye(4), np.ones((6, 6)),
              softmax.weights(*(4 * rng.normal(size=(2, 48, 8))))):
        got = js.evaluate("(A) => lt.singular(A)", A.tolist())
        s = np.array([x["s"] for x in got])
        assert np.allclose(s, np.linalg.svd(A, compute_uv=False),
                           atol=1e-10 * s[0])
        V = np.array([x["v"] for x in got])
        assert np.allclose(V @ V.T, np.eye(len(A)), atol=1e-10)
        assert np.allclose(np.linalg.norm(A @ V.T, axis=0), s,
                           atol=1e-10 * s[0])


@pytest.mark.browser
def test_what_is_drawn_is_what_the_reference_gives(js):
    for case in [CompressionExplorer(24, 5, 2., seed=3),
                 CompressionExplorer(31, 4, 8., "smooth", "mean", 7),
                 CompressionExplorer(16, 1, .25, "smooth", "random"),
                 CompressionExplorer(2, 2, projection="mean")]:
        got = js.evaluate(MEASURE, case.state())
        q, k, v, G = (np.array(got[name]) for name in ("q", "k", "v", "G"))
        A, o = softmax.weights(q, k), softmax.parallel(q, k, v)
        U, s, Vt = np.linalg.svd(A)
        assert np.isclose(got["mean"], off(v.mean(0), o))
        for m in range(1, case.N + 1):
            low = (U[:, :m] * s[:m]) @ Vt[:m]
            assert np.isclose(got["kept"][m - 1], s[:m].sum() / s.sum())
            assert np.isclose(got["matrix"][m - 1], off(low, A), atol=1e-9)
            assert np.isclose(got["best"][m - 1], off(low @ v, o), atol=1e-9)
            groups = np.array_split(np.arange(case.N), m)
            E = G[:m] / m ** .5
            if case.projection == "mean":
                cuts = np.arange(m + 1) * case.N // m
                groups = np.split(np.arange(case.N), cuts[1:-1])
                E = np.array([np.isin(np.arange(case.N), g) / len(g)
                              for g in groups])
            for wanted, mine in zip((1, 2, case.N), got["E"]):
                if wanted == m:
                    assert np.allclose(mine, E)
            assert np.isclose(got["compressed"][m - 1], off(
                linformer.parallel(q, k, v, E, E), o), atol=1e-9)


@pytest.mark.browser
def test_the_inputs_are_what_they_are_called(js):
    def draw(**options):
        got = js.evaluate(MEASURE, CompressionExplorer(96, **options).state())
        return [np.array(got[x]) for x in ("q", "k", "v", "G")]

    q, k, v, G = draw(seed=5, scale=4.)
    assert abs(k.mean()) < 0.1 and abs(k.std() - 1) < 0.1
    assert abs(q.std() / 4 - 1) < 0.1 and abs(G.std() - 1) < 0.05
    together = np.corrcoef([x.ravel() for x in (q, k, v)])
    assert np.abs(together - np.eye(3)).max() < 0.1
    assert abs(np.corrcoef(k[1:].ravel(), k[:-1].ravel())[0, 1]) < 0.1
    q, k, v, _ = draw(seed=5, scale=4., inputs="smooth")
    assert np.allclose(q, 4 * k)
    for x in (k, v):
        assert np.corrcoef(x[1:].ravel(), x[:-1].ravel())[0, 1] > 0.85
    assert not np.allclose(draw(seed=6)[1], draw(seed=5)[1])


class Reader:
    def __init__(self, page):
        self.page, self.root = page, page.locator(".lintut-widget .lt").first

    def says(self):
        return self.root.get_by_role("status").inner_text()

    def errors(self):
        """Linformer's, rank m's, the mean's."""
        return [float(x) for x in re.findall(
            r"by (?:below )?(\d+\.?\d*)", self.says())]

    def write(self, label, text):
        box = self.root.get_by_role("textbox", name=label, exact=True)
        box.fill(text)
        box.press("Enter")
        return box


@pytest.mark.browser
def test_every_control(open_page):
    reader = Reader(open_page(CompressionExplorer(
        32, 8, inputs="smooth", projection="mean")).page)
    first = reader.errors()
    assert "With 8 of 32 slots" in reader.says() and len(first) == 3
    slots = reader.root.get_by_label("Slots m")
    slots.focus()
    for key, m in [("ArrowRight", 9), ("End", 32), ("ArrowRight", 32),
                   ("Home", 1), ("ArrowLeft", 1)]:
        reader.page.keyboard.press(key)
        assert f"With {m} of 32 slots" in reader.says()
    reader.page.keyboard.press("End")
    assert reader.errors()[:2] == [.001, .001]      # nothing is compressed
    heat = reader.root.get_by_label("Input scale")
    heat.focus()
    reader.page.keyboard.press("End")
    assert heat.get_attribute("aria-valuetext") == "scale 8"
    assert "With 32 of 32" in reader.says()         # the arrows were not m's
    assert reader.errors()[2] > first[2]
    reader.root.get_by_role("button", name="Reset").click()
    assert reader.errors() == first
    reader.root.get_by_label("Projection").select_option("random")
    assert reader.errors()[0] > 1 > first[0]
    reader.root.get_by_label("Inputs").select_option("random")
    assert reader.errors()[2] > first[2]
    reader.write("seed", "5")
    reader.write("tokens N", "4")
    assert "With 4 of 4" in reader.says()
    assert "NaN" not in reader.root.inner_text()


@pytest.mark.browser
def test_bad_input_is_refused_in_place(open_page):
    reader = Reader(open_page(CompressionExplorer(16, 4)).page)
    before, why = reader.says(), reader.root.get_by_role("alert")
    for label in ("tokens N", "seed"):
        for text in ("abc", "", "-3", "1000", "9" * 30, "1.5"):
            box = reader.write(label, text)
            assert "must be a whole number from" in why.inner_text()
            assert box.get_attribute("aria-invalid") == "true"
            assert reader.says() == before
    reader.write("tokens N", "0")
    assert "from 2 to 96" in why.inner_text() and reader.says() == before
    reader.page.evaluate("document.querySelector('.lintut-widget').model"
                         ".set('scale', -1)")           # as a kernel might
    assert "cannot be used" in reader.says()


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_and_axe(open_page, theme):
    axe = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        skip_or_fail("axe-core is not installed: run make book")
    page = open_page(CompressionExplorer(), theme=theme, width=350,
                     motion=False).page
    assert page.evaluate("document.documentElement.scrollWidth") == 350
    Reader(page).write("tokens N", "abc")
    page.evaluate(axe.read_text(encoding="utf-8"))
    assert page.evaluate("axe.run().then((r) => r.violations.map((v) =>"
                         " [v.id, v.nodes.map((n) => n.html)]))") == []


def test_repr_and_still():
    widget = CompressionExplorer(32, 32, inputs="smooth", projection="mean")
    assert repr(widget) == (
        "CompressionExplorer(N=32, m=32, scale=1.0, inputs='smooth')")
    last = widget.still().split('<th scope="row">32</th>')[1]
    kept, best, compressed = re.findall("<td>(.*?)</td>", last)
    assert kept == "1.00"
    assert max(float(best), float(compressed)) < 1e-12


@pytest.mark.parametrize("bad, name", [
    ({"N": 1}, "N"), ({"N": 97}, "N"), ({"m": 0}, "m"), ({"m": 65}, "m"),
    ({"scale": 0}, "scale"), ({"scale": 16}, "scale"), ({"scale": 3}, "scale"),
    ({"scale": float("nan")}, "scale"), ({"scale": "1"}, "scale"),
    ({"inputs": "text"}, "inputs"), ({"projection": "E"}, "projection"),
    ({"seed": -1}, "seed"), ({"seed": 1000}, "seed")])
def test_bad_arguments_are_refused_by_name(bad, name):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        CompressionExplorer(**bad)
