"""What chapter 15 states and `tests/test_verify.py` does not cover."""

import numpy as np
import pytest

from lintut.verify.comparing import difference


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
