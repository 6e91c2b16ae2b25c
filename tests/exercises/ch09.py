"""Answers to chapter 9's exercises, as people write them.

RIGHT: other right ways.  WRONG: name, answer, and words that its message must
hold.
"""

import numpy as np


def filled(gamma, N):
    D = np.eye(N)
    for i in range(1, N):
        D[i] += gamma * D[i - 1]
    return D


def by_logs(gamma, N):
    i, j = np.indices((N, N))
    with np.errstate(over="ignore"):
        return np.where(j > i, 0.0, np.exp((i - j) * np.log(gamma)))


def power(gamma, N, shift=0, k=0):
    i = np.arange(N)
    return np.tril(gamma ** np.maximum(i[:, None] - i + shift, 0), k)


def loop(q, k, v, gamma, S, write=1.0, order="fade write read"):
    o = np.zeros_like(v)
    for t in range(len(v)):
        for what in order.split():
            if what == "fade":
                S = gamma * S
            elif what == "write":
                S = S + write * np.outer(k[t], v[t])
            else:
                o[t] = S.T @ q[t]
    return o, S


def summed(q, k, v, gamma, S):
    """Row by row from all records so far; the state at the end."""
    o = []
    for t in range(len(v)):
        w = gamma ** np.arange(t, -1, -1) * (k[:t + 1] @ q[t])
        o.append(w @ v[:t + 1] + gamma ** (t + 1) * (q[t] @ S))
    end = gamma ** len(v) * S + np.einsum(
        "t,td,te->de", gamma ** np.arange(len(v))[::-1], k, v)
    return np.array(o), end


def transposed(q, k, v, gamma, S):
    M, o = S.T.copy(), []
    for query, key, value in zip(q, k, v):
        M *= gamma
        M += value[:, None] * key
        o.append(M @ query)
    return np.array(o), M.T.copy()


def square(q, k, v, gamma, S):
    N = len(v)
    g = gamma ** np.arange(1, N + 1)[:, None]
    return ((q @ k.T * power(gamma, N)) @ v + g * (q @ S),
            gamma ** N * S + (k * gamma ** np.arange(N)[::-1, None]).T @ v)


def in_place(q, k, v, gamma, S):
    o = np.empty_like(v)
    for t in range(len(v)):
        S *= gamma
        S += np.outer(k[t], v[t])
        o[t] = q[t] @ S
    return o, S


def positions(q, k, v, gamma, S):
    o = np.empty_like(v)
    for t in range(len(v)):
        S = S + gamma ** t * np.outer(k[t], v[t])
        o[t] = q[t] @ S
    return o, S


def normalised(q, k, v, gamma, S):
    W = q @ k.T * power(gamma, len(v))
    o, S = loop(q, k, v, gamma, S)
    return o / W.sum(1, keepdims=True), S


def chunks(q, k, v, gamma, S, C, D=None, F=lambda i: i + 1,
           G=lambda i, n, C: n - 1 - i, carry=lambda n, C: n, keep=True,
           early=False, skip=False):
    D = D or power
    S, o = S.copy(), np.zeros_like(v)
    for s in range(0, len(v) - (C - 1 if skip else 0), C):
        Q, K, V = (x[s:s + C] for x in (q, k, v))
        n, i = len(V), np.arange(len(V))
        new = keep * gamma ** carry(n, C) * S + np.einsum(
            "c,cd,ce->de", gamma ** G(i, n, C), K, V)
        o[s:s + C] = (np.einsum("id,jd->ij", Q, K) * D(gamma, n)) @ V
        o[s:s + C] += (Q @ (new if early else S)) * (gamma ** F(i))[:, None]
        S = new
    return o, S


def ones_added(q, k, v, gamma, S, C):
    """The state as one more key block in front: a state is a past."""
    out = []
    for s in range(0, len(v), C):
        Q, K, V = q[s:s + C], k[s:s + C], v[s:s + C]
        n = len(V)
        age = np.arange(n)
        scores = np.hstack([Q * gamma ** (age + 1)[:, None],
                            Q @ K.T * filled(gamma, n)])
        out.append(scores @ np.vstack([S, V]))
        S = np.hstack([gamma ** n * np.eye(len(S)),
                       K.T * gamma ** age[::-1]]) @ np.vstack([S, V])
    return np.concatenate(out), S


