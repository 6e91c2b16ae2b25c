"""`python -m book run`: execute notebooks and store what they give.

Running a notebook twice stores the same text twice: no times, no addresses,
no widget views, ids made from the cells' text.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from book.figures import MIME
from book.stills import Stills
from lintut.check.graft import solution_of

FOLDERS = ("chapters", "exercises", "exercises/solutions")
WIDGET = "application/vnd.jupyter.widget-view+json"
TIMEOUT = 600                   # seconds a cell may take


def notebooks(root=Path(".")):
    """Every notebook of the book, in order."""
    return [path for folder in FOLDERS
            for path in sorted((root / folder).glob("*.ipynb"))]


def run(paths=()):
    """Execute `paths`; returns the exit status.

    The default is all but the exercises, whose answers are for the reader.
    """
    paths = paths or [path for path in notebooks() if not solution_of(path)]
    os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"
    failed = []
    with Stills() as stills:
        for path in paths:
            print(f"== {path}", flush=True)
            try:
                _execute(path, stills)
            except CellExecutionError as error:
                print(error, file=sys.stderr)
                failed.append(str(path))
    if failed:
        print("failed, and left as they were: " + ", ".join(failed),
              file=sys.stderr)
    return 1 if failed else 0


def _execute(path, stills):
    notebook = nbformat.read(path, as_version=4)
    stored = _stored_stills(notebook)
    NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3",
        record_timing=False, coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}}).execute()
    normalise(notebook)
    for figure, data in _figures(notebook):
        data["image/png"] = (stored.get(_key(figure))
                             or stills.png(figure))
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def normalise(notebook):
    """Drop from a notebook what differs from run to run."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata.pop("widgets", None)
    notebook.metadata.kernelspec = {
        "display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata.language_info = {"name": "python"}
    seen = {}
    for cell in notebook.cells:
        name = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        seen[name] = seen.get(name, 0) + 1
        cell.id = name if seen[name] == 1 else f"{name}-{seen[name]}"
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)


def _figures(notebook):
    """Each plotly figure, with the output data that holds it."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if MIME in data:
                yield data[MIME], data


def _stored_stills(notebook):
    """The stills already stored, by figure: an unchanged one stays."""
    return {_key(figure): data["image/png"]
            for figure, data in _figures(notebook) if "image/png" in data}


def _key(figure):
    return json.dumps(figure, sort_keys=True)
