"""Running notebooks, and what the stored ones look like."""

import base64
import copy
import json
import subprocess
import sys

import nbformat
import pytest

from book import run
from lintut.check.graft import solution_of
from small_book import ROOT, SMALL

NOTEBOOKS = [*run.notebooks(ROOT), *SMALL.rglob("*.ipynb")]
STILL_LIMIT = 60_000


def run_book(*paths):
    """`python -m book run`, as an author runs it."""
    return subprocess.run(
        [sys.executable, "-m", "book", "run", *paths], cwd=ROOT,
        capture_output=True, text=True, timeout=300)


def write(path, *cells):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(notebook, path)
    return path


@pytest.mark.parametrize(
    "path", NOTEBOOKS, ids=lambda path: "/".join(path.parts[-2:]))
def test_code_fits_a_page(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            lines = cell.source.splitlines() or [""]
            assert len(lines) <= 25, cell.source
            assert max(map(len, lines)) <= 79, cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_is_normal(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    normal = copy.deepcopy(notebook)
    run.normalise(normal)
    assert normal == notebook, f"run `python -m book run {path}`"
    code = [cell for cell in notebook.cells
            if cell.cell_type == "code" and cell.source.strip()]
    counts = [cell.execution_count for cell in code]
    to_be_solved = solution_of(path) is not None
    assert counts == ([None] * len(code) if to_be_solved
                      else list(range(1, len(code) + 1)))
    for _, data in run._figures(notebook):
        assert len(base64.b64decode(data["image/png"])) <= STILL_LIMIT


def test_two_runs_store_the_same_text(tmp_path):
    path = write(
        tmp_path / "twice.ipynb",
        "print(1)", "import sys; print(2, file=sys.stdout, flush=True)\n"
        "print(3)", "print(1)",
        "from lintut.widgets import Stepper\nStepper()")
    texts = []
    for _ in range(2):
        done = run_book(path)
        assert done.returncode == 0, done.stderr
        texts.append(path.read_text())
    assert texts[0] == texts[1]
    notebook = json.loads(texts[0])
    assert "widgets" not in notebook["metadata"]
    assert "timing" not in texts[0] and "iopub" not in texts[0]
    assert len({cell["id"] for cell in notebook["cells"]}) == 4
    (two_three,) = notebook["cells"][1]["outputs"]
    assert two_three["text"] == ["2\n", "3\n"]
    (widget,) = notebook["cells"][3]["outputs"]
    assert set(widget["data"]) == {"text/html", "text/plain"}


@pytest.mark.browser
def test_a_figure_gets_a_still_and_keeps_it(tmp_path):
    from browser import find, skip_or_fail
    if find() is None:
        skip_or_fail("no Chromium or Chrome is installed")
    cell = ("from lintut import plots\n"
            "fig = plots.bars(['a', 'b'], [1, {}], x='time (s)')\n"
            "plots.show(fig, alt='Two bars.', caption='Bars.')")
    path = write(tmp_path / "figure.ipynb", cell.format(2), cell.format(3))

    def stills():
        done = run_book(path)
        assert done.returncode == 0, done.stderr
        return [data["image/png"] for _, data in run._figures(
            nbformat.read(path, as_version=4))]

    same, changed = stills()
    assert base64.b64decode(same).startswith(b"\x89PNG")
    assert len(base64.b64decode(same)) <= STILL_LIMIT
    # An unchanged figure keeps its still, to the byte; a changed one does not.
    marked = base64.b64encode(base64.b64decode(same) + b"mark").decode()
    path.write_text(path.read_text().replace(same, marked)
                    .replace("[1, 3]", "[1, 4]"))
    kept, redrawn = stills()
    assert kept == marked and redrawn != changed


def test_a_failing_notebook_is_left_as_it_was(tmp_path):
    bad = write(tmp_path / "bad.ipynb", "1 / 0")
    good = write(tmp_path / "good.ipynb", "print('done')")
    before = bad.read_text()
    done = run_book(bad, good)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert str(bad) in done.stderr.splitlines()[-1]
    assert bad.read_text() == before
    assert "done" in nbformat.read(good, as_version=4).cells[0].outputs[0].text


def test_a_kernel_is_told_to_store_plots_as_data(tmp_path):
    path = write(tmp_path / "renderer.ipynb",
                 "import os; print(os.environ['PLOTLY_RENDERER'])")
    assert run_book(path).returncode == 0
    (output,) = nbformat.read(path, as_version=4).cells[0].outputs
    assert output.text == "plotly_mimetype\n"
