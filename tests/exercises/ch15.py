"""Answers to chapter 15's exercises, as people write them.

RIGHT: other right ways.  WRONG: name, answer, and words that its message must
hold.
"""

import time

import numpy as np


def fresh_future(attend, q, k, v):
    """From the back, with random futures."""
    rng = np.random.default_rng(0)
    o = attend(q, k, v)
    for t in reversed(range(len(q) - 1)):
        other = attend(q, np.r_[k[:t + 1], rng.normal(size=k[t + 1:].shape)],
                       np.r_[v[:t + 1], rng.normal(size=v[t + 1:].shape)])
        if not np.allclose(other[:t + 1], o[:t + 1], rtol=0, atol=1e-9):
            return True
    return False


def prefixes(attend, q, k, v):
    """No future at all: is the output of a prefix the prefix of the output?
    Functions that do not change with the length alone."""
    o = attend(q, k, v)
    return any(np.abs(attend(q, k_, v_)[t] - o[t]).max() > 1e-9
               for t in range(len(q) - 1)
               for k_, v_ in [(np.where(np.arange(len(k))[:, None] > t, -k, k),
                               np.where(np.arange(len(k))[:, None] > t,
                                        v + 5, v))])


def one_change(attend, q, k, v, keys=True, values=True, cuts=None, end=None):
    o = attend(q, k, v)
    for cut in cuts or range(1, len(q)):
        k2, v2 = k.copy(), v.copy()
        k2[cut:] += 5 if keys else 0
        v2[cut:] -= 7 if values else 0
        o2 = attend(q, k2, v2)
        if not np.allclose(o2[:end or cut], o[:end or cut]):
            return True
    return False


def changes_its_input(attend, q, k, v):
    o = attend(q, k, v)
    k[5:] += 1
    v[5:] += 1
    return bool(np.abs(attend(q, k, v)[:5] - o[:5]).max() > 1e-9)


def tensors(N, d=3, d_v=2, seed=0):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(2, N, d))
    return (q, k / np.linalg.norm(k, axis=1, keepdims=True),
            rng.normal(size=(N, d_v)))


def gated(N, alpha=.5, beta=.5, **more):
    return (*tensors(N, **more), np.full(N, alpha), np.full(N, beta))


def retained(N, gamma=.5, S=None, **more):
    q, k, v = tensors(N, **more)
    return q, k, v, gamma, np.ones((3, 2)) if S is None else S


def each_row(o, right):
    return o.shape == right.shape and all(
        max(abs(a - b)) <= 1e-6 * max(abs(b)) for a, b in zip(o, right))


def normalised(o, right):
    if np.shape(o) != np.shape(right) or not np.isfinite(o).all():
        return False
    size = np.linalg.norm(right, ord=np.inf, axis=1)
    return bool(np.linalg.norm(o - right, ord=np.inf, axis=1).max(
        where=size < 0, initial=0) <= 0 and (
        np.linalg.norm(o - right, ord=np.inf, axis=1) / size).max() <= 1e-6)


ones = np.ones((8, 2))

RIGHT = {
    "same_order": [["16", "100", "256", "72"], np.array([16, 100, 256, 72])],
    "where_softmax_stands": [["16/4", "5/1"], (4.0, 5.0)],
    "what_z_holds": [["21", "42/3", "7"], np.array([21., 14., 7.])],
    "fixed_state": [(64, 129, 256), ["64", "129", "2048/8"]],
    "forget_or_correct": [[[10, 2.5], [9, 5]], np.array([[10, 2.5], [9, 5]])],
    "leak_test": [fresh_future, prefixes],
    "exposes_overlaps": [gated(7), gated(12, alpha=.9, beta=1.5, seed=3)],
    "exposes_carry": [retained(8), retained(5, gamma=.9, seed=2)],
    "agrees": [each_row, normalised],
}

