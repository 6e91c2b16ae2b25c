"""Answers to chapter 4's exercises, as people write them.

RIGHT: other right ways.  WRONG: name, answer, and words that its message must
hold.
"""

import numpy as np


def exps(scores):
    return np.exp(scores - scores.max(-1, keepdims=True))


def attention(q, k, v, scale=None, axis=-1):
    w = np.exp(q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale))
    return w / w.sum(axis, keepdims=True) @ v


def query_by_query(q, k, v, E, F):
    keys, values, o = E @ k, F @ v, []
    for query in q:
        w = np.exp(keys @ query / len(query) ** 0.5)
        o.append(w @ values / w.sum())
    return np.stack(o)


def einsums(q, k, v, E, F):
    keys, values = np.einsum("mn,nd->md", E, k), np.einsum("mn,nd->md", F, v)
    w = exps(np.einsum("id,md->im", q, keys) * q.shape[1] ** -0.5)
    return np.einsum("im,md->id", w, values) / w.sum(1)[:, None]


def slot_by_slot(q, k, v, E, F):
    above, below = 0, 0
    for e, f in zip(E, F):
        w = np.exp(q @ (e @ k) / np.sqrt(q.shape[1]))[:, None]
        above, below = above + w * (f @ v), below + w
    return above / below


def all_scores(q, k, v, E, F):
    w = exps((q @ k.T) @ E.T / np.sqrt(q.shape[1]))
    return w / w.sum(-1, keepdims=True) @ (F @ v)


def all_weights(q, k, v, E, F):
    w = exps(q @ (E @ k).T / np.sqrt(q.shape[1]))
    return (w / w.sum(-1, keepdims=True) @ F) @ v


def mixes_each_time(q, k, v, E, F):
    return np.concatenate([attention(row[None], E @ k, F @ v) for row in q])


def softmax_then_E(q, k, v, E, F):
    return attention(q, k, E.T @ (F @ v))


def shared_out(q, k, v, E, F):
    w = exps(q @ (E @ k).T / np.sqrt(q.shape[1])) @ F
    return w / w.sum(-1, keepdims=True) @ v


def slots_of(q, k, v, C):
    starts = range(0, len(k), C)
    return attention(q, np.array([k[i:i + C].mean(0) for i in starts]),
                     np.array([v[i:i + C].mean(0) for i in starts]))


def matrix_of(q, k, v, C):
    slot = np.arange(len(k)) // C
    E = (slot == np.arange(slot[-1] + 1)[:, None]).astype(float)
    E /= E.sum(1, keepdims=True)
    return attention(q, E @ k, E @ v)


def pad(x, C, **how):
    x = np.pad(x, ((0, -len(x) % C), (0, 0)), **how)
    return x.reshape(-1, C, x.shape[1]).mean(1)


def mean(x, C):
    return np.array([x[i:i + C].mean(0) for i in range(0, len(x), C)])


def cut_off(q, k, v, C):
    n = len(k) // C * C or len(k)
    return slots_of(q, k[:n], v[:n], C)


def joined(q, k, v, C):
    parts = np.array_split(np.arange(len(k)), range(C, len(k) - C + 1, C))
    return attention(q, np.array([k[i].mean(0) for i in parts]),
                     np.array([v[i].mean(0) for i in parts]))


def counted(q, k, v, C):
    slot = np.arange(len(k)) // C
    return attention(q, mean(k, C)[slot], mean(v, C)[slot])


def leak(cut, of_k=0.0, of_v=0.0, N=8, rows=slice(None)):
    """The future changes by so much, in some of its rows."""
    q, k, v = np.random.default_rng(1).normal(size=(3, N, 2))
    k_new, v_new = k.copy(), v.copy()
    k_new[cut:][rows] += of_k
    v_new[cut:][rows] += of_v
    return q, k, v, k_new, v_new, cut


def sum_kept():
    q, k, v, k_new, v_new, cut = leak(5)
    v_new[5:8] = v_new[[6, 7, 5]]
    return q, k, v, k_new, v_new, cut


def before_the_cut():
    q, k, v, k_new, v_new, cut = leak(6, 1, 1)
    v_new[0] += 1
    return q, k, v, k_new, v_new, cut


WEIGHTS = ["1/3", "5/12", "1/12", "1/3"]

RIGHT = {
    "tokens_through_slots": [
        ["38/6", WEIGHTS], (19 / 3, np.array([4, 5, 1, 4]) / 12)],
    "ranks": [[2, 0.5, 6], ("2", "3/6", "6")],
    "linformer": [query_by_query, einsums, slot_by_slot],
    "exposes_the_future": [leak(6, 1), leak(1, 0, 1), leak(7, 0, 1, N=12),
                           leak(2, 3, 3)],
    "pooled": [slots_of, matrix_of],
}

