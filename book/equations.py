"""The equation index: equation, code and test, side by side.

A page writes

    ```{equations} 6
    ```

and gets the list of chapter 6, made from book/equations.yml and from the
chapter's notebook.
"""

import re
from functools import cache
from pathlib import Path

import nbformat
import yaml
from docutils import nodes
from docutils.statemachine import StringList
from myst_parser.mdit_to_docutils.base import default_slugify
from sphinx.util.docutils import SphinxDirective

TABLE = Path(__file__).with_name("equations.yml")
ROOT = TABLE.parents[1]


def rows(number=None):
    """{label: row} of one chapter, or of all; `test` is always a list."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    for row in table.values():
        if isinstance(row["test"], str):
            row["test"] = [row["test"]]
    return {label: row for label, row in table.items()
            if number is None or label.startswith(f"eq-{number:02d}-")}


def chapter(number):
    """The path of a chapter's notebook."""
    return next((ROOT / "chapters").glob(f"{number:02d}-*.ipynb"))


@cache
def cells(path):
    """The cells of a notebook."""
    return nbformat.read(path, as_version=4).cells


def section_of(name, number):
    """A link to the section of a chapter whose cell defines `name`."""
    path, slug = chapter(number), ""
    for cell in cells(path):
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^#+ (.+)$", cell.source, flags=re.M):
                slug = default_slugify(heading)
        elif re.search(rf"^def {name}\(", cell.source, flags=re.M):
            return f"/chapters/{path.name}#{slug}"
    raise ValueError(f"no cell of {path.name} defines {name}")


def markdown(number):
    """The list of a chapter: a definition list, which a phone can show."""
    lines = []
    for label, row in rows(number).items():
        code = row.get("code", "")
        if "." in code:
            code = f"in `lintut.{code}`"
        elif code:
            code = f"in [`{code}`]({section_of(code, number)}), a cell"
        lines += [f"{{eq}}`{label}` {row['says']}",
                  f": {code or 'a step of the derivation'}", ""]
        for test in row["test"]:
            lines += [f": checked by {breakable('tests/' + test)}", ""]
    return lines


def breakable(name):
    """A long name as code that may break after its / and _ and ::."""
    return "<code>" + re.sub("(/|_|::)", r"\1<wbr>", name) + "</code>"


class Equations(SphinxDirective):
    """The list of the chapter whose number is the argument."""

    required_arguments = 1

    def run(self):
        number = int(self.arguments[0])
        for path in (TABLE, chapter(number)):
            self.env.note_dependency(str(path))
        box = nodes.container(classes=["equations"])
        self.state.nested_parse(StringList(markdown(number), str(TABLE)), 0,
                                box)
        return [box]


def setup(app):
    app.add_directive("equations", Equations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
