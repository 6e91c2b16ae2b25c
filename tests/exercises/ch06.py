"""Answers to chapter 6's exercises, as people write them.

RIGHT: other right ways.  WRONG: name, answer, and words that its message must
hold.
"""

import time

import numpy as np


def rows_of_weights(f_q, f_k, v):
    o = []
    for t in range(len(v)):
        w = f_k[:t + 1] @ f_q[t]
        o.append(w @ v[:t + 1] / w.sum())
    return np.array(o)


def prefix_sums(f_q, f_k, v):
    S = np.cumsum(f_k[:, :, None] * v[:, None, :], axis=0)
    z = np.cumsum(f_k, axis=0)
    return (np.einsum("tr,trd->td", f_q, S)
            / np.einsum("tr,tr->t", f_q, z)[:, None])


def ones_beside_v(f_q, f_k, v):
    v1 = np.column_stack([v, np.ones(len(v))])
    S = np.zeros((f_k.shape[1], v1.shape[1]))
    o = np.zeros_like(v1)
    for t in range(len(v)):
        S = S + f_k[t][:, None] * v1[t]
        o[t] = f_q[t] @ S
    return o[:, :-1] / o[:, -1:]


def loop(f_q, f_k, v, S=None, z=None, first_read=False):
    S = np.zeros((f_k.shape[1], v.shape[1])) if S is None else S.copy()
    z = np.zeros(f_k.shape[1]) if z is None else z.copy()
    o = np.zeros_like(v)
    for t in range(len(v)):
        if first_read and t:
            o[t] = f_q[t] @ S / (f_q[t] @ z)
        S += np.outer(f_k[t], v[t])
        z += f_k[t]
        if not first_read:
            o[t] = f_q[t] @ S / (f_q[t] @ z)
    return o, S, z


def in_place(f_q, f_k, v, S, z):
    o = np.empty_like(v)
    for t in range(len(v)):
        S += np.outer(f_k[t], v[t])
        z += f_k[t]
        o[t] = f_q[t] @ S / (f_q[t] @ z)
    return o, S, z


def triangle(f_q, f_k, v):
    a = np.tril(f_q @ f_k.T)
    return a @ v / a.sum(1)[:, None]


def noisy(f_q, f_k, v):
    print("working …")
    return rows_of_weights(f_q, f_k, v)


def slow(f_q, f_k, v):
    time.sleep(60)


def broken(f_q, f_k, v):
    return f_q @ v


def scaled_input(f_q, f_k, v):
    v *= 1.0
    v[0] += 0
    f_q /= f_q.max()
    return rows_of_weights(f_q, f_k, v)


def no_division(f_q, f_k, v):
    return np.einsum("tr,trd->td", f_q,
                     np.cumsum(f_k[:, :, None] * v[:, None, :], axis=0))


def future(f_q, f_k, v):
    return f_q @ (f_k.T @ v) / (f_q @ f_k.sum(0))[:, None]


def count(f_q, f_k, v):
    return no_division(f_q, f_k, v) / np.arange(1, 1 + len(v))[:, None]


def chunks(f_q, f_k, v, C):
    parts, state = [], (None, None)
    for i in range(0, len(v), C):
        o, *state = loop(f_q[i:i + C], f_k[i:i + C], v[i:i + C], *state)
        parts.append(o)
    return np.concatenate(parts)


def chunks_once(f_q, f_k, v, C):
    S = np.zeros((f_k.shape[1], v.shape[1] + 1))
    v1, o = np.c_[v, np.ones(len(v))], []
    for q, k, x in ((f_q[i:i + C], f_k[i:i + C], v1[i:i + C])
                    for i in range(0, len(v), C)):
        o.append(np.tril(q @ k.T) @ x + q @ S)
        S = S + k.T @ x
    o = np.concatenate(o)
    return o[:, :-1] / o[:, -1:]


