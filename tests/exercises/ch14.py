"""Answers to chapter 14's exercises, as people write them.

RIGHT: other right ways.  WRONG: name, answer, and words that its message must
hold.
"""

from collections import deque

import numpy as np


def loop(q, k, f_q, f_k, v, w, lag=0, lead=0, all_in=False, z_too=True):
    """A token at a time; the keywords make the mistakes."""
    S = np.zeros((f_k.shape[1], v.shape[1]))
    z, o = np.zeros(f_k.shape[1]), np.zeros_like(v)
    for t in range(len(v)):
        leaves = t if all_in else t - w - lag + lead
        if leaves >= 0:
            S += np.outer(f_k[leaves], v[leaves])
            z += f_k[leaves]
        first = max(0, t - w + 1)
        a = np.exp(k[first:t + 1] @ q[t])
        o[t] = ((a @ v[first:t + 1] + f_q[t] @ S)
                / (a.sum() + (f_q[t] @ z if z_too else 0)))
    return o


def rolling(q, k, f_q, f_k, v, w):
    """A queue of w tokens; what falls out of it goes into S, with z beside v.
    """
    S = np.zeros((f_k.shape[1], v.shape[1] + 1))
    queue, o = deque(), []
    for t in range(len(v)):
        queue.append((k[t], f_k[t], np.append(v[t], 1.0)))
        if len(queue) > w:
            _, f, x = queue.popleft()
            S = S + f[:, None] * x
        read = sum(np.exp(q[t] @ key) * x for key, _, x in queue)
        read = read + f_q[t] @ S
        o.append(read[:-1] / read[-1])
    return np.array(o)


def banded(q, k, f_q, f_k, v, w):
    """One diagonal of the band after another; the memory by differences."""
    N = len(v)
    up, down = np.zeros_like(v), np.zeros(N)
    for back in range(min(w, N)):
        a = np.exp((q[back:] * k[:N - back]).sum(-1))
        up[back:] += a[:, None] * v[:N - back]
        down[back:] += a
    S, z = np.zeros((f_k.shape[1], v.shape[1])), np.zeros(f_k.shape[1])
    for t in range(w, N):
        S, z = S + np.outer(f_k[t - w], v[t - w]), z + f_k[t - w]
        up[t] += f_q[t] @ S
        down[t] += f_q[t] @ z
    return up / down[:, None]


def weights(q, k, f_q, f_k, v, w):
    back = np.subtract.outer(np.arange(len(v)), np.arange(len(v)))
    a = np.where(back < w, np.exp(q @ k.T), f_q @ f_k.T) * (back >= 0)
    return a @ v / a.sum(1)[:, None]


def window(q, k, f_q, f_k, v, w):
    return np.array([np.exp(k[max(0, t - w + 1):t + 1] @ q[t])
                     @ v[max(0, t - w + 1):t + 1]
                     / np.exp(k[max(0, t - w + 1):t + 1] @ q[t]).sum()
                     for t in range(len(v))])


def two_sums(q, k, f_q, f_k, v, w):
    o = window(q, k, f_q, f_k, v, w)
    for t in range(w, len(v)):
        a = f_k[:t - w + 1] @ f_q[t]
        o[t] = o[t] + a @ v[:t - w + 1] / a.sum()
    return o


def linear(q, k, f_q, f_k, v, w):
    a = np.tril(f_q @ f_k.T)
    return a @ v / a.sum(1)[:, None]


def in_place(q, k, f_q, f_k, v, w):
    k *= 1.0
    k[0] += 1
    return loop(q, k, f_q, f_k, v, w)


RIGHT = {
    "window_and_memory": [loop, rolling, banded],
    "kept_mib": ["2084", 2084.0, 2048 + 32 + 4],
    "mixing_pays": ["138", 138.0],
}

WRONG = {
    "window_and_memory": {
        "the window alone": (window, "the memory is empty"),
        "all in the memory": (
            lambda **x: loop(**x, all_in=True), "count twice"),
        "a step late": (lambda **x: loop(**x, lag=1), "missing for a step"),
        "a step early": (lambda **x: loop(**x, lead=1),
                         "in the memory already"),
        "w + 1": (lambda w, **x: loop(**x, w=w + 1), "too wide"),
        "two sums": (two_sums, "one sum for both"),
        "no z": (lambda **x: loop(**x, z_too=False), "z is left out"),
        "linear attention": (linear, "weighed by their features too"),
        "softmax attention": (
            lambda q, k, f_q, f_k, v, w: weights(q, k, f_q, f_k, v, len(v)),
            "only their features"),
        "N×N": (weights, "N×N"),
        "changes k": (in_place, "changes its argument k"),
    },
    "kept_mib": {
        "full layers": (2048, "full layers alone"),
        "states in 16 bits": (2082, "four bytes"),
        "keys": (1044, "keys without values"),
        "windows that grow": (4100, "stops at w"),
        "all full": (8192, "32 full layers"),
        "one head": ("130.25", "one head"),
        "one group": (260.5, "one group"),
        "bytes": (2084 * 2 ** 20, "bytes"),
        "no states": (2080, "states are missing"),
        "far off": (1, "is not 1"),
    },
    "mixing_pays": {
        "one less": (137, "still a little more"),
        "half": (83, "half"), "equal": (28, "at all"),
        "one state": (46, "three layers"), "keys": (440, "without values"),
        "values": (200, "without keys"), "d by d": (63, "d×d_v"),
        "far off": (7, "is not 7"),
    },
}
