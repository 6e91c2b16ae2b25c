"""The tests of results.  Each takes a `Bench` and yields `Finding`s."""

from dataclasses import dataclass

import numpy as np

from . import rules
from .calling import Caller, Failed
from .comparing import difference, state_difference
from .report import Finding

TOLERANCE = {"float64": 1e-8, "float32": 1e-3}
SINGLE = 1e-5           # float64 outside, float32 inside


@dataclass
class Bench:
    """The function, its rule, and the cases with both results."""
    call: Caller
    rule: rules.Rule
    options: dict
    cases: list = ()
    given: list = ()                # (o, state), or the `Failed`
    tolerance: float = 0

    def __post_init__(self):
        states = (False, True) if self.call.takes("initial_state") else (
            False,)
        self.cases = [self.case(T, begin=begin) for begin in states
                      for T in self.lengths() if not begin or T in (17, 150)
                      or self.call.multiple > 1]
        self.given = [self.attempt(c) for c in self.cases]
        self.tolerance = TOLERANCE[self.call.dtype]
        if self.off(self.tolerance) and not self.off(SINGLE):
            self.tolerance = SINGLE

    def off(self, tolerance):
        """Whether an output that came is further off than that."""
        return any(difference(given[0], case.right[0], tolerance)
                   for case, given in zip(self.cases, self.given)
                   if not isinstance(given, Failed))

    @property
    def widths(self):
        return (16, 16) if self.call.square else (5, 3)

    def lengths(self):
        return ((64, 128, 320) if self.call.multiple > 1 else
                (1, 2, 5, 17, 64, 65, 150, 300))

    def case(self, T, **more):
        return rules.case(self.rule, self.options, T, *self.widths,
                          self.call.lead, **more)

    def attempt(self, case):
        try:
            return self.call(case.inputs, case.state,
                             want=self.call.gives_state)
        except Failed as why:
            return why


def agreement(bench):
    """Every row of every length, in two groups: short, and with chunks."""
    groups = {"agrees with the definition": [], "lengths, many chunks": []}
    for case, given in zip(bench.cases, bench.given):
        if case.state is None:
            problem = str(given) if isinstance(given, Failed) else difference(
                given[0], case.right[0], bench.tolerance)
            groups[list(groups)[case.T > 17]].append((case.name, problem))
    if bench.tolerance == SINGLE:
        yield Finding("float64", None, "right to float32's precision only: "
                      f"something inside is float32; compared to {SINGLE:g}")
    d, d_v = bench.widths
    for name, results in groups.items():
        bad = [(case, problem) for case, problem in results if problem]
        if bad:
            yield Finding(name, False, f"{len(bad)} of {len(results)} "
                          f"lengths; {bad[0][0]}: {bad[0][1]}")
        elif results:
            yield Finding(name, True, ", ".join(case for case, _ in results)
                          + f"; d={d}, d_v={d_v}: every row")
    if bench.call.square:
        yield Finding("d ≠ d_v", False, "it works for d = d_v alone, where a "
                      "state and its transpose look alike")
    if bench.call.multiple > 1:
        yield Finding("ragged lengths", False,
                      "it refuses lengths that are no multiple of its chunk")


def chunk_sizes(bench):
    """The result does not depend on the chunk size."""
    if not bench.call.takes("chunk_size") or bench.call.multiple > 1:
        return
    case, wrong = bench.case(100), []
    for size in (1, 7, 16, 64, 1000):
        try:
            o, _ = bench.call(case.inputs, chunk_size=size)
            problem = difference(o, case.right[0], bench.tolerance)
        except Failed as why:
            problem = str(why)
        if problem:
            wrong.append(f"chunk_size={size}: {problem}")
    yield Finding("chunk sizes", not wrong, "\n".join(wrong)
                  or "1, 7, 16, 64 and 1000 give the same")


