"""What the stored pages show of results/*.json is what is in the files.

nbval passes over outputs of cells that show a record; here each is drawn, or
printed, once more from the file and compared with what the notebook stores.
"""

import contextlib
import io
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

from lintut.experiments import recorded

pytest.importorskip("torch")
plots = pytest.importorskip("lintut.plots")

from lintut.experiments import figures, timing_figures      # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = {path.stem: nbformat.read(path, 4).cells
            for path in sorted((ROOT / "chapters").glob("*.ipynb"))}
CALL = re.compile(r"^(figures|timing_figures)\.show\(\"(\w+)\"\)$", re.M)
DRAWN = [(chapter, module, name) for chapter, cells in CHAPTERS.items()
         for cell in cells if cell.cell_type == "code"
         for module, name in CALL.findall(cell.source)]


def stored(cell):
    """The text that a cell printed."""
    return "".join(out.text for out in cell.outputs
                   if out.output_type == "stream")


def stored_figure(cell):
    figure, = (out.data["application/vnd.plotly.v1+json"]
               for out in cell.outputs if out.output_type == "display_data")
    return figure


def numbers(trace):
    """{name: array} of what a trace draws, its bars included."""
    found = {"x": trace.get("x"), "y": trace.get("y"),
             "high": (trace.get("error_y") or {}).get("array"),
             "low": (trace.get("error_y") or {}).get("arrayminus")}
    return {name: np.array(values, float) for name, values in found.items()
            if values is not None}


@pytest.fixture
def undrawn(monkeypatch):
    """(figure, alt, caption) of each call of `plots.show`."""
    seen = []
    monkeypatch.setattr(plots, "show", lambda *args, **named: seen.append(
        (*args, *named.values())))
    return seen


def same(figure, cell):
    """Whether a cell stores this (figure, alt, caption)."""
    drawn, alt, caption = figure
    store = stored_figure(cell)
    assert store["layout"]["meta"] == {"alt": alt, "caption": caption}
    assert [t.name for t in drawn.data] == [t["name"] for t in store["data"]]
    for mine, theirs in zip(drawn.data, store["data"]):
        mine, theirs = numbers(mine.to_plotly_json()), numbers(theirs)
        assert mine.keys() == theirs.keys() and "y" in mine
        for name in mine:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-12,
                                       err_msg=name)


@pytest.mark.parametrize("chapter, module, name", DRAWN)
def test_a_page_stores_the_figure_that_its_record_gives(
        chapter, module, name, undrawn, capsys):
    cell, = (c for c in CHAPTERS[chapter] if c.cell_type == "code"
             and f'{module}.show("{name}")' in c.source)
    {"figures": figures, "timing_figures": timing_figures}[module].show(name)
    assert stored(cell) == capsys.readouterr().out
    same(undrawn[0], cell)


def test_every_figure_of_an_experiment_is_on_a_page():
    assert {name for _, module, name in DRAWN if module == "figures"} == set(
        figures.FIGURES)
    assert {name for _, module, name in DRAWN
            if module == "timing_figures"} == set(timing_figures.FIGURES)


# chapter: the cells that read, print or draw a record, by a piece of each
PRINTED = {
    "07-memory": ['recorded("retrieval.json")', "PUBLISHED = {",
                  'x="number of keys S"', '"published, DPFP-1'],
    "13-hardware": ['recorded("kernels-compiled.json")', 'columns = ("7.5"'],
    "14-choosing": ["from lintut.experiments import recorded",
                    'recorded("decode.json")']}


@pytest.mark.parametrize("chapter", PRINTED)
def test_a_page_stores_what_its_cells_print_of_a_record(chapter, undrawn):
    space = {"np": np, "plots": plots, "Series": plots.Series,
             "recorded": recorded}
    for piece in PRINTED[chapter]:
        cell, = (c for c in CHAPTERS[chapter] if c.cell_type == "code"
                 and piece in c.source)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(cell.source, space)
        assert printed.getvalue() == stored(cell)
        if undrawn:
            same(undrawn.pop(), cell)


def test_every_record_is_shown():
    """No file lies in results/ that no page reads."""
    shown = {file for module in (figures, timing_figures)
             for _, file in module.FIGURES.values()}
    pages = "".join(c.source for cells in CHAPTERS.values() for c in cells)
    pages += (ROOT / "README.md").read_text()
    for path in (ROOT / "results").glob("*.json"):
        assert path.name in shown or path.name in pages, path.name
