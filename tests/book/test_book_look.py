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


def test_a_narrow_figure_breaks_its_title_and_turns_no_ticks(small, new_tab):
    page = new_tab(width=390).page
    page.goto((small / CHAPTER).as_uri())
    page.evaluate("""() => {
      const stored = document.querySelector("figure.lintut-plot script");
      const figure = JSON.parse(stored.textContent), ends = [0, 7];
      figure.data = [{ type: "scatter", x: ends, y: ends }];
      figure.layout.xaxis = { title: { text: "words " + "to read ".repeat(7) },
        range: [-1, 8], tickvals: [0, 1, 2, 3, 4, 5, 6, 7],
        ticktext: [..."01234567"].map((i) => `${i}00 MiB`) };
      stored.textContent = JSON.stringify(figure); }""")
    page.locator("figure.lintut-plot").first.scroll_into_view_if_needed()
    page.wait_for_selector("figure.lintut-plot.live .xtitle tspan")
    page.wait_for_function(
        "document.querySelectorAll('.lintut-plot-live .xtick').length < 8")
    box, title, ticks = page.evaluate("""() => {
      const plot = document.querySelector(".lintut-plot-live");
      const place = (part) => {
        const { left, right } = part.getBoundingClientRect();
        return [left, right]; };
      return [place(plot), place(plot.querySelector(".xtitle")),
        [...plot.querySelectorAll(".xtick text")].map((tick) =>
          tick.getAttribute("transform"))]; }""")
    assert box[0] <= title[0] and title[1] <= box[1]
    assert not [tick for tick in ticks if "rotate(" in tick.replace(
        "rotate(0", "")]
