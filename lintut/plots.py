"""Plots of the book: one template, the palette's colours, labels on the lines.

    fig = plots.lines([Series("softmax", N, seconds, predicted=model)],
                      x="length N (tokens)", y="time (s)", log="xy")
    plots.show(fig, alt="…", caption="…")

`lines`, `bars` and `matrix` return a plotly figure; `show` puts it on the
page, and is the only way there: it refuses a figure without alt text and
caption.  Colours are the palette's light hex codes, in lower case; the book's
pages swap them for the dark ones.  A series is never told by colour alone: it
has a dash, a marker and a label at its end.
"""

import math
from dataclasses import dataclass

import numpy as np

from lintut import palette
from lintut._optional import require

go = require("plotly.graph_objects", "plots", "lintut.plots")

INK, MUTED, PAPER, LINE, WRITE, READ = (
    palette.PAGE[name][0]
    for name in ("ink", "muted", "paper", "line", "write", "read"))
FONT = 13               # px; nothing on a figure is smaller
LABEL = 17              # px from one label's middle to the next
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
MARGIN = dict(l=8, r=16, t=16, b=8)     # the axes claim the rest

_AXIS = dict(showline=True, linecolor=LINE, gridcolor=LINE, gridwidth=0.5,
             zeroline=False, ticks="outside", tickcolor=LINE, ticklen=4,
             exponentformat="power", automargin=True,
             title=dict(standoff=8))

TEMPLATE = go.layout.Template(layout=dict(
    paper_bgcolor=PAPER, plot_bgcolor=PAPER, showlegend=False,
    font=dict(color=INK, size=FONT, family="system-ui, sans-serif"),
    colorway=[light for light, _ in palette.SYMBOLS.values()],
    xaxis=_AXIS, yaxis=_AXIS, hovermode="closest",
    hoverlabel=dict(bgcolor=PAPER, bordercolor=LINE, font=dict(color=INK)),
))

# No logo, no "send to cloud", no scrolling that the page would miss.
CONFIG = dict(displaylogo=False, displayModeBar=False, responsive=True,
              showSendToCloud=False, scrollZoom=False)


@dataclass(frozen=True)
class Series:
    """One line: `label` names it on the figure, `hue` in the palette.

    `hue` is a mechanism, a symbol or a page colour; its dash and marker come
    with it unless given.  `low` and `high` bound each y; `predicted`, one for
    each x, is drawn as a line behind, and y then as points alone.
    """
    label: str
    x: object
    y: object
    hue: str = "ink"
    low: object = None
    high: object = None
    predicted: object = None
    dash: str | None = None
    marker: str | None = None

    @property
    def style(self):
        """(colour, dash, marker)"""
        for table in (palette.MECHANISMS, palette.SYMBOLS, palette.PAGE):
            if self.hue in table:
                light, _, *rest = table[self.hue]
                place = list(table).index(self.hue)
                dash, marker = rest or (DASHES[place], MARKERS[place])
                return light, self.dash or dash, self.marker or marker
        raise ValueError("hue must be a mechanism, symbol or page colour of "
                         f"lintut.palette; it is {self.hue!r}")


def figure(x, y, height=360):
    """An empty figure with labelled axes, units in brackets."""
    for name, title in (("x", x), ("y", y)):
        if not title:
            raise ValueError(f"{name} must be the axis's label; "
                             f"it is {title!r}")
    return go.Figure(layout=dict(
        template=TEMPLATE, height=height, margin=MARGIN,
        xaxis=dict(title_text=x), yaxis=dict(title_text=y)))


def lines(series, x, y, log="", height=360):
    """Measured points, the predicted curve behind them, labels at the ends.

    Parameters
    ----------
    series : list of Series
    x, y : labels of the axes, with units
    log : the logarithmic axes: "", "x", "y" or "xy"
    """
    fig = figure(x, y, height)
    for s in series:
        colour, dash, marker = s.style
        if s.predicted is not None:
            fig.add_scatter(
                x=_list(s.x), y=_list(s.predicted), mode="lines",
                opacity=0.5, line=dict(color=colour, dash=dash, width=4),
                name=f"{s.label}, predicted", hoverinfo="name+x+y")
    for s in series:
        colour, dash, marker = s.style
        fig.add_scatter(
            x=_list(s.x), y=_list(s.y), name=s.label, hoverinfo="name+x+y",
            mode="lines+markers" if s.predicted is None else "markers",
            line=dict(color=colour, dash=dash, width=2),
            marker=dict(color=colour, symbol=marker, size=8),
            error_y=_bars(s, colour))
    values = {"x": [s.x for s in series],
              "y": [part for s in series
                    for part in (s.y, s.predicted, s.low, s.high)
                    if part is not None]}
    for name, axis in (("x", fig.layout.xaxis), ("y", fig.layout.yaxis)):
        _scale(axis, np.concatenate([np.ravel(v) for v in values[name]]),
               name in log)
    return label_lines(fig, series)


