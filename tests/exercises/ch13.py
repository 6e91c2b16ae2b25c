"""Answers to chapter 13's exercises, as people write them (see `ch06`)."""

import linecache
import time

import numpy as np

# -- online softmax -----------------------------------------------------------


def scores(q, k, visible):
    return np.where(visible, q @ k.T * q.shape[1] ** -0.5, -np.inf)


def at_once(q, k, v, visible, B):
    s = scores(q, k, visible)
    w = np.exp(s - s.max(1, keepdims=True))
    return w @ v / w.sum(1, keepdims=True)


def in_tiles(of):
    """`of(q, k, v, visible, B)` on tiles of queries."""
    return lambda q, k, v, visible, B: np.concatenate(
        [of(q[i:i + B], k, v, visible, B) for i in range(0, len(q), B)])


def online(q, k, v, visible, B, shrink_l=True, shrink_o=True, running=True,
           finite=True, divide=True, keys=None):
    m, l = np.full(len(q), -np.inf), np.zeros(len(q))
    o = np.zeros((len(q), v.shape[1]))
    for j in range(0, len(k) if keys is None else keys(len(k), B), B):
        s = scores(q, k[j:j + B], visible[j:j + B])
        new = np.maximum(m, s.max(1)) if running else s.max(1)
        base = np.maximum(new, -1e300) if finite else new
        p, old = np.exp(s - base[:, None]), np.exp(m - base)
        l = l * (old if shrink_l else 1) + p.sum(1)
        o = o * (old[:, None] if shrink_o else 1) + p @ v[j:j + B]
        m = new
    return o / l[:, None] if divide else o


def changed(**how):
    return in_tiles(lambda *x: online(*x, **how))


def skips_hidden(q, k, v, visible, B):
    """Tiles of which nothing is seen are left out, hidden keys dropped."""
    o = []
    for i in range(0, len(q), B):
        Q, m, acc = q[i:i + B], None, 0
        for j in range(0, len(k), B):
            seen = visible[j:j + B]
            if not seen.any():
                continue
            s = Q @ k[j:j + B][seen].T / np.sqrt(Q.shape[1])
            x = np.c_[v[j:j + B][seen], np.ones(seen.sum())]
            top = s.max(1, keepdims=True)
            new = top if m is None else np.maximum(m, top)
            acc = (0 if m is None else np.exp(m - new) * acc) + (
                np.exp(s - new) @ x)
            m = new
        o.append(acc[:, :-1] / acc[:, -1:])
    return np.concatenate(o)


def from_zero(q, k, v, visible, B):
    """The running maximum starts at 0."""
    o = []
    for i in range(0, len(q), B):
        x = q[i:i + B]
        m, acc = np.zeros((len(x), 1)), 0
        for j in range(0, len(k), B):
            s = scores(x, k[j:j + B], visible[j:j + B])
            new = np.maximum(m, s.max(1, keepdims=True))
            acc = np.exp(m - new) * acc + np.exp(s - new) @ np.c_[
                v[j:j + B], np.ones(len(s.T))]
            m = new
        o.append(acc[:, :-1] / acc[:, -1:])
    return np.concatenate(o)


def row_by_row(q, k, v, visible, B):
    return np.concatenate([at_once(x[None], k, v, visible, B) for x in q])


def unsafe(q, k, v, visible, B):
    w = np.exp(scores(q, k, visible))
    return w @ v / w.sum(1, keepdims=True)


def averaged(q, k, v, visible, B):
    tiles = [slice(j, j + B) for j in range(0, len(k), B)]
    parts = [at_once(q, k[t], v[t], visible[t], B) for t in tiles
             if visible[t].any()]
    return np.mean(parts, axis=0)


def score_zero(q, k, v, visible, B):
    s = q @ k.T / q.shape[1] ** 0.5 * visible
    w = np.exp(s - s.max(1, keepdims=True))
    return w @ v / w.sum(1, keepdims=True)


