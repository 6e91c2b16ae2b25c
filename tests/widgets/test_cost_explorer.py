"""The cost explorer says what lintut.cost says, at any sizes."""

import random

import pytest

from lintut import cost
from lintut.widgets import CostExplorer

METRICS = ("prefill_flops", "bytes_moved", "decode_flops", "decode_bytes",
           "state_bytes")


pytestmark = pytest.mark.browser


@pytest.fixture
def live(open_page):
    """live(widget, **options): its page, once it runs."""
    def start(widget=None, **options):
        page = open_page(widget or CostExplorer(), **options).page
        page.wait_for_selector('.lintut-widget[data-live="yes"]',
                               timeout=30_000)
        return page
    return start


def test_formulas_agree_with_lintut_cost(live):
    page = live()
    draw = random.Random(3)
    for _ in range(12):
        sizes = dict(N=draw.randint(1, 5000), d=draw.randint(1, 200),
                     d_v=draw.randint(1, 200), r=draw.randint(1, 300),
                     w=draw.randint(1, 600), m=draw.randint(1, 300),
                     C=draw.randint(1, 200), heads=draw.randint(1, 9),
                     batch=draw.randint(1, 5))
        widget = CostExplorer(**sizes)
        got = page.evaluate(
            """async ([text, formulas, sizes]) => {
                 const blob = new Blob([text], {type: "text/javascript"});
                 const { costs } = await import(URL.createObjectURL(blob));
                 return costs(formulas, sizes);
               }""",
            [CostExplorer._esm, widget.formulas, widget.sizes | {"bytes": 2}])
        for name, c in widget.costs().items():
            for metric in METRICS:
                assert got[name][metric] == getattr(c, metric), (
                    name, metric, sizes)


def test_the_table_and_the_crossings(live):
    page = live(CostExplorer(N=2048, metric="prefill_flops",
                             shown=("softmax", "linear")))
    row = page.locator("tr", has=page.get_by_role(
        "rowheader", name="linear", exact=True))
    assert row.locator("td").last.inner_text() == "8.13 KiB"
    N = cost.crossover(
        lambda N: cost.of("softmax", N=N, d=64).prefill_flops,
        lambda N: cost.of("linear", "chunkwise", N=N, d=64).prefill_flops)
    assert f"From N = {N:,} on, linear takes less than softmax" in (
        page.locator(".lt-reads").inner_text())


def test_any_two_curves_may_cross(live):
    page = live(CostExplorer(N=2048, metric="prefill_flops", w=256,
                             shown=("sliding_window", "gla", "hybrid")))
    said = page.locator(".lt-reads").inner_text()
    N = cost.crossover(
        lambda N: cost.of("sliding_window", N=N, d=64, w=256).prefill_flops,
        lambda N: cost.of("gla", "chunkwise", N=N, d=64).prefill_flops)
    assert f"From N = {N:,} on, GLA takes less than window" in said
    assert "softmax" not in said and "window + linear" in said
    page = live(CostExplorer(N=2048, metric="state_bytes",
                             shown=("linear", "retention")))
    assert page.locator(".lt-reads").inner_text() == "No two curves cross."


@pytest.mark.parametrize("typed", ["", "0", "-3", "many", "1e9", "2.5",
                                   "99999999999"])
def test_bad_sizes_are_refused_in_place(live, typed):
    page = live()
    before = page.locator("table.lt-picture").inner_text()
    page.get_by_label("heads", exact=True).fill(typed)
    page.keyboard.press("Tab")
    assert "heads must be a whole number from 1" in (
        page.locator(".lt-why").inner_text())
    assert page.locator("table.lt-picture").inner_text() == before


def test_keys_presets_and_a_phone(live):
    page = live(width=390)
    page.get_by_label("preset").select_option(label="GPT-3 175B")
    assert "Brown et al. 2020" in page.locator(".lt-explorer").inner_text()
    assert page.get_by_label("heads", exact=True).input_value() == "96"
    page.get_by_label("length N, a power of two").focus()
    page.keyboard.press("ArrowRight")       # the slider doubles it
    assert page.get_by_label("length N", exact=True).input_value() == "4096"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_python_refuses_what_cost_refuses():
    with pytest.raises(ValueError, match="heads must be"):
        CostExplorer(heads=0)
    with pytest.raises(ValueError, match="sizes must be among"):
        CostExplorer(window=3)
    with pytest.raises(ValueError, match="metric must be of"):
        CostExplorer(metric="speed")
