"""What to say when a package that only part of lintut needs is missing."""

import importlib


def require(package, extra, purpose):
    """Import and return `package`, or say how to install it.

    Raises
    ------
    ImportError
        Names the package, what needs it, and the command that installs it.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package.split(".")[0]:
            raise           # it is there, and something of its own is not
        raise ImportError(
            f"{purpose} needs {package}, which is not installed here: "
            f"pip install {package}  (or  pip install -e '.[{extra}]'  "
            "in the book's folder)"
        ) from None
