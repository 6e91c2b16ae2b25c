"""Who hears whom when layers of attention are stacked.

A mask is boolean, (N, N), True where query i (row) sees key j (column).  It
is a graph: a layer carries what a token holds one edge on.
"""

import numpy as np

from lintut.reference import _checks


def hops(mask):
    """(N, N): after how many layers token i hears token j; -1 is never.

    The shortest path in the graph.  A token hears itself after 0 layers.
    """
    mask = _checks.mask("mask", mask, len(mask))
    sees = mask.astype(np.float32)
    distance = np.where(np.eye(len(mask), dtype=bool), 0, -1)
    layers, new = 0, distance == 0
    while new.any():
        layers += 1
        heard = sees @ (distance >= 0).astype(np.float32) > 0
        new = heard & (distance < 0)
        distance[new] = layers
    return distance


def shares(mask, depth):
    """(N, N): how much of token i is token j after `depth` layers.

    Each layer takes the plain mean of what a token sees; rows sum to one.
    """
    mask = _checks.mask("mask", mask, len(mask))
    mean = mask / mask.sum(-1, keepdims=True)
    return np.linalg.matrix_power(mean, _checks.count("depth", depth, low=0))
