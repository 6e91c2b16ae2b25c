"""Answers to chapter 12's exercises, as people write them (see `ch06`)."""

import numpy as np


def loop(q, k, v, alpha, beta, S, step=None, read=None):
    """`step(S, k, v, a, b)` is the new state, `read(before, after, a)` what
    the query sees of it."""
    o = np.zeros_like(v)
    for t in range(len(v)):
        before = S
        if step:
            S = step(S, k[t], v[t], alpha[t], beta[t])
        else:
            S = alpha[t] * S
            S = S + beta[t] * k[t][:, None] * (v[t] - S.T @ k[t])
        seen = read(before, S, alpha[t]) if read else S
        o[t] = seen.T @ q[t]
    return o, S


def stepping(step=None, read=None):
    return lambda q, k, v, alpha, beta, S: loop(
        q, k, v, alpha, beta, S, step, read)


def merged(q, k, v, alpha, beta, S):
    rows = []
    for x, key, value, a, b in zip(q, k, v, alpha, beta):
        S = a * (S - b * np.outer(key, key @ S)) + b * np.outer(key, value)
        rows.append(x @ S)
    return np.stack(rows), S


def transposed(q, k, v, alpha, beta, S):
    """As the paper stores it, (d_v, d)."""
    S, o, eye = S.T, [], np.eye(k.shape[1])
    for t in range(len(v)):
        S = (S @ (alpha[t] * (eye - beta[t] * np.outer(k[t], k[t])))
             + beta[t] * np.outer(v[t], k[t]))
        o.append(S @ q[t])
    return [np.array(o), S.T.copy()]


def in_place(q, k, v, alpha, beta, S):
    o = np.empty_like(v)
    for t in range(len(v)):
        S *= alpha[t]
        S += np.outer(k[t], beta[t] * (v[t] - k[t] @ S))
        o[t] = q[t] @ S
    return o, S


def put(k, e):
    return k[:, None] * e


STEPS = {
    "unfaded error": (lambda S, k, v, a, b: a * S + put(k, b * (v - S.T @ k)),
                      "α is left out of the error"),
    "correct first": (lambda S, k, v, a, b: a * (
        S + put(k, b * (v - S.T @ k))), "faded afterwards"),
    "error alone": (lambda S, k, v, a, b: S + put(
        k, b * (v - a * (S.T @ k))), "keeps all of the old"),
    "no gate": (lambda S, k, v, a, b: S + put(k, b * (v - S.T @ k)),
                "nothing fades"),
    "no correction": (lambda S, k, v, a, b: a * S + put(k, b * v),
                      "without a correction"),
    "no beta": (lambda S, k, v, a, b: a * S + put(k, v - a * (S.T @ k)),
                "β is missing"),
    "beta on v": (lambda S, k, v, a, b: a * S + put(
        k, b * v - a * (S.T @ k)), "β multiplies v alone"),
    "1 − α": (lambda S, k, v, a, b: a * S + (1 - a) * put(
        k, b * (v - a * (S.T @ k))), "1 − α"),
}
LOOPS = {name: (stepping(step), words)
         for name, (step, words) in STEPS.items()}


def products(a):
    """What is left, row by row."""
    D = np.eye(len(a))
    for i in range(1, len(a)):
        D[i, :i] = a[i] * D[i - 1, :i]
    return D


def chunks(L=True, old=True, P=True, W=True, D=products):
    """The mended chunk; False leaves the gates out of a part."""
    def answer(q, k, v, alpha, beta, S, C):
        o = []
        for i in range(0, len(v), C):
            Q, K, V, a, b = (np.asarray(x[i:i + C])
                             for x in (q, k, v, alpha, beta))
            left, F = D(a), np.cumprod(a)
            ones, B = np.tri(len(a)), np.diag(b)
            T = np.linalg.inv(np.eye(len(a)) + np.tril(
                B @ K @ K.T * (left if L else ones), -1))
            E = T @ B @ V - T @ B @ (
                np.diag(F) @ K if old else K) @ S
            o.append(F[:, None] * Q @ S
                     + (Q @ K.T * (left if P else ones)) @ E)
            S = F[-1] * S + (K * left[-1:].T if W else K).T @ E
        return np.concatenate(o), S
    return answer


def ratio(a):
    F = np.cumprod(a)
    return np.tril(F[:, None] / F[None])


def logarithms(a):
    """Differences of logs are safe, as chapter 10 has them."""
    total = np.cumsum(np.log(a))
    return np.tril(np.exp(np.minimum(0, total[:, None] - total)))


def plain_w(q, k, v, alpha, beta, S, C):
    """W without gates in its inverse, times F: the chapter's question 5."""
    o = np.empty_like(v)
    for i in range(0, len(v), C):
        r = slice(i, i + C)
        Q, K, b = q[r], k[r], beta[r, None]
        D, F = logarithms(alpha[r]), np.cumprod(alpha[r])[:, None]
        eye = np.eye(len(K))
        U = np.linalg.solve(eye + np.tril(b * (K @ K.T) * D, -1), b * v[r])
        W = F * np.linalg.solve(eye + np.tril(b * (K @ K.T), -1), b * K)
        E = U - W @ S
        o[r] = F * Q @ S + (Q @ K.T * D) @ E
        S = F[-1] * S + (D[-1][:, None] * K).T @ E
    return o, S


