"""The host that runs widgets in a page, with modules made for the purpose."""

import pytest
from browser import serve
from conftest import page

from lintut.widgets import Stepper

pytestmark = pytest.mark.browser

COUNTER = """
export default { async render({ model, el }) {
  const button = document.createElement("button");
  const draw = () => { button.textContent = `n = ${model.get("n")}`; };
  button.addEventListener("click", () => {
    model.set("n", model.get("n") + 1);
    model.save_changes();
  });
  model.on("change:n", draw);
  draw();
  el.append(button);
} };"""


def place(name, state):
    return (f'<div class="lintut-widget" data-widget="{name}" '
            f"data-state='{state}'><table class=\"lintut-still\"><tr><td>still"
            "</td></tr></table></div>")


@pytest.fixture
def counters(open_page):
    tab = open_page(place("counter", '{"n": 1}'), place("counter", '{"n": 7}'),
                    modules={"counter": COUNTER})
    tab.page.wait_for_function(
        "document.querySelectorAll('[data-live=yes]').length === 2")
    return tab.page


def test_two_widgets_keep_their_own_state(counters):
    first, second = counters.get_by_role("button").all()
    first.click()
    first.click()
    second.click()
    assert (first.inner_text(), second.inner_text()) == ("n = 3", "n = 8")


def test_the_model_is_anywidgets(counters):
    assert counters.evaluate("""() => {
      const { model } = document.querySelector(".lintut-widget");
      const log = [];
      const listen = (m, value) => log.push(["n", m === model, value]);
      const any = () => log.push(["change"]);
      model.on("change:n change:m", listen);
      model.on("change", any);
      model.set("n", 5);
      model.set("n", 5);                  // no change, no event
      model.set("m", [1]);
      model.set("m", [1]);
      model.off("change:n", listen);
      model.set("n", 6);
      model.off("change:m");
      model.off("change", any);
      model.set("m", [2]);
      log.push([model.get("n"), model.get("m"), model.save_changes() ?? 0]);
      model.off();
      model.set("n", 9);
      return [log, document.querySelector(".lintut-live").textContent];
    }""") == [[["n", True, 5], ["change"], ["n", True, [1]], ["change"],
               ["change"], [6, [2], 0]], "n = 6"]


def test_the_still_shows_in_print_alone(counters):
    still, live = (counters.locator(f".lintut-{part}").first
                   for part in ("still", "live"))
    assert live.is_visible() and not still.is_visible()
    counters.emulate_media(media="print")
    assert still.is_visible() and not live.is_visible()


@pytest.mark.parametrize("module, words", [
    ("export default {{{", "could not start here"),
    ("export default { render() { throw Error('on purpose'); } };",
     "could not start here (on purpose)"),
    ("export default { async render() { throw Error('later'); } };",
     "could not start here (later)")])
def test_a_failing_widget_leaves_its_table(open_page, module, words):
    tab = open_page(place("bad", "{}"), place("counter", '{"n": 1}'),
                    modules={"bad": module, "counter": COUNTER})
    tab.page.get_by_text("n = 1").wait_for()
    tab.page.get_by_text(words).wait_for()
    assert tab.page.locator(".lintut-still").first.is_visible()


def test_bad_state_and_unknown_widgets_leave_the_table(open_page):
    tab = open_page(place("counter", "{n"), place("unknown", "{}"),
                    modules={"counter": COUNTER})
    tab.page.get_by_text("could not start here").wait_for()
    assert all(still.is_visible()
               for still in tab.page.locator(".lintut-still").all())


def test_without_javascript_the_table_is_there(open_page):
    tab = open_page(Stepper(), javascript=False)
    assert tab.page.get_by_text("[10/6, 7/6]").is_visible()


def test_over_http_and_registered_before_the_page_is_parsed(new_tab,
                                                             tmp_path):
    text = page(Stepper(step=6))
    body = text.index("<main>")
    scripts = text.index("<script>")
    text = (text[:body] + text[scripts:text.index("</body>")]
            + text[body:scripts] + "</body></html>")
    (tmp_path / "index.html").write_text(text, encoding="utf-8")
    with serve(tmp_path) as address:
        tab = new_tab()
        tab.page.goto(address)
        tab.page.get_by_text("Both roads give").wait_for()
        assert "favicon" not in str(tab.errors) or tab.errors.clear() is None


def test_two_steppers_on_one_page(open_page):
    tab = open_page(Stepper(step=1), Stepper(step=6))
    first, second = tab.page.locator(".lt").all()
    first.get_by_role("button", name="Next", exact=True).click()
    first.get_by_label("v, token 1, entry 1").fill("9")
    first.get_by_label("v, token 1, entry 1").press("Enter")
    assert "o₁ = [18/2, 0/2]" in first.inner_text()
    assert "o₃ = [10/6, 7/6]" in second.inner_text()
