"""Give it your function and the rule that it claims; get a report.

>>> from lintut import verify
>>> from lintut.reference import retention
>>> verify.check(retention.chunkwise, "retention", gamma=.8).ok
True

The rules are those of the book: softmax, sliding_window, linear, retention,
gla, delta, gated_delta; the definitions are `lintut.reference`, in float64.
Your function may be NumPy's or torch's, take (B, H, T, D), (B, T, H, D),
(B, T, D) or (T, D), and hold its state as d×d_v or d_v×d: what it does is
found out by trying.

    rules      the rules, their inputs and definitions
    calling    a function's own layout, names and library
    detecting  which they are
    trials     the tests of results; `manners` of what happens beside them,
               `numerics` of precision and gradients
    states     known mistakes in rules with a state, their lines in `steps`;
               `pairs` those in softmax attention
    comparing  row by row;  report  what was found
"""

import numpy as np

from . import detecting, manners, numerics, pairs, states, trials
from .calling import LAYOUTS, Failed
from .comparing import difference, parts
from .report import Finding, Report
from .rules import RULES, find

__all__ = ["RULES", "Finding", "Report", "check"]

TRIALS = (trials.agreement, trials.chunk_sizes, trials.leak, trials.apart,
          trials.carrying, manners.manners, numerics.precision,
          numerics.sixteen_bits, numerics.gradients)
# What must have failed for a known mistake to be looked for.
RESULTS = ("agrees with the definition", "lengths, many chunks", "state")


def check(function, rule, *, names=None, layout=None, **options):
    """Test a function against the rule it claims.

    Parameters
    ----------
    function : callable, f(q, k, v, …)
        Gates (alpha, beta) are given by keyword if it has their names, else
        after q, k, v in this order; an option, an initial_state or a
        return_state only if it has the name.  It may return o, (o, state)
        or, for linear attention, (o, S, z).
    rule : a key of `RULES`
    names : dict, optional
        Our name to yours, {"alpha": "g", "return_state": "final"}; a state
        in two arguments is {"initial_state": ("S", "z")}.
    layout : "BHT", "BTH", "BT" or "T", optional
        The axes of q before its width; found out if not given.
    **options
        Constants of the rule: window, gamma, scale, causal; `feature_map`
        (NumPy's) for the definition of "linear", a Performer's for one.

    Returns
    -------
    Report : its text is the findings and the likely mistake; `ok`,
        `findings`, `mistake`, `to_dict()`.

    Raises
    ------
    ValueError : an unknown rule, option or layout.  What the function does
        wrong is in the report.
    """
    rule, options = find(rule, options)
    if layout is not None and layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}; "
                         f"it is {layout!r}")
    if not callable(function):
        raise ValueError(f"function must be callable; it is {function!r}")
    report = Report(getattr(function, "__name__", type(function).__name__),
                    rule.name)
    try:
        call = detecting.detect(function, rule, names or {}, options, layout)
    except Failed as why:
        report.findings.append(Finding("can be called", False, str(why)))
        return report
    report.called = _described(call)
    bench = trials.Bench(call, rule, options)
    for trial in TRIALS:
        try:
            report.findings.extend(trial(bench))
        except Failed as why:
            report.findings.append(Finding(
                trial.__name__.replace("_", " "), False, str(why)))
    report.known = any(f.passed is False and f.test in RESULTS
                       for f in report.findings)
    if report.known:
        report.mistake = _mistake(bench)
    return report


def _described(call):
    words = [f"{call.library} {call.dtype}", LAYOUTS[call.layout]]
    if call.gives_state and call.rule.state != "KV" and not call.square:
        words.append("S as " + ("d_v×d" if call.turned else "d×d_v"))
    taken = [f"{name} as {theirs}" if theirs != name else name
             for name, theirs in call.theirs.items() if theirs]
    # A constant that it cannot be told has to be built in.
    fixed = [f"{name}={value:g}" for name, value in call.options.items()
             if name in ("window", "gamma") and not call.takes(name)
             and np.ndim(value) == 0]
    return (", ".join(words) + ("; it takes " + ", ".join(taken)
                                if taken else "")
            + (f"; it should have {fixed[0]} built in" if fixed else ""))


def _mistake(bench):
    """The words of the first known mistake that gives the same results.

    It must agree wherever the function gave any, and be wrong somewhere.
    """
    ran = [(case, *given) for case, given in zip(bench.cases, bench.given)
           if not isinstance(given, Failed)]
    known = pairs if bench.rule.state == "KV" else states
    for with_states in (True, False):
        for words, wrong in known.mistakes(bench.rule, bench.options,
                                           (8, 16, 32, 64, 128)):
            if _explains(wrong, ran, with_states):
                return words
    return ""


def _explains(wrong, ran, with_states):
    """Whether `wrong` gives what the function gave, and that is not right."""
    shows = False
    for case, *given in ran:
        try:
            theirs = wrong(case.inputs, case.state)
        except ValueError:              # cannot be made with these widths
            return False
        for mine, other, right in zip(*(
                [o, *(parts(S) if with_states and given[1] is not None
                      and case.right[1] is not None else ())]
                for o, S in (given, theirs, case.right))):
            if difference(mine, other, 1e-5, nan=True):
                return False
            shows |= bool(difference(other, right, 1e-4))
    return shows
