"""How an answer is run, compared and understood.

An exercise has a name and `judge(answer)`, which returns a line or raises
`Wrong`.  The kinds: `Value`, a number or a few; `Function`, code that is run
on cases, and `Property`, code whose results are random; `Counterexample`, an
input that must expose a wrong implementation.
"""

import contextlib
import copy
import io
import re
import signal
import threading
import time
import traceback
import warnings
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np


class Wrong(AssertionError):
    """An answer that is not right; the text says how."""

    def _render_traceback_(self):           # IPython: no stack, the words
        return [f"Not yet. {self}"]


@dataclass(frozen=True)
class Mistake:
    """A way to be wrong: what gives the same result, and what to say.

    Of a `Value`, `answer` may also be a test of the numbers given, for those
    that have the right shape.
    """
    says: str
    answer: object


class Late(BaseException):
    """An answer's time is over; no `except Exception` of its own stops it."""


@dataclass(frozen=True)
class Absent:
    """Stands where an answer should, and says why there is none."""
    says: str


# -- values -------------------------------------------------------------------

def fractions(x):
    """Numbers, texts such as "10/6" and nested lists of them, exactly."""
    if isinstance(x, np.ndarray):
        x = x.tolist()
    if isinstance(x, (list, tuple)):
        return [fractions(part) for part in x]
    if isinstance(x, (bool, type(None), type(...))):
        raise ValueError(f"{x!r} is not a number")
    text = str(x).strip().replace("−", "-")
    return Fraction(re.sub(r"\s*/\s*", "/", text))


def same(x, y, tolerance=Fraction(1, 10**9)):
    """Equal in shape, and in value up to what a decimal can say."""
    if isinstance(x, list) != isinstance(y, list):
        return False
    if isinstance(x, list):
        return len(x) == len(y) and all(map(same, x, y))
    return abs(x - y) <= tolerance * max(1, abs(y))


def rounded(x, y):
    """Is x what y is to three digits or so?  Whole numbers are exact."""
    if isinstance(x, list):
        return all(map(rounded, x, y))
    return x == y or (y.denominator > 1 and abs(x - y) * 500 <= abs(y))


def alike(x, y):
    """Lists of the same lengths, all the way down."""
    if isinstance(x, list) != isinstance(y, list):
        return False
    return not isinstance(x, list) or (
        len(x) == len(y) and all(map(alike, x, y)))


def shape(x):
    return (len(x), *shape(x[0])) if isinstance(x, list) and x else ()


@dataclass(frozen=True)
class Value:
    """A number, or a list of numbers; fractions are welcome."""
    name: str
    right: object
    mistakes: tuple = ()

    def judge(self, answer):
        if answer is None or "Ellipsis" in repr(answer):
            raise Wrong(f"{self.name} is still to be filled in: write your "
                        "result in place of the dots.")
        try:
            given = fractions(answer)
        except (ValueError, TypeError, ZeroDivisionError):
            raise Wrong(f"{self.name} must be made of numbers, such as 2, "
                        f"0.5 or \"1/6\"; it is {_brief(answer)}") from None
        right = fractions(self.right)
        if same(given, right):
            return f"{self.name}: correct."
        if alike(given, right) and rounded(given, right):
            raise Wrong(f"{self.name} is close, but rounded: give it "
                        "exactly, as a fraction such as \"1/6\", or with all "
                        "the digits that Python computes.")
        for mistake in self.mistakes:
            if self._resembles(given, mistake.answer):
                raise Wrong(f"{self.name} is not {_brief(answer)}. "
                            f"{mistake.says}")
        if shape(given) != shape(right):
            raise Wrong(f"{self.name} should have shape {shape(right)}; "
                        f"yours has {shape(given)}.")
        raise Wrong(f"{self.name} is not {_brief(answer)}.")

    def _resembles(self, given, wrong):
        if not callable(wrong):
            return same(given, fractions(wrong))
        try:
            return alike(given, fractions(self.right)) and wrong(given)
        except OverflowError:           # beyond what a float can hold
            return False


def entry(says, *place, is_not=None, among=()):
    """A mistake in one entry of a list: it is among those, or not this."""
    def wrong(given):
        for i in place:
            given = given[i]
        return given in among if among else given != is_not
    return Mistake(says, wrong)


# -- functions ----------------------------------------------------------------

@dataclass(frozen=True)
class Case:
    """One call: what the learner is told of it, and its arguments by name.

    `says` is for a case harder than those before it: what it means to fail
    here first, where no mistake is recognised.
    """
    name: str
    arguments: dict
    says: str = ""


