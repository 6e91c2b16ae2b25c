"""A reader's answers in the book's own notebook.

`exercises/NN-….ipynb` is what a reader works in.  The notebook of the same
name in `exercises/solutions/` holds the same cells, solved, with the outputs
that right answers give.  Whatever else a reader's file holds, only its cells
that begin with `# ANSWER name` count: they take the places of the solutions,
and the solutions' checks and outputs judge them.
"""

import re
from pathlib import Path

import nbformat

MARK = re.compile(r"#\s*ANSWER\s+(\w+)\s*$")


def name_of(cell):
    """The exercise that a cell answers, or None."""
    if cell.cell_type != "code":
        return None
    found = MARK.match(cell.source.split("\n", 1)[0])
    return found and found.group(1)


def solution_of(path):
    """The pristine notebook of an exercise notebook, or None."""
    path = Path(path)
    solution = path.parent / "solutions" / path.name
    return solution if path.suffix == ".ipynb" and solution.exists() else None


def graft(path):
    """The pristine notebook with the answers of the one at `path`.

    An answer that is missing, or there twice, becomes an `Absent` that says
    so when its check runs.
    """
    pristine = nbformat.read(solution_of(path), as_version=4)
    answers = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if name_of(cell):
            answers.setdefault(name_of(cell), []).append(cell.source)
    for cell in pristine.cells:
        name = name_of(cell)
        if not name:
            continue
        found = answers.get(name, [])
        if len(found) == 1:
            cell.source = found[0]
        else:
            problem = (
                f"the cell that begins with `# ANSWER {name}` is missing: "
                "it was deleted, or its first line changed."
                if not found else
                f"{len(found)} cells begin with `# ANSWER {name}`: keep one.")
            cell.source = (f"from lintut.check.core import Absent\n"
                           f"{name} = Absent({problem!r})")
        cell.outputs = []
        cell.metadata["tags"] = ["nbval-ignore-output"]
    return pristine
