"""What `lintut.check.core` says of answers, on exercises made up for it."""

import numpy as np
import pytest

from lintut.check.core import Case, Function, Mistake, Property, Wrong


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
