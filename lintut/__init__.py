"""lintut: the code behind the book on efficient attention.

``import lintut`` needs NumPy alone.  The parts that need more say so when
they are imported:

    lintut.reference     NumPy; one module a mechanism
    lintut.cost          FLOPs, bytes and state of each, from formulas
    lintut.check         the exercises' checks
    lintut.verify        your function against the rule that it claims
    lintut.kernels       PyTorch and Triton; the same module names
    lintut.experiments   what took too long for a page; bench: speed
    lintut.plots         plotly
    lintut.widgets       anywidget
"""

from lintut._source import source
from lintut.environment import report

__version__ = "0.1.0"
__all__ = ["report", "source"]
