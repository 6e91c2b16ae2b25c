"""The kernel viewer: its maps against lintut.reference, and its reader."""

import numpy as np
import pytest
from browser import skip_or_fail
from conftest import ROOT

from lintut.reference import feature_maps, performer
from lintut.widgets import KernelViewer, assets
from lintut.widgets.kernel_viewer import MAPS

browser = pytest.mark.browser
RANDOM = ("positive", "trigonometric")
LOAD = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  window.lt = await import(URL.createObjectURL(blob));
}"""


@pytest.fixture
def js(new_tab):
    page = new_tab().page
    page.evaluate(LOAD, assets.module("kernel_viewer"))
    return page


@browser
def test_each_map_is_the_references(js):
    rng = np.random.default_rng(5)
    for case in range(12):
        x = rng.normal(0, 1 + case % 3, (3, 5 if case % 2 else 2))
        Ω = rng.normal(size=(7, x.shape[1]))
        for name in MAPS:
            want = (performer.features(x, Ω, name) if name in RANDOM else
                    getattr(feature_maps, name)(x))
            got = js.evaluate("([n, x, rows]) => x.map((y) =>"
                              " lt.phi(n, y, rows))",
                              [name, x.tolist(), Ω.tolist()])
            assert np.allclose(got, want, rtol=1e-12, atol=1e-12), name
            got = js.evaluate("([n, q, k, rows]) => lt.kappa(n, q, k, rows)",
                              [name, *x[:2].tolist(), Ω.tolist()])
            assert np.isclose(got, want[0] @ want[1], rtol=1e-11, atol=1e-12)


@browser
@pytest.mark.parametrize("along", ["angle", "length"])
def test_curves_are_pythons(js, along):
    rng = np.random.default_rng(len(along))
    for _ in range(8):
        options = dict(
            maps=list(MAPS), along=along, turn=rng.uniform(0, 360),
            angle=rng.uniform(-180, 180), q_length=rng.uniform(0, 3),
            k_length=rng.uniform(0, 3), features=int(rng.integers(1, 65)),
            seed=int(rng.integers(1000)))
        widget = KernelViewer(**options)
        x, want = widget.curves()
        got = js.evaluate("(o) => lt.curves(o)", options)
        assert np.allclose(got["at"], x)
        rows = js.evaluate("([m, s]) => lt.projection(m, s)",
                           [options["features"], options["seed"]])
        assert np.allclose(rows, widget.projection(), atol=1e-12)
        assert set(got) == {"at", "exp", *MAPS}
        for name, (here, curve, mean) in want.items():
            mine = got[name]
            assert np.allclose(mine["curve"], curve, rtol=1e-9, atol=1e-9)
            assert np.isclose(mine["here"], here, rtol=1e-9, atol=1e-9)
            assert np.isclose(mine["mean"], mean, rtol=1e-9, atol=1e-9)


class Reader:
    def __init__(self, page):
        self.page, self.root = page, page.locator(".lintut-widget .lt")

    def says(self):
        return self.root.get_by_role("status").inner_text()

    def rows(self):
        return [row.inner_text().strip().replace("−", "-").split("\t")
                for row in self.root.locator("tbody tr").all()]

    def write(self, label, text):
        box = self.root.get_by_role("textbox", name=label, exact=True)
        box.fill(text)
        box.press("Enter")
        return box

    def slide(self, label, x):
        self.root.get_by_role("slider", name=label, exact=True).fill(str(x))

    def is_(self, **options):
        """What is shown is what Python computes."""
        _, want = KernelViewer(**options).curves()
        shown = self.rows()
        assert len(shown) == len(want)
        for row, (here, _, mean) in zip(shown, want.values()):
            assert float(row[-2]) == pytest.approx(here, abs=6e-4)
            if mean > 1e-12:
                assert float(row[-1]) == pytest.approx(here / mean, abs=6e-4)
            else:
                assert row[-1] == "none"


@browser
def test_every_control_changes_what_is_shown(open_page):
    reader = Reader(open_page(KernelViewer()).page)
    reader.is_()
    assert reader.root.get_by_label("seed", exact=True).first.is_hidden()
    options = dict(maps=["elu_plus_one", "dpfp", "taylor"])
    for label, name, value in [
            ("direction of q", "turn", 250), ("k from q", "angle", -85),
            ("length of q", "q_length", 1.4), ("length of k", "k_length", 2)]:
        reader.slide(label, value)
        options[name] = value
        reader.is_(**options)
    reader.root.get_by_role("checkbox", name="DPFP").uncheck()
    reader.root.get_by_role("checkbox", name="positive random").check()
    options["maps"] = ["elu_plus_one", "taylor", "positive"]
    reader.is_(**options)
    reader.write("random rows m", "5")
    reader.write("seed", "77")
    reader.is_(**options | dict(features=5, seed=77))
    reader.root.get_by_label("Along").select_option("length")
    reader.is_(**options | dict(features=5, seed=77, along="length"))
    reader.root.get_by_label("Show").select_option("value")
    assert reader.root.locator(".lt-title").inner_text() == "κ(q, k)"
    assert reader.root.locator("polyline").count() >= 4
    reader.root.get_by_role("button", name="Reset").click()
    reader.is_()


@browser
def test_no_mean_is_said_and_nothing_breaks(open_page):
    """All of ReLU's features vanish for a query below zero."""
    page = open_page(KernelViewer(maps=["relu"], turn=225)).page
    reader = Reader(page)
    assert "ReLU: the weights sum to zero or less" in reader.says()
    reader.is_(maps=["relu"], turn=225)
    for label in ("length of q", "length of k"):
        reader.slide(label, 0)
    assert "NaN" not in reader.root.inner_text()
    why, before = reader.root.get_by_role("alert"), reader.says()
    reader.root.get_by_role("checkbox", name="trigonometric random").check()
    for label, text in [("random rows m", "0"), ("random rows m", "65"),
                        ("random rows m", "x"), ("seed", "-1"),
                        ("seed", "1e9")]:
        box = reader.write(label, text)
        assert "must be a whole number" in why.inner_text()
        assert box.get_attribute("aria-invalid") == "true"
    assert before[:4] == reader.says()[:4]
    page.evaluate("document.querySelector('.lintut-widget').model"
                  ".set('q_length', 1e9)")              # as a kernel might
    assert "cannot be used" in reader.says()


@browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_and_axe(open_page, theme):
    axe = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        skip_or_fail("axe-core is not installed: run make book")
    page = open_page(KernelViewer(MAPS, q_length=3, k_length=3), theme=theme,
                     width=390, motion=False).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    Reader(page).write("seed", "abc")
    page.evaluate(axe.read_text(encoding="utf-8"))
    assert page.evaluate("axe.run().then((r) => r.violations.map((v) =>"
                         " [v.id, v.nodes.map((n) => n.html)]))") == []


def test_repr_and_still():
    widget = KernelViewer(["relu", "taylor"], q_length=1, k_length=1)
    assert repr(widget) == ("KernelViewer(maps=['relu', 'taylor'], "
                            "along='angle')")
    # q·k = cos 60°: Taylor gives 1 + 1/2 + 1/8, exp √e
    assert "<td>1.625</td>" in widget.still()
    assert "<td>1.649</td>" in widget.still()
    assert "<td>none</td>" in KernelViewer(["relu"], turn=225).still()


@pytest.mark.parametrize("bad, name", [
    ({"maps": ["gelu"]}, "maps"), ({"along": "x"}, "along"),
    ({"measure": 1}, "measure"), ({"turn": 361}, "turn"),
    ({"angle": -181}, "angle"), ({"q_length": 4}, "q_length"),
    ({"k_length": float("nan")}, "k_length"), ({"features": 0}, "features"),
    ({"seed": 1.5}, "seed")])
def test_bad_arguments_are_refused_by_name(bad, name):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        KernelViewer(**bad)
