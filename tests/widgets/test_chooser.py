"""The chooser's costs are lintut.cost's; its verdicts, Python's."""

import random
import re

import pytest

from lintut import cost, hardware
from lintut.widgets import Chooser, chooser

NEEDS = list(chooser.NEEDS)


def draw(random):
    sizes = dict(N=random.choice([1, 7, 300, 4096, 30_000]),
                 d=random.randint(1, 128), heads=random.randint(1, 9),
                 layers=random.randint(1, 9), batch=random.randint(1, 4),
                 w=random.randint(1, 2000), n=random.randint(1, 300))
    limits = {name: random.choice([None, 10 ** random.randint(0, 5)])
              for name in chooser.LIMITS}
    needs = [need for need in NEEDS if random.random() < .5]
    return Chooser(needs, random.choice(list(hardware.DEVICES)), **limits,
                   **sizes)


# ---- Python ----

def test_every_candidate_has_a_verdict_on_every_need():
    widget = Chooser()
    assert set(chooser.FACTS) == set(chooser.PARTS) == set(chooser.NAMES)
    for name in chooser.NAMES:
        for need in NEEDS:
            verdict, why = widget.verdict(name, need)
            assert verdict in ("yes", "part", "no") and why.endswith(".")


def test_mixed_candidates_are_the_sum_of_their_layers():
    s = dict(N=5000, d=32, w=100)
    widget = Chooser(heads=4, layers=10, **s)
    shared = hardware.device("A100-80").shared

    def of(name, form=None, heads=1):
        return cost.of(name, form, heads=4 * heads, on_chip=shared, **s)

    full, rule = of("flash"), of("gated_delta", "chunkwise")
    for metric, value in widget.costs("mixed_full").items():
        assert value == 3 * getattr(full, metric) + 7 * getattr(rule, metric)
    both = cost.of("hybrid", heads=4, window_heads=2, **s)
    for metric, value in widget.costs("hybrid").items():
        assert value == 10 * getattr(both, metric)
    near = of("sliding_window")
    assert widget.costs("mixed_window")["state_bytes"] == (
        5 * near.state_bytes + 5 * rule.state_bytes)


def test_python_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="needs among"):
        Chooser(["speed"])
    with pytest.raises(ValueError, match="sizes must be among"):
        Chooser(window=3)
    with pytest.raises(ValueError, match="N must be at least 1"):
        Chooser(N=0)
    with pytest.raises(ValueError, match="memory must be at most"):
        Chooser(memory=10 ** 10)
    with pytest.raises(ValueError, match="device must be one of"):
        Chooser(device="V100")


def test_the_still_says_every_verdict():
    text = Chooser().still()
    assert text.count("<tr>") == 1 + len(chooser.NAMES)
    assert "no: give back any one of n facts" in text and "800" in text


# ---- the page ----

browser = pytest.mark.browser
ASSESS = """async ([text, all]) => {
  const blob = new Blob([text], {type: "text/javascript"});
  const { assess, misses, fits } = await import(URL.createObjectURL(blob));
  return all.map((state) => {
    const got = assess(state, state, state.devices[state.device]);
    return [got, misses(got), fits(got)];
  });
}"""


@pytest.fixture
def live(open_page):
    def start(widget=None, **options):
        page = open_page(widget or Chooser(), **options).page
        page.wait_for_selector('.lintut-widget[data-live="yes"]',
                               timeout=30_000)
        return page
    return start


@browser
def test_costs_and_verdicts_are_pythons(new_tab):
    rng = random.Random(14)
    widgets = [draw(rng) for _ in range(25)]
    page = new_tab().page
    results = page.evaluate(ASSESS, [Chooser._esm,
                                     [w.state() for w in widgets]])
    kinds = set()
    for widget, (got, misses, fits) in zip(widgets, results):
        assert sorted(misses + fits) == sorted(chooser.NAMES)
        for name, (costs, broken, minded) in widget.assess().items():
            one = got[name]
            assert {key: one["costs"][key] for key in costs} == costs
            assert [b["what"] for b in one["broken"]] == broken
            assert [m["what"] for m in one["minded"]] == minded
            assert (name in fits) == (not broken)
            kinds |= {"broken"} if broken else {"fits"}
        number = [len(got[name]["broken"]) for name in misses]
        assert number == sorted(number)
        states = [got[name]["costs"]["state_bytes"] for name in fits]
        states = [x for x in states if x is not None]
        assert states == sorted(states)
    assert kinds == {"broken", "fits"}


@browser
def test_reasons_nearest_miss_and_a_phone(live):
    page = live(Chooser(["causal", "recall"], memory=700), width=390)
    says = page.locator(".lt-says").inner_text()
    assert says.startswith("Nothing fits. Nearest miss: 1 full layer in 4")
    assert "770 MiB, 1.10 times the limit." in says
    assert "Its slots mix the whole sequence" in (
        page.locator(".lt-reads").last.inner_text())
    page.get_by_label("between two tokens, MiB", exact=True).fill("800")
    page.keyboard.press("Tab")
    assert "1 of 15 fit" in page.locator(".lt-says").inner_text()
    page.get_by_label("give back any one").uncheck()
    assert re.match(r"1\d of 15 fit", page.locator(".lt-says").inner_text())
    page.get_by_label("what for").select_option("facts that change")
    assert page.get_by_label("drop old context").is_checked()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@browser
def test_bad_sizes_are_refused_in_place(live):
    page = live()
    before = page.locator("table.lt-picture").inner_text()
    for typed in ("", "0", "-3", "many", "2.5", "99999999999"):
        page.get_by_label("heads", exact=True).fill(typed)
        page.keyboard.press("Tab")
        assert "heads must be a whole number from 1" in (
            page.locator(".lt-why").inner_text())
        assert page.locator("table.lt-picture").inner_text() == before