# -- the kernel ---------------------------------------------------------------

KERNEL = '''
import triton.language as tl

def linear_kernel(q, k, v, o, N, R: tl.constexpr, V: tl.constexpr,
                  C: tl.constexpr):
    head = tl.program_id(0) * N
    i, r, c = tl.arange(0, C), tl.arange(0, R), tl.arange(0, V)
    S, z = tl.zeros((R, V), tl.float32), tl.zeros((1, R), tl.float32)
    for chunk in range(tl.cdiv(N, C)):
        t = chunk * C + i
        qk, vo = (head + t)[:, None] * R + r, (head + t)[:, None] * V + c
        there = t[:, None] < N
        Q = tl.load(q + qk, mask=there, other=0.0)
        K = tl.load(k + qk, mask=there, other=0.0)
        X = tl.load(v + vo, mask=there, other=0.0)
        P = tl.where(i[:, None] >= i, tl.dot(Q, tl.trans(K)), 0.0)
        total = tl.sum(P, 1) + tl.sum(Q * z, 1)
        out = tl.dot(P, X, acc=tl.dot(Q, S))
        S += tl.dot(tl.trans(K), X)
        z += tl.sum(K, 0)[None, :]
        tl.store(o + vo, out / total[:, None], mask=there)
'''
TOKENS = '''
import triton.language as tl

def linear_kernel(q, k, v, o, N, R: tl.constexpr, V: tl.constexpr,
                  C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, V)
    S, z = tl.zeros((R, V), tl.float32), tl.zeros((R,), tl.float32)
    for t in range(N):
        row = tl.program_id(0) * N + t
        x, y = tl.load(q + row * R + r), tl.load(k + row * R + r)
        S += y[:, None] * tl.load(v + row * V + c)[None, :]
        z += y
        tl.store(o + row * V + c, tl.sum(x[:, None] * S, 0) / tl.sum(x * z))
'''


def kernel(*edits, text=KERNEL):
    """The kernel with edits (old, new), as if typed into a cell."""
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file, scope = f"<kernel {len(linecache.cache)}>", {}
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    exec(compile(text, file, "exec"), scope)
    return scope["linear_kernel"]


def decorated():
    import triton
    return triton.jit(kernel())


BEFORE = ("        S += tl.dot(tl.trans(K), X)\n"
          "        z += tl.sum(K, 0)[None, :]\n")
MOVED = ((BEFORE, ""), ("        total = ", BEFORE + "        total = "))

RIGHT = {
    "best_chunk": [(2, 6.0, "34"), np.array([2, 6, 34])],
    "bytes_and_intensity": [["65/2", "9/4", 1024 / 65, 2048 / 9],
                            (32.5, 2.25, "1024/65", "2048/9")],
    "online_softmax": [in_tiles(online), skips_hidden],
    "linear_kernel": [kernel(), kernel(text=TOKENS), decorated()],
}