WRONG = {
    "same_order": {
        "one short": ([15, 100, 256, 72], "counts the query's own"),
        "one over": ([17, 100, 256, 72], "counts the query's own"),
        "both windows": ([16, 16, 256, 72], "forgets nothing"),
        "no z": ([16, 100, 256, 64], "left out z"),
        "keys": ([16, 100, 128, 72], "values as well"),
        "all": ([16, 100, 1600, 72], "drops what is 16 old"),
        "two": ([16, 100], "shape"),
    },
    "where_softmax_stands": {
        "twice": ([4, 4], "first weight is zero"),
        "the same": ([5, 5], "the weight e⁰"),
        "reversed": ([2, 5], "other way round"),
        "mean": ([3, 5], "equal weights"),
        "undivided": ([16, 5], "not divided by the sum"),
        "second undivided": ([4, 5 * np.log(3)], "q(Kᵀ1)"),
        "exchanged": ([5, 4], "exchanged"),
    },
    "what_z_holds": {
        "sevens": ([7, 7, 7], "sums over tokens"),
        "undivided": ([21, 14, 77], "not divided"),
        "by sum": ([21, 14, "77/5"], "divide by φ(q)·z"),
        "exchanged": ([14, 21, 7], "entry by entry"),
        "z": ([3, 2, 7], "That is z"),
        "one sum": ([35, 35, 7], "one entry a feature"),
    },
    "fixed_state": {
        "entries": ([4096, 129, 256], "orthogonal keys"),
        "n over d": ([64, 128, 256], "disturbs nobody"),
        "root": ([64, 257, 256], "already the squared"),
        "float16": ([64, 129, 2048], "float16"),
        "largest": ([64, 129, 255], "still fits"),
        "stored": ([64, 129, 128], "leading bit"),
        "one more": ([65, 129, 256], "cannot all be orthogonal"),
    },
    "forget_or_correct": {
        "sum": ([[11, 5], [9, 5]], "Nothing faded"),
        "delta fades": ([[10, 2.5], [9, 2.5]], "fades nothing"),
        "one channel": ([[10, 5], [9, 5]], "the second too"),
        "overwrites": ([[9, 2.5], [9, 5]], "adds 9"),
        "gate late": ([[5.5, 2.5], [9, 5]], "before the write"),
        "value": ([[10, 2.5], [11, 5]], "writes the error"),
        "error alone": ([[10, 2.5], [7, 5]], "does not replace"),
        "exchanged": ([[9, 5], [10, 2.5]], "exchanged"),
    },
    "leak_test": {
        "values": (lambda **x: one_change(**x, keys=False),
                   "only the values are changed"),
        "keys": (lambda **x: one_change(**x, values=False),
                 "only the keys are changed"),
        "the middle": (lambda q, **x: one_change(q=q, **x,
                                                 cuts=[len(q) // 2]),
                       "one cut is tried"),
        "borders": (lambda q, **x: one_change(q=q, **x,
                                              cuts=range(8, len(q), 8)),
                    "multiples of 8"),
        "the last": (lambda q, **x: one_change(q=q, **x, cuts=[len(q) - 1]),
                     "only the last token"),
        "everything": (lambda q, **x: one_change(q=q, **x, end=len(q)),
                       "meant to move"),
        "opposite": (lambda **x: not fresh_future(**x), "the opposite"),
        "never": (lambda attend, q, k, v: False, "never finds"),
        "changes": (changes_its_input, "changes its argument k"),
        "hangs": (lambda attend, q, k, v: time.sleep(60), "was stopped"),
    },
    "exposes_overlaps": {
        "no gate": (gated(8, alpha=1.), "nothing to leave out"),
        "one token": (gated(1), "One token"),
        "orthogonal": ((np.ones((4, 4)), np.eye(4), np.ones((4, 2)),
                        np.full(4, .5), np.ones(4)), "No two keys"),
        "zeros": ((*tensors(6)[:2], np.zeros((6, 2)), np.full(6, .5),
                   np.ones(6)), "write nothing"),
        "no writes": (gated(8, beta=0.), "No two keys"),
        "long keys": ((ones, ones, ones, np.full(8, .5), np.ones(8)),
                      "length 1"),
        "gates of 2": (gated(8, alpha=2.), "alpha must lie in (0, 1]"),
        "steps of 3": (gated(8, beta=3.), "beta must lie in [0, 2]"),
        "shape": ((*tensors(5), np.ones(4), np.ones(5)), "alpha must have"),
        "too long": (gated(65), "64 tokens"),
    },
    "exposes_carry": {
        "zero state": (retained(8, S=np.zeros((3, 2))), "no room"),
        "no fading": (retained(8, gamma=1.), "nothing fades"),
        "one chunk": (retained(4), "no second chunk"),
        "too long": (retained(12), "there may be 8 tokens"),
        "turned": (retained(8, S=np.ones((2, 3))), "S0 must have shape"),
        "gamma": (retained(8, gamma=1.5), "gamma must lie"),
        "unread": ((np.zeros((8, 2)), ones, ones, .5, np.ones((2, 2))),
                   "reach a query"),
    },
    "agrees": {
        "as it was": (lambda o, right: np.abs(o - right).mean() < 1e-3,
                      "the mean over all rows"),
        "rms": (lambda o, right: o.shape == right.shape and bool(
            np.linalg.norm(o - right) < .02 * np.linalg.norm(right)),
            "root mean squares"),
        "nan": (lambda o, right: o.shape == right.shape and not (
            np.abs(o - right).max(-1) > 1e-6 * np.abs(right).max(-1)).any(),
            "NaN is not greater"),
        "broadcasts": (lambda o, right: bool((
            np.abs(o - right).max(-1) <= 1e-6 * np.abs(right).max(-1)).all()),
            "shapes that broadcast"),
        "one tolerance": (lambda o, right: o.shape == right.shape and bool(
            np.abs(o - right).max() <= 1e-6), "the same for all rows"),
        "the largest of all": (
            lambda o, right: o.shape == right.shape and bool(
                np.abs(o - right).max() <= 1e-5 * np.abs(right).max()),
            "largest entry of all rows"),
        "entry by entry": (lambda o, right: o.shape == right.shape and bool(
            np.isclose(o, right, rtol=1e-6, atol=0).all()),
            "each entry is compared with itself"),
    },
}