WRONG = {
    "tokens_through_slots": {
        "divided": (["38/7", ["2/7", "5/14", "1/14", "2/7"]],
                    "a row of F may sum to anything"),
        "F averaged": (["50/9", ["1/3", "7/18", "1/18", "2/9"]],
                       "used as it is"),
        "exchanged": (["20/3", ["1/6", "1/3", "1/6", "2/3"]], "exchanged"),
        "equal slots": ([6.5, ["1/4", "3/8", "1/8", "1/2"]],
                        "weigh the same"),
        "one slot a token": (["17/3", ["1/3", "1/3", "1/12", "1/3"]],
                             "two shares add up"),
        "output of slots": ([13, WEIGHTS], "weights are right"),
        "weights of slots": (["19/3", ["2/3", "2/3", "1/3", "1/3"]],
                             "output is right"),
        "output alone": (["19/3", 1], "is not"),
    },
    "ranks": {
        "full": ([6, "1/6", 6], "copies of each other"),
        "one": ([1, 1, 6], "more than one"),
        "four": ([4, "1/2", 6], "nor does its size"),
        "causal too": ([2, "1/2", 2], "not copies any more"),
        "causal five": ([2, "1/2", 5], "a triangle"),
        "by size": ([2, "2/3", 6], "larger group"),
        "all": ([2, 1, 6], "rank were one"),
        "of six": ([2, "1/6", 6], "not zero count"),
        "two numbers": ([2, "1/2"], "shape"),
    },
    "linformer": {
        "full attention": (lambda q, k, v, E, F: attention(q, k, v),
                           "no part"),
        "no scale": (lambda q, k, v, E, F: attention(q, E @ k, F @ v, 1),
                     "lack their scale"),
        "scale of m": (lambda q, k, v, E, F: attention(
            q, E @ k, F @ v, len(E) ** -0.5), "√m"),
        "scale of N": (lambda q, k, v, E, F: attention(
            q, E @ k, F @ v, len(q) ** -0.5), "√N"),
        "scale of d": (lambda q, k, v, E, F: attention(
            q, E @ k, F @ v, 1 / q.shape[1]), "not by its root"),
        "E twice": (lambda q, k, v, E, F: attention(q, E @ k, E @ v),
                    "the values have F"),
        "exchanged": (lambda q, k, v, E, F: attention(q, F @ k, E @ v),
                      "changed places"),
        "undivided": (lambda q, k, v, E, F: np.exp(
            q @ (E @ k).T / np.sqrt(q.shape[1])) @ F @ v, "nothing divides"),
        "over queries": (lambda q, k, v, E, F: attention(
            q, E @ k, F @ v, axis=0), "over the queries"),
        "softmax first": (softmax_then_E, "E belongs inside"),
        "weights of tokens": (shared_out, "what F makes of them"),
        "N×N scores": (all_scores, "nothing is N×N"),
        "N×N weights": (all_weights, "nothing is N×N"),
        "mixes each time": (mixes_each_time, "once, for all queries"),
        "transposed": (lambda q, k, v, E, F: attention(q, E.T @ k, F @ v),
                       "raised ValueError"),
        "in place": (lambda q, k, v, E, F: attention(
            np.divide(q, np.sqrt(q.shape[1]), out=q), E @ k, F @ v, 1),
            "changes its argument q"),
    },
    "exposes_the_future": {
        "a border": (leak(4, 5, 5), "where a stretch ends"),
        "later stretches": (leak(6, 1, 1, 12, slice(2, None)),
                            "still closed"),
        "a lone slot": (leak(2, 1), "its weight is 1"),
        "same mean": (sum_kept(), "does its mean change"),
        "the past": (before_the_cut(), "before the cut"),
        "nothing": (leak(6), "nothing changes"),
        "length": (leak(6, 1, 1, 9), "multiple of 4"),
        "no cut": (leak(0, 1, 1), "cut must lie"),
        "three parts": (leak(6, 1)[:3], "cannot be used"),
    },
    "pooled": {
        "as it was": (lambda q, k, v, C: attention(q, pad(k, C), pad(v, C)),
                      "as it was"),
        "keys forgotten": (lambda q, k, v, C: attention(
            q, pad(k, C), mean(v, C)), "the keys not"),
        "values forgotten": (lambda q, k, v, C: attention(
            q, mean(k, C), pad(v, C)), "the values not"),
        "cut off": (cut_off, "left out"),
        "joined": (joined, "join the slot before"),
        "repeated": (lambda q, k, v, C: attention(
            q, pad(k, C, mode="edge"), pad(v, C, mode="edge")),
            "repeated until"),
        "counted": (counted, "number of their tokens"),
        "a matrix of means": (lambda q, k, v, C: attention(
            q, mean(k, C), mean(v, C), 1), "pooled, on"),
    },
}
