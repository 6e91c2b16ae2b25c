"""Answers to chapter 11's exercises, as people write them (see `ch06`)."""

import time

import numpy as np


def loop(q, k, v, beta, S, error=None, first_read=False):
    S, o = S.copy(), np.zeros_like(v)
    error = error or (lambda S, t: beta[t] * (v[t] - S.T @ k[t]))
    for t in range(len(v)):
        if first_read:
            o[t] = S.T @ q[t]
        S += k[t][:, None] * error(S, t)
        if not first_read:
            o[t] = S.T @ q[t]
    return o, S


def step(error):
    """The loop, with `error(q, k, v, beta, S)` of one token."""
    def answer(q, k, v, beta, S):
        return loop(q, k, v, beta, S, lambda S, t: error(
            q[t], k[t], v[t], beta[t], S))
    return answer


def transitions(q, k, v, beta, S):
    outputs = []
    for x, key, value, b in zip(q, k, v, beta):
        S = S - b * np.outer(key, key) @ S + b * np.outer(key, value)
        outputs.append(x @ S)
    return np.array(outputs), S


def sums(q, k, v, beta, S):
    """No state: each read adds up keys times errors so far."""
    E, o = np.zeros_like(v), np.zeros_like(v)
    for t in range(len(v)):
        E[t] = beta[t] * (v[t] - k[t] @ S - k[t] @ k[:t].T @ E[:t])
        o[t] = q[t] @ S + q[t] @ k[:t + 1].T @ E[:t + 1]
    return [o, S + k.T @ E]


def in_place(q, k, v, beta, S):
    o = np.empty_like(v)
    for t in range(len(v)):
        S += np.outer(k[t], beta[t] * (v[t] - k[t] @ S))
        o[t] = q[t] @ S
    return o, S


def inverse(q, k, v, beta, S, C):
    """U and W first, as the chapter has them."""
    o = []
    for i in range(0, len(v), C):
        Q, K, V, B = q[i:i + C], k[i:i + C], v[i:i + C], np.diag(beta[i:i + C])
        T = np.linalg.inv(np.eye(len(K)) + np.tril(B @ K @ K.T, -1))
        U, W = T @ B @ V, T @ B @ K
        E = U - W @ S
        o.append(Q @ S + np.tril(Q @ K.T) @ E)
        S = S + K.T @ E
    return np.concatenate(o), S


def neumann(q, k, v, beta, S, C):
    """(I + L)⁻¹ as (I − L)(I + L²)(I + L⁴)…: L to the power C is zero."""
    o = np.empty_like(v)
    for i in range(0, len(v), C):
        r = slice(i, i + C)
        n = len(v[r])
        L = np.tril(beta[r, None] * k[r] @ k[r].T, -1)
        T, power, size = np.eye(n) - L, L @ L, 2
        while size < n:
            T, power, size = T + T @ power, power @ power, 2 * size
        E = T @ (beta[r, None] * (v[r] - k[r] @ S))
        o[r] = q[r] @ S + np.tril(q[r] @ k[r].T) @ E
        S = S + k[r].T @ E
    return o, S


def wy(q, k, v, beta, S, C, **wrong):
    """The chunk with a part of it replaced by `wrong`'s."""
    o = np.empty_like(v)
    for i in range(0, len(v), C):
        r = slice(i, i + C)
        K, b = k[r], beta[r][:, None]
        L = wrong.get("L", lambda K, b: np.tril(b * (K @ K.T), -1))(K, b)
        E = np.linalg.inv(np.eye(len(K)) + L) @ (
            b * (v[r] - wrong.get("old", np.matmul)(K, S)))
        o[r] = q[r] @ S + wrong.get("square", np.tril)(q[r] @ K.T) @ (
            v[r] if wrong.get("values") else E)
        S = S + K.T @ E
    return o, S


def wrong_wy(**wrong):
    return lambda q, k, v, beta, S, C: wy(q, k, v, beta, S, C, **wrong)


def tokens(q, k, v, beta, S, C):
    return loop(q, k, v, beta, S)


def rows(q, k, v, beta, S, C):
    """Each chunk's system solved row by row: as many steps as tokens."""
    o = np.empty_like(v)
    for i in range(0, len(v), C):
        r = slice(i, i + C)
        right = beta[r, None] * (v[r] - k[r] @ S)
        L = np.tril(beta[r, None] * k[r] @ k[r].T, -1)
        E = np.zeros_like(right)
        for n in range(len(E)):
            E[n] = right[n] - L[n] @ E
        o[r] = q[r] @ S + np.tril(q[r] @ k[r].T) @ E
        S = S + k[r].T @ E
    return o, S


def one_chunk(q, k, v, beta, S, C):
    return wy(q, k, v, beta, S, len(v))


def anew(q, k, v, beta, S, C):
    parts = [wy(q[i:i + C], k[i:i + C], v[i:i + C], beta[i:i + C], S, C)
             for i in range(0, len(v), C)]
    return np.concatenate([p[0] for p in parts]), parts[-1][1]


half = np.array([[29 / 64, 21 / 64, 0]])
I2, V2, b2 = np.eye(2), np.array([[2., 3], [5, 1]]), np.array([.5, .25])
K2 = np.array([[1., 1], [1, 0.5]])

RIGHT = {
    "reads_by_hand": [["3", "4"], (3.0, 4)],
    "recurrence": [transitions, sums, loop],
    "chunkwise": [inverse, neumann],
    "lags": [[-4950, 49.5, 0, 1, 3], ["-4950", "99/2", 0, "1", "3"]],
    "alike": [[[.5, .5, .5], [29 / 64, 21 / 64, 0]],
              np.vstack([np.full((1, 3), .5), half])],
    "exposes_shortcuts": [
        (K2, V2, b2),
        (np.full((3, 1), .5), np.array([[1.], [4], [2]]), np.full(3, 2.)),
        (2 * K2[::-1], -V2, np.array([.1, .2]))],
}

