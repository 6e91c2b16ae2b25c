"""What chapter 15 states and `tests/test_verify.py` does not cover."""

import re
from pathlib import Path

import numpy as np
import pytest

from lintut.verify import pairs, rules, states
from lintut.verify.comparing import difference

CHAPTER = Path(__file__).resolve().parents[2] / "chapters/15-verify.ipynb"


@pytest.mark.parametrize("rows", [16, 1024, 65536])
def test_a_mean_hides_the_row_that_a_row_shows(rows):
    """One zeroed row of rows of one size: the RMS ratio is 1/√R."""
    rng = np.random.default_rng(15)
    right = rng.normal(size=(rows, 3))
    right /= np.linalg.norm(right, axis=-1, keepdims=True)
    wrong = right.copy()
    wrong[rows // 2] = 0
    ratio = np.sqrt(((wrong - right) ** 2).sum() / (right ** 2).sum())
    assert ratio == pytest.approx(rows ** -0.5)
    errors = np.abs(wrong - right).max(-1) / np.abs(right).max(-1)
    assert errors.argmax() == rows // 2 and errors.max() == 1
    assert f"1 of {rows} rows differ" in difference(wrong, right, 0.01)


def test_as_many_mistakes_are_known_as_the_chapter_says():
    """Counted by their words, whatever the chunk and the rule."""
    known = set()
    for rule in rules.RULES.values():
        options = dict(rule.options)
        if rule.name == "softmax":
            options["causal"] = True
        for words, _ in (pairs if rule.state == "KV" else states).mistakes(
                rule, options, (8, 16)):
            known.add(re.sub(r"\d+", "", words))
    said, = re.findall("some (\\w+) wrong versions", CHAPTER.read_text())
    tens = "ten twenty thirty forty fifty sixty seventy eighty ninety".split()
    assert said == tens[len(known) // 10 - 1], len(known)
