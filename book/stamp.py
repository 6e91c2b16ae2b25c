"""`python -m book stamp`: every notebook's set-up cell, from one setting.

The setting is `repository: url` in _config.yml.  Nothing else in the
repository may say where the book is hosted.
"""

import sys
from pathlib import Path

import nbformat
import yaml

from book.run import notebooks

# It prints this machine's versions; a page folds its code.
TAGS = ["setup", "hide-input", "nbval-ignore-output"]

UNSET = '''\
try:
    import lintut
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "lintut is missing: bring the book's folder to this machine, run "
        "`%pip install 'PATH/OF/FOLDER[colab]'` in a cell, then run this one"
    ) from None
lintut.report()'''

SET = '''\
import sys
if "google.colab" in sys.modules:   # elsewhere it is installed already
    %pip install --quiet "lintut[colab] @ git+{url}"
import lintut
lintut.report()'''


def setup_source(root=Path(".")):
    """The text of the set-up cell."""
    config = yaml.safe_load((root / "_config.yml").read_text())
    url = (config.get("repository") or {}).get("url")
    return SET.format(url=url) if url else UNSET


def setup_cell(notebook):
    """A notebook's set-up cell: its first code cell, if tagged so."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            tagged = "setup" in cell.metadata.get("tags", [])
            return cell if tagged else None
    return None


def stamp(root=Path(".")):
    """Write the set-up cells; returns the exit status."""
    source = setup_source(root)
    for path in notebooks(root):
        notebook = nbformat.read(path, as_version=4)
        cell = setup_cell(notebook)
        if cell is None:
            print(f"{path}: the first code cell is not tagged `setup`",
                  file=sys.stderr)
            return 1
        if cell.source != source or cell.metadata.tags != TAGS:
            cell.source, cell.metadata.tags = source, TAGS
            nbformat.write(notebook, path)
            print(f"stamped {path}")
    return 0
