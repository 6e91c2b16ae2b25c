"""The built pages, in a browser: the book itself, and a small one that has
one of each thing that a chapter may hold."""

import gzip
import json
import re
from functools import cache

import pytest

from book import packages, weights

pytestmark = pytest.mark.browser

CHAPTER = "chapters/01-sample.html"
AXE = packages.MODULES / "axe-core" / "axe.min.js"

# Scroll to the end, so that everything that wakes near the view wakes.
SCROLL = """async () => {
  for (let y = 0; y < document.documentElement.scrollHeight; y += 500) {
    scrollTo({top: y, behavior: "instant"});
    await new Promise((done) => requestAnimationFrame(
      () => setTimeout(done, 20)));
  }
  scrollTo({top: 0, behavior: "instant"});
}"""
AWAKE = """() =>
  document.querySelectorAll("figure.lintut-plot").length ===
    document.querySelectorAll("figure.live .main-svg:first-child").length &&
  document.querySelectorAll(".lintut-widget").length ===
    document.querySelectorAll(".lintut-widget[data-live=yes]").length"""


# The book's pages are opened in parts, for the tests to run side by side.
PARTS = 6
BOOK = [(i, PARTS) for i in range(PARTS)]


def opened(html):
    """The pages of a site, but the one that sends the reader to intro.html.
    """
    return sorted(page.relative_to(html).as_posix()
                  for page in html.rglob("*.html")
                  if "_static" not in page.parts
                  and page != html / "index.html")


def part_of(html, i, n):
    return opened(html)[i::n]


@pytest.fixture(params=[("small", 0, 1), *(("book", *part) for part in BOOK)],
                ids=lambda param: f"{param[0]}-{param[1] + 1}of{param[2]}")
def some_pages(request):
    """A site, and a part of its pages."""
    name, *part = request.param
    html = request.getfixturevalue(name)
    return html, part_of(html, *part)


def wake(page):
    """Scroll through, and wait until plots and widgets are live."""
    page.evaluate(SCROLL)
    page.wait_for_function(AWAKE)


# `new_tab` fails a test over console errors and requests to other hosts.

def test_the_root_sends_to_the_intro(site, new_tab):
    page = new_tab().page
    page.goto((site / "index.html").as_uri())
    page.wait_for_url("**/intro.html")


def test_no_page_is_left_out(site):
    assert len(opened(site)) >= 2
    parts = [name for part in BOOK for name in part_of(site, *part)]
    assert sorted(parts) == opened(site)


def test_every_page_from_a_file(some_pages, new_tab):
    html, names = some_pages
    tab, found = new_tab(), {}
    for name in names:
        tab.page.goto((html / name).as_uri())
        wake(tab.page)
        found[name] = faults(tab.page, 1200, "light")
    assert not any(found.values()), json.dumps(found, indent=1)


def test_every_page_below_any_path(some_pages, new_tab, below_a_path):
    """… and what it fetches is what the table of weights says."""
    html, names = some_pages
    address, found = below_a_path(html), {}
    for name in names:                          # a tab each: an empty cache
        page, finished = new_tab(width=390, theme="dark").page, []
        page.on("requestfinished",
                lambda request, finished=finished: finished.append(request))
        page.goto(f"{address}/{name}")
        wake(page)
        fetched = {request.url: request.response().body()
                   for request in finished}
        found[name] = faults(page, 390, "dark")
        page.close()
        assert all(url.startswith(address) for url in fetched)
        total = sum(map(gzipped, fetched.values()))
        weight = weights.of_page(html / name, html)
        assert total <= 1.03 * weight["total"], (name, sorted(fetched))
        assert total <= (weights.PLOT_LIMIT if weight["plots"]
                         else weights.PLAIN_LIMIT)
        assert weight["own scripts"] <= weights.OWN_LIMIT
    assert not any(found.values()), json.dumps(found, indent=1)


@cache
def gzipped(body):
    return len(gzip.compress(body))


