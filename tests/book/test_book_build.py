"""What fails a build, and what a build survives."""

import json
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from docutils import nodes
from pybtex.database import parse_file

from book import figures, maths, site
from small_book import ROOT, build, small_source

NOTEBOOK = "chapters/01-sample.ipynb"


def edit(source, change):
    """Apply `change` to the small book's notebook, as JSON."""
    path = source / NOTEBOOK
    notebook = json.loads(path.read_text())
    change(notebook["cells"])
    path.write_text(json.dumps(notebook))


def plots(cells):
    return [output["data"] for cell in cells
            for output in cell.get("outputs", [])
            if figures.MIME in output.get("data", {})]


def test_every_fault_of_a_notebook_fails_the_build(tmp_path):
    """Twice: Sphinx alone gives a warning only when it reads the page."""
    source = small_source(tmp_path)

    def spoil(cells):
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        code[0]["outputs"] = [{
            "output_type": "error", "ename": "ZeroDivisionError",
            "evalue": "division by zero", "traceback": []}]
        code[1]["execution_count"] = None
        code[-2]["outputs"][0]["data"]["text/html"] = [
            '<div class="lintut-widget" data-widget="nosuch"></div>']
        first, second = plots(cells)
        del first[figures.MIME]["layout"]["meta"]["alt"]
        del second["image/png"]
        cells[0]["source"] = (
            "# Title\n\n$\\nosuch$ {eq}`eq-nowhere` [gone](nowhere.md) "
            "{cite:t}`nobody1900`")

    edit(source, spoil)
    for _ in range(2):
        done = build(source)
        assert done.returncode == 1
        report = done.stderr.split("The book did not build:")[1]
        for fault in (
                r"cell 1 \(try:\) failed: ZeroDivisionError: division by zero",
                r"cell 3 \(import numpy as np\) was never run",
                "no widget is called nosuch",
                "without alt text", "without a still image",
                r"formula not understood: .*\\nosuch",
                "eq-nowhere", "nowhere.md", "nobody1900"):
            assert re.search(fault, report), fault


def test_a_build_can_be_interrupted_and_run_again(tmp_path, small):
    source = small_source(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "book", "build", "--source", source], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if "writing output" in line:        # some pages are there, not all
            process.send_signal(signal.SIGINT)
            break
    process.stdout.read()
    assert process.wait(timeout=60) != 0
    (source / "_build" / "html" / "intro.html").write_text("<html>half a pa")
    done = build(source)
    assert done.returncode == 0, done.stderr
    html = source / "_build" / "html"

    def names(folder):
        return {str(path.relative_to(folder)) for path in folder.rglob("*")}

    assert names(html) == names(small)
    assert "A small book" in (html / "intro.html").read_text()


def test_a_small_edit_renders_one_page(tmp_path):
    """… and the build ends with the weights and with what to open."""
    source = small_source(tmp_path)
    assert build(source).returncode == 0
    html = source / "_build" / "html"
    page, other = html / "chapters/01-sample.html", html / "intro.html"
    before = page.stat().st_mtime_ns
    (source / "intro.md").write_text("# A small book\n\nEdited.\n")
    done = build(source)
    assert done.returncode == 0, done.stderr
    assert "Edited." in other.read_text()
    assert page.stat().st_mtime_ns == before
    assert re.search(r"chapters/01-sample\.html +\d+ +\d+ +\d+ +\d+\n",
                     done.stdout)
    assert (html / "index.html").as_uri() in done.stdout


def test_equations_are_numbered_by_chapter(small):
    page = (small / "chapters/01-sample.html").read_text()
    assert '<span class="eqno">(1.1)</span>' in page
    assert '<span class="eqno">(1.2)</span>' in page
    assert re.search(r'href="#equation-eq-state">\(1\.1\)</a>', page)


def test_no_two_papers_have_one_label():
    entries = parse_file(ROOT / "references.bib").entries
    labels = dict(zip(entries, site.AuthorYear().format_labels(
        entries.values())))
    assert labels["yang2024gla"] == "Yang et al., 2024a"
    assert labels["bischof1987"] == "Bischof and Van Loan, 1987"
    assert len(set(labels.values())) == len(labels)


def test_solutions_have_an_opening_of_their_own():
    for path in (ROOT / "exercises").rglob("*.ipynb"):
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        content = [path.read_text()]
        site.name_solutions(None, name, content)
        text = "".join(json.loads(content[0])["cells"][0]["source"])
        solved = "solutions" in name
        assert text.startswith("# Solutions " if solved else "# Exercises ")
        assert ("Write your answer" in text) != solved
        assert "stopped" not in text or not solved
        assert ("one right answer is folded" in text) == solved


def test_pages_name_no_other_host(small):
    """… but as links that a reader may follow."""
    for page in small.rglob("*.html"):
        assert not re.search(
            r'<(script|img|link|iframe)[^>]*(src|href)="(https?:)?//',
            page.read_text()), page


def test_no_colab_button_before_there_is_a_repository(small):
    assert "colab.research" not in (
        small / "chapters/01-sample.html").read_text()


def test_colab_buttons_once_there_is_one(tmp_path):
    source = small_source(tmp_path, "https://github.com/someone/something")
    done = build(source)
    assert done.returncode == 0, done.stderr
    html = source / "_build" / "html"
    assert ("https://colab.research.google.com/github/someone/something/blob/"
            "main/chapters/01-sample.ipynb") in (
                html / "chapters/01-sample.html").read_text()
    assert "colab.research" not in (html / "intro.html").read_text()


def test_punctuation_stays_with_its_formula(small):
    page = (small / "chapters/01-sample.html").read_text()
    assert '<span class="after">?</span>' in page
    assert "<title>Does every part of a page work with S⊤q? " in page


def test_punctuation_elsewhere_stays_where_it_is():
    line = nodes.paragraph("", "", nodes.literal("", "q"), nodes.Text(", "),
                           nodes.math("", "(N, d)"), nodes.Text(", "),
                           nodes.literal("", "v"))
    maths.KeepPunctuation.run(SimpleNamespace(document=line))
    assert line.astext() == "q, (N, d) v" and line[2]["after"] == ","


@pytest.mark.parametrize("display", [False, True])
def test_formulas(display):
    try:
        assert "<math" in maths.render(r"S_t^\top q", display)
        with pytest.raises(ValueError, match="nosuch"):
            maths.render(r"\nosuch", display)
        assert "<math" in maths.render("z", display)
    finally:
        maths.stop(None, None)


def test_every_palette_colour_has_one_dark_one():
    from lintut import palette
    pairs = {(entry[0], entry[1])
             for table in (palette.SYMBOLS, palette.MECHANISMS, palette.PAGE)
             for entry in table.values()}
    assert dict(pairs) == figures.dark_colours()
    assert len(pairs) == len(figures.dark_colours())