def tokens(q, k, v, alpha, beta, S, C):
    return merged(q, k, v, alpha, beta, S)


def anew(q, k, v, alpha, beta, S, C):
    parts = [merged(*(x[i:i + C] for x in (q, k, v, alpha, beta)), S)
             for i in range(0, len(v), C)]
    return np.concatenate([p[0] for p in parts]), parts[-1][1]


def whole(q, k, v, alpha, beta, S, C):
    return chunks()(q, k, v, alpha, beta, S, len(v))


ENDS = [[8, 16], [1, 2], [6, 16], [6, 2], ["25/4", 16]]


def ends(**changed):
    return [changed.get("abcde"[i], end) for i, end in enumerate(ENDS)]


q3, k3 = np.array([[1., 0], [1, 1], [0, 1]]), np.array([[1., 0], [.6, .8],
                                                         [0, 1]])
v3, half = np.array([[2., 1], [1, 3], [4, -1]]), np.full(3, .5)
a3 = np.array([.9, .5, .2])

RIGHT = {
    "by_hand": [[3.2, 2.6], ("3.2", "26/10")],
    "recurrence": [merged, transposed],
    "special_cases": [np.array([[8, 16], [1, 2], [6, 16], [6, 2],
                                [6.25, 16]]),
                      ends(e=[6.25, "16"])],
    "mended": [chunks(), plain_w],
    "exposes_order": [
        (q3, k3, v3, a3, half),
        (np.ones((2, 1)), np.full((2, 1), .5), np.eye(2), np.array([1, .5]),
         np.ones(2))],
}

WRONG = {
    "by_hand": {
        "unfaded error": ([2.6, 1.8], "before fading"),
        "fade last": ([2.3, 1.4], "faded afterwards"),
        "no fading": ([4.6, 2.8], "Nothing has faded"),
        "no beta": ([4.4, 4.2], "β is missing"),
        "added": ([3.8, 3.4], "what the key holds"),
        "the write": ([1.2, 1.6], "what is left"),
        "both rows": ([4, 3], "entry of the key"),
        "one number": (5.8, "shape"),
    },
    "recurrence": LOOPS | {
        "reads first": (stepping(read=lambda old, new, a: old),
                        "has faded and written"),
        "reads faded": (stepping(read=lambda old, new, a: a * old),
                        "after fading, before the write"),
        "starts anew": (lambda q, k, v, alpha, beta, S: merged(
            q, k, v, alpha, beta, np.zeros_like(S)), "starts from zero"),
        "old state": (lambda q, k, v, alpha, beta, S: (
            merged(q, k, v, alpha, beta, S)[0], S.copy()),
            "that it was given"),
        "in place": (in_place, "changes its argument S"),
        "float32": (lambda q, k, v, alpha, beta, S: tuple(
            x.astype("f4") for x in merged(q, k, v, alpha, beta, S)),
            "dtype"),
    },
    "special_cases": {
        "a sum": (ends(a=[26, 16], b=[11.5, 2]), "nothing is written"),
        "fade last": (ends(d=[3, 2]), "just written fades"),
        "unfaded error": (ends(d=[3.5, 2]), "missing from the error"),
        "one row": (ends(d=[6, 16]), "whole state"),
        "one token": ([[8, 16], [4, 8], [6, 16], [6, 8], [7, 16]],
                      "three"),
        "added": (ends(c=[26, 16], d=[11.5, 2], e=[17, 16]), "takes off"),
        "one half": (ends(e=[7, 16]), "three times"),
        "first rows": ([8, 1, 6, 6, 6.25], "shape"),
    },
    "mended": {
        "as it was": (chunks(L=False, old=False), "nothing of the gates"),
        "D alone": (chunks(old=False), "not the state before it"),
        "F alone": (chunks(L=False), "not what the chunk itself wrote"),
        "pairs": (chunks(P=False), "pairs are not faded"),
        "next state": (chunks(W=False), "into the next state"),
        "ratio": (chunks(D=ratio), "0/0"),
        "alone": (anew, "nothing is carried on"),
        "tokens": (tokens, "Keep the chunks"),
        "N×N": (whole, "never N×N"),
    } | {name: (lambda q, k, v, alpha, beta, S, C, f=f: f(
        q, k, v, alpha, beta, S), words)
        for name, (f, words) in LOOPS.items()},
    "exposes_order": {
        "as it was": ((q3, k3, v3, half, half), "by a factor alone"),
        "open": ((q3, k3, v3, np.ones(3), half), "by a factor alone"),
        "one token": (tuple(x[:1] for x in (q3, k3, v3, a3, half)),
                      "One token"),
        "one number": ((q3, k3, v3[:, :1], a3, half), "its sign"),
        "orthogonal": ((np.eye(2), np.eye(2), v3[:2], a3[:2], np.ones(2)),
                       "mix its own value"),
        "gates": ((q3, k3, v3, 2 * a3, half), "alpha must lie"),
        "steps": ((q3, k3, v3, a3, 8 * half), "between 0 and 2"),
        "no output": ((0 * q3, k3, v3, a3, half), "no direction"),
        "lengths": ((q3, k3, v3, a3[:2], half), "as many"),
        "lists": (([1], [1], [1], [1], [1]), "finite array"),
        "four parts": ((q3, k3, v3, a3), "cannot be used"),
    },
}
