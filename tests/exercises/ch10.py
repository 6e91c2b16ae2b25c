"""Answers to chapter 10's exercises, as people write them.

RIGHT: other right ways.  WRONG: name, answer, and words that its message must
hold.
"""

from fractions import Fraction

import numpy as np


def loop(q, k, v, alpha, S, order="fade write read"):
    o = np.zeros_like(v)
    for t in range(len(v)):
        for what in order.split():
            if what == "fade":
                S = np.diag(alpha[t]) @ S
            elif what == "write":
                S = S + k[t][:, None] * v[t]
            else:
                o[t] = S.T @ q[t]
    return o, S


def looking_back(q, k, v, alpha, S):
    """Token by token from the last: what a query still sees there."""
    q, o = q.copy(), np.zeros_like(v)
    left, end = np.ones(k.shape[1]), 0 * S
    for j in range(len(v) - 1, -1, -1):
        o[j:] += (q[j:] @ k[j])[:, None] * v[j]
        end += (left * k[j])[:, None] * v[j]
        q[j:] = q[j:] * alpha[j]
        left = left * alpha[j]
    return o + q @ S, end + left[:, None] * S


def transposed(q, k, v, alpha, S):
    M, o = S.T.copy(), []
    for a, query, key, value in zip(alpha, q, k, v):
        M *= a
        M += np.outer(value, key)
        o.append(M @ query)
    return np.stack(o), M.T.copy()


def in_place(q, k, v, alpha, S):
    o = np.empty_like(v)
    for t in range(len(v)):
        S *= alpha[t][:, None]
        S += np.outer(k[t], v[t])
        o[t] = q[t] @ S
    return o, S


def with_gates(change):
    return lambda q, k, v, alpha, S: loop(q, k, v, change(alpha), S)


def wide(q, k, v, alpha, S):
    """All pairs of all tokens at once."""
    b = np.cumsum(np.log(alpha), 0)
    W = np.zeros((len(v), len(v)))
    for c in range(q.shape[1]):
        gap = np.minimum(b[:, None, c] - b[:, c], 0)
        W += np.outer(q[:, c], k[:, c]) * np.exp(gap)
    return (np.tril(W) @ v + (q * np.exp(b)) @ S,
            np.exp(b[-1])[:, None] * S + (k * np.exp(b[-1] - b)).T @ v)


def skipping(k, v, alpha, real, S):
    for t in np.flatnonzero(real):
        S = alpha[t, :, None] * S + k[t, :, None] * v[t]
    return S


def compressed(k, v, alpha, real, S):
    k, v, alpha = k[real], v[real], alpha[real]
    left = np.vstack([alpha[::-1].cumprod(0)[::-1], np.ones(k.shape[1])])
    return left[0][:, None] * S + (k * left[1:]).T @ v


def state(k, v, alpha, S):
    return loop(k, k, v, alpha, S)[1]


def until_padding(k, v, alpha, real, S):
    for t in range(len(v)):
        if not real[t]:
            break
        S = alpha[t][:, None] * S + np.outer(k[t], v[t])
    return S


def chunks(q, k, v, alpha, S, C, pairs=None, before=None, until=None,
           total=None, keep=1.0, early=False, skip=False):
    pairs = pairs or clipped
    S, o = S.copy(), np.zeros_like(v)
    for s in range(0, len(v) - (C - 1 if skip else 0), C):
        Q, K, V, A = (x[s:s + C] for x in (q, k, v, alpha))
        b = np.cumsum(np.log(A), 0)
        left = np.exp(b[-1] - b) if until is None else until(A)
        gate = np.exp(b[-1]) if total is None else total(A)
        look = np.exp(b) if before is None else before(A)
        new = keep * gate[:, None] * S + (left * K).T @ V
        o[s:s + C] = pairs(Q, K, A) @ V + (look * Q) @ (new if early else S)
        S = new
    return o, S


def clipped(Q, K, A):
    b = np.cumsum(np.log(A), 0)
    left = np.exp(np.minimum(b[:, None] - b, 0))
    return np.tril(np.einsum("ic,jc,ijc->ij", Q, K, left))


