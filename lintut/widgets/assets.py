"""The widgets' scripts and style sheet, as text.  Needs no anywidget.

A widget is one ES module, `<name>.js`, and one Python class beside it.  The
modules import nothing: a widget's whole text is `common.js` and its own file.
"""

from pathlib import Path

from lintut import palette

HERE = Path(__file__).parent
DARK = ('html[data-theme="dark"]',                  # the book
        "html[theme=dark]",                         # Colab
        'body[data-jp-theme-light="false"]',        # Jupyter
        "body.vscode-dark")


def names():
    """The widgets there are."""
    return sorted(path.stem for path in HERE.glob("*.js")
                  if path.stem != "common")


def module(name):
    """The ES module of a widget: its default export is { render }."""
    if name not in names():
        raise ValueError(f"name must be one of {', '.join(names())}; "
                         f"it is {name!r}")
    return _text("common.js") + "\n" + _text(f"{name}.js")


def css():
    """The style sheet of every widget, with the book's colours."""
    return palette.css(":root", ", ".join(DARK)) + "\n" + _text("widgets.css")


def _text(file):
    return (HERE / file).read_text(encoding="utf-8")
