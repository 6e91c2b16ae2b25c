"""Figures: right data, readable, told apart without colour, never bare."""

import json
import re

import numpy as np
import pytest

from lintut import palette, plots
from lintut.plots import Series

HEX = {pair[0] for table in (palette.SYMBOLS, palette.MECHANISMS,
                             palette.PAGE) for pair in table.values()}
N = 2 ** np.arange(8, 17)


def growth():
    return plots.lines(
        [Series("softmax", N, 2e-9 * N ** 2.1, "softmax",
                predicted=2e-9 * N ** 2.0),
         Series("SDPA", N, 2e-9 * N ** 2.0, "sliding_window"),
         Series("linear", N, 1e-6 * N, "linear", low=8e-7 * N,
                high=1.3e-6 * N)],
        "length N (tokens)", "time (s)", "xy")


FIGURES = {
    "growth": growth,
    "steps": lambda: plots.lines(
        [Series(name, [0, 1, 2], [1, 0, i], name)
         for i, name in enumerate(palette.SYMBOLS)], "step t", "value"),
    "bars": lambda: plots.bars(["softmax", "linear"], [3, 1], "time (ms)",
                               ["softmax", "linear"]),
    "intervals": lambda: plots.bars(["a", "b"], [3, 1], "time (ms)",
                                    low=[2, .5], high=[4, 2]),
    "matrix": lambda: plots.matrix([[.5, np.nan], [.25, .75]]),
    "signed": lambda: plots.matrix(np.array([[1., -3.], [0., 2.]]),
                                   diverging=True),
    "matrices": lambda: plots.matrices(
        {"a triangle": [[1., np.nan], [2., -3.]], "S": [[.5], [0.]]}),
    "masks": lambda: plots.matrices({"window": [[1., np.nan], [1., 1.]]},
                                    diverging=False),
}


@pytest.fixture(params=FIGURES)
def fig(request):
    result = FIGURES[request.param]()
    plots.show(result, alt="what it shows", caption="what it means")
    return result


def strings(x):
    if isinstance(x, dict):
        return [s for value in x.values() for s in strings(value)]
    if isinstance(x, list):
        return [s for value in x for s in strings(value)]
    return [x] if isinstance(x, str) else []


def test_every_colour_is_a_light_hex_of_the_palette(fig):
    # The dark theme is made by exchanging exactly these strings.
    text = fig.to_json()
    found = set(re.findall(r"#[0-9a-fA-F]{3,8}\b", text))
    assert found and found <= HEX
    assert not re.search(r"rgba?\(|hsla?\(", text)
    named = {"white", "black", "red", "green", "blue", "gray", "grey"}
    assert not named & set(strings(json.loads(text)))


def test_it_reads_on_a_phone(fig):
    layout = fig.layout
    assert layout.height >= 120 and layout.width is None
    words = json.dumps(json.loads(fig.to_json())["layout"])
    sizes = [int(n) for n in re.findall(r'"size": (\d+)', words)]
    assert sizes and min(sizes) >= 12
    assert layout.margin.l + layout.margin.r < 390 / 2


def test_axes_say_what_they_show(fig):
    assert fig.layout.xaxis.title.text
    assert fig.layout.yaxis.title.text or fig.data[0].type == "bar"


def test_meta_carries_alt_and_caption(fig):
    assert fig.layout.meta == {"alt": "what it shows",
                               "caption": "what it means"}


@pytest.mark.parametrize("words", [dict(alt="", caption="c"),
                                   dict(alt="a", caption=" "),
                                   dict(alt=None, caption="c")])
def test_a_figure_without_words_is_refused(words):
    with pytest.raises(ValueError, match="alt|caption"):
        plots.show(growth(), **words)
    with pytest.raises(TypeError):
        plots.show(growth())


def test_nothing_to_press_that_leaves_the_page():
    assert plots.CONFIG["displaylogo"] is False
    assert plots.CONFIG["showSendToCloud"] is False
    assert plots.CONFIG["displayModeBar"] is False


def test_predictions_lie_behind_and_measurements_are_points():
    fig = growth()
    first, *rest = fig.data
    assert first.name == "softmax, predicted" and first.mode == "lines"
    np.testing.assert_allclose(first.y, 2e-9 * N ** 2.0)
    measured = {trace.name: trace for trace in rest}
    assert measured["softmax"].mode == "markers"
    np.testing.assert_allclose(measured["softmax"].y, 2e-9 * N ** 2.1)
    errors = measured["linear"].error_y
    np.testing.assert_allclose(errors.array, 3e-7 * N)
    np.testing.assert_allclose(errors.arrayminus, 2e-7 * N)


