"""What a function does beside its result: to its inputs, and with memory."""

import contextlib
import sys

import numpy as np

from .comparing import difference
from .report import Finding


def manners(bench):
    """Inputs as they were; new results; the same again; all rows written."""
    call, says = bench.call, []
    case = bench.case(64 if call.multiple > 1 else 33)
    state = (bench.rule.start(*bench.widths, call.lead, 0, bench.options)
             if call.takes("initial_state") else None)
    positional, keywords, arrays = call.arguments(case.inputs, state)
    copies = {name: np.array(_plain(x)) for name, x in arrays.items()}
    first = call.run(positional, keywords)
    changed = [name for name, x in arrays.items()
               if not np.array_equal(_plain(x), copies[name])]
    if changed:
        says.append(f"it changes {', '.join(changed)}")
    result = first[0] if isinstance(first, (tuple, list)) else first
    shared = [name for name, x in arrays.items()
              if np.shares_memory(_plain(x), _plain(result))]
    if shared:
        says.append(f"its result is a view of {shared[0]}")
    yield Finding("inputs untouched", not says, "; ".join(says)
                  or "as they were, and no view of them is returned")
    o = call.read(first, case.inputs)[0]
    with poisoned():
        again = call(case.inputs, state)[0]
    problem = difference(again, o, bench.tolerance, nan=True)
    if problem and not (np.isnan(again) & ~np.isnan(o)).any():
        yield Finding("nothing unwritten", False, "the second call with the "
                      "same inputs gives another result: chance is in it, or "
                      "something left from the first")
        return
    yield Finding("nothing unwritten", not problem, (
        "with np.empty and torch.empty full of NaN, the second call: "
        + problem) if problem else "the same with np.empty and torch.empty "
        "full of NaN")


def _plain(x):
    """An array or a tensor as an array that shares its memory."""
    return x.detach().numpy() if hasattr(x, "detach") else np.asarray(x)


@contextlib.contextmanager
def poisoned():
    """np.empty, np.empty_like and torch's give NaN instead of what is there.
    """
    def poison(make):
        def made(*args, **keywords):
            x = make(*args, **keywords)
            floating = (x.dtype.kind == "f" if isinstance(x, np.ndarray)
                        else x.dtype.is_floating_point)
            if floating:
                x[...] = float("nan")
            return x
        return made

    torch = sys.modules.get("torch")
    places = [(np, "empty"), (np, "empty_like")]
    if torch:
        places += [(torch, "empty"), (torch, "empty_like"),
                   (torch.Tensor, "new_empty")]
    before = [getattr(*place) for place in places]
    try:
        for place, make in zip(places, before):
            setattr(*place, poison(make))
        yield
    finally:
        for place, make in zip(places, before):
            setattr(*place, make)
