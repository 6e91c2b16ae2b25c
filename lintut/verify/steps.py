"""The lines of a rule with a state, right and wrong; see `states`.

A step is (S, q, k, v, a, b, t, m) → (S, o): the state before token t and the
token's q, k, v, gate and strength as columns and rows; `m` is a memory of the
run, with "delta" and "T" in it.  Those made for a chunk size C are what the
chunkwise form comes to if that part of it is wrong.
"""

import numpy as np

def read(S, q):
    return (q * S).sum(-2)


def error(S, k, v, b, delta):
    """What is written: the value, or the error of what is read."""
    return b * (v - (k * S).sum(-2, keepdims=True)) if delta else v


def right(S, q, k, v, a, b, t, m):
    S = a * S
    S = S + k * error(S, k, v, b, m["delta"])
    return S, read(S, q)


def read_first(S, q, k, v, a, b, t, m):
    return right(S, q, k, v, a, b, t, m)[0], read(S, q)


def read_unfaded(S, q, k, v, a, b, t, m):
    after, _ = right(S, q, k, v, a, b, t, m)
    return after, read(S + (after - a * S), q)


def fade_last(S, q, k, v, a, b, t, m):
    S = a * (S + k * error(S, k, v, b, m["delta"]))
    return S, read(S, q)


def turned(S, q, k, v, a, b, t, m):
    S, _ = right(S, q, k, v, a, b, t, m)
    if S.shape[-1] != S.shape[-2]:
        raise ValueError("S q has no meaning with d ≠ d_v")
    return S, (S * np.swapaxes(q, -1, -2)).sum(-1)


def error_unfaded(S, q, k, v, a, b, t, m):
    S = a * S + k * error(S, k, v, b, True)
    return S, read(S, q)


def written_as_is(S, q, k, v, a, b, t, m):
    S = a * S + k * b * v
    return S, read(S, q)


def step_on_value(S, q, k, v, a, b, t, m):
    S = a * S
    S = S + k * error(S, k, b * v, 1, True)
    return S, read(S, q)


def step_on_old(S, q, k, v, a, b, t, m):
    S = a * S
    S = S + k * (v - b * (k * S).sum(-2, keepdims=True))
    return S, read(S, q)


def adds_old(S, q, k, v, a, b, t, m):
    S = a * S
    S = S + k * b * (v + (k * S).sum(-2, keepdims=True))
    return S, read(S, q)


def wrong_sign(S, q, k, v, a, b, t, m):
    S = a * S
    S = S - k * error(S, k, v, b, True)
    return S, read(S, q)


def old_by_query(S, q, k, v, a, b, t, m):
    S = a * S
    S = S + k * error(S, q, v, b, True)
    return S, read(S, q)


def all_cleared(S, q, k, v, a, b, t, m):
    S = (1 - b) * a * S + k * b * v
    return S, read(S, q)


def old_faded_twice(S, q, k, v, a, b, t, m):
    S = a * S
    S = S + k * error(a * S, k, v, b, True)
    return S, read(S, q)


def running_mean(S, q, k, v, a, b, t, m):
    S = a * S
    S = S + (1 - a) * k * error(S, k, v, b, m["delta"])
    return S, read(S, q)


def regated(change):
    """The right lines, with another gate."""
    def step(S, q, k, v, a, b, t, m):
        return right(S, q, k, v, change(a), b, t, m)
    return step


def only_itself(S, q, k, v, a, b, t, m):
    return right(0 * S, q, k, v, a, b, t, m)


# -- the same in chunks -------------------------------------------------------

def alone(C):
    def step(S, q, k, v, a, b, t, m):
        return right(S * (t % C > 0), q, k, v, a, b, t, m)
    return {"step": step}


def z_alone(C):
    def step(S, q, k, v, a, b, t, m):
        S, o = right(S, q, k, v, a, b, t, m)
        if t % C == 0:
            m["z"] = 0
        m["z"] = m["z"] + k[..., 0]
        o[..., -1] = (q[..., 0] * m["z"]).sum(-1)
        return S, o
    return {"step": step}


def carried_unfaded(C):
    """Queries read the state at the chunk's start as it was then."""
    def step(S, q, k, v, a, b, t, m):
        if t % C == 0:
            m["start"] = m["left"] = S
        S, _ = right(S, q, k, v, a, b, t, m)
        m["left"] = a * m["left"]
        return S, read(S - m["left"] + m["start"], q)
    return {"step": step}


def carried_late(C):
    """Queries read the state at the chunk's start as of the token before."""
    def step(S, q, k, v, a, b, t, m):
        if t % C == 0:
            m["left"] = S
        S, _ = right(S, q, k, v, a, b, t, m)
        before, m["left"] = m["left"], a * m["left"]
        return S, read(S - m["left"] + before, q)
    return {"step": step}


def handed_on(C, old, new):
    """A chunk's end: its first state, or its own writes, unfaded."""
    def step(S, q, k, v, a, b, t, m):
        if t % C == 0:
            m["start"] = m["left"] = S
            m["own"] = 0 * S
        before = a * S
        S, o = right(S, q, k, v, a, b, t, m)
        m["left"], m["own"] = a * m["left"], m["own"] + S - before
        if t % C < C - 1 and t < m["T"] - 1:
            return S, o
        return ((m["start"] if old else m["left"])
                + (m["own"] if new else S - m["left"])), o
    return {"step": step}


def errors_at_start(C):
    """No WY transform: a chunk's errors from the state it starts with."""
    def step(S, q, k, v, a, b, t, m):
        if t % C == 0:
            m["left"] = S
        m["left"] = a * m["left"]
        S = a * S + k * error(m["left"], k, v, b, True)
        return S, read(S, q)
    return {"step": step}


def overlaps_unfaded(C):
    """α left out of the keys' overlaps: (I + tril(β K Kᵀ)) E = …"""
    def step(S, q, k, v, a, b, t, m):
        if t % C == 0:
            m["left"], m["own"] = S, 0 * S
        m["left"] = a * m["left"]
        e = error(m["left"] + m["own"], k, v, b, True)
        m["own"] = m["own"] + k * e
        S = a * S + k * e
        return S, read(S, q)
    return {"step": step}


def rest_dropped(C):
    def step(S, q, k, v, a, b, t, m):
        after, o = right(S, q, k, v, a, b, t, m)
        return (after, o) if t < m["T"] // C * C else (S, 0 * o)
    return {"step": step, "divide": lambda o: np.where(
        o[..., -1:] == 0, 1, o[..., -1:])}