def halved(Q, K, A):
    """All borders of a level at once, after filling up to a power of 2."""
    n, d = Q.shape
    C = 1 << (n - 1).bit_length()
    fill = ((0, C - n), (0, 0))
    Q, K = np.pad(Q, fill), np.pad(K, fill)
    gates = np.pad(A, fill, constant_values=1.0)
    W = np.diag((Q * K).sum(-1))
    Q, h = Q * gates, 1
    while h < C:
        q, k = (x.reshape(-1, 2, h, d) for x in (Q, K))
        g = gates.reshape(-1, 2, d)
        block = q[:, 1] @ k[:, 0].transpose(0, 2, 1)
        i = np.arange(C // h // 2)
        W.reshape(C // h // 2, 2, h, C // h // 2, 2, h)[
            i, 1, :, i, 0, :] = block
        Q = np.stack([q[:, 0], q[:, 1] * g[:, :1]], 1).reshape(C, d)
        K = np.stack([k[:, 0] * g[:, 1:], k[:, 1]], 1).reshape(C, d)
        gates = g[:, 0] * g[:, 1]
        h *= 2
    return W[:n, :n]


def fade(q, k, alpha):
    """Border after border, for all chunks together."""
    n, C, d = q.shape
    W = np.zeros((n, C, C))
    W[:, np.arange(C), np.arange(C)] = np.einsum("ncd,ncd->nc", q, k)
    q, k, gates, h = q * alpha, k * 1.0, alpha * 1.0, 1
    while h < C:
        for s in range(0, C - h, 2 * h):
            a, b = slice(s, s + h), slice(s + h, s + 2 * h)
            W[:, b, a] = q[:, b] @ k[:, a].transpose(0, 2, 1)
            q[:, b] = q[:, b] * gates[:, s, None]
            k[:, a] = k[:, a] * gates[:, s + h, None]
            gates[:, s] = gates[:, s] * gates[:, s + h]
        h *= 2
    return W, q, k, gates[:, 0]


def together(q, k, v, alpha, S, C):
    N = len(v)
    n = -(-N // C)
    fill = ((0, n * C - N), (0, 0))
    Q, K, V = (np.pad(x, fill).reshape(n, C, -1) for x in (q, k, v))
    A = np.pad(alpha, fill, constant_values=1.0).reshape(n, C, -1)
    W, Q, K, left = fade(Q, K, A)
    o, new = W @ V, K.transpose(0, 2, 1) @ V
    for c in range(n):
        o[c] = o[c] + Q[c] @ S
        S = left[c][:, None] * S + new[c]
    return o.reshape(n * C, -1)[:N], S


def two_levels(Q, K, A, B=16):
    """The paper's: squares on the diagonal by logs, the rest by products."""
    n, d = Q.shape
    W, ones = np.zeros((n, n)), np.ones((1, d))
    for a in range(0, n, B):
        b = slice(a, min(a + B, n))
        W[b, b] = clipped(Q[b], K[b], A[b])
        if a:
            to_border = np.vstack([np.cumprod(A[a - 1:0:-1], 0)[::-1], ones])
            W[b, :a] = (Q[b] * np.cumprod(A[b], 0)) @ (K[:a] * to_border).T
    return W


def border_by_border(Q, K, A):
    return fade(Q[None], K[None], A[None])[0][0]


def quotient(Q, K, A):
    P = A.cumprod(0)
    return np.tril(Q * P @ (K / P).T)


def logs(Q, K, A):
    b = np.log(A).cumsum(0)
    return np.tril(np.exp(b) * Q @ (np.exp(-b) * K).T)


def table(Q, K, A):
    P = A.cumprod(0)
    return np.tril(np.einsum("ic,jc,ijc->ij", Q, K, P[:, None] / P))


def masked_late(Q, K, A):
    """exp of positive differences, and then times 0."""
    b = np.log(A).cumsum(0)
    return np.einsum("ic,jc,ijc->ij", Q, K, np.exp(b[:, None] - b)
                     * np.tri(len(b))[..., None])


def with_floor(Q, K, A):
    P = np.maximum(A.cumprod(0), 1e-30)
    return np.tril(Q * P @ (K / P).T)


def full(Q, K, A):
    b = np.log(A).cumsum(0)
    return np.einsum("ic,jc,ijc->ij", Q, K, np.exp(b[:, None] - b))


def own_gate(Q, K, A):
    return clipped(Q, K * A, A)


def no_reader(Q, K, A):
    b = np.log(A).cumsum(0)
    left = np.exp(np.minimum((b - np.log(A))[:, None] - b, 0))
    return np.tril(np.einsum("ic,jc,ijc->ij", Q, K, left))


def lonely(q, k, v, alpha, S, C):
    parts = [loop(q[s:s + C], k[s:s + C], v[s:s + C], alpha[s:s + C], 0 * S)
             for s in range(0, len(v), C)]
    return np.concatenate([o for o, _ in parts]), parts[-1][1]


def token_loop(q, k, v, alpha, S, C):
    o = np.empty_like(v)
    for t in range(len(v)):
        S = alpha[t, :, None] * S + k[t, :, None] * v[t]
        o[t] = q[t] @ S
    return o, S


RULES = {
    "plain": (with_gates(np.ones_like), "nothing fades: that is the plain"),
    "own gate": (lambda **x: loop(**x, order="write fade read"),
                 "fades its own record"),
    "read first": (lambda **x: loop(**x, order="read fade write"),
                   "read comes before the write"),
    "read between": (lambda **x: loop(**x, order="fade read write"),
                     "between fading and writing"),
    "fade last": (lambda **x: loop(**x, order="write read fade"),
                  "misses the reader's"),
    "gate before": (with_gates(lambda a: np.concatenate(
        [np.ones_like(a[:1]), a[:-1]])), "one token late"),
    "mean gate": (with_gates(lambda a: a.mean(1, keepdims=True)
                             + 0 * a), "mean of its gates"),
    "first gate": (with_gates(lambda a: np.tile(
        a[:, :1], a.shape[1])), "the gate of the first"),
    "all gates": (with_gates(lambda a: np.prod(a, 1, keepdims=True)
                             + 0 * a), "the product of its gates"),
    "so far": (with_gates(lambda a: a.cumprod(0)), "all gates so far"),
    "average": (lambda q, k, v, alpha, S: loop(
        q, k * (1 - alpha), v, alpha, S), "running average"),
    "forgets": (with_gates(lambda a: 1 - a), "A gate of 1 keeps"),
    "from nothing": (lambda q, k, v, alpha, S: loop(
        q, k, v, alpha, np.zeros_like(S)), "starts from zero"),
    "state stays": (lambda q, k, v, alpha, S: tuple(
        x + y for x, y in zip(loop(q, k, v, alpha, 0 * S), (q @ S, S))),
        "start from does not fade"),
    "own state": (lambda q, k, v, alpha, S: (
        loop(q, k, v, alpha, S)[0], loop(q, k, v, alpha, 0 * S)[1]),
        "new tokens alone"),
    "old state": (lambda q, k, v, alpha, S: (
        loop(q, k, v, alpha, S)[0], S + 0), "the one that was given"),
    "scaled": (lambda q, k, v, alpha, S: loop(
        q / np.sqrt(q.shape[1]), k, v, alpha, S), "√d"),
}

RIGHT = {
    "effective_weight": [Fraction(7, 2), 3.5, "14/4"],
    "gated": [loop, looking_back, transposed],
    "padded_state": [skipping, compressed],
    "gated_chunks": [chunks, lambda **x: chunks(**x, pairs=halved),
                     lambda **x: chunks(**x, pairs=two_levels), together],
}

WRONG = {
    "effective_weight": {
        "own gate": ("5/2", "before token 2 wrote"),
        "no reader": (13, "before it reads"), "no third": (8, "Token 3's"),
        "none": (22, "nothing has faded"), "both": (0.55, "gates of both"),
        "mean": (3.575, "their mean"), "from the start": (1, "after token 2"),
        "its own": (17, "those after it"), "first": (2, "first channel"),
        "second": (1.5, "second channel"), "else": (4, "is not 4"),
    },
    "gated": RULES | {
        "in place": (in_place, "changes its argument S"),
        "wrong axis": (lambda q, k, v, alpha, S: (
            v, alpha[0] * S), "raised ValueError"),
        "square": (wide, "no N×N array"),
        "outputs alone": (lambda **x: loop(**x)[0], "2 results"),
    },
    "padded_state": {
        "as it was": (lambda k, v, alpha, real, S: state(
            k * real[:, None], v, alpha, S), "still fade the state"),
        "values": (lambda k, v, alpha, real, S: state(
            k, v * real[:, None], alpha, S), "still fade the state"),
        "gates alone": (lambda k, v, alpha, real, S: state(
            k, v, np.where(real[:, None], alpha, 1), S), "it still writes"),
        "ignored": (lambda k, v, alpha, real, S: state(k, v, alpha, S),
                    "like any token"),
        "gates of 0": (lambda k, v, alpha, real, S: state(
            k * real[:, None], v, alpha * real[:, None], S),
            "clears the state"),
        "gates of 1": (lambda k, v, alpha, real, S: state(
            k * real[:, None], v, alpha ** 0, S), "all gates are 1"),
        "inverted": (lambda k, v, alpha, real, S: state(
            k * real[:, None], v, np.where(real[:, None], 1, alpha), S),
            "the wrong way round"),
        "stops": (lambda S, **x: until_padding(S=S.copy(), **x),
                  "stops at the first padding"),
        "front": (lambda k, v, alpha, real, S: state(
            *(x[:real.sum()] for x in (k, v, alpha)), S),
            "from the front"),
        "from nothing": (lambda S, **x: skipping(S=0 * S, **x),
                         "starts from zero"),
        "in place": (lambda k, v, alpha, real, S: in_place(
            k[real], k[real], v[real], alpha[real], S)[1],
            "changes its argument S"),
    },
    "gated_chunks": {
        name: (lambda C, f=f, **x: f(**x), words)
        for name, (f, words) in RULES.items()
    } | {
        "carry": (lambda **x: chunks(**x, total=lambda A: 0 * A[0] + 1),
                  "to chunk the state does not fade"),
        "last gate": (lambda **x: chunks(**x, total=lambda A: A[-1]),
                      "by the last gates alone"),
        "no look": (lambda **x: chunks(**x, before=lambda A: 0 * A + 1),
                    "earlier chunks unfaded"),
        "look one short": (lambda **x: chunks(
            **x, before=lambda A: A.cumprod(0) / A),
            "without their own gate"),
        "no fading of keys": (lambda **x: chunks(
            **x, until=lambda A: 0 * A + 1), "enter the state unfaded"),
        "keys by own gate": (lambda **x: chunks(
            **x, until=lambda A: A[::-1].cumprod(0)[::-1]),
            "their own gates too"),
        "keys reversed": (lambda **x: chunks(
            **x, until=lambda A: A.cumprod(0)), "by the gates before them"),
        "inside plain": (lambda **x: chunks(
            **x, pairs=lambda Q, K, A: np.tril(Q @ K.T)),
            "inside a chunk nothing fades"),
        "inside own": (lambda **x: chunks(**x, pairs=own_gate),
                       "faded by its own gate"),
        "inside no reader": (lambda **x: chunks(**x, pairs=no_reader),
                             "reader's own gate is missing"),
        "inside one gate": (lambda **x: chunks(
            **x, pairs=lambda Q, K, A: clipped(
                Q, K, 0 * A + A.mean(1)[:, None])), "one gate for all"),
        "no mask": (lambda **x: chunks(**x, pairs=full), "sees later keys"),
        "alone": (lonely, "reads itself alone"),
        "last chunk": (lambda **x: chunks(**x, keep=0.0),
                       "holds the last chunk alone"),
        "twice": (lambda **x: chunks(**x, early=True), "counts twice"),
        "no rest": (lambda **x: chunks(**x, skip=True), "is left out"),
        "quotient": (lambda **x: chunks(**x, pairs=quotient),
                     "divided by each other"),
        "logs": (lambda **x: chunks(**x, pairs=logs), "0 times infinity"),
        "table": (lambda **x: chunks(**x, pairs=table),
                  "divided by each other"),
        "masked late": (lambda **x: chunks(**x, pairs=masked_late),
                        "No factor may be above 1"),
        "floor": (lambda **x: chunks(**x, pairs=with_floor),
                  "No factor may be above 1"),
        "quotient of the whole": (lambda q, k, v, alpha, S, C: (
            quotient(q, k, alpha) @ v + (q * alpha.cumprod(0)) @ S,
            loop(q, k, v, alpha, S)[1]), "No factor may be above 1"),
        "token by token": (token_loop, "not one token"),
        "border by border": (lambda **x: chunks(**x, pairs=border_by_border),
                             "or one border, at a time"),
        "one square": (lambda C, **x: wide(**x), "never all N×N"),
    },
}