def faults(page, width, theme):
    """What is wrong with a page that is awake."""
    found = []
    if page.evaluate("document.documentElement.dataset.theme") != theme:
        found.append(f"is not {theme}")
    if page.evaluate("document.documentElement.scrollWidth") > width:
        found.append("something sticks out of the page")
    page.evaluate(AXE.read_text())
    # It would fetch the style sheets once more, and files refuse that.  What
    # it found in order is much, and slow to hand over.
    violations = page.evaluate("axe.run({preload: false})"
                               ".then(report => report.violations)")
    found += [(violation["id"], node["html"][:200], node["failureSummary"])
              for violation in violations for node in violation["nodes"]]
    found += [f"no alt text: {image.get_attribute('src')}"
              for image in page.query_selector_all(".bd-article img")
              if not image.get_attribute("alt")]
    found += ["a plot without a label"
              for plot in page.query_selector_all(".lintut-plot-live")
              if not plot.get_attribute("aria-label")]
    page.emulate_media(media="print")
    found += unseen(page)
    found += ["a live part is printed" for live in page.query_selector_all(
        ".lintut-plot-live, .lintut-live") if live.is_visible()]
    page.emulate_media(media="screen")
    return found


def unseen(page):
    """The stills that the page does not show."""
    found = []
    for still in page.query_selector_all(
            "figure.lintut-plot img, .lintut-widget > .lintut-still"):
        box = still.bounding_box()
        wide = still.is_visible() and box["width"] > 100
        if wide and still.evaluate("still => still.tagName") == "IMG":
            still.evaluate("still => still.decode()")
            wide = still.evaluate("still => still.naturalWidth") > 100
        if not wide:
            found.append("a still is not shown: " + still.evaluate(
                "still => still.outerHTML.slice(0, 200)"))
    return found


def test_a_dark_page_prints_as_a_light_one(small, new_tab):
    page = new_tab(theme="dark").page
    page.goto((small / CHAPTER).as_uri())
    theme = "document.documentElement.dataset.theme"
    page.evaluate("addEventListener('beforeprint', () =>"
                  f" {{ window.printed = {theme}; }})")
    page.pdf()
    assert page.evaluate("window.printed") == "light"
    assert page.evaluate(theme) == "dark"
    # … and a still does, whoever prints without telling.
    page.emulate_media(media="print")
    assert page.locator("figure.lintut-plot img").first.evaluate("""still => {
      const { filter, mixBlendMode } = getComputedStyle(still);
      return [filter, mixBlendMode];
    }""") == ["none", "normal"]


def test_pages_work_without_javascript(site, new_tab):
    tab = new_tab(javascript=False)
    for name in opened(site):
        tab.page.goto((site / name).as_uri())
        assert not unseen(tab.page), name


def missed_by_tab(page):
    """What should take focus on this page, and does not when one tabs."""
    wake(page)
    # Wait for the boxes that scroll to be found, then mark what takes focus.
    page.wait_for_timeout(300)
    wanted = page.evaluate("""() => {
      const all = document.querySelectorAll(
        "a[href], button, input, select, textarea, summary, [tabindex]");
      let n = 0;
      for (const element of all) {
        if (element.tabIndex < 0 || element.disabled
            || !element.checkVisibility({visibilityProperty: true})
            || element.closest("dialog:not([open]), [inert]")) continue;
        element.dataset.wanted = n++;
      }
      return n;
    }""")
    assert wanted > 10
    reached = set()
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.wanted"))
    return [page.evaluate(f"document.querySelector(`[data-wanted='{n}']`)"
                          ".outerHTML.slice(0, 200)")
            for n in set(map(str, range(wanted))) - reached]


@pytest.mark.parametrize("width", [390, 1200])
def test_the_keyboard_reaches_everything(small, new_tab, width):
    page = new_tab(width=width).page
    page.goto((small / CHAPTER).as_uri())
    assert not missed_by_tab(page)


def test_the_keyboard_reaches_every_widget_of_the_book(book, new_tab):
    page, seen = new_tab(width=390).page, 0
    for path in sorted((book / "chapters").glob("*.html")):
        page.goto(path.as_uri())
        if page.locator(".lintut-widget").count():
            seen += 1
            assert not missed_by_tab(page), path.name
    assert seen