@dataclass(frozen=True)
class Function:
    """Code, compared with `expected` on `cases()`; see `work` for `limits`."""
    name: str
    expected: object
    cases: object
    mistakes: tuple = ()
    limits: tuple = ()
    tolerance: float = 1e-9
    seconds: float = 10
    keeps_dtype: bool = True

    def judge(self, answer):
        if answer is ... or not callable(answer):
            raise Wrong(f"{self.name} must be a function; "
                        f"it is {_brief(answer)}")
        cases = self.cases()
        # The right results first, on copies: an answer cannot touch them.
        right = [self.expected(**copy.deepcopy(case.arguments))
                 for case in cases]
        given = [self._run(answer, case) for case in cases]
        self._compare(cases, given, right)
        self._again(answer, cases[-1], right[-1])
        for limit in self.limits:
            limit.judge(self.name, lambda arguments: self._run(
                answer, Case("the long case", arguments), untouched=False))
        n = len(cases)
        return f"{self.name}: correct, on {n} case{'s' if n != 1 else ''}."

    def _again(self, answer, case, right):
        """A second call must find nothing that the first has left behind."""
        if difference(self._run(answer, case), right, self.tolerance,
                      self.keeps_dtype):
            raise Wrong(f"{self.name} gives another result when it is called "
                        "again with the same input: it keeps something from "
                        "call to call, in a global name or in a default "
                        "argument.")

    def _run(self, answer, case, untouched=True):
        """The result, on copies of the arguments, in time, in silence."""
        arguments = copy.deepcopy(case.arguments)
        try:
            with silence(), np.errstate(all="ignore"), at_most(self.seconds):
                result = answer(**arguments)
        except Late:
            raise Wrong(f"{self.name} was stopped after {self.seconds:g} "
                        f"seconds on {case.name}.") from None
        except (Exception, SystemExit) as error:
            raise Wrong(f"{self.name} raised {type(error).__name__} on "
                        f"{case.name}: {error}{_line(error)}") from None
        if result is None or result is ...:
            raise Wrong(f"{self.name} is still to be written: it returned "
                        f"{'nothing' if result is None else 'dots'}.")
        if untouched:
            for name, before in case.arguments.items():
                if not _equal(before, arguments[name]):
                    raise Wrong(f"{self.name} changes its argument {name}. "
                                "Work on a copy: whoever calls it still "
                                "needs it.")
            for name, x in arguments.items():
                if any(np.shares_memory(x, part) for part in _parts(result)
                       if isinstance(x, np.ndarray)
                       and isinstance(part, np.ndarray)):
                    raise Wrong(f"{self.name} returns a view of its argument "
                                f"{name}: whoever changes one changes both. "
                                "Return a new array.")
        return result

    def _compare(self, cases, given, right):
        for case, mine, theirs in zip(cases, given, right):
            problem = difference(mine, theirs, self.tolerance,
                                 self.keeps_dtype)
            if problem:
                seen = self._diagnosis(cases, given, right)
                raise Wrong(f"{self.name}, on {case.name}: {problem}"
                            f"{seen or case.says and chr(10) + case.says}")

    def _diagnosis(self, cases, given, right):
        """What the answer looks like, if it is a mistake that we know.

        A mistake is recognised where it gives another result than the right
        one, and must agree with the answer on every case.
        """
        for mistake in self.mistakes:
            shows = False
            for case, mine, theirs in zip(cases, given, right):
                with np.errstate(all="ignore"):
                    try:
                        wrong = mistake.answer(
                            **copy.deepcopy(case.arguments))
                    except Exception:
                        break
                if difference(mine, wrong, self.tolerance, False, nan=True):
                    break
                shows |= bool(difference(wrong, theirs, self.tolerance, False))
            else:
                if shows:
                    return f"\nIt looks like this: {mistake.says}"
        return ""


@dataclass(frozen=True)
class Property(Function):
    """Code of which many results are right, such as random ones.

    `expected` gives the shape and the dtype.  The `answer` of a mistake is a
    test of the results, one a case, in order; the first that is true counts.
    """

    def _compare(self, cases, given, right):
        for case, mine, theirs in zip(cases, given, right):
            problem = difference(mine, theirs, np.inf, self.keeps_dtype)
            if problem:
                raise Wrong(f"{self.name}, on {case.name}: {problem}")
        for mistake in self.mistakes:
            if mistake.answer(given):
                raise Wrong(f"{self.name}: {mistake.says}")

    def _again(self, answer, case, right):
        """Random results are compared with each other, by a mistake."""


