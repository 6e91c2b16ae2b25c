"""The bug hunt: design a test, and see which wrong functions pass it."""

import traitlets

from lintut.reference._checks import count

from . import assets
from ._base import Widget, table

CHOICES = {
    "kind": ("definition", "leak", "carry"),
    "compare": ("rows", "rms"),
    "sequences": (1, 1024),
    "gate": ("varied", "one"),
    "step": ("varied", "one"),
    "state": ("random", "zero"),
    "values": ("random", "constant"),
    "widths": (3, 4),
}
EASY = dict(kind="definition", compare="rms", tokens=8, sequences=1024,
            gate="one", step="one", state="zero", values="constant", widths=4)
HARD = dict(kind="definition", compare="rows", tokens=21, sequences=1,
            gate="varied", step="varied", state="random", values="random",
            widths=3)

# mistake: (in words, what a hard test needs to see it).  Without that one
# thing the mistake passes: tests/widgets/test_bug_hunt.py tries each.
MISTAKES = {
    "row": ("the last row of one sequence is never written",
            "every row by itself"),
    "rest": ("the tokens after the last whole chunk are left out",
             "a ragged length"),
    "first": ("the state is read before the token is written", "nothing"),
    "transposed": ("S is read as S q, not Sᵀq", "nothing"),
    "error": ("α is left out of the error", "varied gates"),
    "overlaps": ("α is left out of the overlaps in a chunk (WY)",
                 "varied gates"),
    "wy": ("a chunk's errors do not need one another (no WY)", "nothing"),
    "gate": ("the gate is that of the token before", "varied gates"),
    "beta": ("β is left out", "varied steps"),
    "chunks": ("no state goes from chunk to chunk", "many chunks"),
    "start": ("the initial state is ignored", "an initial state"),
    "future": ("a chunk is written before its first query reads", "nothing"),
}


class BugHunt(Widget):
    """Twelve wrong versions of the gated delta rule, and a test of them.

    Parameters
    ----------
    ran : bool
        Show what the test sees at once, instead of asking first.
    **test : what changes in `EASY`
        kind, compare, tokens (2 to 64), sequences, gate, step, state,
        values, widths (d_v beside d = 4); see `CHOICES`.
    """

    name = "bug_hunt"
    _esm = assets.module(name)

    test = traitlets.Dict().tag(sync=True)
    ran = traitlets.Bool(False).tag(sync=True)

    def __init__(self, ran=False, **test):
        for name, value in test.items():
            if name == "tokens":
                count(name, value, 2, 64)
            elif name not in CHOICES:
                raise ValueError(f"{name} is no part of a test; those are "
                                 f"tokens, {', '.join(CHOICES)}")
            elif value not in CHOICES[name]:
                raise ValueError(f"{name} must be one of "
                                 f"{', '.join(map(str, CHOICES[name]))}; "
                                 f"it is {value!r}")
        super().__init__(test=EASY | test, ran=ran)

    def summary(self):
        return {name: self.test[name] for name in
                ("kind", "compare", "tokens", "gate", "state")}

    def still(self):
        return table("Mistakes in the gated delta rule, and what a test must "
                     "have to see them", ["mistake", "needs"],
                     MISTAKES.values())
