"""`make exercises-report`: every exercise, and what is known of it.

Judges each solution, each other right answer and each wrong answer, as
test_matrix.py does, and prints what the check said.  Exit status 1 if a right
answer is refused, or a wrong one passes or gets another's message.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exercises.test_matrix import (       # noqa: E402
    PAIRS, Wrong, answers, cells, exercises, patient, run)


def verdict(exercise, answer):
    """(right, what the check says)"""
    try:
        return True, exercise.judge(answer)
    except Wrong as wrong:
        return False, str(wrong)


def report(path, name):
    """Lines (good, text) for one exercise."""
    exercise = exercises(path)[name]
    passes, says = verdict(
        exercise, run(path, cells(path)[name], name))
    yield passes, f"solution: {says}"
    rights = [verdict(exercise, answer)[0]
              for answer in answers(path).RIGHT[name]]
    yield all(rights), f"other right answers: {sum(rights)} of {len(rights)}"
    for label, (answer, words) in answers(path).WRONG[name].items():
        passes, says = verdict(patient(exercise, label), answer)
        yield (not passes and words in says,
               f"{label}: {' '.join(says.split())}")


def main():
    bad = wrong = 0
    for path, name in PAIRS:
        print(f"\n{path.stem}  {name}  "
              f"({type(exercises(path)[name]).__name__.lower()})")
        for good, text in report(path, name):
            print(f"  {'✔' if good else '✘'} {text}")
            bad += not good
        wrong += len(answers(path).WRONG[name])
    print(f"\n{len(PAIRS)} exercises in {len({p for p, _ in PAIRS})} "
          f"chapters, {wrong} wrong answers, {bad} not as they should be")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
