"""Answers to chapter 7's exercises, as people write them.

RIGHT: other right ways.  WRONG: name, answer, and words that its message must
hold.
"""

import numpy as np

f2, f4 = np.float16, np.float32


def by_norms(k, v):
    record = np.linalg.norm(k, axis=1)[:, None] ** 2 * v
    return record, np.einsum("nd,de->ne", k, np.einsum("nd,ne->de", k, v)
                             ) - record


def without_each(k, v):
    """The state less each record in turn, read with its key."""
    S = np.einsum("nd,ne->de", k, v)
    rest = S - k[:, :, None] * v[:, None, :]
    return (np.einsum("nd,nd,ne->ne", k, k, v),
            np.einsum("nd,nde->ne", k, rest))


def table(k, v, change=lambda a: a):
    """From all pairs of keys."""
    a = k @ k.T
    own = np.diag(a)[:, None] * v
    return own, change(a - np.diag(np.diag(a))) @ v


def pair_by_pair(k, v):
    own, other = np.zeros_like(v), np.zeros_like(v)
    for i, key in enumerate(k):
        a = k @ key
        own[i] = a[i] * v[i]
        a[i] = 0
        other[i] = a @ v
    return own, other


def in_the_plane(c, v):
    """Written and read, one cosine after another."""
    rows = []
    for cosine in c:
        k = np.array([[1, 0], [cosine, np.sqrt(1 - cosine ** 2)]])
        S = k.T @ v
        D = k[0] * v[0]
        D = D + k[1] * (v[1] - k[1] @ D)
        rows.append([k[0] @ S, k[0] @ S / (k[0] @ k.sum(0)), k[0] @ D])
    return np.array(rows) - v[0]


def worked_out(c, v):
    return np.column_stack([c * v[1], c * (v[1] - v[0]) / (1 + c),
                            c * v[1] - c ** 2 * v[0]])


def column(i, error):
    def wrong(c, v):
        o = worked_out(c, v)
        o[:, i] = error(c, v)
        return o
    return wrong


def second_key(c, v):
    return np.stack([c * v[0], (c * v[0] + v[1]) / (1 + c) - v[1],
                     np.zeros_like(c)], axis=1)


def sums(k, v, of_S=f2, of_z=f2, product=f2):
    S = np.zeros((k.shape[1], v.shape[1]), of_S)
    z = np.zeros(k.shape[1], of_z)
    for i in range(len(k)):
        S += np.outer(k[i].astype(product), v[i].astype(product))
        z += k[i]
    return S, z


def wide(k, v):
    return k.astype(float).T @ v.astype(float), k.sum(0, dtype=float)


def stacked(k, v):
    v1 = np.column_stack([v, np.ones(len(v))])
    S = np.einsum("nd,ne->de", k.astype(f4), v1.astype(f4))
    return S[:, :-1].copy(), S[:, -1].copy()


def changed(i, x):
    values = [15, 5, 1, "7/2", "-9/2"]
    values[i] = x
    return values


RIGHT = {
    "changing_value": [["15", 5.0, "2/2", 3.5, -4.5],
                       np.array([15, 5, 1, 3.5, -4.5])],
    "split_read": [by_norms, without_each],
    "alike": [in_the_plane, worked_out],
    "load": [["13", 48, 17.0, 96], (13, 48, 17, 96)],
    "accumulate": [wide, stacked,
                   lambda k, v: sums(k, v, float, float, float)],
}

