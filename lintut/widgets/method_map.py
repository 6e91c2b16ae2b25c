"""The map: what a method changes, and what two methods do together."""

from itertools import combinations

import traitlets

from . import assets
from ._base import Widget, table

PARTS = {
    "connections": "who sees whom",
    "positions": "how many positions",
    "likeness": "how alike, in which order",
    "state": "how memory is managed",
    "computation": "how it is computed",
}

# name: (label, kind, what it changes; what is not named stays as in softmax)
METHODS = {
    "sliding_window": ("sliding window", "sparse", {
        "connections": "the w nearest keys",
        "state": "a cache of w keys and values"}),
    "longformer": ("Longformer", "sparse", {
        "connections": "a window, and global tokens"}),
    "bigbird": ("BigBird", "sparse", {
        "connections": "a window, global and random blocks"}),
    "linformer": ("Linformer", "slots", {
        "positions": "N keys and values become m slots"}),
    "linear": ("Linear Transformer", "kernel", {
        "likeness": "φ(q)·φ(k), with φ = ELU + 1; sums before queries",
        "state": "S and z, added to"}),
    "performer": ("Performer", "kernel", {
        "likeness": "random features that estimate exp; sums before queries",
        "state": "S and z, added to"}),
    "retention": ("RetNet", "rule", {
        "likeness": "q·k; sums before queries",
        "state": "S fades by a fixed γ a step"}),
    "gla": ("GLA", "rule", {
        "likeness": "q·k; sums before queries",
        "state": "each row of S fades as the input says"}),
    "delta": ("DeltaNet", "rule", {
        "likeness": "q·k, less what was corrected since",
        "state": "S takes the error, not the value"}),
    "gated_delta": ("Gated DeltaNet", "rule", {
        "likeness": "q·k, less what was corrected since",
        "state": "S fades, then takes the error"}),
    "flash": ("FlashAttention", "exact", {
        "computation": "softmax tile by tile, scores never stored"}),
}

# What two kinds do together: (verdict, why).
KINDS = {
    "sparse+sparse": ("yes", "Patterns are sets of pairs: their union is a "
                      "pattern. Longformer and BigBird already hold a "
                      "window."),
    "slots+sparse": ("yes", "A window for what is near, slots for what is "
                     "far, under one softmax. Not causal as it stands: the "
                     "slots mix all positions."),
    "kernel+sparse": ("yes", "Side by side, in other heads or other layers: "
                      "the window recalls the near past exactly, the state "
                      "has something of all the rest."),
    "rule+sparse": ("yes", "Side by side, in other heads or other layers: "
                    "the window recalls the near past exactly, the state "
                    "has something of all the rest."),
    "exact+sparse": ("yes", "The tiles that the pattern leaves empty are "
                     "skipped, the others computed as ever: block-sparse "
                     "FlashAttention."),
    "kernel+slots": ("no", "The slots already make the sequence short, so "
                     "that sums over it save nothing; and the slots mix the "
                     "future in, so that there is no state to carry."),
    "rule+slots": ("no", "A rule works token by token, and the slots exist "
                   "only when all tokens are known."),
    "exact+slots": ("yes", "After the projection it is softmax attention on "
                    "m keys, and FlashAttention computes that."),
    "kernel+kernel": ("no", "A state has one feature map: choose one."),
    "kernel+rule": ("yes", "The rules say how S is updated, the kernel what "
                    "is written into it: put φ(k) where the rule has k."),
    "exact+kernel": ("idea", "There is no softmax whose running maximum "
                     "could be kept. Its idea, tiles that stay on the chip, "
                     "comes back as the chunkwise form."),
    "exact+rule": ("idea", "There is no softmax whose running maximum could "
                   "be kept. Its idea, tiles that stay on the chip, comes "
                   "back as the chunkwise form."),
}
PAIRS = {
    "gla+retention": ("one", "GLA with all gates equal to one constant γ is "
                      "RetNet's rule."),
    "delta+retention": ("yes", "Fade by γ, then write the error: Gated "
                        "DeltaNet with a constant gate."),
    "delta+gla": ("yes", "Fade each row, then write the error: Kimi Delta "
                  "Attention does this."),
    "delta+gated_delta": ("one", "Gated DeltaNet with α = 1 is DeltaNet."),
    "gated_delta+retention": ("one", "Gated DeltaNet's gate can be a "
                              "constant γ: it holds RetNet's fading "
                              "already."),
    "gated_delta+gla": ("yes", "A gate for each row in place of one for all: "
                        "Kimi Delta Attention does this."),
}


def together(a, b):
    """(verdict, why) for two methods; the verdict is "yes", "no", "idea"
    (not itself, but its idea) or "one" (one holds the other)."""
    pair = "+".join(sorted((a, b)))
    kinds = "+".join(sorted((METHODS[a][1], METHODS[b][1])))
    return PAIRS.get(pair) or KINDS[kinds]


class MethodMap(Widget):
    """Choose one method, or two, and see what they touch.

    Parameters
    ----------
    first, second : names of `METHODS`; `second` may be ""
    """

    name = "method_map"
    _esm = assets.module(name)

    first = traitlets.Unicode().tag(sync=True)
    second = traitlets.Unicode().tag(sync=True)
    parts = traitlets.Dict().tag(sync=True)
    methods = traitlets.Dict().tag(sync=True)
    pairs = traitlets.Dict().tag(sync=True)
    kinds = traitlets.Dict().tag(sync=True)

    def __init__(self, first="sliding_window", second=""):
        for name, value in (("first", first), ("second", second)):
            if value not in METHODS and (value or name == "first"):
                raise ValueError(f"{name} must be one of "
                                 f"{', '.join(METHODS)}; it is {value!r}")
        super().__init__(
            first=first, second=second, parts=PARTS,
            methods={name: dict(label=label, kind=kind, touches=touches)
                     for name, (label, kind, touches) in METHODS.items()},
            pairs={key: list(value) for key, value in PAIRS.items()},
            kinds={key: list(value) for key, value in KINDS.items()})

    def summary(self):
        return {"first": self.first, "second": self.second}

    def still(self):
        rows = [[label] + [touches.get(part, "as softmax") for part in PARTS]
                for label, _, touches in METHODS.values()]
        return table("What each method changes", ["method", *PARTS.values()],
                     rows)


def missing():
    """Pairs of methods about which nothing is said: none."""
    result = []
    for a, b in combinations(METHODS, 2):
        kinds = "+".join(sorted((METHODS[a][1], METHODS[b][1])))
        if "+".join(sorted((a, b))) not in PAIRS and kinds not in KINDS:
            result.append((a, b))
    return result
