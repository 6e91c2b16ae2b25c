"""`python -m lintut.check exercises/06-recurrence.ipynb …`: a verdict each.

Runs the answers in the pristine notebook (see `graft`), and says of each
exercise whether it is right.  Exit status 0 if all are.  `--json` prints
[{"file", "exercise", "right", "says"}, …] for a grader's program;
`--progress` prints one line a notebook, for an overview.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from lintut._optional import require

from .graft import graft, name_of, solution_of

# An answer's own cell, and its check with all cases and limits.
SECONDS = 300
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def verdicts(path):
    """[(exercise, right, what its check says)] of one notebook."""
    nbclient = require("nbclient", "check", "python -m lintut.check")
    notebook = graft(path)
    expected = [_text(cell) for cell in notebook.cells]
    nbclient.NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", allow_errors=True,
        interrupt_on_timeout=True, error_on_timeout={
            "ename": "KeyboardInterrupt", "evalue": "", "traceback": []},
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(Path(path).parent)}}).execute()
    result, name = [], None
    for cell, right in zip(notebook.cells, expected):
        if name_of(cell) or cell.source.startswith("from lintut.check.core"):
            name = name_of(cell) or cell.source.split("\n")[1].split(" ")[0]
            broken = _error(cell)
        elif name and cell.cell_type == "code" and (
                cell.source.startswith("check(")):
            says = broken or _error(cell) or _text(cell)
            result.append((name, says == right, says))
    return result


def _text(cell):
    """What a cell prints; a warning beside it changes no verdict."""
    return "".join(output.get("text", "")
                   for output in cell.get("outputs", [])
                   if output.get("name") == "stdout").strip()


def _error(cell):
    """What an error in a cell says, without colours and stack."""
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            if output.ename == "Wrong":
                return output.evalue
            if output.ename == "KeyboardInterrupt":
                return f"The cell was stopped after {SECONDS} seconds."
            return f"{output.ename}: {COLOURS.sub('', output.evalue)}"
    return ""


def overview(path, rows):
    """One line: which exercises of a notebook are right, and the next one."""
    marks = "".join("■" if right else "□" for _, right, _ in rows)
    left = [name for name, right, _ in rows if not right]
    return (f"{path.stem:20} {marks:10} {len(rows) - len(left):2} of "
            f"{len(rows)}" + (f"   next: {left[0]}" if left else ""))


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m lintut.check",
                                     description=__doc__.split("\n\n")[1])
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true",
                        help="for programs, not for people")
    parser.add_argument("--progress", action="store_true",
                        help="one line a notebook")
    options = parser.parse_args(arguments)
    rows = []
    for path in options.notebooks:
        if solution_of(path) is None:
            parser.error(f"{path} is not an exercise notebook: there is no "
                         f"solutions/{path.name} beside it")
        found = verdicts(path)
        rows += [(str(path), *row) for row in found]
        if options.progress:
            print(overview(path, found), flush=True)
    wrong = sum(not right for _, _, right, _ in rows)
    if options.json:
        print(json.dumps([dict(zip(("file", "exercise", "right", "says"), row))
                          for row in rows], indent=1, ensure_ascii=False))
    else:
        for path, name, right, says in rows * (not options.progress):
            print(f"{'✔' if right else '✘'} {says if right else name}")
            if not right:
                print("    " + says.replace("\n", "\n    "))
        print(f"{len(rows) - wrong} of {len(rows)} right")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
