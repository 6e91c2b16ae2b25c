"""Every exercise: solution, other right answers, wrong answers, stub.

`python -m pytest tests/exercises/test_matrix.py` is the proof;
`make exercises-report` prints the matrix.
"""

import dataclasses
import importlib
import linecache
import re
import sys
from pathlib import Path

import nbformat
import pytest

from lintut.check import Wrong
from lintut.check.core import Function, Value
from lintut.check.graft import name_of

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "exercises" / "solutions").glob("*.ipynb"))
sys.path.insert(0, str(ROOT / "tests"))


KIND = re.compile(r"^\*(By hand|Choice|Prediction|Function|Mend|Input"
                  r"|Experiment|Kernel), (easy|medium|hard)\.\*$", re.M)


def number(path):
    return int(path.name[:2])


def exercises(path):
    module = importlib.import_module(f"lintut.check.ch{number(path):02d}")
    return {exercise.name: exercise for exercise in module.EXERCISES}


def answers(path):
    return importlib.import_module(f"exercises.ch{number(path):02d}")


def cells(path):
    """{name: the cell's code} of a notebook's answers."""
    notebook = nbformat.read(path, as_version=4)
    return {name_of(c): c.source for c in notebook.cells if name_of(c)}


def run(path, source, name):
    """What an answer cell of a notebook defines under its name."""
    scope = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if "\ncheck = chapter(" in cell.source:     # what it imports
            exec(cell.source, scope)
    file = f"<{name} {len(linecache.cache)}>"       # as IPython does it
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    exec(compile(source, file, "exec"), scope)
    return scope[name]


PAIRS = [(path, name) for path in CHAPTERS for name in exercises(path)]
each = pytest.mark.parametrize(
    "path, name", PAIRS, ids=[f"{p.stem}-{name}" for p, name in PAIRS])


def patient(exercise, label):
    """The same; what hangs on purpose is stopped sooner."""
    if label == "hangs":
        return dataclasses.replace(exercise, seconds=0.5)
    return exercise


@each
def test_solution_and_other_right_answers_pass(path, name):
    exercise = exercises(path)[name]
    solution = run(path, cells(path)[name], name)
    for _ in range(10):
        assert "correct" in exercise.judge(solution)
    right = answers(path).RIGHT[name]
    assert len(right) >= 2
    for answer in right:
        assert "correct" in exercise.judge(answer), answer


@each
def test_wrong_answers_fail_with_their_message(path, name):
    exercise = exercises(path)[name]
    wrong = answers(path).WRONG[name]
    assert len(wrong) >= 5
    for label, (answer, words) in wrong.items():
        with pytest.raises(Wrong) as caught:
            patient(exercise, label).judge(answer)
        assert words in str(caught.value), (label, str(caught.value))


@each
def test_the_stub_fails_kindly_and_gives_nothing_away(path, name):
    exercise = exercises(path)[name]
    stub = cells(path.parents[1] / path.name)[name]
    with pytest.raises(Wrong) as caught:
        exercise.judge(run(path, stub, name))
    says = str(caught.value)
    assert says.startswith(name)
    for line in cells(path)[name].splitlines()[1:]:
        assert len(line) < 12 or line.strip() not in says


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_no_exercise_needs_a_later_chapter(path):
    """Of lintut it has the check of its own chapter; it links to none later.
    """
    used = set()
    for cell in nbformat.read(path, as_version=4).cells:
        for later in re.findall(r"/chapters/(\d\d)-|chapter(?:s)? (\d+)",
                                cell.source):
            assert int("".join(later)) <= number(path), cell.source
        if cell.cell_type == "code":
            used |= set(re.findall(r"(?:from|import) (lintut[\w.]*)",
                                   cell.source))
            for own in re.findall(r"chapter\((\d+)\)", cell.source):
                assert int(own) == number(path)
    assert used <= {"lintut", "lintut.check"}


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_two_notebooks_differ_in_their_answers_alone(path):
    ours, theirs = (nbformat.read(p, as_version=4).cells
                    for p in (path, path.parents[1] / path.name))
    assert len(ours) == len(theirs)
    names, task = [], ""
    for a, b in zip(ours, theirs):
        assert a.cell_type == b.cell_type
        if a.cell_type == "markdown":
            task = a.source
        assert name_of(a) == name_of(b)
        if name_of(a):
            names.append(name_of(a))
            # the build fails over a section that is not there
            assert f"](/chapters/{path.name}#" in task, task
            assert KIND.search(task), task
        else:
            assert a.source == b.source
        assert not b.get("outputs") and b.get("execution_count") is None
    assert sorted(names) == sorted(exercises(path))


def test_every_exercise_knows_five_mistakes():
    for path, name in PAIRS:
        exercise = exercises(path)[name]
        if isinstance(exercise, (Value, Function)):
            assert len(exercise.mistakes) >= 5, name
