"""Answers to chapter 1's exercises, as people write them (see ch06)."""

import numpy as np


def rows(q, k, v):
    o = []
    for i in range(len(q)):
        s = k[:i + 1] @ q[i] / q.shape[1] ** 0.5
        w = np.exp(s - s.max())
        o.append((w / w.sum()) @ v[:i + 1])
    return np.array(o)


def square(q, k, v):
    s = np.einsum("id,jd->ij", q, k) / np.sqrt(q.shape[-1])
    s[np.triu_indices(len(q), 1)] = -np.inf
    s -= s.max(axis=1)[:, None]
    e = np.exp(s)
    return np.einsum("ij,jv->iv", e, v) / e.sum(1)[:, None]


def online(q, k, v):
    """Key after key, the largest score so far beside the sums."""
    N, d = q.shape
    top, total, o = np.full(N, -np.inf), np.zeros(N), np.zeros(v.shape)
    for j in range(N):
        s = q[j:] @ k[j] / np.sqrt(d)
        new = np.maximum(top[j:], s)
        old, w = np.exp(top[j:] - new), np.exp(s - new)
        total[j:] = total[j:] * old + w
        o[j:] = o[j:] * old[:, None] + w[:, None] * v[j]
        top[j:] = new
    return o / total[:, None]


def cached(q, k, v):
    K, V, o = k[:0], v[:0], []
    for x, y, z in zip(q, k, v):
        K, V = np.vstack([K, y]), np.vstack([V, z])
        w = np.exp((s := K @ x / len(x) ** .5) - np.max(s))
        o.append(V.T.dot(w) / w.sum())
    return np.array(o)


def softmax(s, axis=-1):
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def hidden(N, k=1):
    return np.triu(np.full((N, N), -np.inf), k)


def scores(q, k):
    return q @ k.T / np.sqrt(q.shape[1])


def first_zero(q, k, v):
    o = np.zeros_like(v)
    for i in range(1, len(v)):
        o[i] = softmax(k[:i] @ q[i] / np.sqrt(q.shape[1])) @ v[:i]
    return o


def unsafe(q, k, v):
    e = np.tril(np.exp(scores(q, k)))
    return e @ v / e.sum(-1, keepdims=True)


def unsafe_hidden(q, k, v):
    e = np.exp(np.where(np.tri(len(q), dtype=bool), scores(q, k), -np.inf))
    return e / e.sum(-1, keepdims=True) @ v


def lowered_by(top):
    def answer(q, k, v):
        s = scores(q, k)
        e = np.tril(np.exp(s - top(s)))
        return e / e.sum(-1, keepdims=True) @ v
    return answer


def clipped(q, k, v):
    e = np.tril(np.exp(np.clip(scores(q, k), -500, 500)))
    return e / e.sum(-1, keepdims=True) @ v


def recomputed(q, k, v):
    return np.array([square(q[:t], k[:t], v[:t])[-1]
                     for t in range(1, len(v) + 1)])


def uncounted(q, k, v):
    s = (q[:, None] * k / np.sqrt(q.shape[1])).sum(-1)
    return softmax(s + hidden(len(q))) @ v


MASKED = {
    "no root": (lambda q, k, v: softmax(
        q @ k.T + hidden(len(q))) @ v, "not divided by √d"),
    "by d": (lambda q, k, v: softmax(
        q @ k.T / q.shape[1] + hidden(len(q))) @ v, "not by its root"),
    "root of d_v": (lambda q, k, v: softmax(
        q @ k.T / np.sqrt(v.shape[1]) + hidden(len(q))) @ v,
        "the values' width"),
    "no mask": (lambda q, k, v: softmax(scores(q, k)) @ v,
                "nothing is hidden"),
    "not itself": (first_zero, "does not see itself"),
    "one ahead": (lambda q, k, v: softmax(
        scores(q, k) + hidden(len(q), 2)) @ v, "one key of the future"),
    "hidden by 0": (lambda q, k, v: softmax(np.tril(scores(q, k))) @ v,
                    "e⁰"),
    "hidden late": (lambda q, k, v: np.tril(softmax(scores(q, k))) @ v,
                    "no longer sum to one"),
    "columns": (lambda q, k, v: softmax(
        scores(q, k) + hidden(len(q)), 0) @ v, "columns sum to one"),
    "undivided": (lambda q, k, v: np.tril(np.exp(scores(q, k))) @ v,
                  "nothing divides"),
    "mean": (lambda q, k, v: np.tril(np.ones((len(q), len(q)))) @ v
             / np.arange(1, len(q) + 1)[:, None], "weigh the same"),
    "itself": (lambda q, k, v: np.array(v), "nothing before it"),
}

RIGHT = {
    "prefill_flops": ["768768000", 8 * 1000 * 1001 * 96],
    "cache_mib": [720.0, "1440/2"],
    "first_cheaper": ["137", np.int64(137)],
    "causal_softmax": [rows, square, online],
    "mended": [rows, cached],
}

WRONG = {
    "prefill_flops": {
        "the square": (8 * 2 * 1000**2 * 96, "whole square"),
        "one a pair": (8 * 500_500 * 96, "they are two"),
        "one head": (2 * 500_500 * 96, "one head"),
        "scores alone": (8 * 2 * 500_500 * 64, "product with V"),
        "values alone": (8 * 2 * 500_500 * 32, "product QKᵀ"),
        "d for d_v": (8 * 2 * 500_500 * 128, "width d_v"),
        "no diagonal": (8 * 2 * 499_500 * 96, "left out the diagonal"),
        "half": (8 * 1000**2 * 96, "exactly half"),
        "words": ("much", "made of numbers"),
    },
    "cache_mib": {
        "query heads": (2880, "each query head"), "one layer": (30, "layer"),
        "one text": (240, "one sequence"), "keys": (432, "without values"),
        "values": (288, "without keys"), "numbers": (360, "two bytes"),
        "float32": (1440, "four bytes"), "MB": (754.97472, "10⁶"),
        "bytes": (720 * 2**20, "in bytes"), "one head": (180, "one head"),
        "far off": (7, "is not 7"),
    },
    "first_cheaper": {
        "before": (136, "still costs a little more"),
        "no mask": (69, "without a mask"), "half N²": (138, "the diagonal"),
        "2d": (63, "r = d = d_v"), "d": (32, "r = d = d_v"),
        "one width": (96, "one width"), "the clock": (2048, "clock"),
    },
    "causal_softmax": MASKED | {
        "unsafe": (unsafe_hidden, "overflows"),
        "unsafe, masked late": (unsafe, "overflows"),
        "largest of all": (lowered_by(np.max), "one number"),
        "largest of the row": (lowered_by(
            lambda s: s.max(-1, keepdims=True)), "among hidden ones"),
        "clipped": (clipped, "with large ones is the question"),
        "changes q": (lambda q, k, v: [q.__itruediv__(2.0)] and rows(
            2 * q, k, v), "changes its argument q"),
        "prints, returns nothing": (lambda q, k, v: print(rows(q, k, v)),
                                    "returned nothing"),
    },
    "mended": MASKED | {
        "recomputed": (recomputed, "FLOPs"),
        "the square": (square, "where"),
        "the square, without a product": (uncounted, "one row of scores"),
    },
}
