"""The chunk dial counts what lintut.cost counts, and finds the least."""

import math
import random

import pytest

from lintut.widgets import ChunkDial

browser = pytest.mark.browser
IMPORT = """const blob = new Blob([text], {type: "text/javascript"});
            const module = await import(URL.createObjectURL(blob));"""


@pytest.fixture
def live(open_page):
    def start(widget=None, **options):
        page = open_page(widget or ChunkDial(), **options).page
        page.wait_for_selector('.lintut-widget[data-live="yes"]',
                               timeout=30_000)
        return page
    return start


@browser
def test_counts_are_those_of_lintut_cost(live):
    page, draw = live(), random.Random(13)
    sizes = [dict(N=draw.randint(1, 3000), d=draw.randint(1, 100),
                  d_v=draw.randint(1, 100), C=draw.randint(1, 400))
             for _ in range(20)] + [dict(N=7, d=3, d_v=5, C=400)]
    got = page.evaluate(
        f"async ([text, all]) => {{ {IMPORT} return all.map((s) => "
        "module.costs(s)); }", [ChunkDial._esm, sizes])
    for s, js in zip(sizes, got):
        c = ChunkDial(**s).cost(s["C"])
        assert js["pairs"] == c.pairs, s
        assert js["inside"] + js["between"] == c.prefill_products, s
        assert js["other"] == c.prefill_other, s
        assert js["moved"] * 4 == c.bytes_moved, s
        assert js["saved"] * 4 == c.saved_bytes, s
        assert js["state"] == c.state_elements, s


@browser
def test_the_optimum_is_the_least_and_near_the_formula(live):
    page, draw = live(), random.Random(5)
    for _ in range(6):
        s = dict(N=draw.randint(500, 3000), d=draw.randint(8, 90),
                 d_v=draw.randint(8, 90), C=1)
        speed = dict(rate=draw.uniform(1, 100), wait=draw.uniform(0, 30))
        got = page.evaluate(
            f"async ([text, s, speed]) => {{ {IMPORT} "
            "const total = (C) => module.times({...s, C}, speed).total;"
            "return [module.optimum(s, speed), total(s.N), total(1)]; }",
            [ChunkDial._esm, s, speed])
        found, triangle, loop = got
        wait = speed["wait"] * speed["rate"] * 1e3

        def seconds(C):
            c = ChunkDial(**s).cost(C)
            return (c.prefill_flops + -(-s["N"] // C) * wait
                    ) / speed["rate"] / 1e9
        best = min(range(1, s["N"] + 1), key=seconds) if s["N"] < 900 else (
            found["best"])
        assert found["best"] == best
        assert seconds(s["N"]) == pytest.approx(triangle)
        assert seconds(1) == pytest.approx(loop)
        d, d_v = s["d"], s["d_v"]
        assert found["formula"] == pytest.approx(math.sqrt(
            (d * (d_v + 1) + wait) / (2 * (d + d_v + 1))))
        # Within the rounding of N/C to whole chunks.
        near = min(s["N"], max(1, round(found["formula"])))
        assert seconds(found["best"]) <= seconds(near)
        assert seconds(near) <= 1.1 * seconds(found["best"])


@browser
def test_it_works_and_refuses(live):
    page = live(ChunkDial(N=1024), width=390)
    root = page.locator(".lt")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_label("chunk C, a power of two").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_label("chunk C", exact=True).input_value() == "128"
    page.get_by_role("button", name="Go to the optimum").click()
    before = root.locator(".lt-says").inner_text()
    for label, text in [("chunk C", "0"), ("length N", "x"),
                        ("length N", "99999999999"), ("width d", "-1"),
                        ("rate, GFLOP/s", ""), ("rate, GFLOP/s", "0"),
                        ("wait a step, µs", "1e9"), ("wait a step, µs", ".")]:
        page.get_by_label(label, exact=True).fill(text)
        page.keyboard.press("Tab")
        assert f"{label} must be" in root.locator(".lt-why").inner_text()
        assert root.locator(".lt-says").inner_text() == before
    for label, text in [("length N", "1"), ("length N", "65536"),
                        ("wait a step, µs", "0"), ("width d", "1024")]:
        page.get_by_label(label, exact=True).fill(text)
        page.keyboard.press("Tab")
        assert "NaN" not in root.inner_text()
        assert "Infinity" not in root.inner_text()


def test_repr_still_and_arguments():
    assert repr(ChunkDial()) == "ChunkDial(N=4096, C=64, d=64, d_v=64)"
    assert "<td>64</td>" in ChunkDial().still()
    for bad in (dict(N=0), dict(C=0), dict(d=2000), dict(rate=0),
                dict(wait=-1), dict(d_v=1.5)):
        with pytest.raises(ValueError, match=f"^{next(iter(bad))} must"):
            ChunkDial(**bad)
