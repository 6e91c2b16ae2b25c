"""The built pages, in a browser: the book itself, and a small one that has
one of each thing that a chapter may hold."""

import gzip
import json
import re

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


def pages(html):
    return sorted(page.relative_to(html).as_posix()
                  for page in html.rglob("*.html")
                  if "_static" not in page.parts)


def wake(page):
    """Scroll through, and wait until plots and widgets are live."""
    page.evaluate(SCROLL)
    page.wait_for_function(AWAKE)


def open_all(site, tab, address=None):
    """Open each page of a site in turn, awake."""
    for name in pages(site):
        if name == "index.html":        # sends the reader to intro.html
            continue
        tab.page.goto(f"{address or site.as_uri()}/{name}")
        wake(tab.page)
        yield name


# `new_tab` fails a test over console errors and requests to other hosts.

def test_every_page_opens_from_a_file(site, new_tab):
    tab = new_tab()
    assert len(list(open_all(site, tab))) >= 2
    tab.page.goto((site / "index.html").as_uri())
    tab.page.wait_for_url("**/intro.html")


def test_every_page_opens_below_any_path(site, new_tab, below_a_path):
    """… and what it fetches is what the table of weights says."""
    address = below_a_path(site)
    for name in pages(site):
        if name == "index.html":
            continue
        page, finished = new_tab().page, []     # a tab each: an empty cache
        page.on("requestfinished",
                lambda request: finished.append(request))
        page.goto(f"{address}/{name}")
        wake(page)
        fetched = {request.url: request.response().body()
                   for request in finished}
        page.close()
        assert all(url.startswith(address) for url in fetched)
        total = sum(len(gzip.compress(body)) for body in fetched.values())
        weight = weights.of_page(site / name, site)
        assert total <= 1.03 * weight["total"], (name, sorted(fetched))
        assert total <= (weights.PLOT_LIMIT if weight["plots"]
                         else weights.PLAIN_LIMIT)
        assert weight["own scripts"] <= weights.OWN_LIMIT


@pytest.mark.parametrize("width, theme", [(1200, "light"), (390, "dark")])
def test_axe_finds_nothing(site, new_tab, width, theme):
    """… and nothing sticks out of the page."""
    tab, found = new_tab(width=width, theme=theme), {}
    axe = AXE.read_text()
    for name in open_all(site, tab):
        page = tab.page
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(axe)
        # It would fetch the style sheets once more, and files refuse that.
        report = page.evaluate("axe.run({preload: false})")
        found[name] = [
            (violation["id"], node["html"][:200], node["failureSummary"])
            for violation in report["violations"]
            for node in violation["nodes"]]
    assert not any(found.values()), json.dumps(found, indent=1)


def test_every_picture_has_alt_text(site, new_tab):
    tab = new_tab()
    for name in open_all(site, tab):
        for image in tab.page.query_selector_all(".bd-article img"):
            assert image.get_attribute("alt"), (
                name, image.get_attribute("src"))
        for plot in tab.page.query_selector_all(".lintut-plot-live"):
            assert plot.get_attribute("aria-label"), name


def test_print_shows_stills(site, new_tab):
    tab = new_tab()
    for name in open_all(site, tab):
        tab.page.emulate_media(media="print")
        shown(tab.page, name)
        for live in tab.page.query_selector_all(
                ".lintut-plot-live, .lintut-live"):
            assert not live.is_visible(), name
        tab.page.emulate_media(media="screen")


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
    for name in pages(site):
        if name != "index.html":
            tab.page.goto((site / name).as_uri())
            shown(tab.page, name)


def shown(page, name):
    for still in page.query_selector_all(
            "figure.lintut-plot img, .lintut-widget > .lintut-still"):
        box = still.bounding_box()
        assert still.is_visible() and box["width"] > 100, name
        if still.evaluate("still => still.tagName") == "IMG":
            still.evaluate("still => still.decode()")
            assert still.evaluate("still => still.naturalWidth") > 100, name


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
