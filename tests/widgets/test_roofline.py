"""The roofline widget says what lintut.cost and lintut.hardware say."""

import random

import pytest

from lintut import hardware
from lintut.widgets import Roofline
from lintut.widgets.roofline import MECHANISMS

browser = pytest.mark.browser
IMPORT = """const blob = new Blob([text], {type: "text/javascript"});
            const module = await import(URL.createObjectURL(blob));"""


@pytest.fixture
def live(open_page):
    def start(widget=None, **options):
        page = open_page(widget or Roofline(), **options).page
        page.wait_for_selector('.lintut-widget[data-live="yes"]',
                               timeout=30_000)
        return page
    return start


@browser
def test_times_are_those_of_lintut(live):
    page, draw = live(), random.Random(8)
    for _ in range(12):
        name = draw.choice(list(hardware.DEVICES))
        dtype = draw.choice([t for t in ("float32", "tf32", "float16",
                                         "bfloat16")
                             if getattr(hardware.DEVICES[name], t)])
        widget = Roofline(device=name, dtype=dtype, N=draw.randint(1, 5000),
                          d=draw.randint(1, 300), C=draw.randint(1, 300),
                          rows=draw.randint(1, 40))
        got = page.evaluate(
            f"async ([text, formulas, devices, sizes, name, dtype]) => "
            f"{{ {IMPORT} const row = devices[name]; "
            "return Object.fromEntries(Object.entries(formulas).map(([k, f]) "
            "=> [k, module.roofline(module.work(f, sizes, dtype, row.shared),"
            " row, dtype)])); }",
            [Roofline._esm, widget.formulas, widget.devices, widget.sizes,
             name, dtype])
        for label, time in widget.times().items():
            assert got[label]["seconds"] == pytest.approx(time.seconds), label
            assert got[label]["wall"] == time.wall, (label, widget)
            assert got[label]["intensity"] == pytest.approx(time.intensity)
    assert set(got) == set(MECHANISMS)


RECORD = {"hardware": {"gpu": "NVIDIA H200"},
          "settings": {"dtype": "bfloat16"},
          "rows": [{"pass": what, "mechanism": "linear", "name": name,
                    "d": 64, "T": 2048, "flops": 3e10, "bytes": 4e8, **took}
                   for what, name, took in [
                       ("forward", "lintut triton", {"seconds": 2e-4}),
                       ("forward", "lintut torch", {"skipped": "no room"}),
                       ("forward", "fla", {"seconds": 3e-4}),
                       ("decode", "lintut triton", {"seconds": 1e-5})]]}


@browser
def test_a_record_is_drawn_where_it_was_measured(live):
    assert Roofline().points == []
    widget = Roofline(recorded=RECORD)
    assert widget.points == [{
        "device": "H200", "dtype": "bfloat16", "mechanism": "linear, chunks",
        "intensity": 75.0, "rate": pytest.approx(1.5e14),
        "label": "d=64, N=2,048"}]
    page = live(widget)
    plot = page.locator(".lt-plot")
    assert "d=64, N=2,048" not in plot.text_content()
    page.get_by_label("GPU").select_option("H200")
    page.get_by_label("dtype").select_option("bfloat16")
    assert "d=64, N=2,048" in plot.text_content()
    assert "are measured" in page.locator(".lt-cost").inner_text()


@browser
def test_it_works_and_refuses(live):
    page = live(width=390)
    root = page.locator(".lt")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    before = root.locator(".lt-says").inner_text()
    page.get_by_label("dtype").select_option("bfloat16")
    assert "T4 (compute capability 7.5) has no bfloat16" in root.locator(
        ".lt-why").inner_text()
    assert root.locator(".lt-says").inner_text() == before
    for label, text in [("length N", "0"), ("width d = dᵥ", "many"),
                        ("chunk C", "-4"), ("batch · heads", "99999999999")]:
        page.get_by_label(label, exact=True).fill(text)
        page.keyboard.press("Tab")
        assert f"{label} must be a whole number" in root.locator(
            ".lt-why").inner_text()
        assert root.locator(".lt-says").inner_text() == before
    page.get_by_label("GPU").select_option("H200")
    page.get_by_label("dtype").select_option("bfloat16")
    page.get_by_label("mechanism", exact=True).select_option("FlashAttention")
    page.get_by_label("length N, a power of two").focus()
    page.keyboard.press("ArrowRight")
    assert root.locator(".lt-says").inner_text().startswith(
        "FlashAttention on H200, bfloat16: at least")
    page.get_by_label("length N", exact=True).fill("1")
    page.keyboard.press("Tab")
    assert "NaN" not in root.inner_text()


def test_repr_still_and_arguments():
    widget = Roofline()
    assert "device='T4'" in repr(widget)
    time = widget.times()["linear, chunks"]
    assert f"<td>{time.seconds * 1e3:.3g} ms</td>" in widget.still()
    for bad, name in ((dict(device="GTX"), "device"), (dict(N=0), "N"),
                      (dict(mechanism="x"), "mechanism"),
                      (dict(dtype="int8"), "dtype"), (dict(rows=0), "rows"),
                      (dict(C=5000), "C")):
        with pytest.raises(ValueError, match=f"^{name} must"):
            Roofline(**bad)
    with pytest.raises(ValueError, match="T4 .* has no bfloat16"):
        Roofline(dtype="bfloat16")