def test_labels_stand_at_the_ends_and_apart():
    fig = growth()
    axis, labels = fig.layout.yaxis, fig.layout.annotations
    assert [a.text for a in labels] == ["softmax", "SDPA", "linear"]
    assert all(a.x == pytest.approx(16 * np.log10(2)) for a in labels)
    assert labels[2].y == pytest.approx(np.log10(1e-6 * 2 ** 16))
    low, high = axis.range
    pixels = sorted((fig.layout.height - 76) * (high - a.y) / (high - low)
                    + a.ay for a in labels)
    assert np.diff(pixels).min() > plots.LABEL - 1e-6


def test_series_differ_by_more_than_colour():
    for table in (palette.SYMBOLS, palette.MECHANISMS):
        styles = [Series(name, [0], [0], name).style for name in table]
        assert len({style[1:] for style in styles}) == len(table)


def test_unknown_hue():
    with pytest.raises(ValueError, match="hue must be .*'mauve'"):
        plots.lines([Series("a", [0, 1], [0, 1], "mauve")], "x", "y")


@pytest.mark.parametrize("wanted, expected", [
    ([0, 100], [0, 100]),
    ([50, 50], [45, 55]),
    ([55, 50], [57.5, 47.5]),
    ([0, 0, 0, 40], [-10, 0, 10, 40]),
    ([0, 9, 9], [-4, 6, 16]),
])
def test_spread(wanted, expected):
    np.testing.assert_allclose(plots.spread(wanted, 10), expected)


def test_spread_is_the_nearest():
    # against a fine search, three labels
    wanted, gap = np.array([3., 4., 11.]), 6
    place = plots.spread(wanted, gap)
    grid = np.arange(-10, 25, .25)
    a, b, c = np.meshgrid(grid, grid, grid, indexing="ij")
    cost = (a - 3) ** 2 + (b - 4) ** 2 + (c - 11) ** 2
    allowed = (b - a >= gap) & (c - b >= gap)
    assert ((place - wanted) ** 2).sum() <= cost[allowed].min() + 1e-9
    assert np.diff(place).min() >= gap - 1e-9


@pytest.mark.parametrize("n, text", [
    (1, "1"), (512, "512"), (1024, "1k"), (65536, "64k"), (1500, "1500"),
    (2 ** 20, "1M")])
def test_short(n, text):
    assert plots.short(n) == text


def test_matrix_leaves_what_is_hidden_blank():
    fig = plots.matrix([[.5, np.nan], [.25, .75]])
    heat = fig.data[0]
    assert np.isnan(heat.z[0][1]) and heat.hoverongaps is False
    assert (heat.zmin, heat.zmax) == (0, .75)
    assert fig.layout.yaxis.autorange == "reversed"
    signed = plots.matrix([[1., -3.]], diverging=True).data[0]
    assert (signed.zmin, signed.zmax) == (-3, 3)        # 0 is paper
    assert signed.colorscale[1] == (.5, palette.PAGE["paper"][0])
    assert plots.matrix([[0., 0.]]).data[0].zmax == 1   # not an empty scale


def test_ticks_of_lengths():
    axis = growth().layout.xaxis
    assert axis.ticktext == ("256", "1k", "4k", "16k", "64k")
    assert axis.tickvals == (256, 1024, 4096, 16384, 65536)


def test_notebook_output_is_plotly_json(monkeypatch):
    """In a kernel: one mime bundle, with the settings and the words."""
    pytest.importorskip("IPython")
    import plotly.io as pio
    from plotly.io import _renderers

    sent = []
    monkeypatch.setattr(_renderers.ipython, "get_ipython", lambda: object())
    monkeypatch.setattr(_renderers.ipython_display, "display",
                        lambda bundle, raw: sent.append(bundle))
    monkeypatch.setattr(pio.renderers, "_default_renderers",
                        [pio.renderers["plotly_mimetype"]])
    plots.show(growth(), alt="a", caption="c")
    (bundle,) = sent
    (mime,) = bundle
    assert mime == "application/vnd.plotly.v1+json"
    assert bundle[mime]["config"]["displaylogo"] is False
    assert bundle[mime]["layout"]["meta"] == {"alt": "a", "caption": "c"}
    assert "FigureWidget" not in json.dumps(bundle)
