"""The Python side of the widgets: state, repr, still picture, refusals."""

import gzip
import json
import re
import subprocess
import sys
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from lintut.reference import linear
from lintut.widgets import Stepper, assets


class Reader(HTMLParser):
    """The attributes of the place, the table's cells, unclosed tags."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.place, self.heads = [], [], None, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag == "div":
            self.place = dict(attributes)
        if tag == "tr":
            self.rows.append([])
        if tag == "th":
            self.heads.append(dict(attributes).get("scope"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


def test_repr_has_values_and_no_address():
    assert repr(Stepper(step=3)) == "Stepper(step=3, tokens=3)"


def test_mimebundle_carries_widget_text_and_html():
    data, _ = Stepper()._repr_mimebundle_()
    assert data["text/plain"] == "Stepper(step=0, tokens=3)"
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/html"] == Stepper().html()        # no id, no address


def test_html_is_closed_and_holds_the_state():
    widget = Stepper(values=[["1/2"], [0.25], [Fraction(-2, 3)]], step=2)
    reader = Reader(widget.html())
    assert reader.open == []
    assert reader.place["data-widget"] == "stepper"
    assert json.loads(reader.place["data-state"]) == {
        "feature_map": "given", "step": 2,
        "k": [["1", "0"], ["0", "1"], ["1", "1"]],
        "v": [["1/2"], ["0.25"], ["-2/3"]],
        "q": [["2", "1"], ["1", "1"], ["1", "2"]]}
    assert "export" not in widget.html()


def test_still_is_the_hand_worked_example():
    reader = Reader(Stepper().still())
    assert reader.rows[-1] == ["3", "[[4, 1], [3, 3]]", "[2, 2]", "[10, 7]",
                               "6", "[10/6, 7/6]"]
    assert set(reader.heads) == {"row", "col"}
    assert reader.rows[1][-1] == "[2/2, 0/2]"
    assert reader.rows[2][-1] == "[1/2, 2/2]"


@pytest.mark.parametrize("feature_map", ["given", "elu_plus_one"])
def test_rows_are_linear_attention(feature_map):
    rng = np.random.default_rng(5)
    k, q = rng.uniform(0, 3, (2, 7, 3)).round(3)
    v = rng.normal(size=(7, 2)).round(3)
    if feature_map == "elu_plus_one":
        k, q = k - 1.5, q - 1.5
    k, q = k.round(3), q.round(3)
    rows = Stepper(k.tolist(), v.tolist(), q.tolist(), feature_map).rows()
    got = [[float(x / down) for x in up] for _, _, up, down in rows]
    options = {"feature_map": lambda x: x} if feature_map == "given" else {}
    assert np.allclose(got, linear.parallel(q, k, v, **options),
                       rtol=1e-13, atol=1e-13)


def test_still_names_a_read_that_is_refused():
    widget = Stepper(queries=[[0, 1], [1, 1], [1, 2]])
    assert Reader(widget.still()).rows[1][-1] == (
        "none: z·φ(q) is not positive")


@pytest.mark.parametrize("bad, name", [
    ({"keys": [[1, 0], [0, 1]]}, "values"),
    ({"keys": [[1, 0], [0], [1, 1]]}, "keys"),
    ({"keys": [[1, 0], [0, -1], [1, 1]]}, "keys"),
    ({"queries": [[1], [1], [1]]}, "queries"),
    ({"queries": [[1, 0], [0, -1], [1, 1]]}, "queries"),
    ({"values": [["a"], [1], [2]]}, "values"),
    ({"values": [["1/0"], [1], [2]]}, "values"),
    ({"values": [[float("nan")], [1], [2]]}, "values"),
    ({"values": [[float("inf")], [1], [2]]}, "values"),
    ({"values": [[1e7], [1], [2]]}, "values"),
    ({"values": 3}, "values"),
    ({"keys": [], "values": [], "queries": []}, "keys"),
    ({"feature_map": "relu"}, "feature_map"),
    ({"step": 7}, "step"), ({"step": -1}, "step"), ({"step": 1.5}, "step"),
])
def test_bad_input_is_refused_by_name(bad, name):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        Stepper(**bad)


def test_modules_import_nothing_and_are_small():
    host = Path(__file__).resolve().parents[2] / "book/static/widget-host.js"
    every = host.read_text(encoding="utf-8") + assets.css()
    assert len(gzip.compress(every.encode())) < 8_000
    for name in assets.names():
        text = assets.module(name)
        assert not re.search(r"^\s*import\b", text, re.MULTILINE)
        assert "export default { render };" in text
        assert len(gzip.compress(text.encode())) < 16_000, name
    with pytest.raises(ValueError, match="name must be one of .*stepper"):
        assets.module("common")


def test_css_has_the_three_dark_themes():
    for selector in ('html[data-theme="dark"]', "html[theme=dark]",
                     'body[data-jp-theme-light="false"]'):
        assert selector in assets.css()


def test_without_anywidget_assets_work_and_widgets_say_what_to_install():
    code = ("import sys; sys.modules['anywidget'] = None\n"
            "from lintut import widgets\n"
            "assert 'Stepper' in widgets.__all__\n"
            "assert widgets.assets.module('stepper')\n"
            "try:\n    widgets.Stepper\n"
            "except ImportError as error:\n    print(error)\n")
    done = subprocess.run([sys.executable, "-c", code], text=True,
                          capture_output=True, timeout=60)
    assert "pip install anywidget" in done.stdout, done.stderr


def test_an_unknown_widget_is_named():
    from lintut import widgets
    with pytest.raises(AttributeError, match="no Steper; it has .*Stepper"):
        widgets.Steper
