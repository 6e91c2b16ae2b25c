"""Show a function as it stands in the package, so that a page cannot quote
code that nobody runs."""

import ast
import inspect
import pathlib
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent


class Source:
    """The text of a function or class; displays as highlighted Python."""

    def __init__(self, thing, first=None, last=None):
        text, path = (_read(thing) if isinstance(thing, str)
                      else _inspect(thing))
        self.text = _part(textwrap.dedent(text).rstrip(), first, last)
        self.path = path.relative_to(ROOT.parent).as_posix()

    def __repr__(self):
        return f"# {self.path}\n{self.text}"

    def _repr_markdown_(self):
        return f"`{self.path}`\n\n```python\n{self.text}\n```"


def _inspect(thing):
    thing = inspect.unwrap(thing)
    path = pathlib.Path(inspect.getsourcefile(thing)).resolve()
    return inspect.getsource(thing), path


def _read(name):
    """The text of "lintut.module.function", its module not imported."""
    module, _, function = name.rpartition(".")
    path = ROOT.parent.joinpath(*module.split(".")).with_suffix(".py")
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for node in ast.parse(text).body:
        if getattr(node, "name", None) == function:
            first = min([node, *node.decorator_list],
                        key=lambda part: part.lineno).lineno
            return "\n".join(text.split("\n")[first - 1:node.end_lineno]), path
    raise ValueError(f"thing must name a function of lintut; it is {name!r}")


def _part(text, first, last):
    """The lines from the one that holds `first` to the one with `last`."""
    lines = text.split("\n")

    def find(name, mark, start):
        for i in range(start, len(lines)):
            if mark in lines[i]:
                return i
        raise ValueError(f"{name} must occur in the source; {mark!r} does not")

    begin = find("first", first, 0) if first else 0
    end = find("last", last, begin) if last else len(lines) - 1
    return textwrap.dedent("\n".join(lines[begin:end + 1]))


def source(thing, first=None, last=None):
    """The source of a function of lintut, ready to be displayed.

    `thing` is the function, or its dotted name, which is read without
    importing it: a Triton kernel needs no Triton to be shown.  `first` and
    `last` choose a part: texts in its first and its last line.
    """
    return Source(thing, first, last)