def chunks_twice_read(f_q, f_k, v, C):
    """The state is brought up to date first; the square is then taken off."""
    S, z = np.zeros((f_k.shape[1], v.shape[1])), np.zeros(f_k.shape[1])
    o = np.empty_like(v)
    for i in range(0, len(v), C):
        r = slice(i, min(i + C, len(v)))
        S, z = S + f_k[r].T @ v[r], z + f_k[r].sum(0)
        later = np.triu(f_q[r] @ f_k[r].T, 1)
        o[r] = ((f_q[r] @ S - later @ v[r])
                / (f_q[r] @ z - later.sum(1))[:, None])
    return o


def chunks_forget(f_q, f_k, v, C):
    return np.concatenate([triangle(f_q[i:i + C], f_k[i:i + C], v[i:i + C])
                           for i in range(0, len(v), C)])


def chunks_floor(f_q, f_k, v, C):
    o = np.zeros_like(v)
    whole = len(v) // C * C
    if whole:
        o[:whole] = chunks_once(f_q[:whole], f_k[:whole], v[:whole], C)
    return o


def chunks_unmasked(f_q, f_k, v, C):
    S, z = np.zeros((f_k.shape[1], v.shape[1])), np.zeros(f_k.shape[1])
    o = np.empty_like(v)
    for i in range(0, len(v), C):
        r = slice(i, i + C)
        S, z = S + f_k[r].T @ v[r], z + f_k[r].sum(0)
        o[r] = f_q[r] @ S / (f_q[r] @ z)[:, None]
    return o


ones = np.ones((4, 2))
LEAKS = {
    "nothing divides": (no_division, "nothing divides them"),
    "the future": (future, "the past hears of the future"),
    "divided by t": (count, "divided by the number of tokens"),
    "reads first": (lambda f_q, f_k, v: loop(f_q, f_k, v, first_read=True)[0],
                    "read comes before the write"),
    "no state": (lambda f_q, f_k, v: v.copy(), "S starts anew"),
    "running mean": (lambda f_q, f_k, v: np.cumsum(v, 0)
                     / np.arange(1, 1 + len(v))[:, None],
                     "all tokens weigh the same"),
}

def lists(f_q, f_k, v, C):
    """Token by token without NumPy."""
    rows = [x.tolist() for x in (f_q, f_k, v)]
    S, z = [[0.0] * len(rows[2][0]) for _ in rows[1][0]], [0.0] * len(
        rows[1][0])
    o = []
    for q, k, x in zip(*rows):
        for i, f in enumerate(k):
            S[i], z[i] = [s + f * y for s, y in zip(S[i], x)], z[i] + f
        total = sum(f * y for f, y in zip(q, z))
        o.append([sum(f * s for f, s in zip(q, column)) / total
                  for column in zip(*S)])
    return np.array(o)


RIGHT = {
    "state_by_hand": [[["3", "3.0"], [1, 5]], ["4/2", 3]],
    "output_by_hand": ["7/7", "11/7"],
    "recurrence": [ones_beside_v, lambda f_q, f_k, v: loop(f_q, f_k, v)[0],
                   prefix_sums, noisy],
    "continue_from": [loop, lambda f_q, f_k, v, S, z: list(
        loop(f_q, f_k, v, S, z))],
    "mended": [rows_of_weights, prefix_sums, triangle],
    "chunkwise": [chunks_once, chunks_twice_read],
    "cache_passes_state": ["69", 69.0],
    "exposes_lost_z": [(ones, 2 * ones, np.eye(4), 1),
                       (ones, ones, np.full((4, 1), 3.0), 3)],
}
# Of the values, each has one right answer written in two ways.
RIGHT["state_by_hand"] = [RIGHT["state_by_hand"],
                          ([[3, 3], [1, 5]], np.array([2, 3]))]
RIGHT["output_by_hand"] = [RIGHT["output_by_hand"],
                           np.array([1, 11 / 7])]