WRONG = {
    "changing_value": {
        "with b": (changed(0, 22), "at right angles"),
        "replaced": (changed(0, 1), "does not replace"),
        "by four": (changed(1, "11/2"), "four tokens"),
        "the latest": (changed(1, 1), "does not mean latest"),
        "delta adds": (changed(2, 15), "replaces what the key read"),
        "half the sum": (changed(3, 7.5), "does not halve the sum"),
        "half of the last": (changed(3, "1/2"), "does not halve the sum"),
        "mean of two": (changed(3, 5.5), "last two values"),
        "exact": (changed(4, 1), "unit key only"),
        "three halves": (changed(4, 1.5), "Follow the read"),
        "root": (changed(4, 8.7), "once, and not as its root"),
        "four numbers": (changed(4, 1)[:4], "shape"),
    },
    "split_read": {
        "unit keys": (lambda k, v: (v + 0, table(k, v)[1]),
                      "keys of length 1"),
        "length": (lambda k, v: (np.sqrt((k * k).sum(1))[:, None] * v,
                                 table(k, v)[1]), "not with its square"),
        "the whole read": (lambda k, v: (table(k, v)[0], k @ (k.T @ v)),
                           "still holds the record"),
        "less v": (lambda k, v: (table(k, v)[0], k @ (k.T @ v) - v),
                   "less v_i"),
        "those before": (lambda k, v: table(k, v, np.tril), "read after all"),
        "mean": (lambda k, v: (table(k, v)[0], table(k, v)[1] / len(v)),
                 "divided by the number"),
        "exchanged": (lambda k, v: table(k, v)[::-1], "changed places"),
        "no sign": (lambda k, v: table(k, v, np.abs), "without the sign"),
        "n×n": (table, "n×n table"),
        "pairs": (pair_by_pair, "read it with all keys"),
        "one result": (lambda k, v: k @ (k.T @ v), "2 results"),
        "its own input": (lambda k, v: (v, table(k, v)[1]), "a view"),
    },
    "alike": {
        "reads": (lambda c, v: worked_out(c, v) + v[0], "these are the reads"),
        "no sign": (lambda c, v: abs(worked_out(c, v)), "sign is lost"),
        "turned": (lambda c, v: -worked_out(c, v), "sign is turned"),
        "key 2": (second_key, "what key 2 reads"),
        "delta adds": (column(2, lambda c, v: c * v[1]), "taking off"),
        "delta exact": (column(2, lambda c, v: c * 0), "that is key 2"),
        "delta in full": (column(2, lambda c, v: v[1] - c * v[0]),
                          "reads it in full"),
        "mean": (column(1, lambda c, v: (v[0] + c * v[1]) / 2 - v[0]),
                 "divides by 2"),
        "error divided": (column(1, lambda c, v: c * v[1] / (1 + c)),
                          "divide the read"),
        "angle": (lambda c, v: worked_out(np.cos(c), v), "an angle"),
        "rows": (lambda c, v: worked_out(c, v).T, "shape"),
        "one memory": (lambda c, v: c * v[1], "shape"),
    },
    "load": {
        "all n": ([12, 48, 17, 96], "n − 1 records interfere"),
        "the value": ([49, 48, 17, 96], "a quarter of that"),
        "squared": ([4, 48, 17, 96], "squared again"),
        "one less": ([13, 47, 17, 96], "d directions"),
        "width of values": ([13, 16, 17, 96], "no part"),
        "all n alike": ([13, 48, 16, 96], "keys that are alike"),
        "cosine": ([13, 48, 5, 96], "square of the cosine"),
        "as before": ([13, 48, 17, 48], "2d features, not d"),
        "four times": ([13, 48, 17, 192], "with ν = 1"),
        "far off": ([1, 2, 3, 4], "is not"),
        "three": ([13, 48, 17], "shape"),
    },
    "accumulate": {
        "as it was": (sums, "term by term"),
        "widened too late": (lambda k, v: tuple(
            x.astype(f4) for x in sums(k, v)), "term by term"),
        "left to NumPy": (lambda k, v: (k.T @ v, k.sum(0)), "left to NumPy"),
        "z alone": (lambda k, v: sums(k, v, f2, f4), "z is mended"),
        "S alone": (lambda k, v: sums(k, v, f4, f2, f4), "S is mended, z"),
        "S's sums": (lambda k, v: sums(k, v, f4), "up to its products"),
        "products": (lambda k, v: sums(k, v, f4, f4),
                     "rounded to float16 before"),
        "rounded": (lambda k, v: tuple(x.astype(f2) for x in wide(k, v)),
                    "at the end"),
        "mean": (lambda k, v: (wide(k, v)[0] / len(v), wide(k, v)[1]),
                 "result 1 of 2"),
    },
}
