import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from browser import new_tab  # noqa: E402, F401
from lintut.widgets import assets  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
HOST = ROOT / "book" / "static" / "widget-host.js"

PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Widgets</title><style>{css}
body {{ background: var(--lt-paper); color: var(--lt-ink); margin: 12px; }}
</style></head>
<body><main><h1>Widgets</h1>{places}</main>
<script>{host}</script><script>{register}</script></body></html>"""


def page(*places, theme="light", modules=None):
    """A page that holds the widgets, as the book's pages do."""
    if modules is None:
        modules = {name: assets.module(name) for name in assets.names()}
    register = "".join(
        f"lintutWidgets.register({json.dumps(name)}, {json.dumps(text)});"
        for name, text in modules.items()).replace("</", "<\\/")
    places = [getattr(place, "html", lambda place=place: place)()
              for place in places]
    return PAGE.format(theme=theme, css=assets.css(), places="".join(places),
                       host=HOST.read_text(encoding="utf-8"),
                       register=register)


@pytest.fixture
def open_page(new_tab, tmp_path):  # noqa: F811
    """Open widgets from file://; gives the Tab."""
    def open_it(*places, theme="light", modules=None, **options):
        file = tmp_path / "page.html"
        file.write_text(page(*places, theme=theme, modules=modules),
                        encoding="utf-8")
        tab = new_tab(theme=theme, **options)
        tab.page.goto(file.as_uri())
        return tab

    return open_it
