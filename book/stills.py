"""Still images of plotly figures, drawn by the plotly that pages load."""

import base64
import io
import shutil

from PIL import Image
from playwright.sync_api import sync_playwright

from book import packages
from book.figures import HEIGHT
from book.site import PLOTLY

WIDTH = 700         # CSS pixels, where layout.width is not set
SCALE = 2
COLOURS = 256       # enough for flat areas and smooth scales; a fifth the size

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]

DRAW = """([figure, width, height, scale]) => Plotly.toImage(
  {data: figure.data, layout: {...figure.layout, width, height}},
  {format: "png", width, height, scale})"""


def browser_path():
    """The first Chromium or Chrome on this machine, or None."""
    for name in ("chromium", "google-chrome", "chromium-browser",
                 "google-chrome-stable"):
        if shutil.which(name):
            return shutil.which(name)
    return None


class Stills:
    """A browser that draws figures; starts at the first one."""

    def __enter__(self):
        self._playwright = self._page = None
        return self

    def __exit__(self, *_):
        if self._playwright is not None:
            self._playwright.stop()

    def _start(self):
        path = browser_path()
        if path is None:
            raise SystemExit("stills of figures need Chromium or Chrome: "
                             "install one (Debian: apt install chromium)")
        packages.fetch()
        self._playwright = sync_playwright().start()
        browser = self._playwright.chromium.launch(
            executable_path=path, args=FLAGS)
        self._page = browser.new_page()
        self._page.add_script_tag(path=PLOTLY)

    def png(self, figure):
        """The figure's PNG in base64, as notebooks store it."""
        if self._page is None:
            self._start()
        layout = figure["layout"]
        url = self._page.evaluate(DRAW, [
            figure, layout.get("width", WIDTH),
            layout.get("height", HEIGHT), SCALE])
        return _compact(url.split(",", 1)[1])


def _compact(png):
    """The same picture with few colours, as base64."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    compact = io.BytesIO()
    picture.quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=0).save(
        compact, "PNG", optimize=True)
    return base64.b64encode(compact.getvalue()).decode()
