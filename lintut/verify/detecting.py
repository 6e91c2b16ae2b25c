"""Finding out what a function takes, by trying.

Attention mixes tokens and nothing else.  So one value is changed, and the
axis along which the change spreads is the token axis: this works even if the
numbers are wrong.
"""

import sys
import warnings
from itertools import product

import numpy as np

from .calling import LAYOUTS, Caller, Failed, split

# (axes before the width, (d, d_v)); plain inputs first.
PROBES = (((2, 5, 7), (4, 3)), ((2, 5, 7), (4, 4)),
          ((2, 64, 128), (4, 3)), ((2, 64, 128), (16, 16)))


def detect(function, rule, names, options, layout=None):
    """A `Caller` for the function; `Failed` if nothing works."""
    reasons, ran = [], set()
    for axes, widths in PROBES:
        fallback = None
        # Large probes are dear: they go where small ones got an answer.
        there = ran if axes[1] == 64 and ran else {3, 2, 1}
        for dtype, library, axis_count in product(
                ("float64", "float32"), _libraries(function), (3, 2, 1)):
            if axis_count not in there or (
                    layout is not None and len(layout) != axis_count):
                continue
            caller = Caller(function, rule, names, options, library,
                            {3: "BHT", 2: "BT", 1: "T"}[axis_count], dtype)
            try:
                with warnings.catch_warnings(action="ignore"):
                    spread = _spread(caller, axes[-axis_count:], *widths)
            except Failed as why:
                if not why.__cause__:       # it answered, and wrongly
                    ran.add(axis_count)
                reasons.append(f"{library}, "
                               f"{_letters(axis_count)}: {why}")
                continue
            caller.square = widths[0] == widths[1]
            caller.multiple = 64 if axes[1] == 64 else 1
            caller.layout = layout or _layout(spread) or caller.layout
            if layout or _layout(spread):
                return _orient(caller)
            fallback = fallback or caller
        if fallback:
            return _orient(fallback)
    raise Failed("it cannot be called:\n" + "\n".join(
        f"    {reason}" for reason in dict.fromkeys(reasons[:6])))


def _libraries(function):
    """Those to try, the likely one first."""
    if "torch" not in sys.modules:
        return ("NumPy",)
    code = getattr(function, "__code__", None)
    scope = getattr(function, "__globals__", {})
    uses = [scope.get(name) for name in getattr(code, "co_names", ())]
    torch = any(str(getattr(x, "__name__", getattr(x, "__module__", "")))
                .split(".")[0] == "torch" for x in uses)
    return ("torch", "NumPy") if torch else ("NumPy", "torch")


def _spread(caller, axes, d, d_v):
    """Per axis: does a change at its first index reach another index?"""
    lead = {3: lambda: (axes[0], axes[1]), 2: lambda: (axes[0], 1),
            1: lambda: (1, 1)}[len(axes)]()
    x = caller.rule.inputs(axes[-1], d, d_v, lead)
    before = caller(x)[0]
    x["v"] = x["v"].copy()
    x["v"][0, 0, 0] += 1
    with np.errstate(invalid="ignore"):
        moved = (np.nan_to_num(caller(x)[0]) != np.nan_to_num(before)).any(-1)
    return [moved.take(range(1, moved.shape[axis]), axis).any()
            for axis in {3: (0, 1, 2), 2: (0, 2), 1: (2,)}[len(axes)]]


def _layout(spread):
    """The layout in which only the token axis is mixed, or None."""
    return {(False, False, True): "BHT", (False, True, False): "BTH",
            (False, True): "BT", (True,): "T"}.get(tuple(map(bool, spread)))


def _letters(axis_count):
    return {3: "four axes", 2: LAYOUTS["BT"], 1: LAYOUTS["T"]}[axis_count]


def _orient(caller):
    """Find out whether S comes as d×d_v or d_v×d; whether it comes at all."""
    caller.gives_state = False
    if caller.rule.state == "KV" and not caller.options["causal"]:
        caller.theirs["initial_state"] = caller.theirs["return_state"] = None
        return caller
    T = 64 * 2 if caller.multiple > 1 else 5
    d, d_v = (16, 16) if caller.square else (4, 3)
    x = caller.rule.inputs(T, d, d_v, caller.lead)
    try:
        positional, keywords, _ = caller.arguments(x, want=True)
        state = split(caller.run(positional, keywords))[1]
    except Failed:
        return caller
    caller.gives_state = state is not None
    if caller.rule.state != "KV" and caller.gives_state:
        S = state[0] if isinstance(state, tuple) else state
        caller.turned = tuple(getattr(S, "shape", ()))[-2:] == (d_v, d) != (
            d, d_v)
    elif caller.takes("initial_state") and caller.rule.state != "KV":
        try:
            caller(x, caller.rule.start(d, d_v, caller.lead, 0,
                                        caller.options))
        except Failed:
            caller.turned = True
    return caller
