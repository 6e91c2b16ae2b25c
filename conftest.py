"""For every test of the repository, notebooks included."""

import pytest

pytest_plugins = ["lintut.check.plugin"]

# What takes longest starts first, so that no worker waits for it at the end.
LONGEST = ("tests/test_colab.py", "tests/book/test_book_pages.py",
           "tests/kernels/", "tests/exercises/", "chapters/",
           "tests/test_verify.py", "exercises/")
# Its tests need not stay in one worker.
APART = "tests/book/test_book_pages.py"


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: next(
        (place for place, start in enumerate(LONGEST)
         if item.nodeid.startswith(start)), len(LONGEST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """`--dist loadfile`, but for the order, and for the file set APART."""
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class LongestFirst(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return nodeid if file == APART else file

    config.option.loadscopereorder = False      # which is by number of tests
    return LongestFirst(config, log)
