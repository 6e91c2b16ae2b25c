"""lintut: the code behind the book on efficient attention.

``import lintut`` needs NumPy alone.  The parts that need more say so when
they are imported:

    lintut.reference   NumPy; one module a mechanism
    lintut.kernels     PyTorch and Triton; the same module names
    lintut.plots       plotly
    lintut.widgets     anywidget
"""

from lintut._source import source
from lintut.environment import report

__version__ = "0.1.0"
__all__ = ["report", "source"]