WRONG = {
    "state_by_hand": {
        "transposed": ([[[3, 1], [3, 5]], [2, 3]], "transposed"),
        "one token short": ([[[3, 3], [1, 3]], [2, 1]], "two tokens"),
        "feature of one": ([[[3, 3], [1, 4]], [2, 2]], "second feature is 2"),
        "z of one feature": ([[[3, 3], [1, 5]], [5, 5]], "one sum a feature"),
        "flat": ([3, 3, 1, 5, 2, 3], "shape"),
        "words": ("S", "made of numbers"),
    },
    "output_by_hand": {
        "numerator": ([7, 11], "numerator"),
        "by three": (["7/3", "11/3"], "number of tokens"),
        "by the sum of z": ([1.4, 2.2], "sum of z"),
        "mean": ([1, "4/3"], "weigh the same"),
        "without itself": (["7/5", "9/5"], "sees itself"),
        "S times q": (["9/7", "1"], "Sᵀφ"),
    },
    "recurrence": LEAKS | {
        "N×N": (triangle, "N×N"),
        "hangs": (slow, "was stopped"),
        "raises": (broken, "raised ValueError"),
        "changes q": (scaled_input, "changes its argument f_q"),
        "float32": (lambda f_q, f_k, v: rows_of_weights(
            f_q, f_k, v).astype("f4"), "float64"),
        "a view": (lambda f_q, f_k, v: v[:], "view of its argument v"),
    },
    "continue_from": {
        "no z": (lambda f_q, f_k, v, S, z: (
            loop(f_q, f_k, v, S)[0], *loop(f_q, f_k, v, S, z)[1:]),
            "z is not carried"),
        "no S": (lambda f_q, f_k, v, S, z: (
            loop(f_q, f_k, v, None, z)[0], *loop(f_q, f_k, v, S, z)[1:]),
            "S is not carried"),
        "new sums": (lambda f_q, f_k, v, S, z: (
            loop(f_q, f_k, v, S, z)[0], *loop(f_q, f_k, v)[1:]),
            "holds the new tokens only"),
        "old state": (lambda f_q, f_k, v, S, z: (
            loop(f_q, f_k, v, S, z)[0], S.copy(), z.copy()),
            "returns the state that it was given"),
        "in place": (in_place, "changes its argument S"),
        "outputs alone": (lambda **x: loop(**x)[0], "3 results"),
    },
    "mended": LEAKS | {
        "as it was": (lambda f_q, f_k, v: np.tril(
            f_q @ f_k.T / (f_q @ f_k.T).sum(-1, keepdims=True)) @ v,
            "z is the sum over all tokens"),
    },
    "chunkwise": {
        "alone": (chunks_forget, "each chunk reads itself alone"),
        "a loop of tokens": (chunks, "not one by one"),
        "of plain arrays": (lambda f_q, f_k, v, C: chunks(
            *map(np.asarray, (f_q, f_k, v)), C), "not one by one"),
        "of lists": (lists, "not one by one"),
        "the rest": (chunks_floor, "shorter than C"),
        "no mask": (chunks_unmasked, "the C×C square needs its mask"),
        "one chunk": (lambda f_q, f_k, v, C: triangle(f_q, f_k, v), "C×C"),
        "the future": (lambda f_q, f_k, v, C: future(f_q, f_k, v),
                       "the past hears of the future"),
    },
    "cache_passes_state": {
        "equal": (68, "equal"), "no z": (65, "left out z"),
        "keys": (91, "keys without values"), "S of d": (13, "r×d_v"),
        "values": (273, "values without keys"), "far off": (7, "is not 7"),
    },
    "exposes_lost_z": {
        "zeros": ((ones, ones, np.zeros((4, 3)), 2), "hide everything"),
        "no cut": ((ones, ones, ones, 0), "cut must lie"),
        "negative": ((-ones, -ones, ones, 1), "features must be"),
        "lists": (([1], [1], [1], 1), "finite array"),
        "lengths": ((ones, ones, np.ones((3, 1)), 1), "as many rows"),
        "three parts": ((ones, ones, ones), "cannot be used"),
    },
}