def test_boxes_that_scroll_take_focus(small, new_tab):
    page = new_tab(width=390).page
    page.goto((small / CHAPTER).as_uri())
    equation = page.locator("div.equation").first
    assert equation.evaluate("box => box.scrollWidth > box.clientWidth")
    page.wait_for_function(
        "document.querySelector('div.equation').tabIndex === 0")
    equation.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "document.querySelector('div.equation').scrollLeft > 0")


@pytest.mark.parametrize("from_file", [True, False])
def test_search_finds_a_page(small, new_tab, below_a_path, from_file):
    address = small.as_uri() if from_file else below_a_path(small)
    page = new_tab().page
    page.goto(f"{address}/search.html?q=normaliser")
    page.wait_for_selector("#search-results .search-summary")
    page.wait_for_load_state("networkidle")
    page.get_by_role("link", name="Does every part").first.click()
    page.wait_for_url(f"**/{CHAPTER}*")


# -- plots ------------------------------------------------------------------

def test_plotly_loads_only_near_a_plot(small, new_tab):
    tab, asked = new_tab(height=300), []
    tab.page.on("request", lambda request: asked.append(request.url))

    def loaded():
        return any("plotly" in url for url in asked)

    tab.page.goto((small / "intro.html").as_uri())
    tab.page.evaluate(SCROLL)
    assert not loaded()
    tab.page.goto((small / CHAPTER).as_uri())
    tab.page.wait_for_timeout(500)
    assert not loaded()
    tab.page.locator("figure.lintut-plot").first.scroll_into_view_if_needed()
    tab.page.wait_for_selector("figure.live .main-svg")
    assert loaded()
    # the second plot, far below, still sleeps
    assert tab.page.locator("figure.lintut-plot").count() == 2
    assert tab.page.locator("figure.live").count() == 1


def stroke(page):
    """The colour of the first curve: softmax."""
    return page.locator(".lintut-plot-live path.js-line").first.evaluate(
        "line => getComputedStyle(line).stroke")


def test_plots_follow_the_theme(small, new_tab):
    page = new_tab(theme="dark").page
    page.goto((small / CHAPTER).as_uri())
    wake(page)
    assert stroke(page) == "rgb(238, 238, 238)"
    background = "svg => getComputedStyle(svg).backgroundColor"
    assert page.locator(".main-svg").first.evaluate(background) in (
        "rgba(0, 0, 0, 0)", "transparent")
    toggle = page.locator(".theme-switch-button")
    for _ in range(3):                      # auto, light, dark, in a ring
        toggle.click()
        if page.evaluate("document.documentElement.dataset.theme") == "light":
            break
    page.wait_for_function(
        "getComputedStyle(document.querySelector('.lintut-plot-live "
        "path.js-line')).stroke === 'rgb(34, 34, 34)'")


def test_a_plot_fills_its_column(small, new_tab):
    page = new_tab(width=1200).page
    page.goto((small / CHAPTER).as_uri())
    wake(page)
    for width in (1200, 700, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function("""() => {
          const box = document.querySelector("figure.lintut-plot");
          const svg = box.querySelector(".main-svg");
          return Math.abs(box.clientWidth - svg.clientWidth) < 3;
        }""")


def test_a_plot_offers_nothing_that_leaves_the_page(small, new_tab):
    page = new_tab().page
    page.goto((small / CHAPTER).as_uri())
    wake(page)
    assert page.locator(".modebar-btn, .lintut-plot-live a").count() == 0


# -- widgets ----------------------------------------------------------------

def test_the_stepper_runs_in_the_page(small, new_tab):
    page = new_tab().page
    page.goto((small / CHAPTER).as_uri())
    page.wait_for_selector(".lintut-widget[data-live=yes]")
    before = page.locator(".lintut-live").inner_text()
    page.get_by_role("button", name="Next").click()
    assert page.locator(".lintut-live").inner_text() != before


def test_widget_scripts_only_where_there_is_a_widget(small):
    assert "widget-host.js" in (small / CHAPTER).read_text()
    intro = (small / "intro.html").read_text()
    assert not re.search(r"widget-host|plots\.js|lintut-widgets", intro)
