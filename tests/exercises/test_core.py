"""What `lintut.check.core` says of answers, on exercises made up for it."""

import sys
import time
import warnings

import numpy as np
import pytest

from lintut.check.core import (Case, Counterexample, Function, Late, Mistake,
                               Property, Wrong, at_most)


def says(exercise, answer):
    with pytest.raises(Wrong) as caught:
        exercise.judge(answer)
    return str(caught.value)


def test_a_harder_case_says_what_failing_there_first_means():
    exercise = Function(
        "halves", lambda x: x / 2, lambda: [
            Case("small", {"x": np.array([3.0, 5.0])}),
            Case("large", {"x": np.array([1e200, 1e201])}, "It overflows.")],
        mistakes=(Mistake("it is doubled.", lambda x: x * 2),))
    squared = says(exercise, lambda x: x * x / (2 * x))
    assert squared == ("halves, on large: the result holds NaN or infinity."
                       "\nIt overflows.")
    # a failure on the case before, or a known mistake, is another matter
    assert "It overflows" not in says(exercise, lambda x: x + 1)
    assert "it is doubled" in says(exercise, lambda x: x * 2)
    assert "It overflows" not in says(exercise, lambda x: x * 2)


HALVES = Function("halves", lambda x: x / 2, lambda: [
    Case("small", {"x": np.array([3.0, 5.0])})], seconds=0.2)


def test_noise_is_no_part_of_an_answer(capsys):
    def answer(x):
        print("out")
        print("err", file=sys.stderr)
        warnings.warn("old", DeprecationWarning)
        return x / 2

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert "correct" in HALVES.judge(answer)
    assert not seen and capsys.readouterr() == ("", "")


def test_a_hang_ends_also_where_exceptions_are_caught():
    def answer(x):
        while True:
            try:
                while True:
                    pass
            except Exception:
                pass

    assert "stopped after 0.2 seconds" in says(HALVES, answer)


def test_waiting_for_a_busy_machine_is_not_computing():
    with at_most(0.1):
        time.sleep(0.3)
    with pytest.raises(Late), at_most(0.1, patience=3):
        time.sleep(2)


def test_numbers_that_differ_late_are_shown_apart():
    assert "expected 1.5 at [0], got 1.50000000" in says(
        HALVES, lambda x: x / np.float64(2 - 1e-8))


def test_rounding_of_large_numbers_exposes_nothing():
    exercise = Counterexample(
        "x", lambda x: (x + 1) - 1, lambda x: x, lambda x: "")
    assert "both give the same" in says(exercise, np.array([1e12 + 0.3]))
    with pytest.raises(Wrong):
        exercise.judge(np.array([0.3]))


def test_what_is_kept_from_call_to_call_shows():
    def answer(x, kept=[]):
        kept.append(len(kept))
        return x / 2 + kept[-1]

    assert "from call to call" in says(HALVES, answer)


def test_a_property_judges_results_that_differ_from_each_other():
    def draws(n, seed):
        return np.random.default_rng(seed).normal(size=n)

    exercise = Property(
        "draws", draws, lambda: [Case(f"seed {seed}", dict(n=50, seed=seed))
                                 for seed in (1, 1, 2)],
        mistakes=(
            Mistake("the seed must fix it.",
                    lambda results: (results[0] != results[1]).any()),
            Mistake("the seed does nothing.",
                    lambda results: (results[0] == results[2]).all())))
    assert "correct, on 3 cases" in exercise.judge(draws)
    assert "correct" in exercise.judge(lambda n, seed: draws(n, seed + 9))
    rng = np.random.default_rng()
    assert "must fix it" in says(exercise, lambda n, seed: rng.normal(size=n))
    assert "does nothing" in says(exercise, lambda n, seed: draws(n, 0))
    assert "shape (50,)" in says(exercise, lambda n, seed: draws(n + 1, seed))
    assert "NaN" in says(exercise, lambda n, seed: draws(n, seed) * np.nan)
    assert "dtype" in says(exercise,
                           lambda n, seed: draws(n, seed).astype("f4"))
    assert "nothing" in says(exercise, lambda n, seed: None)
