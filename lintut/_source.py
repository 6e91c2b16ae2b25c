"""Show a function as it stands in the package, so that a page cannot quote
code that nobody runs."""

import inspect
import pathlib
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent


class Source:
    """The text of a function or class; displays as highlighted Python."""

    def __init__(self, thing):
        thing = inspect.unwrap(thing)
        self.text = textwrap.dedent(inspect.getsource(thing)).rstrip()
        path = pathlib.Path(inspect.getsourcefile(thing)).resolve()
        self.path = path.relative_to(ROOT.parent).as_posix()

    def __repr__(self):
        return f"# {self.path}\n{self.text}"

    def _repr_markdown_(self):
        return f"`{self.path}`\n\n```python\n{self.text}\n```"


def source(thing):
    """The source of a function of lintut, ready to be displayed."""
    return Source(thing)