WRONG = {
    "reads_by_hand": {
        "unit key": ([1, "5/3"], "length 1"),
        "replaced": ([2, 5], "outright"),
        "added": ([3, 5.5], "take off"),
        "added whole": ([6, 21], "left out β"),
        "no beta": ([6, 3], "share of the error"),
        "an entry": ([1, "4/3"], "entry of S"),
        "beta on v": ([3, -3.5], "v alone"),
        "states": ([[1, 1, 1], [2, 2, 2]], "shape"),
    },
    "recurrence": {
        "adds": (step(lambda q, k, v, b, S: b * v), "whatever the key holds"),
        "no beta": (step(lambda q, k, v, b, S: v - S.T @ k), "β is missing"),
        "beta on v": (step(lambda q, k, v, b, S: b * v - S.T @ k),
                      "β multiplies v alone"),
        "asks q": (step(lambda q, k, v, b, S: b * (v - S.T @ q)),
                   "read with q"),
        "unit keys": (step(lambda q, k, v, b, S: b * (v - S.T @ k)
                           / np.linalg.norm(k) ** 2), "as they are"),
        "sign": (step(lambda q, k, v, b, S: b * (S.T @ k - v)), "sign"),
        "reads first": (lambda **x: loop(**x, first_read=True),
                        "before the token has written"),
        "starts anew": (lambda q, k, v, beta, S: loop(
            q, k, v, beta, np.zeros(S.shape)), "starts from zero"),
        "old state": (lambda q, k, v, beta, S: (
            loop(q, k, v, beta, S)[0], S.copy()), "that it was given"),
        "in place": (in_place, "changes its argument S"),
        "outputs alone": (lambda **x: loop(**x)[0], "2 results"),
        "transposed": (lambda q, k, v, beta, S: transitions(
            q, k, v, beta, S.T), "raised ValueError"),
        "hangs": (lambda q, k, v, beta, S: time.sleep(60), "was stopped"),
    },
    "chunkwise": {
        "a loop of tokens": (tokens, "not token by token"),
        "row by row": (rows, "not token by token"),
        "one chunk": (one_chunk, "never N×N"),
        "without W": (wrong_wy(old=lambda K, S: 0), "W is missing"),
        "no overlaps": (wrong_wy(L=lambda K, b: 0), "overlaps are missing"),
        "diagonal": (wrong_wy(L=lambda K, b: np.tril(b * (K @ K.T))),
                     "own error"),
        "both sides": (wrong_wy(L=lambda K, b: b * (K @ K.T)),
                       "later errors"),
        "columns": (wrong_wy(L=lambda K, b: np.tril(K @ K.T * b.T, -1)),
                    "not to the column"),
        "no mask": (wrong_wy(square=lambda P: P), "needs its mask"),
        "strict mask": (wrong_wy(square=lambda P: np.tril(P, -1)),
                        "own token"),
        "values": (wrong_wy(values=True), "sum of errors"),
        "alone": (anew, "nothing is carried on"),
        "the rest": (lambda q, k, v, beta, S, C: (lambda n: (
            np.r_[loop(q[:n], k[:n], v[:n], beta[:n], S)[0], 0 * v[n:]],
            loop(q[:n], k[:n], v[:n], beta[:n], S)[1]))(len(v) // C * C),
            "shorter than C"),
        "adds": (lambda q, k, v, beta, S, C: step(
            lambda q, k, v, b, S: b * v)(q, k, v, beta, S),
            "whatever the key holds"),
    },
    "lags": {
        "before": ([-4850, 50, 1, 2, 4], "before the last write"),
        "reads": ([5050, 50.5, 100, 99, 97], "100 less the read"),
        "sign": ([4950, -49.5, 0, -1, -3], "sign"),
        "share kept": ([-4950, 49.5, 0, 1, 1 / 3], "share that is new"),
        "beta on v": ([-4950, 49.5, 0, 50, 75], "belongs to the error"),
        "adds": ([-4950, 49.5, -4950, -2425, -1162.5], "reads before"),
        "four": ([49.5, 0, 1, 3], "shape"),
    },
    "alike": {
        "lengths": ([[.5 ** .5] * 3, [29 ** .5 / 8, 21 ** .5 / 8, 0]],
                    "square them"),
        "means": ([["1/6"] * 3, ["29/192", "21/192", 0]], "their sum"),
        "at once": ([[0, .25, .5], [0, 0, 0]], "own write"),
        "exchanged": ([["29/64", "21/64", 0], [.5, .5, .5]], "exchanged"),
        "two records": ([[.25] * 3, ["5/16", "5/16", 0]], "two records"),
        "order": ([[.5] * 3, [0, "21/64", "29/64"]], "wrong order"),
        "one row": ([29 / 64, 21 / 64, 0], "shape"),
    },
    "exposes_shortcuts": {
        "unit keys": ((np.array([[1, 0], [.6, .8]]), V2, b2),
                      "`one` is right"),
        "right angles": ((2 * I2, V2, b2), "`two` is right"),
        "full steps": ((K2, V2, np.ones(2)), "`three` is right"),
        "one token": ((K2[:1], V2[:1], b2[:1]), "`two` is right"),
        "nothing": ((K2, 0 * V2, b2), "is right"),
        "unstable": ((4 * K2, V2, b2), "not safe"),
        "zero key": ((0 * K2, V2, b2), "not safe"),
        "lists": (([[1, 1]], [[2]], [1]), "finite array"),
        "lengths": ((K2, V2[:1], b2), "as many rows"),
        "two parts": ((K2, V2), "cannot be used"),
    },
}