def difference(mine, theirs, tolerance, keeps_dtype=True, nan=False):
    """How a result differs from the right one, in words; "" if it does not.

    `nan` lets both be NaN or infinite in the same places.
    """
    if isinstance(theirs, tuple):
        if not isinstance(mine, (tuple, list)) or len(mine) != len(theirs):
            return (f"it should return {len(theirs)} results; it returned "
                    f"{_brief(mine)}.")
        for i, (a, b) in enumerate(zip(mine, theirs), 1):
            problem = difference(a, b, tolerance, keeps_dtype, nan)
            if problem:
                return f"result {i} of {len(theirs)}: {problem}"
        return ""
    try:
        a = np.asarray(mine)
        if a.dtype == object:
            a = a.astype(np.float64)
        if a.dtype.kind not in "biufc":
            raise TypeError
    except (TypeError, ValueError):
        return f"it should return an array; it returned {_brief(mine)}."
    b = np.asarray(theirs)
    if a.shape != b.shape:
        return f"the result should have shape {b.shape}; it has {a.shape}."
    if keeps_dtype and isinstance(theirs, np.ndarray) and a.dtype != b.dtype:
        if b.dtype == bool:
            return ("the result should be boolean, True or False; it has "
                    f"dtype {a.dtype}.")
        return (f"the result should have the inputs' dtype, {b.dtype}; "
                f"it has {a.dtype}.")
    if b.dtype == bool:
        bad = a != b                    # 1 may stand for True, 2 may not
    else:
        if not nan and not np.isfinite(a).all():
            return "the result holds NaN or infinity."
        # Row by row: one wrong row must not hide among many right ones.
        scale = np.where(np.isfinite(b), np.abs(b), 0)
        scale = scale.max(-1, keepdims=True) if b.ndim else scale
        with np.errstate(all="ignore"):
            bad = ~(np.abs(a - b) <= tolerance * np.maximum(scale, 1))
            if nan:
                bad &= ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not bad.any():
        return ""
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    place = f" at {list(where)}" if where else ""
    digits = 6 if _number(a[where]) != _number(b[where]) else 12
    return (f"expected {_number(b[where], digits)}{place}, "
            f"got {_number(a[where], digits)} "
            f"({int(bad.sum())} of {bad.size} entries differ).")


# -- inputs that expose -------------------------------------------------------

@dataclass(frozen=True)
class Counterexample:
    """An input on which `wrong` must differ from `right`.

    `invalid(answer)` returns a reason why it is no input, or "".
    """
    name: str
    right: object
    wrong: object
    invalid: object
    mistakes: tuple = field(default=())     # of (test of the answer, words)
    tolerance: float = 1e-6

    def judge(self, answer):
        if answer is ... or answer is None:
            raise Wrong(f"{self.name} is still to be filled in.")
        try:
            reason = self.invalid(answer)
        except Exception as error:
            reason = f"it cannot be used as one ({error})."
        if reason:
            raise Wrong(f"{self.name} is not an input for this exercise: "
                        f"{reason}")
        right, wrong = (np.asarray(f(copy.deepcopy(answer)))
                        for f in (self.right, self.wrong))
        size = max(1, np.abs(right).max(initial=0))     # rounding grows too
        if np.abs(right - wrong).max() > self.tolerance * size:
            return f"{self.name}: correct, it tells the two apart."
        for recognises, words in self.mistakes:
            if recognises(answer):
                raise Wrong(f"{self.name} does not expose the mistake: both "
                            f"give the same result. {words}")
        raise Wrong(f"{self.name} does not expose the mistake: both give the "
                    "same result.")


# -- running ------------------------------------------------------------------

@contextlib.contextmanager
def silence():
    """What an answer prints and warns of is not part of its result."""
    with (contextlib.redirect_stdout(io.StringIO()),
          contextlib.redirect_stderr(io.StringIO()),
          warnings.catch_warnings()):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def at_most(seconds, patience=6):
    """Raise `Late` after that many seconds, where the system can.

    They are seconds of computing, so that a busy machine changes no verdict;
    what only waits is stopped after `patience` times as many.
    """
    if (not hasattr(signal, "setitimer")
            or threading.current_thread() is not threading.main_thread()):
        yield
        return
    start, computed = time.monotonic(), time.thread_time()

    def look(*_):
        if (time.thread_time() - computed > 0.9 * seconds
                or time.monotonic() - start > patience * seconds):
            raise Late

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds / 10)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _line(error):
    """Where in the learner's code an exception came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/lintut/" not in
           frame.filename.replace("\\", "/")
           and "site-packages" not in frame.filename]
    if not own:
        return ""
    text = f": {own[-1].line}" if own[-1].line else ""
    return f" (line {own[-1].lineno} of {own[-1].name}'s cell{text})"


def _parts(result):
    return result if isinstance(result, (tuple, list)) else (result,)


def _equal(before, after):
    if isinstance(before, np.ndarray):
        return (isinstance(after, np.ndarray) and before.shape == after.shape
                and np.array_equal(before, after, equal_nan=True))
    if isinstance(before, (tuple, list)):
        return len(before) == len(after) and all(map(_equal, before, after))
    return callable(before) or before == after


def _brief(x):
    if isinstance(x, np.ndarray):
        return f"an array of shape {x.shape}"
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "…"


def _number(x, digits=6):
    return (str(bool(x)) if isinstance(x, np.bool_)
            else f"{x:.{digits}g}")