def padded(q, k, v, gamma, S, C):
    """All squares at once, the last chunk filled up with zeros."""
    N = len(v)
    n = -(-N // C)
    Q, K, V = (np.pad(x, ((0, n * C - N), (0, 0))).reshape(n, C, -1)
               for x in (q, k, v))
    O = (Q @ K.transpose(0, 2, 1) * power(gamma, C)) @ V
    up = gamma ** np.arange(1, C + 1)[:, None]
    for c in range(n):
        O[c] += up * (Q[c] @ S)
        left = min(C, N - c * C)
        S = gamma ** left * S + K[c, :left].T @ (
            V[c, :left] * gamma ** np.arange(left)[::-1, None])
    return O.reshape(n * C, -1)[:N], S


def lonely(q, k, v, gamma, S, C):
    parts = [loop(q[s:s + C], k[s:s + C], v[s:s + C], gamma, 0 * S)
             for s in range(0, len(v), C)]
    return np.concatenate([o for o, _ in parts]), parts[-1][1]


def token_loop(q, k, v, gamma, S, C):
    out = []
    for s in range(0, len(v), C):
        o, S = loop(q[s:s + C], k[s:s + C], v[s:s + C], gamma, S)
        out.append(o)
    return np.concatenate(out), S


def quotient(gamma, N):
    g = gamma ** np.arange(N)
    return np.tril(np.outer(g, 1 / g))


def folded(q, k, v, gamma, S, C):
    o = np.empty_like(v)
    for s in range(0, len(v), C):
        r = slice(s, s + C)
        n = len(v[r])
        i = np.arange(n)[:, None]
        o[r] = (np.tril((q[r] * gamma ** i) @ (
            k[r] / gamma ** i).T) @ v[r] + gamma ** (i + 1) * (q[r] @ S))
        S = gamma ** n * S + (gamma ** (n - 1 - i) * k[r]).T @ v[r]
    return o, S


rng = np.random.default_rng(99)
a, b = rng.normal(size=(2, 7, 3))
c = rng.normal(size=(7, 2))

RIGHT = {
    "decay_mask": [filled, by_logs, power],
    "an_eighth_left": ["532", 532.0],
    "retention": [loop, summed, transposed],
    "exposes_unfaded_carry": [(a, b, c, 0.5, 2), (a, b, c, 0.99, 1)],
    "retention_chunks": [chunks, ones_added, padded],
}

WRONG = {
    "decay_mask": {
        "both sides": (lambda gamma, N: gamma ** np.abs(
            np.arange(N)[:, None] - np.arange(N)), "both sides"),
        "transposed": (lambda gamma, N: filled(gamma, N).T, "transposed"),
        "one too many": (lambda gamma, N: gamma * filled(gamma, N),
                         "once too often"),
        "no diagonal": (lambda gamma, N: power(gamma, N, k=-1),
                        "sees itself, unfaded"),
        "one too few": (lambda gamma, N: power(gamma, N, -1, -1),
                        "once too little"),
        "no fading": (lambda gamma, N: np.tril(np.ones((N, N))),
                      "causal mask alone"),
        "one step": (lambda gamma, N: np.eye(N) + gamma * np.tri(N, k=-1),
                     "once more at each further token"),
        "columns": (lambda gamma, N: np.tri(N) * gamma ** np.arange(N),
                    "the newest counts least"),
        "normalised": (lambda gamma, N: filled(gamma, N) / filled(
            gamma, N).sum(1)[:, None], "no denominator"),
        "ratio": (lambda gamma, N: np.tril(
            (gamma ** np.arange(N))[:, None] / gamma ** np.arange(N)),
            "divides γ^i by γ^j"),
        "product": (quotient, "the second infinite"),
        "logs, a product": (lambda gamma, N: np.tril(
            np.exp(np.arange(N) * np.log(gamma))[:, None]
            * np.exp(-np.arange(N) * np.log(gamma))),
            "above the largest"),
        "times 0": (lambda gamma, N: np.tri(N) * gamma ** (
            np.arange(N)[:, None] - np.arange(N)), "0 times that is NaN"),
    },
    "an_eighth_left": {
        "531": (531, "little more than an eighth"),
        "a half-life": (178, "one half is left"),
        "the same": (177, "one half is left"),
        "eight": (1417, "three halvings"),
        "e-foldings": (767, "e-foldings"),
        "linear": (224, "of what is left"),
        "linear, after": (225, "of what is left"),
        "next head": (1064, "next head"),
        "next head, down": (1063, "next head"),
        "head before": (266, "head before"), "else": (100, "is not 100"),
    },
    "retention": {
        "plain": (lambda q, k, v, gamma, S: loop(q, k, v, 1, S),
                  "nothing fades"),
        "write faded": (lambda **x: loop(**x, order="write fade read"),
                        "in the step that writes it"),
        "average": (lambda **x: loop(**x, write=1 - x["gamma"]),
                    "running average"),
        "read first": (lambda **x: loop(**x, order="read fade write"),
                       "read comes before the write"),
        "read between": (lambda **x: loop(**x, order="fade read write"),
                         "between fading and writing"),
        "fade last": (lambda **x: loop(**x, order="write read fade"),
                      "fades after the read"),
        "positions": (positions, "newest counts least"),
        "from nothing": (lambda q, k, v, gamma, S: loop(
            q, k, v, gamma, np.zeros_like(S)), "starts from zero"),
        "state stays": (lambda q, k, v, gamma, S: tuple(
            x + y for x, y in zip(loop(q, k, v, gamma, 0 * S), (q @ S, S))),
            "start from does not fade"),
        "own state": (lambda q, k, v, gamma, S: (
            loop(q, k, v, gamma, S)[0], loop(q, k, v, gamma, 0 * S)[1]),
            "new tokens alone"),
        "old state": (lambda q, k, v, gamma, S: (
            loop(q, k, v, gamma, S)[0], S + 0), "the one that was given"),
        "scaled": (lambda q, k, v, gamma, S: loop(
            q / np.sqrt(q.shape[1]), k, v, gamma, S), "√d"),
        "divided": (normalised, "no denominator"),
        "in place": (in_place, "changes its argument S"),
        "square": (square, "no N×N array"),
        "outputs alone": (lambda **x: loop(**x)[0], "2 results"),
    },
    "exposes_unfaded_carry": {
        "γ = 1": ((a, b, c, 1.0, 2), "nothing to fade"),
        "one chunk": ((a, b, c, 0.5, 7), "only one chunk"),
        "two chunks": ((a, b, c, 0.5, 4), "only two chunks"),
        "zeros": ((a, b, 0 * c, 0.5, 2), "hide everything"),
        "first chunk silent": ((a, b * (np.arange(7) > 3)[:, None], c, 0.5,
                                2), "in the third"),
        "γ = 0": ((a, b, c, 0.0, 2), "gamma must lie"),
        "chunks of 0": ((a, b, c, 0.5, 0), "whole number"),
        "lengths": ((a, b, c[1:], 0.5, 2), "as many rows"),
        "lists": (([1], [1], [1], 0.5, 1), "finite array"),
        "four parts": ((a, b, c, 0.5), "cannot be used"),
    },
    "retention_chunks": {
        "carry": (lambda **x: chunks(**x, carry=lambda n, C: 0),
                  "to chunk the state does not fade"),
        "carry by γ": (lambda **x: chunks(**x, carry=lambda n, C: 1),
                       "fades by one γ"),
        "no F": (lambda **x: chunks(**x, F=lambda i: 0 * i),
                 "earlier chunks unfaded"),
        "F one short": (lambda **x: chunks(**x, F=lambda i: i),
                        "once too little"),
        "no G": (lambda **x: chunks(**x, G=lambda i, n, C: 0 * i),
                 "enter the state unfaded"),
        "G one long": (lambda **x: chunks(**x, G=lambda i, n, C: n - i),
                       "once too often"),
        "G reversed": (lambda **x: chunks(**x, G=lambda i, n, C: i),
                       "the wrong way round"),
        "short end, carry": (lambda **x: chunks(**x, carry=lambda n, C: C),
                             "the state is faded there as if"),
        "short end, G": (lambda **x: chunks(
            **x, G=lambda i, n, C: C - 1 - i), "its records are faded as if"),
        "short end": (lambda **x: chunks(
            **x, G=lambda i, n, C: C - 1 - i, carry=lambda n, C: C),
            "and is faded as if"),
        "no D": (lambda **x: chunks(**x, D=lambda gamma, n: np.tri(n)),
                 "inside a chunk nothing fades"),
        "no mask": (lambda **x: chunks(**x, D=lambda gamma, n: gamma ** (
            np.abs(np.arange(n)[:, None] - np.arange(n)))),
            "sees later keys"),
        "alone": (lonely, "reads itself alone"),
        "last chunk": (lambda **x: chunks(**x, keep=False),
                       "holds the last chunk alone"),
        "twice": (lambda **x: chunks(**x, early=True), "counts twice"),
        "no rest": (lambda **x: chunks(**x, skip=True), "is left out"),
        "quotient": (lambda **x: chunks(**x, D=quotient),
                     "above the largest"),
        "token by token": (token_loop, "not one by one"),
        "one square": (lambda C, **x: square(**x), "never N×N"),
        "plain": (lambda q, k, v, gamma, S, C: loop(q, k, v, 1, S),
                  "nothing fades: that is the plain sum"),
        "from nothing": (lambda q, k, v, gamma, S, C: loop(
            q, k, v, gamma, 0 * S), "starts from zero"),
        "folded": (folded, "keys are multiplied by γ^−j"),
    },
}
