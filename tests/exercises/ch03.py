"""Answers to chapter 3's exercises, as people write them (see ch06)."""

import numpy as np

from lintut.reference import longformer, sliding_window


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def masked(q, k, v, visible):
    s = np.where(visible, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    return softmax(s) @ v


def rows(first, last=lambda i, w: i + 1):
    """Row after row, from `first` up to `last`, functions of i and w."""
    def answer(q, k, v, w):
        o = np.zeros_like(v)
        for i in range(len(q)):
            part = slice(max(first(i, w), 0), max(last(i, w), 0))
            if len(k[part]):
                s = k[part] @ q[i] / np.sqrt(q.shape[1])
                o[i] = softmax(s) @ v[part]
        return o
    return answer


def blocks(q, k, v, w, size=32):
    o = np.empty_like(v)
    for a in range(0, len(q), size):
        b = max(a - w + 1, 0)
        i = np.arange(a, min(a + size, len(q)))[:, None]
        j = np.arange(b, i[-1, 0] + 1)
        s = q[a:a + size] @ k[b:a + size].T / np.sqrt(q.shape[1])
        s[(j > i) | (j <= i - w)] = -np.inf
        o[a:a + size] = softmax(s) @ v[b:a + size]
    return o


def gathered(q, k, v, w):
    """The w keys of each query, side by side: (N, w, d)."""
    j = np.arange(len(q))[:, None] + np.arange(1 - w, 1)
    near = np.maximum(j, 0)
    s = np.einsum("id,iwd->iw", q, k[near]) / q.shape[1] ** 0.5
    s[j < 0] = -np.inf
    return np.einsum("iw,iwv->iv", softmax(s), v[near])


def gathered_unhidden(q, k, v, w):
    j = np.arange(len(q))[:, None] + np.arange(1 - w, 1)
    j %= len(q)
    s = np.einsum("id,iwd->iw", q, k[j]) / q.shape[1] ** 0.5
    return np.einsum("iw,iwv->iv", softmax(s), v[j])


def zeros_before(q, k, v, w):
    K = np.pad(k, ((w - 1, 0), (0, 0)))
    V = np.pad(v, ((w - 1, 0), (0, 0)))
    return np.array([softmax(K[i:i + w] @ q[i] / np.sqrt(q.shape[1]))
                     @ V[i:i + w] for i in range(len(q))])


def band(N, w):
    return np.tril(np.ones((N, N))) - np.tril(np.ones((N, N)), -w) > 0


def hidden_by_zero(q, k, v, w):
    s = q @ k.T / np.sqrt(q.shape[1])
    return softmax(s * band(len(q), w)) @ v


def row_of_all(q, k, v, w):
    j = np.arange(len(q))
    return np.array([softmax(np.where(
        (j <= i) & (j > i - w), k @ q[i] / np.sqrt(q.shape[1]), -np.inf)) @ v
        for i in j])


def rolling(q, k, v, w, trim=lambda K, w: K[-w:]):
    K, V, o = k[:0], v[:0], np.empty_like(v)
    for t in range(len(v)):
        K, V = trim(np.vstack([K, k[t]]), w), trim(np.vstack([V, v[t]]), w)
        o[t] = softmax(K @ q[t] / np.sqrt(q.shape[1])) @ V
    return o


def trimmed_before(q, k, v, w):
    K, V, o = k[:0], v[:0], np.empty_like(v)
    for t in range(len(v)):
        K = np.vstack([K[-(w - 1):], k[t]])
        V = np.vstack([V[-(w - 1):], v[t]])
        o[t] = softmax(K @ q[t] / np.sqrt(q.shape[1])) @ V
    return o


def ring(q, k, v, w):
    """Token t lies in slot t mod w."""
    K, V = np.zeros((w, k.shape[1])), np.zeros((w, v.shape[1]))
    o = np.empty_like(v)
    for t in range(len(v)):
        K[t % w], V[t % w] = k[t], v[t]
        n = min(t + 1, w)
        o[t] = softmax(K[:n] @ q[t] / np.sqrt(q.shape[1])) @ V[:n]
    return o


def growing(q, k, v, w):
    o = np.empty_like(v)
    for t in range(len(v)):
        K, V = k[:t + 1], v[:t + 1]
        s = K @ q[t] / np.sqrt(q.shape[1])
        s[:-w] = -np.inf
        o[t] = softmax(s) @ V
    return o


def growing_sums(q, k, v, w):
    """The same, entry by entry: no product that could be counted."""
    o = np.empty_like(v)
    for t in range(len(v)):
        s = (k[:t + 1] * q[t]).sum(1) / np.sqrt(q.shape[1])
        s[:-w] = -np.inf
        o[t] = (softmax(s)[:, None] * v[:t + 1]).sum(0)
    return o


WINDOWS = {
    "w + 1": (rows(lambda i, w: i - w), "w + 1 keys"),
    "w - 1": (rows(lambda i, w: i - w + 2), "w − 1 keys: one is missing"),
    "w before": (rows(lambda i, w: i - w, lambda i, w: i), "lie before"),
    "not itself": (rows(lambda i, w: i - w + 1, lambda i, w: i),
                   "and not itself"),
    "both sides": (rows(lambda i, w: i - w // 2,
                        lambda i, w: i + (w - 1) // 2 + 1), "both sides"),
    "as far ahead": (rows(lambda i, w: i - w + 1, lambda i, w: i + w),
                     "as far ahead"),
    "ahead": (rows(lambda i, w: i, lambda i, w: i + w), "ahead instead"),
    "no window": (rows(lambda i, w: 0), "there is no window"),
    "blocks alone": (rows(lambda i, w: i // w * w), "its own block alone"),
    "zeros before": (zeros_before, "zeros that stand before"),
    "end of the text": (gathered_unhidden, "the last token"),
    "hidden by 0": (hidden_by_zero, "e⁰"),
    "hidden late": (lambda q, k, v, w: softmax(
        q @ k.T / np.sqrt(q.shape[1])) * band(len(q), w) @ v,
        "after the division"),
    "no root": (lambda q, k, v, w: rolling(q * np.sqrt(q.shape[1]), k, v, w),
                "not divided by √d"),
    "mean": (lambda q, k, v, w: rolling(0 * q, k, v, w), "weigh the same"),
}


# -- masks --------------------------------------------------------------------

def longformer_loops(N, w, G, causal):
    mask = np.zeros((N, N), dtype=bool)
    for i in range(N):
        for j in range(N):
            if causal:
                near = i - w < j <= i
            else:
                near = i - w // 2 <= j < i - w // 2 + w
            mask[i, j] = near or i in G or j in G
            if causal and j > i:
                mask[i, j] = False
    return mask


def longformer_steps(N, w, G, causal):
    mask = sum(np.eye(N, N, -s) for s in (
        range(w) if causal else range(-((w - 1) // 2), w // 2 + 1))) > 0
    chosen = np.isin(np.arange(N), G)
    mask = mask | chosen | chosen[:, None]
    return mask & (np.arange(N) <= np.arange(N)[:, None]) if causal else mask


def lf(near, rows=True, columns=True, late=True):
    """A mask with `near(i, j, w, causal)`; `late`: the cut comes last."""
    def answer(N, w, G, causal):
        i, j = np.indices((N, N))
        mask = near(i, j, w, causal)
        if causal and not late:
            mask = mask & (j <= i)
        if rows:
            mask = mask | np.isin(i, G)
        if columns:
            mask = mask | np.isin(j, G)
        return mask & (j <= i) if causal and late else mask
    return answer


def ours(i, j, w, causal):
    a = w - 1 if causal else w // 2
    return (i - a <= j) & (j < i - a + w)


def among_themselves(N, w, G, causal):
    mask = longformer.mask(N, w, [], causal)
    for a in G:
        for b in G:
            mask[a, b] = a >= b or not causal
    return mask


def one_side(rows):
    def answer(N, w, G, causal):
        mask = longformer.mask(N, w, G, causal)
        for g in G:
            mask[(g, slice(None)) if rows else (slice(None), g)] = True
        return mask
    return answer


def bb(reach=None, rows=True, columns=True, links=True, tokens=True):
    """Token after token; each option goes wrong at one place."""
    reach = reach or (lambda n_w, causal: (n_w - 1, 0) if causal
                      else (n_w // 2, n_w // 2))

    def answer(N, b, n_w, n_g, random, causal):
        mask = np.zeros((N, N), bool)
        before, after = reach(n_w, causal)
        for i in range(N):
            for j in range(N):
                x, y = i // b, j // b
                mask[i, j] = (-before <= y - x <= after
                              or rows and x < n_g or columns and y < n_g
                              or links is True and y in random[x]
                              or links == "turned" and x in random[y]
                              or links == "both" and (
                                  y in random[x] or x in random[y]))
                if causal and (j > i if tokens else y > x):
                    mask[i, j] = False
        return mask
    return answer


def bb_slices(N, b, n_w, n_g, random, causal):
    mask = np.zeros((N, N), bool)
    for c, start in enumerate(range(0, N, b)):
        mine = slice(start, start + b)
        first = start - (n_w - 1 if causal else n_w // 2) * b
        mask[mine, max(first, 0):max(first, -b * n_w) + n_w * b] = True
        for x in random[c]:
            mask[mine, x * b:(x + 1) * b] = True
    mask[:n_g * b] = True
    mask[:, :n_g * b] = True
    return mask & np.tri(N, dtype=bool) if causal else mask


def bb_kron(N, b, n_w, n_g, random, causal):
    n = (N + b - 1) // b
    blocks = sum(np.eye(n, k=-s) for s in (
        range(n_w) if causal else range(-(n_w // 2), n_w // 2 + 1)))
    blocks[:n_g] = blocks[:, :n_g] = 1
    for c, seen in enumerate(random):
        blocks[c, seen] = 1
    mask = np.kron(blocks, np.ones((b, b)))[:N, :N] > 0
    return np.where(np.tri(N) > 0, mask, False) if causal else mask


def bb_floor(N, b, n_w, n_g, random, causal):
    whole = N // b * b
    mask = np.zeros((N, N), bool)
    if whole:
        mask[:whole, :whole] = bb_kron(
            whole, b, n_w, n_g,
            [[y for y in r if y < N // b] for r in random[:N // b]], causal)
    return mask


def bb_global_tokens(N, b, n_w, n_g, random, causal):
    mask = bb_kron(N, b, n_w, 0, random, causal)
    i, j = np.indices((N, N))
    mask |= (i < n_g) | (j < n_g)
    return mask & (i >= j) if causal else mask


def bb_random_tokens(N, b, n_w, n_g, random, causal):
    mask = bb_kron(N, b, n_w, n_g, [[]] * len(random), causal)
    for i in range(N):
        mask[i, random[i // b]] = True
    return np.tril(mask) if causal else mask


def bb_moving(N, b, n_w, n_g, random, causal):
    i, j = np.indices((N, N))
    wide = sliding_window.mask(N, (n_w - 1) * b + 1, causal)
    mask = wide | bb(reach=lambda n_w, causal: (-1, -1))(
        N, b, n_w, n_g, random, False)
    return mask & (i >= j) if causal else mask


def bb_uncut(N, b, n_w, n_g, random, causal):
    return bb(reach=lambda n_w, _: (n_w - 1, 0) if causal else (
        n_w // 2, n_w // 2))(N, b, n_w, n_g, random, False)


x = np.random.default_rng(7).normal(size=(9, 3))
HEARS = [13, 25, 2, 13]


def but(i, to):
    return [to if j == i else value for j, value in enumerate(HEARS)]


RIGHT = {
    "shares_by_hand": [["10/36", "14/36", "8/36", "4/36"],
                       np.array([5, 7, 4, 2]) / 18],
    "window_attention": [blocks, gathered, rolling, ring],
    "longformer_mask": [longformer_loops, longformer_steps, lf(ours)],
    "bigbird_mask": [bb(), bb_kron, bb_slices],
    "hears": [np.array(HEARS), ["13", "25", "2", "13"]],
    "exposes_leak": [(x, 2, 1, 8), (x, 4, 5, 7), (0 * x, 3, 3, 4),
                     (np.ones((20, 1)), 2, 1, 19)],
    "mended": [rolling, ring, rows(lambda i, w: i - w + 1)],
}

WRONG = {
    "shares_by_hand": {
        "one layer": ([0, "1/3", "1/3", "1/3"], "after one layer"),
        "no edge": (["2/9", "1/3", "2/9", "1/9"], "sum to 8/9"),
        "flat": ([0.25] * 4, "as many paths"),
        "turned": (["1/9", "2/9", "7/18", "5/18"], "order is turned"),
        "w + 1": (["25/48", "13/48", "7/48", "1/16"], "three before it"),
        "from one": (["11/18", "5/18", "1/9", 0], "count from 0"),
        "no sum of one": ([1, 2, 3, 2], "sum to one"),
        "all six": (["1/9"] * 6, "shape"),
    },
    "window_attention": WINDOWS | {
        "N×N": (lambda q, k, v, w: masked(q, k, v, band(len(q), w)), "N×N"),
        "a row of all": (row_of_all, "not one for every key"),
        "growing": (growing, "not one for every key"),
        "raises": (lambda q, k, v, w: masked(q, k, v, band(w, w)),
                   "raised ValueError"),
    },
    "longformer_mask": {
        "no columns": (lf(ours, columns=False), "not seen by all"),
        "no rows": (lf(ours, rows=False), "do not see all"),
        "among themselves": (among_themselves, "each other alone"),
        "leak": (lf(ours, late=False), "that is the leak"),
        "rows leak": (one_side(True), "rows still look ahead"),
        "columns leak": (one_side(False), "ahead of them"),
        "half a window": (lf(lambda i, j, w, _: ours(i, j, w, False)),
                          "half of the window"),
        "not causal": (lambda N, w, G, causal: longformer.mask(N, w, G),
                       "causal plays no part"),
        "as the paper": (lf(lambda i, j, w, causal: ours(i, j, w, True)
                            if causal else abs(i - j) <= w // 2),
                         "as many keys after"),
        "even, turned": (lf(lambda i, j, w, causal: ours(i, j, w, True)
                            if causal else ours(j, i, w, False)),
                         "one key more after"),
        "w each side": (lf(lambda i, j, w, causal: abs(i - j) <= w),
                        "w keys on each side"),
        "w - 1 each side": (lf(lambda i, j, w, causal: abs(i - j) < w),
                            "w − 1 keys on each side"),
        "w + 1": (lf(lambda i, j, w, causal: i - j <= w if causal
                     else ours(i, j, w, False)), "w + 1 keys"),
        "not itself": (lf(lambda i, j, w, causal: ours(i, j, w, causal)
                          & (i != j)), "query's own key"),
        "nobody itself": (lambda N, w, G, causal: longformer_loops(
            N, w, G, causal) & (np.eye(N) == 0), "does not see itself"),
        "hidden": (lambda N, w, G, causal: ~longformer_loops(
            N, w, G, causal), "exchanged"),
        "numbers": (lambda N, w, G, causal: longformer_loops(
            N, w, G, causal) * 1.0, "should be boolean"),
        "added": (lambda N, w, G, causal: np.where(longformer_loops(
            N, w, G, causal), 0, -np.inf), "adds to the scores"),
        "first of all": (lambda N, w, G, causal: longformer_loops(
            N, w, range(len(G)), causal), "at the positions in G"),
        "no window": (lf(lambda i, j, w, causal: i < 0), "no window"),
    },
    "bigbird_mask": {
        "no links": (bb(links=False), "random blocks are missing"),
        "both ways": (bb(links="both"), "go both ways"),
        "turned": (bb(links="turned"), "are turned"),
        "random tokens": (bb_random_tokens, "as those of tokens"),
        "no columns": (bb(columns=False), "not seen by all"),
        "no rows": (bb(rows=False), "do not see all"),
        "global tokens": (bb_global_tokens, "here it counts tokens"),
        "cut by blocks": (bb(tokens=False), "cut by whole blocks"),
        "window alone": (bb_uncut, "nothing is cut but the window"),
        "not causal": (lambda N, b, n_w, n_g, random, causal: bb()(
            N, b, n_w, n_g, random, False), "causal plays no part"),
        "half a window": (bb(reach=lambda n_w, _: (n_w // 2, n_w // 2)),
                          "half of the window"),
        "n_w each side": (bb(reach=lambda n_w, causal: (n_w, n_w)),
                          "n_w blocks on each side"),
        "one block more": (bb(reach=lambda n_w, causal: (n_w, 0) if causal
                              else (n_w // 2, n_w // 2)),
                           "n_w + 1 blocks"),
        "moving": (bb_moving, "moves with every token"),
        "the rest": (bb_floor, "shorter than b"),
        "hidden": (lambda **a: ~bb()(**a), "exchanged"),
        "added": (lambda **a: np.where(bb()(**a), 0, -np.inf),
                  "adds to the scores"),
    },
    "hears": {
        "Lw": (but(0, 15), "not w; the token itself"),
        "not itself": (but(0, 12), "itself, too"),
        "one layer": (but(0, 5), "one layer's window"),
        "one short": (but(1, 24), "still missing"),
        "by w": (but(1, 20), "not w"),
        "one hop": (but(2, 1), "reach the others"),
        "no shortcut": (but(2, 25), "a shorter way"),
        "a shortcut": (but(3, 2), "sees only itself"),
        "one short again": (but(3, 12), "not there yet"),
    },
    "exposes_leak": {
        "one layer": ((x, 1, 3, 6), "After one layer"),
        "the global token": ((x, 2, 0, 6), "1 ≤ i < j"),
        "an earlier input": ((x, 2, 6, 3), "1 ≤ i < j"),
        "large scores": ((100 * x, 2, 3, 6), "Look at the scores"),
        "no layer": ((x, 0, 3, 6), "layers must be"),
        "half a token": ((x, 2, 2.5, 6), "whole numbers"),
        "long": ((np.ones((60, 2)), 2, 3, 6), "at most 50"),
        "a list": (([1, 2, 3, 4], 2, 1, 3), "two axes"),
        "three parts": ((x, 2, 3), "cannot be used"),
    },
    "mended": WINDOWS | {
        "as it was": (lambda q, k, v, w: rows(lambda i, w: i - w)(q, k, v, w),
                      "w + 1 keys"),
        "minus zero": (trimmed_before, "−0"),
        "keeps the oldest": (lambda q, k, v, w: rolling(
            q, k, v, w, lambda K, w: K[:w]), "keeps the oldest"),
        "never trimmed": (growing, "however long the text"),
        "never trimmed, without products": (
            growing_sums, "however long the text"),
        "the square": (lambda q, k, v, w: masked(q, k, v, band(len(q), w)),
                       "however long the text"),
    },
}
