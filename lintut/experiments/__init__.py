"""Experiments too long for a page; each is a command that records a file.

    python -m lintut.experiments.retrieval --out results/retrieval.json
"""

import json
from pathlib import Path


def recorded(name):
    """results/NAME as the repository has it; None where it is not at hand."""
    package = Path(__file__).resolve().parents[1]   # installed: a copy is in it
    for folder in (package.parent, package, Path.cwd(), *Path.cwd().parents):
        file = folder / "results" / name
        if file.is_file():
            return json.loads(file.read_text(encoding="utf-8"))
    return None
