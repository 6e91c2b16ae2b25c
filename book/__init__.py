"""What turns the notebooks into pages.

    python -m book build    the pages, in _build/html/
    python -m book run      execute notebooks and store their outputs
    python -m book stamp    write every notebook's set-up cell

`site` is the Sphinx extension; `maths` and `figures` are its two renderers,
and `equations` makes the equation index.
"""
