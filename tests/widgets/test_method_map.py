"""The map says something of every method and of every pair of them."""

from itertools import permutations

import pytest

from lintut.widgets import MethodMap, method_map
from lintut.widgets.method_map import METHODS, PARTS, together


def test_every_pair_has_a_verdict_and_a_reason():
    assert method_map.missing() == []
    for a, b in permutations(METHODS, 2):
        verdict, why = together(a, b)
        assert verdict in ("yes", "no", "idea", "one") and why.endswith(".")
        assert (verdict, why) == together(b, a)


def test_methods_touch_known_parts():
    for label, kind, touches in METHODS.values():
        assert touches and set(touches) <= set(PARTS)


def test_a_name_that_is_none_is_refused():
    with pytest.raises(ValueError, match="first must be one of"):
        MethodMap(first="mamba")
    with pytest.raises(ValueError, match="second must be one of"):
        MethodMap(second="mamba")


@pytest.mark.browser
def test_the_page_says_what_python_says(open_page):
    page = open_page(MethodMap(), width=390).page
    page.wait_for_selector('.lintut-widget[data-live="yes"]', timeout=30_000)
    for a, b in permutations(METHODS, 2):
        page.get_by_label("method", exact=True).select_option(a)
        page.get_by_label("together with").select_option(b)
        says = page.locator(".lt-says").inner_text()
        assert says.endswith(together(a, b)[1])
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_label("together with").select_option("")
    assert page.locator(".lt-says").inner_text().startswith(
        f"{METHODS[a][0]} changes ")
