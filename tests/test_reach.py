"""Hops and shares against a search and a walk that share no code."""

from collections import deque
from fractions import Fraction

import numpy as np
import pytest

from lintut import reach
from lintut.reference import bigbird, longformer, sliding_window

MASKS = [sliding_window.mask(9, 3), sliding_window.mask(9, 4, causal=False),
         longformer.mask(12, 2, [5], dilation=3),
         bigbird.mask(13, 2, 1, 0, 2, 7, causal=True),
         np.array([[1, 0, 0], [0, 0, 1], [1, 1, 0]], bool)]


def search(mask, i):
    distance = {i: 0}
    queue = deque([i])
    while queue:
        at = queue.popleft()
        for j in range(len(mask)):
            if mask[at][j] and j not in distance:
                distance[j] = distance[at] + 1
                queue.append(j)
    return [distance.get(j, -1) for j in range(len(mask))]


@pytest.mark.parametrize("mask", MASKS)
def test_hops_are_shortest_paths(mask):
    before = mask.copy()
    assert reach.hops(mask).tolist() == [search(mask.tolist(), i)
                                         for i in range(len(mask))]
    assert np.array_equal(mask, before)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_shares_are_means_of_means(mask, depth):
    n = len(mask)
    x = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    for _ in range(depth):
        x = [[sum(x[m][j] for m in range(n) if row[m]) / int(row.sum())
              for j in range(n)] for row in mask]
    assert np.allclose(reach.shares(mask, depth), np.array(x, float),
                       atol=1e-14)


@pytest.mark.parametrize("bad, word", [
    (np.zeros((3, 3), bool), "row 0 has none"), (np.eye(3), "boolean"),
    (np.ones((3, 2), bool), "broadcast")])
def test_bad_masks_are_refused(bad, word):
    for call in (reach.hops, lambda mask: reach.shares(mask, 2)):
        with pytest.raises(ValueError, match=rf"^mask must .*{word}"):
            call(bad)
    with pytest.raises(ValueError, match="^depth must"):
        reach.shares(np.eye(2, dtype=bool), -1)
