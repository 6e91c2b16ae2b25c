"""What every chapter owes its reader, as far as a machine can see."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("[0-9]*.ipynb"))


@pytest.fixture(params=CHAPTERS, ids=lambda path: path.stem)
def chapter(request):
    return nbformat.read(request.param, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text(notebook):
    return "\n".join(cell.source for cell in notebook.cells
                     if cell.cell_type == "markdown")


def test_there_are_chapters():
    assert CHAPTERS


def test_the_title_asks_the_chapters_question(chapter):
    first = chapter.cells[0]
    assert first.cell_type == "markdown"
    title = first.source.splitlines()[0]
    assert re.fullmatch(r"# \d+\. .+: .+\?", title), title


def test_every_cell_was_run_in_order_without_errors(chapter):
    counts = [cell.execution_count for cell in code(chapter)]
    assert counts == list(range(1, len(counts) + 1))
    for cell in code(chapter):
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", cell.source


def test_every_displayed_equation_has_a_label_of_this_chapter(chapter):
    number = re.match(r"# (\d+)", chapter.cells[0].source).group(1)
    displayed = re.findall(r"^\$\$\n[^$]+\n\$\$(.*)$", text(chapter), flags=re.M)
    for tail in displayed:
        assert re.fullmatch(rf" \(eq-{int(number):02d}-[\w-]+\)", tail), tail


def test_a_widget_is_opened_by_a_prediction(chapter):
    """Before each widget's cell, its section asks for a prediction."""
    since_heading = ""
    found = 0
    for cell in chapter.cells:
        if cell.cell_type == "markdown":
            last = re.split(r"^#+ ", cell.source, flags=re.M)[-1]
            since_heading = (last if "\n# " in f"\n{cell.source}"
                             or re.search(r"^#", cell.source, flags=re.M)
                             else since_heading + cell.source)
        elif any("lintut-widget" in str(output.get("data", {}))
                 for output in cell.outputs):
            found += 1
            assert "**Predict first" in since_heading, cell.source
    assert found


def test_it_ends_with_its_papers(chapter):
    sections = re.findall(r"^## (.+)$", text(chapter), flags=re.M)
    assert sections[-1] == "Papers", sections
    # One list for all, chapters/papers.md: two would claim the same papers.
    assert "{bibliography}" not in text(chapter)


@pytest.mark.parametrize("section", ["it costs", "cannot do"])
def test_it_says_what_it_costs_and_what_it_cannot_do(chapter, section):
    if "# 1. " in chapter.cells[0].source or "# 2. " in chapter.cells[0].source:
        pytest.skip("no method of its own: the chapter is about cost, or a map")
    titles = re.findall(r"^## (.+)$", text(chapter), flags=re.M)
    assert any(section in title for title in titles), titles


def test_the_exercises_it_names_are_there(chapter):
    for name in re.findall(r"exercises/[\w-]+\.ipynb", text(chapter)):
        assert (ROOT / name).exists(), name


def test_it_names_no_widget_state_but_values(chapter):
    assert "widgets" not in chapter.metadata
    assert "_esm" not in nbformat.writes(chapter)
