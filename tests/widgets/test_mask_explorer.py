"""The mask explorer: its masks and graphs against lintut, and its reader."""

import numpy as np
import pytest
from browser import skip_or_fail
from conftest import ROOT

from lintut import reach
from lintut.reference import bigbird, longformer
from lintut.widgets import MaskExplorer, assets

LOAD = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  window.lt = await import(URL.createObjectURL(blob));
}"""
RUN = """(options) => {
  const kinds = lt.kinds(options), range = [...kinds.keys()];
  return { kinds, counts: lt.counts(kinds, options.causal),
           hops: range.map((i) => lt.hops(kinds, i)),
           shares: range.map((i) => lt.shares(kinds, i, options.depth)) };
}"""


@pytest.fixture
def js(new_tab):
    page = new_tab().page
    page.evaluate(LOAD, assets.module("mask_explorer"))
    return lambda widget: page.evaluate(RUN, widget.state())


def check_graph(got, seen, causal, depth):
    hops = reach.hops(seen)
    assert [[-1 if x is None else x for x in row] for row in got["hops"]] == (
        hops.tolist())
    assert np.allclose(got["shares"], reach.shares(seen, depth), atol=1e-12)
    may = np.tri(len(seen), dtype=bool) if causal else np.full_like(seen, True)
    counts = got["counts"]
    assert counts["pairs"] == seen.sum()
    assert counts["all"] == may.sum()
    assert counts["most"] == seen.sum(-1).max()
    never = (hops[may] < 0).any()
    assert counts["layers"] == (np.inf if never else hops[may].max())


@pytest.mark.browser
def test_windows_and_longformer_are_the_reference(js):
    rng = np.random.default_rng(0)
    for case in range(24):
        N = int(rng.integers(2, 40))
        window, dilation, depth = (int(x) for x in rng.integers(1, 9, 3))
        chosen = rng.choice(N, int(rng.integers(0, min(N, 4))), replace=False)
        pattern = ("window", "longformer")[case % 2]
        causal = bool(case // 2 % 2)
        got = js(MaskExplorer(pattern, N, window, dilation, chosen, depth=depth,
                              causal=causal))
        used = chosen if pattern == "longformer" else []
        seen = longformer.mask(N, window, used, causal, dilation)
        kinds = np.array(got["kinds"])
        assert np.array_equal(kinds > 0, seen)
        near = longformer.mask(N, window, [], causal, dilation)
        assert np.array_equal(kinds == 1, near)
        check_graph(got, seen, causal, depth)


@pytest.mark.browser
def test_bigbird_is_the_reference_but_for_the_draw(js):
    rng = np.random.default_rng(1)
    for case in range(24):
        N = int(rng.integers(2, 60))
        size, w, depth = (int(x) for x in rng.integers(1, 7, 3))
        g, r, seed = (int(x) for x in rng.integers(0, 4, 3))
        r, causal = r * (case % 2), bool(case // 2 % 2)
        got = js(MaskExplorer("bigbird", N, block_size=size, n_window=w,
                              n_global=g, n_random=r, seed=seed, depth=depth,
                              causal=causal))
        kinds = np.array(got["kinds"])
        fixed = bigbird.mask(N, size, w, g, 0, seed, causal)
        assert np.array_equal(kinds % 3 > 0, fixed)     # 3 is random
        blocks = bigbird.connections(-(-N // size), w, g, r, seed, causal)
        drawn = [len(set(np.flatnonzero(row) // size)) for row in kinds]
        assert drawn == [len(blocks[i // size]) for i in range(N)]
        check_graph(got, kinds > 0, causal, depth)


@pytest.mark.browser
def test_the_seed_decides_the_random_blocks(js):
    def random(seed):
        return np.array(js(MaskExplorer(
            "bigbird", 48, block_size=2, n_random=2, causal=False,
            seed=seed))["kinds"]) == 3

    draws = [random(seed) for seed in range(8)]
    assert np.array_equal(draws[3], random(3))
    assert len({draw.tobytes() for draw in draws}) == 8
    mean = np.mean(draws, axis=0)       # not always the same far blocks
    assert mean.max() < 1 and (mean > 0).mean() > 0.3


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

    def facts(self):
        return self.root.locator(".lt-facts td").all_inner_texts()


@pytest.mark.browser
def test_what_is_shown_and_how_it_is_chosen(open_page):
    reader = Reader(open_page(MaskExplorer(window=4, depth=3)).page)
    assert "Token 23 sees 4 tokens in one layer and hears 10 in 3" in (
        reader.says())
    assert "farthest is token 14" in reader.says()
    assert "1.6%" in reader.says()                      # 1/64
    assert reader.page.evaluate("""async (text) => { const blob = new Blob(
        [text], { type: "text/javascript" }); const lt = await import(
        URL.createObjectURL(blob)); return [0.5, 0.0312, 4 ** -8].map(
        lt.percent); }""", assets.module("mask_explorer")) == [
            "50%", "3.1%", "2·10⁻³%"]
    assert reader.facts() == ["90 of 300 (30%)", "4", "8"]
    slider = reader.root.get_by_label("Token", exact=True)
    slider.focus()
    for key, token in [("ArrowLeft", 22), ("Home", 0), ("ArrowLeft", 0),
                       ("ArrowRight", 1), ("End", 23), ("ArrowRight", 23)]:
        reader.page.keyboard.press(key)
        assert f"Token {token} sees" in reader.says()
    for picture, place, token in [(0, (.5, .26), 6), (1, (.26, .5), 6),
                                  (0, (.01, .01), 0), (1, (.99, .9), 23)]:
        drawing = reader.root.get_by_role("img").nth(picture)
        box = drawing.bounding_box()
        drawing.click(position={"x": place[0] * box["width"],
                                "y": place[1] * box["height"]})
        assert f"Token {token} sees" in reader.says()
    reader.root.get_by_label("causal").uncheck()
    assert reader.facts()[0].startswith("92 of 576")    # 4·24 less 2+1+1
    reader.press("Less: window w")
    assert "Token 23 sees 2 tokens" in reader.says()
    reader.press("Reset")
    assert reader.facts() == ["90 of 300 (30%)", "4", "8"]


@pytest.mark.browser
def test_each_pattern_has_its_own_fields(open_page):
    reader = Reader(open_page(MaskExplorer()).page)
    boxes = reader.root.locator("input[type=text]:visible")

    def labels():
        return [box.get_attribute("aria-label") for box in boxes.all()]

    assert labels() == ["tokens N", "layers L", "window w", "dilation"]
    choose = reader.root.get_by_label("Pattern")
    choose.select_option("longformer")
    assert labels()[4:] == ["Global positions"]
    reader.root.get_by_label("causal").uncheck()
    reader.write("layers L", "2")
    assert "hears 24 in 2 layers" in reader.says()      # through token 0
    reader.write("Global positions", "20 3,20")
    assert boxes.last.input_value() == "3, 20"
    reader.write("tokens N", "10")
    assert boxes.last.input_value() == "3"
    assert "Token 9 sees" in reader.says()
    reader.write("Global positions", "")
    choose.select_option("bigbird")
    assert labels()[2:] == ["block size", "window blocks", "global blocks",
                            "random blocks", "seed"]


@pytest.mark.browser
def test_bad_input_is_refused_in_place(open_page):
    reader = Reader(open_page(MaskExplorer("longformer")).page)
    before, why = reader.says(), reader.root.get_by_role("alert")
    for label in ("tokens N", "layers L", "window w", "dilation"):
        for text in ("abc", "", "0", "-3", "65", "9" * 30, "1.5", "1e3"):
            box = reader.write(label, text)
            assert "must be a whole number from" in why.inner_text()
            assert "It stays" in why.inner_text()
            assert box.get_attribute("aria-invalid") == "true"
            assert reader.says() == before
        reader.press(f"More: {label}")
        reader.press(f"Less: {label}")
        assert why.inner_text() == "" and reader.says() == before
    for text in ("24", "-1", "a", "1.5"):
        reader.write("Global positions", text)
        assert "whole numbers from 0 to 23" in why.inner_text()
        assert reader.says() == before
    reader.page.evaluate("document.querySelector('.lintut-widget').model"
                         ".set('window', 0)")           # as a kernel might
    assert "cannot be used: window w is 0" in reader.says()


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_and_axe(open_page, theme):
    axe = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        skip_or_fail("axe-core is not installed: run make book")
    page = open_page(MaskExplorer("bigbird", 64, depth=9),
                     MaskExplorer("longformer"), theme=theme, width=390,
                     motion=False).page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    Reader(page).root.nth(1).get_by_role(
        "textbox", name="window w").fill("abc")
    page.keyboard.press("Enter")
    page.evaluate(axe.read_text(encoding="utf-8"))
    assert page.evaluate("axe.run().then((r) => r.violations.map((v) =>"
                         " [v.id, v.nodes.map((n) => n.html)]))") == []


def test_repr_and_still():
    widget = MaskExplorer(depth=3)
    assert repr(widget) == (
        "MaskExplorer(pattern='window', N=24, causal=True)")
    still = widget.still()
    for depth, heard, far, share in [(1, 4, 20, "25%"), (2, 7, 17, "6.2%"),
                                     (3, 10, 14, "1.6%")]:
        assert (f'<th scope="row">{depth}</th><td>{heard}</td><td>{far}</td>'
                f"<td>{share}</td>") in still
    assert "as NumPy draws" in MaskExplorer("bigbird").still()


@pytest.mark.parametrize("bad, name", [
    ({"pattern": "full"}, "pattern"), ({"N": 1}, "N"), ({"N": 65}, "N"),
    ({"N": 2.5}, "N"), ({"window": 0}, "window"), ({"dilation": 0}, "dilation"),
    ({"global_positions": [24]}, "global_positions"),
    ({"global_positions": "0"}, "global_positions"),
    ({"block_size": 0}, "block_size"), ({"n_window": 0}, "n_window"),
    ({"n_global": -1}, "n_global"), ({"n_random": -1}, "n_random"),
    ({"seed": -1}, "seed"), ({"depth": 0}, "depth"), ({"token": 24}, "token"),
    ({"causal": 1}, "causal")])
def test_bad_arguments_are_refused_by_name(bad, name):
    with pytest.raises(ValueError, match=rf"^{name} must"):
        MaskExplorer(**bad)
