"""For pytest: nbval judges exercises by the pristine notebook.

    pytest --nbval exercises/06-recurrence.ipynb

nbval alone compares a notebook with itself, so that a wrong answer, once run
and saved, passes.  See `graft`.
"""

import tempfile
from pathlib import Path

import nbformat

from .graft import graft, solution_of

# Arrays in it are base64 floats, whose last bits differ between machines; the
# numbers that matter are printed.
PLOTLY = "application/vnd.plotly.v1+json"


# An answer whose cell never ends; nbval alone waits 2,000 seconds.
SECONDS = 600


def pytest_configure(config):
    if getattr(config.option, "nbval_cell_timeout", None) == 2000:
        config.option.nbval_cell_timeout = SECONDS


def pytest_collectstart(collector):
    if not hasattr(collector, "skip_compare"):      # not a notebook of nbval
        return
    collector.skip_compare += (PLOTLY,)
    if solution_of(collector.path) is not None:
        _collect_grafted(collector)


def _collect_grafted(collector):
    """Let `collector` read the grafted notebook in place of its file."""
    read = collector.collect

    def collect():
        path = collector.path
        with tempfile.TemporaryDirectory() as folder:
            collector.path = Path(folder) / path.name
            nbformat.write(graft(path), collector.path)
            try:
                return list(read())
            finally:
                collector.path = path
    collector.collect = collect
