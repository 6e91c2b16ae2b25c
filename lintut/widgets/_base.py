"""What every widget shares: its module, its state, and its still picture."""

import json
from html import escape

from lintut._optional import require

from . import assets

anywidget = require("anywidget", "widgets", "lintut.widgets")
_THEIRS = set(anywidget.AnyWidget.class_trait_names(sync=True))


class Widget(anywidget.AnyWidget):
    """A widget whose state is its synced traits.

    A subclass has `name`, that of its module, `_esm = assets.module(name)`,
    `summary()`, the few values its repr shows, and `still()`, its final state
    as `table(…)`.
    """

    _css = assets.css()

    def state(self):
        """The synced traits as JSON holds them."""
        return {name: getattr(self, name)
                for name in sorted(self.trait_names(sync=True))
                if name not in _THEIRS and not name.startswith("_")}

    def __repr__(self):
        values = (f"{k}={v!r}" for k, v in self.summary().items())
        return f"{type(self).__name__}({', '.join(values)})"

    def html(self):
        """The place a page keeps for the widget: its state and its still."""
        state = json.dumps(self.state(), ensure_ascii=False)
        return (f'<div class="lintut-widget" data-widget="{self.name}" '
                f'data-state="{escape(state)}">{self.still()}</div>')

    def _repr_mimebundle_(self, **kwargs):
        bundle, metadata = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": self.html()}, metadata


def table(caption, head, rows):
    """An HTML table; the first cell of each row is its heading."""
    def line(cells):
        first, *rest = (escape(str(cell)) for cell in cells)
        return (f'<tr><th scope="row">{first}</th>'
                + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>")

    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    return (f'<table class="lintut-still"><caption>{escape(caption)}</caption>'
            f"<thead><tr>{heads}</tr></thead>"
            f"<tbody>{''.join(map(line, rows))}</tbody></table>")
