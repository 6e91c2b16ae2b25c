"""Reset puts a widget back to what its notebook opened it with."""

import pytest

from lintut.widgets import (Chooser, ChunkDial, CostExplorer, Roofline,
                            WeightsViewer)

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("widget, label, other", [
    (CostExplorer(N=777), "length N", "888"),
    (Roofline(N=777), "length N", "888"),
    (ChunkDial(N=777), "length N", "888"),
    (Chooser(), "facts n", "12"),
    (WeightsViewer(n=7, gamma=.5), "γ", "0.25"),
])
def test_reset(open_page, widget, label, other):
    page = open_page(widget).page
    page.wait_for_selector('.lintut-widget[data-live="yes"]', timeout=30_000)
    field = page.get_by_label(label, exact=True).first
    says, opened = page.get_by_role("status"), field.input_value()
    words = says.inner_text()
    for text, refused in ((other, False), ("many", True)):
        field.fill(text)
        field.press("Enter")
        field.blur()
        assert (field.get_attribute("aria-invalid") == "true") == refused
    assert page.get_by_role("alert").inner_text()
    page.get_by_role("button", name="Reset").click()
    assert field.input_value() == opened != other
    assert says.inner_text() == words
    assert field.get_attribute("aria-invalid") != "true"
    assert not page.get_by_role("alert").inner_text()
