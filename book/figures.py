"""Plotly figures: a still image that a script turns into the live plot.

A notebook stores each figure twice: plotly's JSON and a PNG of it (see
`book.run`).  The page shows the PNG until the plot comes near the view, where
there is no JavaScript, and in print.  `layout.meta` carries two texts:

    alt       what the figure shows, for those who cannot see it (required)
    caption   one or two sentences below it; Markdown
"""

import json

from docutils import nodes
from myst_nb.core import render
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from lintut import palette

logger = logging.getLogger(__name__)
MIME = "application/vnd.plotly.v1+json"
HEIGHT = 450                # plotly's own, where layout.height is not set


class PlotlyOutput:
    """myst-nb's protocol: turns the JSON into a <figure>, less its still."""

    mime_priority_overrides = [("html", MIME, 1)]

    @staticmethod
    def handle_mime(renderer, data, inline):
        if data.mime_type != MIME:
            return None
        layout = data.content.get("layout", {})
        meta = layout.get("meta") or {}
        if not meta.get("alt"):
            logger.warning(
                "a figure without alt text (set layout.meta['alt'])",
                location=(renderer.renderer.document["source"], data.line))
        figure = nodes.figure(classes=["lintut-plot"], alt=meta.get("alt", ""),
                              height=layout.get("height", HEIGHT))
        if meta.get("caption"):
            caption = nodes.caption()
            figure += caption
            with renderer.renderer.current_node_context(caption):
                renderer.renderer.nested_render_text(
                    meta["caption"], data.line, inline=True)
        figure += nodes.raw("", _script(data.content), format="html")
        return [figure]


def _script(figure):
    """The figure's JSON, where no script of the page's runs it."""
    text = json.dumps({"data": figure["data"], "layout": figure["layout"]},
                      separators=(",", ":"), sort_keys=True)
    return ('<script type="application/json">'
            + text.replace("</", "<\\/") + "</script>")


class PlaceStill(SphinxPostTransform):
    """Move a figure's PNG from beside it into it."""

    default_priority = 3            # before myst-nb picks one of the two

    def run(self, **_):
        for figure in list(self.document.findall(nodes.figure)):
            if "lintut-plot" not in figure["classes"]:
                continue
            bundle = figure.parent.parent
            stills = [image for output in bundle.children
                      if output["mime_type"] == "image/png"
                      for image in output.findall(nodes.image)]
            if not stills:
                logger.warning("a figure without a still image (store it "
                               "with `python -m book run`)", location=bundle)
                continue
            still, = stills
            still["alt"] = figure["alt"]
            still["height"] = f"{figure['height']}px"
            still["classes"].append("no-scaled-link")
            still.parent.remove(still)
            figure.insert(0, still)


def dark_colours():
    """Each of the palette's light colours with its dark one."""
    return {entry[0]: entry[1]
            for table in (palette.SYMBOLS, palette.MECHANISMS, palette.PAGE)
            for entry in table.values()}


def setup(app):
    # The list is cached and consulted at every output, so this registers us;
    # an entry point would need `book` installed as a distribution.
    plugins = render.load_mime_renders()
    if PlotlyOutput not in plugins:
        plugins.append(PlotlyOutput)
    app.add_post_transform(PlaceStill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
