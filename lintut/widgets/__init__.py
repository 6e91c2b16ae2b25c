"""The book's widgets; a class a widget, its logic in the module beside it.

They load when first asked for, and then need anywidget.  `assets`, which the
book's pages are built from, needs nothing.

A new widget is two files: name.js, on the toolkit that common.js describes,
and name.py, a subclass of `_base.Widget` called Name.
"""

from importlib import import_module

from . import assets

# Stepper lives in stepper.py, beside stepper.js.
_MODULES = {"".join(part.title() for part in name.split("_")): name
            for name in assets.names()}
__all__ = ["assets", *_MODULES]


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"lintut.widgets has no {name}; it has "
                             + ", ".join(_MODULES))
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
