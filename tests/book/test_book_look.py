"""How pages look where room is short."""

CHAPTER = "chapters/01-sample.html"
SHOWN = "[...document.querySelectorAll('.lintut-plot-live')].at(-1)"


def test_a_matrix_is_as_high_as_its_width_lets_it_be(small, new_tab):
    """… on turning the phone too.  (A colour bar's place is its own.)"""
    page = new_tab(width=390, height=300).page
    page.goto((small / CHAPTER).as_uri())
    page.evaluate("""() => {
      const stored = [...document.querySelectorAll(
        "figure.lintut-plot script")].at(-1);
      stored.textContent = stored.textContent.replace(
        '"colorbar":', '"showscale":false,"colorbar":'); }""")
    page.locator("figure.lintut-plot").last.scroll_into_view_if_needed()

    def height():
        page.wait_for_timeout(1500)
        shown, needed = page.evaluate(f"""() => {{
          const plot = {SHOWN}, {{ top }} = plot.getBoundingClientRect();
          return [plot.clientHeight, Math.max(...[...plot.querySelectorAll(
            ".cartesianlayer, .infolayer")].map((part) =>
              part.getBoundingClientRect().bottom)) - top]; }}""")
        assert needed <= shown < needed + 12
        return shown

    page.wait_for_selector("figure.lintut-plot.live .heatmaplayer image")
    narrow = height()
    page.set_viewport_size({"width": 800, "height": 900})
    assert narrow < 420 and narrow + 20 < height() <= 428


def test_a_box_fades_where_it_goes_on(small, new_tab):
    page = new_tab(width=390).page
    page.goto((small / CHAPTER).as_uri())
    box = page.locator("div.equation").first
    page.wait_for_function(
        "document.querySelector('div.equation').className "
        "=== 'equation more-right'")
    assert "gradient" in box.evaluate("box => getComputedStyle(box).maskImage")
    box.evaluate("box => { box.scrollLeft = 1e4; }")
    page.wait_for_function(
        "document.querySelector('div.equation').className "
        "=== 'equation more-left'")
