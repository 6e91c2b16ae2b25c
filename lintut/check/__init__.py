"""Checks for the exercises: right or wrong, at once, and which mistake.

    from lintut.check import chapter
    check = chapter(6)
    check("prefix_sums", prefix_sums)

A right answer prints a line.  A wrong one raises `Wrong`, whose message says
which case failed, what was expected, and which mistake it looks like.

An answer is the reader's own code and runs on the reader's own machine, with
all of its rights.  Whoever grades the answers of others must run them where
they can do no harm.
"""

from importlib import import_module

from .core import Absent, Wrong

__all__ = ["Wrong", "chapter"]


def chapter(number):
    """The `check(name, answer)` of one chapter's exercises."""
    module = import_module(f"lintut.check.ch{number:02d}")
    exercises = {exercise.name: exercise for exercise in module.EXERCISES}

    def check(name, answer):
        if name not in exercises:
            raise ValueError(f"name must be one of {', '.join(exercises)}; "
                             f"it is {name!r}")
        if isinstance(answer, Absent):
            raise Wrong(answer.says)
        print(exercises[name].judge(answer))
    return check