def _list(values):
    return np.asarray(values).tolist()


def _bars(s, colour):
    if s.low is None:
        return None
    y = np.asarray(s.y)
    return dict(type="data", symmetric=False, color=colour, thickness=1.5,
                width=3, array=_list(s.high - y), arrayminus=_list(y - s.low))


def _scale(axis, values, log):
    """Fix the range, so that label positions are known, and the ticks."""
    values = values[np.isfinite(values)]
    if not log:
        low, high = values.min(), values.max()
        space = 0.05 * (high - low or 1)
        axis.range = [float(low - space), float(high + space)]
        return
    low, high = np.log10([values.min(), values.max()])
    space = 0.05 * (high - low or 1)
    axis.type, axis.range = "log", [float(low - space), float(high + space)]
    axis.dtick = math.ceil((high - low) / 6) or 1
    exponents = np.log2(np.unique(values))
    if (exponents == exponents.astype(int)).all():      # lengths: 256, 1k, 4k
        steps = np.arange(exponents.min(), exponents.max() + 1, 2)
        axis.update(tickvals=_list(2 ** steps), dtick=None,
                    ticktext=[short(2 ** int(e)) for e in steps])


def short(n):
    """A whole number, short: 512, 4k, 64k, 1M (k is 1024 here)."""
    for size, letter in ((2 ** 20, "M"), (2 ** 10, "k")):
        if n >= size and n % size == 0:
            return f"{n // size}{letter}"
    return str(n)


def label_lines(fig, series):
    """Write each series' label at the end of its line, apart from the rest."""
    ends = []
    for s in series:
        y = np.asarray(s.y if s.predicted is None else s.predicted, float)
        last = np.flatnonzero(np.isfinite(y))[-1]
        ends.append((np.asarray(s.x)[last], y[last]))
    axes = fig.layout.xaxis, fig.layout.yaxis
    at = [[math.log10(value) if axis.type == "log" else float(value)
           for value, axis in zip(end, axes)] for end in ends]
    low, high = fig.layout.yaxis.range
    inner = fig.layout.height - 76              # without margins and axis
    pixels = [inner * (high - y) / (high - low) for _, y in at]
    for s, (x, y), own, free in zip(series, at, pixels,
                                    spread(pixels, LABEL)):
        colour = s.style[0]
        fig.add_annotation(
            x=x, y=y, ax=14, ay=free - own, text=s.label, xanchor="left",
            font=dict(color=colour), showarrow=True, arrowhead=0,
            arrowwidth=1, arrowcolor=colour, standoff=5)
    widest = max(len(s.label) for s in series)
    fig.layout.margin.r = 20 + round(0.56 * FONT * widest)
    return fig


def spread(wanted, gap):
    """The positions nearest to `wanted`, at least `gap` from each other.

    Least squares: neighbours that would overlap become one group, centred on
    what its members want.
    """
    order = np.argsort(wanted, kind="stable")
    groups = []                         # [sum of wishes less offsets, members]
    for i, index in enumerate(order):
        groups.append([wanted[index] - i * gap, 1])
        while (len(groups) > 1 and groups[-2][0] / groups[-2][1]
               > groups[-1][0] / groups[-1][1]):
            total, members = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += members
    placed = np.concatenate([np.full(n, total / n) for total, n in groups])
    result = np.empty(len(wanted))
    result[order] = placed + gap * np.arange(len(wanted))
    return result