def leak(bench):
    """Change the future: the past stays, and the rest does not."""
    if not bench.options.get("causal", True):
        yield Finding("no future in the past", None,
                      "not causal: nothing to leak")
        return
    case = bench.case(128 if bench.call.multiple > 1 else 70)
    other = bench.case(case.T, seed=1)
    before, says = bench.call(case.inputs)[0], []
    for cut in (1, 33, 64):
        x = {name: np.concatenate([a[:, :, :cut], other.inputs[name][
            :, :, cut:]], 2) for name, a in case.inputs.items()}
        after = bench.call(x)[0]
        problem = difference(after[:, :, :cut], before[:, :, :cut],
                             bench.tolerance, nan=True)
        if problem:
            says.append(f"tokens from {cut} on were changed: {problem}")
        if not difference(after[:, :, cut:], before[:, :, cut:], 1e-3):
            says.append(f"tokens from {cut} on were changed, and nothing "
                        "moved: it does not look at them")
    yield Finding("no future in the past", not says, "\n".join(says[:1]) or
                  "changed from 1, 33 and 64 on: the rows before stay, the "
                  "others move")


def apart(bench):
    """Change one sequence of the batch: the others stay."""
    if bench.call.lead == (1, 1):
        return
    case = bench.case(64 if bench.call.multiple > 1 else 17)
    before = bench.call(case.inputs)[0]
    for what, at in (("batch entry 0", (0,)), ("head 0", (slice(None), 0))):
        if bench.call.lead[len(at) - 1] == 1:
            continue
        x = {name: a.copy() for name, a in case.inputs.items()}
        x["k"][at], x["v"][at] = -x["k"][at], 2 + x["v"][at]
        same = np.delete(bench.call(x)[0], 0, len(at) - 1)
        problem = difference(same, np.delete(before, 0, len(at) - 1),
                             bench.tolerance, nan=True)
        if problem:
            yield Finding("sequences apart", False, f"{what} alone was "
                          f"changed, and others moved: {problem}")
            return
    yield Finding("sequences apart", True,
                  "one sequence changed: the others stay")


def carrying(bench):
    """From a state, to a state, and cut in four."""
    call = bench.call
    takes, gives = call.takes("initial_state"), call.gives_state
    if not (takes or gives):
        yield Finding("state", None, "it neither takes a state "
                      "(initial_state) nor returns one (return_state)")
        return
    says = next(filter(None, (_state_problem(bench, case, given) for
                              case, given in zip(bench.cases, bench.given))),
                "")
    how = {(True, True): "taken and returned as the rule says; nonzero, not "
           "symmetric", (True, False): "taken as the rule says; none is "
           "returned", (False, True): "returned as the rule says; none is "
           "taken"}[bool(takes), bool(gives)]
    yield Finding("state", not says, says or how)
    if not (takes and gives) or any(
            isinstance(given, Failed) for case, given in zip(
                bench.cases, bench.given) if case.state is not None):
        return
    m = call.multiple
    case, state, outputs = bench.case(150 if m == 1 else 4 * m), None, []
    ends = (37, 64, 131, 150) if m == 1 else (m, 2 * m, 3 * m, 4 * m)
    for start, stop in zip((0, *ends), ends):
        x = {name: a[:, :, start:stop] for name, a in case.inputs.items()}
        o, state = call(x, state, want=True)
        outputs.append(o)
    whole, last = call(case.inputs, want=True)      # the function's own
    problem = (difference(np.concatenate(outputs, 2), whole, bench.tolerance)
               or state_difference(state, last, bench.tolerance,
                                   bench.rule.state))
    yield Finding("split and carry", not problem, problem or
                  f"cut at {', '.join(map(str, ends[:-1]))}: as in one pass")


def _state_problem(bench, case, given):
    """What is wrong with the outputs from a state, or with the last state."""
    if isinstance(given, Failed):
        if case.state is not None and _other_way_round(bench, case):
            ways = "d×d_v", "d_v×d"
            turned = bench.call.turned
            return f"it takes S as {ways[not turned]}, and returns it as " \
                   f"{ways[turned]}"
        return f"{case.name}: {given}"
    problem = (case.state is not None
               and difference(given[0], case.right[0], bench.tolerance)
               or given[1] is not None
               and state_difference(given[1], case.right[1], bench.tolerance,
                                    bench.rule.state))
    return problem and f"{case.name}: {problem}"


def _other_way_round(bench, case):
    """Whether it can be called with S as it does not return it."""
    call = bench.call
    if bench.rule.state == "KV" or call.square:
        return False
    call.turned = not call.turned
    try:
        call(case.inputs, case.state)
    except Failed:
        return False
    finally:
        call.turned = not call.turned
    return True
