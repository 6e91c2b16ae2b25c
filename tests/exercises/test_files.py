"""Whatever a reader's file holds, the pristine notebook judges it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from lintut.check import __main__
from lintut.check.graft import graft, name_of

ROOT = Path(__file__).resolve().parents[2]
NAME = "06-recurrence.ipynb"
SOLUTION = ROOT / "exercises" / "solutions" / NAME
WRONG = "def recurrence(f_q, f_k, v):\n    return v.copy()"


@pytest.fixture
def folder(tmp_path):
    """A copy of the exercises in which the reader's file is all solved."""
    (tmp_path / "solutions").mkdir()
    shutil.copy(SOLUTION, tmp_path / "solutions")
    shutil.copy(SOLUTION, tmp_path)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def change(folder, edit):
    notebook = nbformat.read(folder / NAME, as_version=4)
    edit(notebook)
    nbformat.write(notebook, folder / NAME)


def place(notebook, name):
    return next(i for i, cell in enumerate(notebook.cells)
                if name_of(cell) == name)


def put(name, source):
    def edit(notebook):
        notebook.cells[place(notebook, name)].source = (
            f"# ANSWER {name}\n{source}")
    return edit


def run(folder, *command):
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", *command, str(folder / NAME)], text=True,
        cwd=folder, env=environment, capture_output=True, timeout=300)


def check(folder):
    """{exercise: (right, words)} from `python -m lintut.check --json`."""
    done = run(folder, "lintut.check", "--json")
    rows = {row["exercise"]: (row["right"], row["says"])
            for row in json.loads(done.stdout)}
    assert done.returncode == (0 if all(r for r, _ in rows.values()) else 1)
    return rows


def wrong_and_saved(notebook):
    """A wrong answer whose check was edited to say what a right one does."""
    put("recurrence", WRONG)(notebook)
    cell = notebook.cells[place(notebook, "recurrence") + 1]
    cell.source = 'print("recurrence: correct, on 4 cases.")'


def wrong_output_saved(notebook):
    put("recurrence", WRONG)(notebook)
    cell = notebook.cells[place(notebook, "recurrence") + 1]
    cell.outputs = [nbformat.v4.new_output(
        "error", ename="Wrong", evalue="no", traceback=["no"])]


def cleared(notebook):
    put("recurrence", WRONG)(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def check_deleted(notebook):
    put("recurrence", WRONG)(notebook)
    del notebook.cells[place(notebook, "recurrence") + 1]


@pytest.mark.parametrize("edit", [wrong_and_saved, wrong_output_saved,
                                  cleared, check_deleted])
def test_nbval_sees_a_wrong_answer_through(folder, edit):
    change(folder, edit)
    done = run(folder, "pytest", "--nbval", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 1, done.stdout
    assert "S starts anew" in done.stdout


def test_nbval_passes_solutions_that_were_cleared(folder):
    def edit(notebook):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        notebook.cells.reverse()
    change(folder, edit)
    done = run(folder, "pytest", "--nbval", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout


def test_the_summary_tells_right_from_wrong(folder):
    def edit(notebook):
        put("recurrence", WRONG)(notebook)
        del notebook.cells[place(notebook, "mended")]
        cell = notebook.cells[place(notebook, "chunkwise")]
        notebook.cells.append(nbformat.v4.new_code_cell(cell.source))
        put("continue_from", "def continue_from(:")(notebook)
        put("cache_passes_state",
            "cache_passes_state = 69\nprint('done')")(notebook)
    change(folder, edit)
    rows = check(folder)
    assert rows["cache_passes_state"][0] and rows["state_by_hand"][0]
    assert not rows["recurrence"][0]
    assert "S starts anew" in rows["recurrence"][1]
    assert "is missing" in rows["mended"][1] and not rows["mended"][0]
    assert "keep one" in rows["chunkwise"][1] and not rows["chunkwise"][0]
    assert "SyntaxError" in rows["continue_from"][1]
    assert not rows["continue_from"][0]


def test_what_an_answer_warns_of_is_no_verdict(folder):
    change(folder, put("recurrence", "import warnings\n" + next(
        cell.source.split("\n", 1)[1] for cell in nbformat.read(
            SOLUTION, as_version=4).cells if name_of(cell) == "recurrence")
        + "\nwarnings.warn('old')"))
    assert check(folder)["recurrence"] == (True,
                                           "recurrence: correct, on 4 cases.")


def test_a_cell_that_never_ends_is_stopped(folder, monkeypatch):
    change(folder, put("state_by_hand", "while True: pass"))
    monkeypatch.setattr(__main__, "SECONDS", 20)
    rows = {name: (right, says) for name, right, says in
            __main__.verdicts(folder / NAME)}
    assert rows.pop("state_by_hand") == (
        False, "The cell was stopped after 20 seconds.")
    assert all(right for right, _ in rows.values())


def test_an_answer_that_redefines_the_check_is_not_believed(folder):
    change(folder, put("state_by_hand", "state_by_hand = 0\n"
                       "check = lambda name, answer: print('fine')"))
    rows = check(folder)
    assert not rows["state_by_hand"][0]


def test_the_summary_reads_well(folder):
    change(folder, put("recurrence", WRONG))
    done = run(folder, "lintut.check")
    assert done.returncode == 1
    assert "✔ state_by_hand: correct." in done.stdout
    assert "✘ recurrence\n    recurrence, on N=" in done.stdout
    assert done.stdout.strip().endswith("7 of 8 right")


def test_the_overview_is_a_line_a_notebook(folder):
    change(folder, put("recurrence", WRONG))
    done = run(folder, "lintut.check", "--progress")
    assert done.returncode == 1 and done.stderr == ""
    line, total = done.stdout.strip().splitlines()
    assert line.split() == ["06-recurrence", "■■□■■■■■", "7", "of", "8",
                            "next:", "recurrence"]
    assert total == "7 of 8 right"


def test_a_file_without_pristine_copy_is_refused(tmp_path):
    done = run(tmp_path, "lintut.check")
    assert done.returncode == 2 and "not an exercise notebook" in done.stderr


def test_grafting_takes_answers_and_nothing_else(folder):
    change(folder, wrong_and_saved)
    grafted = graft(folder / NAME)
    pristine = nbformat.read(SOLUTION, as_version=4)
    for mine, theirs in zip(grafted.cells, pristine.cells):
        if name_of(theirs) == "recurrence":
            assert mine.source.endswith(WRONG)
        else:
            assert mine.source == theirs.source
            assert name_of(theirs) or (
                mine.get("outputs") == theirs.get("outputs"))


def test_the_report_prints_the_matrix_of_an_exercise():
    sys.path.insert(0, str(ROOT / "tests"))
    from exercises.report import PAIRS, report
    path, name = next(pair for pair in PAIRS if pair[1] == "state_by_hand")
    lines = list(report(path, name))
    assert all(good for good, _ in lines) and len(lines) >= 7
    assert lines[0][1] == "solution: state_by_hand: correct."