def bars(labels, values, x, hues=None, low=None, high=None, log=False):
    """Horizontal bars, the first at the top, each with its value at its end.

    `x` labels the value axis, with its unit; `hues` names a palette entry a
    bar; `low` and `high` bound each value.
    """
    values = np.asarray(values, float)
    series = [Series(label, [0], [0], hue) for label, hue
              in zip(labels, hues or ["read"] * len(labels))]
    fig = figure(x, " ", 90 + 30 * len(labels))
    error = None
    if low is not None:
        error = dict(type="data", symmetric=False, color=INK, thickness=1.5,
                     array=_list(np.asarray(high) - values),
                     arrayminus=_list(values - np.asarray(low)))
    fig.add_bar(
        x=_list(values), y=list(labels), orientation="h", error_x=error,
        marker=dict(color=[s.style[0] for s in series],
                    opacity=1 if low is None else 0.5), cliponaxis=False,
        text=[f" {value:.3g}" for value in values], hoverinfo="x+y",
        textposition="outside" if error is None else "none")
    fig.update_yaxes(autorange="reversed", title_text=None, showgrid=False)
    fig.update_xaxes(type="log" if log else "linear")
    fig.layout.margin.r = 56
    return fig


def matrix(values, x="key j", y="query i", unit="weight", diverging=False,
           largest=None, show_values=None):
    """A picture of a matrix, row 0 on top; NaN cells are left blank.

    Positive values go from paper to blue; `diverging` goes from blue through
    paper at 0 to orange.  `largest` fixes the end of the scale, so that two
    pictures compare.  Small matrices show their values.
    """
    values = np.asarray(values, float)
    rows, columns = values.shape
    largest = float(np.nanmax(np.abs(values))
                    if largest is None else largest) or 1.0
    if show_values is None:
        show_values = columns <= 8
    fig = figure(x, y, 420)
    fig.add_heatmap(
        z=values.tolist(), colorscale=_colours(diverging), zmax=largest,
        zmin=-largest if diverging else 0,
        xgap=1 if columns <= 32 else 0, ygap=1 if rows <= 32 else 0,
        hoverongaps=False, texttemplate="%{z:.2g}" if show_values else None,
        hovertemplate=f"{y} %{{y}}, {x} %{{x}}: %{{z:.4g}}<extra></extra>",
        colorbar=dict(title=dict(text=unit, side="right"), thickness=12,
                      outlinecolor=LINE, orientation="h", len=0.6,
                      y=-0.16, yanchor="top"))
    whole = dict(showgrid=False, constrain="domain",
                 dtick=1 if max(rows, columns) <= 16 else None)
    fig.update_yaxes(autorange="reversed", scaleanchor="x", **whole)
    fig.update_xaxes(**whole)
    return fig


def _colours(diverging):
    return ([[0, READ], [0.5, PAPER], [1, WRITE]] if diverging
            else [[0, PAPER], [1, READ]])


def matrices(panels, height=330, diverging=True):
    """Matrices side by side, cell for cell of one size, titles above them.

    `panels` maps a title (a line break is <br>) to a matrix; NaN cells are
    left blank.  Colours compare cells within a matrix: its largest entry, up
    or down, has the full colour.  `diverging` and the colours are `matrix`'s.
    """
    fig = figure(" ", " ", height)
    scale, left = _colours(diverging), 0
    for title, values in panels.items():
        values = np.asarray(values, float)
        largest = float(np.nanmax(np.abs(values))) or 1.0
        rows, columns = values.shape
        fig.add_heatmap(
            z=values.tolist(), x0=left, dx=1, y0=0, dy=1, zmax=largest,
            zmin=-largest if diverging else 0, xgap=1, ygap=1,
            showscale=False, hoverongaps=False, colorscale=scale,
            hovertemplate="%{z:.4g}<extra></extra>")
        fig.add_shape(type="rect", x0=left - 0.5, x1=left + columns - 0.5,
                      y0=-0.5, y1=rows - 0.5, line=dict(color=MUTED, width=1))
        fig.add_annotation(x=left - 0.5, y=-0.5, text=title, showarrow=False,
                           xanchor="left", yanchor="bottom", align="left",
                           yshift=4, font=dict(size=12))
        left += columns + 3
    plain = dict(visible=False, constrain="domain")
    fig.update_yaxes(autorange="reversed", scaleanchor="x", **plain)
    fig.update_xaxes(range=[-1, left - 2], **plain)
    fig.layout.margin.t = 44
    return fig


def show(fig, alt, caption):
    """Put a figure on the page, with alt text and caption (in its meta).

    It fills the width there is, and keeps its height.  Outside a notebook
    nothing is drawn.
    """
    for name, text in (("alt", alt), ("caption", caption)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name} must say what the figure shows; "
                             f"it is {text!r}")
    fig.update_layout(meta={"alt": alt, "caption": caption}, width=None,
                      height=fig.layout.height or 360)
    from plotly.io._renderers import ipython
    if ipython and ipython.get_ipython():
        fig.show(config=CONFIG)