WRONG = {
    "best_chunk": {
        "without adding": ([0, 32 ** .5, 1152 ** .5], "left out the adding"),
        "without the 2": ([8 ** .5, 72 ** .5, 2312 ** .5], "lost the 2"),
        "without z": ([(240 / 62) ** .5, (2288 / 62) ** .5,
                       ((240 + 73728) / 62) ** .5], "left out z"),
        "no root": ([4, 36, 1156], "root"),
        "units": ([2, (258.048 / 64) ** .5, (329.728 / 64) ** .5], "units"),
        "free waiting": ([0, 6, 34], "also save"),
        "one": (6, "shape"),
        "words": (["2 tokens", 6, 34], "made of numbers"),
    },
    "bytes_and_intensity": {
        "float32": ([65, 4.5, "512/65", "1024/9"], "two bytes"),
        "elements": ([16.25, 1.125, "2048/65", "4096/9"], "not bytes"),
        "2N²": ([16.5, 2.25, 512 / 16.5, "2048/9"], "not 2N²"),
        "N²": ([8.5, 2.25, 512 / 8.5, "2048/9"], "not N²"),
        "once": ([32.5, .5, "1024/65", 1024], "not once"),
        "B tiles": ([32.5, 64.25, "1024/65", 512 / 64.25], "not B"),
        "MB": ([34.07872, 2.359296, "1024/65", "2048/9"], "10⁶"),
        "bytes alone": ([32.5, 2.25], "intensities too"),
    },
    "online_softmax": {
        "at once": (at_once, "not rows of N"),
        "tiles of queries": (in_tiles(at_once), "not rows of N"),
        "all queries at once": (online, "all queries at once"),
        "row by row": (row_by_row, "not one query at a time"),
        "overflows": (in_tiles(unsafe), "overflows"),
        "from zero": (from_zero, "may never be reached"),
        "hidden tile": (changed(finite=False), "−∞ less −∞"),
        "old total": (changed(shrink_l=False), "old total must shrink"),
        "old output": (changed(shrink_o=False), "old output must shrink"),
        "old sums": (changed(shrink_l=False, shrink_o=False),
                     "old sums must shrink"),
        "falling": (changed(running=False), "must never fall"),
        "undivided": (changed(divide=False), "nothing divides"),
        "the rest": (changed(keys=lambda N, B: N // B * B), "shorter than B"),
        "averaged": (in_tiles(averaged), "by itself"),
        "no scale": (lambda q, k, v, visible, B: online(
            q * q.shape[1] ** 0.5, k, v, visible, B), "by √d"),
        "score zero": (score_zero, "still has weight"),
        "sees all": (lambda q, k, v, visible, B: online(
            q, k, v, np.full(len(k), True), B), "hidden keys are seen"),
        "hangs": (lambda q, k, v, visible, B: time.sleep(60), "was stopped"),
    },
    "linear_kernel": {
        "no mask": (kernel(("i[:, None] >= i,", "i[:, None] >= 0,")),
                    "needs its mask"),
        "not divided": (kernel(("out / total[:, None]", "out")),
                        "nothing divides"),
        "written first": (kernel(*MOVED), "counts twice"),
        "alone": (kernel(("S += tl.dot(tl.trans(K), X)", "S += 0.0"),
                         ("z += tl.sum(K, 0)[None, :]", "z += 0.0")),
                  "reads itself alone"),
        "overwritten": (kernel(("S += ", "S = "), ("z += ", "z = ")),
                        "add to them"),
        "no z": (kernel((" + tl.sum(Q * z, 1)", "")), "z is not read"),
        "loads unmasked": (kernel(("X = tl.load(v + vo, mask=there, "
                                   "other=0.0)", "X = tl.load(v + vo)")),
                           "beyond the end"),
        "stores unmasked": (kernel(("total[:, None], mask=there)",
                                    "total[:, None])")),
                            "outside its output"),
        "whole chunks": (kernel(("tl.cdiv(N, C)", "N // C")),
                         "never stored"),
        "one head": (kernel(("tl.program_id(0) * N", "0")), "never stored"),
        "NumPy": (kernel(("tl.sum(P, 1)", "np.sum(P, 1)")),
                  "(line: total = np.sum(P, 1)"),
        "another head's rows": (kernel(("(head + t)[:, None] * R + r",
                                        "(head + t)[:, None] * V + r")),
                                "expected"),
        "does not compile": (kernel(("range(tl.cdiv(N, C))",
                                     "[*range(tl.cdiv(N, C))]")),
                             "although Triton's interpreter ran it"),
        "hangs": (kernel(("        t = chunk",
                          "        while N > 0:\n            i += 0\n"
                          "        t = chunk")), "was stopped"),
        "no function": (7, "must be a function"),
        "unreadable": (eval("lambda *x: None"), "cannot be read"),
    },
}
