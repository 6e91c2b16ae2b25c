"""What each page makes a reader's browser fetch, gzipped."""

import gzip
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

KIB = 1024
OWN_LIMIT = 100 * KIB               # our scripts and the widgets'
PLAIN_LIMIT = 500 * KIB             # a page without a plot, in all
PLOT_LIMIT = 1200 * KIB             # a page with plots

# KaTeX's font files, and what in a page makes a browser fetch each.
FONTS = {
    "Main-Regular": r'class="katex',
    "Math-Italic": r"mathnormal",
    "Main-Bold": r"mathbf|textbf",
    "Main-Italic": r"mathit|textit",
    "Math-BoldItalic": r"boldsymbol",
    "AMS-Regular": r"mathbb|amsrm",
    "Caligraphic-Regular": r"mathcal",
    "SansSerif-Regular": r"mathsf|textsf",
    "Typewriter-Regular": r"mathtt|texttt",
    "Size1-Regular": r"small-op|delimsizing size1|delim-size1",
    "Size2-Regular": r"large-op|delimsizing size2",
    "Size3-Regular": r"delimsizing size3",
    "Size4-Regular": r"delimsizing size4|delim-size4",
}


class _Links(HTMLParser):
    """The files that a page names for loading."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in ("script", "img") and attrs.get("src"):
            self.found.append(attrs["src"])
        if tag == "link" and attrs.get("rel") in ("stylesheet", "icon"):
            self.found.append(attrs["href"])


@cache
def gzipped(path):
    """Bytes of a file, compressed as a server would."""
    return len(gzip.compress(path.read_bytes(), 6))


def files(page, html):
    """Every file that opening `page` fetches, itself included."""
    text = page.read_text(encoding="utf-8")
    links = _Links()
    links.feed(text)
    found = [page]
    for link in links.found:
        if not urlsplit(link).scheme:
            found.append((page.parent / unquote(urlsplit(link).path))
                         .resolve())
    static = html.resolve() / "_static"
    found += [static / "katex" / "fonts" / f"KaTeX_{font}.woff2"
              for font, sign in FONTS.items() if re.search(sign, text)]
    if "plots.js" in {file.name for file in found}:
        found.append(static / "plotly.min.js")
    return list(dict.fromkeys(found))


def kind(file):
    """The column of the table that a file counts in."""
    if re.match(r"(book|plots|widget-host|lintut-.*)\.js$", file.name):
        return "own scripts"
    if "katex" in file.parts:
        return "maths"
    if file.name == "plotly.min.js":
        return "plots"
    return "rest"


def of_page(page, html):
    """Gzipped bytes by kind, and in total."""
    weight = {"own scripts": 0, "maths": 0, "plots": 0, "rest": 0}
    for file in files(page, html):
        weight[kind(file)] += gzipped(file)
    weight["total"] = sum(weight.values())
    return weight


def report(html):
    """Print the table; False if a page is over its limit."""
    print("Page weights, gzipped (KiB)")
    print(f"{'':36}own scripts   maths   plots   total")
    light = True
    for page in sorted(html.rglob("*.html")):
        name = str(page.relative_to(html))
        if name.startswith("_static"):
            continue
        weight = of_page(page, html)
        limit = PLOT_LIMIT if weight["plots"] else PLAIN_LIMIT
        over = weight["total"] > limit or weight["own scripts"] > OWN_LIMIT
        light = light and not over
        cells = [f"{weight[key] / KIB:8.0f}"
                 for key in ("own scripts", "maths", "plots", "total")]
        print(f"{name:36}   {''.join(cells)}{'   too heavy' if over else ''}")
    return light
