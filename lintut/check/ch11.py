"""The exercises of chapter 11: DeltaNet."""

import numpy as np

from .core import Case, Counterexample, Function, Mistake, Value
from .work import Memory, Operations


def inputs(N, d=4, d_v=3, seed=0):
    """Keys of many lengths, β up to 2 within the stable range, a state."""
    rng = np.random.default_rng([11, N, d, d_v, seed])
    k = rng.normal(size=(N, d))
    k *= rng.uniform(0.4, 1.4, (N, 1)) / np.linalg.norm(
        k, axis=1, keepdims=True)
    beta = rng.uniform(0, 2, N) / np.maximum(1, (k * k).sum(1))
    return dict(q=rng.normal(size=(N, d)), k=k, v=rng.normal(size=(N, d_v)),
                beta=beta, S=rng.normal(size=(d, d_v)))


def cases():
    return [Case(f"N={N}, d={d}, d_v={d_v}", inputs(N, d, d_v))
            for N, d, d_v in ((1, 2, 3), (5, 2, 2), (17, 4, 3), (33, 3, 5))]


def chunk_cases():
    sizes = ((1, 1), (6, 2), (7, 3), (65, 16), (20, 64))
    return [Case(f"N={N}, chunks of {C}", inputs(N) | {"C": C})
            for N, C in sizes]


def long():
    return inputs(2048, 8, 8) | {"C": 64}


# -- the right answer, as a product of matrices ------------------------------

def delta(q, k, v, beta, S, C=None):
    o = np.empty_like(v)
    for t in range(len(v)):
        P = np.eye(len(S)) - beta[t] * np.outer(k[t], k[t])
        S = P @ S + beta[t] * np.outer(k[t], v[t])
        o[t] = S.T @ q[t]
    return o, S


# -- mistakes that people make ------------------------------------------------

def loop(write):
    """The recurrence with `write(S, k, v, beta, q)` for its step."""
    def run(q, k, v, beta, S, C=None):
        o = np.empty_like(v)
        for t in range(len(v)):
            S = S + write(S, k[t], v[t], beta[t], q[t])
            o[t] = q[t] @ S
        return o, S
    return run


additive = loop(lambda S, k, v, b, q: np.outer(k, b * v))
no_beta = loop(lambda S, k, v, b, q: np.outer(k, v - k @ S))
beta_on_value = loop(lambda S, k, v, b, q: np.outer(k, b * v - k @ S))
asks_the_query = loop(lambda S, k, v, b, q: np.outer(k, b * (v - q @ S)))
normalised = loop(
    lambda S, k, v, b, q: np.outer(k, b * (v - k @ S)) / (k @ k))
wrong_sign = loop(lambda S, k, v, b, q: np.outer(k, b * (k @ S - v)))


def reads_first(q, k, v, beta, S, C=None):
    o, end = delta(q, k, v, beta, S)
    before = [delta(q[:t], k[:t], v[:t], beta[:t], S)[1]
              for t in range(len(v))]
    return np.einsum("td,tde->te", q, before), end


def from_nothing(q, k, v, beta, S, C=None):
    return delta(q, k, v, beta, 0 * S)


def returns_old_state(q, k, v, beta, S, C=None):
    return delta(q, k, v, beta, S)[0], S.copy()


def chunks(below=-1, scale="rows", old=True, square=0, of=None):
    """The WY form with one of its parts changed."""
    def run(q, k, v, beta, S, C):
        o = np.empty_like(v)
        for start in range(0, len(v), C):
            r = slice(start, start + C)
            Q, K, V, b = q[r], k[r], v[r], beta[r, None]
            L = K @ K.T * (b if scale == "rows" else b.T)
            L = L if below is None else np.tril(L, below)
            E = np.linalg.solve(np.eye(len(K)) + (L if scale else 0),
                                b * (V - (K @ S if old else 0)))
            P = Q @ K.T if square is None else np.tril(Q @ K.T, square)
            o[r] = Q @ S + P @ (V if of == "V" else E)
            S = S + K.T @ E
        return o, S
    return run


def chunk_alone(q, k, v, beta, S, C):
    """Each chunk starts from the first state."""
    parts = [delta(q[i:i + C], k[i:i + C], v[i:i + C], beta[i:i + C], S)
             for i in range(0, len(v), C)]
    return np.concatenate([o for o, _ in parts]), parts[-1][1]


def drops_the_rest(q, k, v, beta, S, C):
    n = len(v) // C * C
    o, S = delta(q[:n], k[:n], v[:n], beta[:n], S)
    return np.concatenate([o, 0 * v[n:]]), S


STEP = (
    Mistake("β·v is added whatever the key holds already: read that first, "
            "and write the difference.", additive),
    Mistake("β is missing: the whole error is written.", no_beta),
    Mistake("β multiplies v alone; it belongs to the error, v less what the "
            "key holds.", beta_on_value),
    Mistake("the old value is read with q; it is the key that asks what it "
            "holds.", asks_the_query),
    Mistake("the write is divided by ‖k‖²: the rule takes keys as they are.",
            normalised),
    Mistake("the error has the wrong sign.", wrong_sign),
    Mistake("the output is read before the token has written.", reads_first),
    Mistake("it starts from zero, whatever state it is given.",
            from_nothing),
    Mistake("it returns the state that it was given.", returns_old_state),
)


# -- an input for three wrong steps -------------------------------------------

def end(answer, write):
    k, v, beta = answer
    S = np.zeros((k.shape[1], v.shape[1]))
    for t in range(len(v)):
        S = S + write(S, k[t], v[t], beta[t])
    return S


STEPS = {
    "one": lambda S, k, v, b: np.outer(k, b * (v - S.T @ k)) / (k @ k),
    "two": lambda S, k, v, b: np.outer(k, b * v),
    "three": lambda S, k, v, b: np.outer(k, b * v - S.T @ k),
}


def gap(answer, name):
    """How far the wrong step's last state is from the right one."""
    k, v, beta = answer
    right = delta(k, k, v, beta, np.zeros((k.shape[1], v.shape[1])))[1]
    return np.abs(end(answer, STEPS[name]) - right).max()


def unseen(name):
    return lambda answer: gap(answer, name) <= 1e-6


def invalid(answer):
    k, v, beta = answer
    for name, x, axes in (("k", k, 2), ("v", v, 2), ("beta", beta, 1)):
        if not isinstance(x, np.ndarray) or x.ndim != axes or not (
                np.isfinite(x).all()):
            return (f"{name} must be a finite array with {axes} "
                    f"ax{'is' if axes == 1 else 'es'}.")
    if not len(k) == len(v) == len(beta) > 0:
        return "k, v and beta must have as many rows, at least one."
    share = beta * (k * k).sum(1)
    if share.min() < 0 or share.max() > 2 or (k == 0).all(1).any():
        return ("β‖k‖² must lie between 0 and 2, and no key may be zero: "
                "outside, the rule itself is not safe.")
    return ""


def alike(first, second):
    return [[first] * 3 if np.isscalar(first) else first, second]


EXERCISES = (
    Value("reads_by_hand", [3, 4], (
        Mistake("That holds for a key of length 1. Here ‖k‖² = 3, and a read "
                "after a write returns ‖k‖² times what was written.",
                [1, "5/3"]),
        Mistake("You replaced the value outright: that takes β‖k‖² = 1.",
                [2, 5]),
        Mistake("You added: the second write must take off what the key "
                "already holds.", [3, "11/2"]),
        Mistake("You added, and left out β.", [6, 21]),
        Mistake("β is missing: it is the share of the error that is "
                "written.", [6, 3]),
        Mistake("That is an entry of S. A read multiplies S by the key.",
                [1, "4/3"]),
        Mistake("In the second step β multiplies v alone; it belongs to the "
                "whole error.", [3, "-7/2"]))),
    Function("recurrence", delta, cases, STEP),
    Function("chunkwise", delta, chunk_cases, (
        Mistake("the errors of a chunk ignore the state before it: W is "
                "missing.", chunks(old=False)),
        Mistake("each error ignores the earlier ones of its chunk: the keys' "
                "overlaps are missing.", chunks(scale="")),
        Mistake("the overlaps hold their diagonal too; a token's own error is "
                "not yet in the state that it reads.", chunks(below=0)),
        Mistake("an error takes later errors into account: only overlaps "
                "below the diagonal count.", chunks(below=None)),
        Mistake("in the overlaps β belongs to the row, the token whose error "
                "it is, not to the column.", chunks(scale="columns")),
        Mistake("a query sees later tokens of its chunk: the square needs "
                "its mask.", chunks(square=None)),
        Mistake("a query misses its own token: the square keeps its "
                "diagonal.", chunks(square=-1)),
        Mistake("inside the chunk the values are read, not the errors: the "
                "state is a sum of errors.", chunks(of="V")),
        Mistake("every chunk starts from the first state: nothing is carried "
                "on.", chunk_alone),
        Mistake("the last chunk, shorter than C, is left out.",
                drops_the_rest)) + STEP, (
        Memory(6 * 2**20, long, "Build C×C squares, never N×N."),
        Operations(long, "A chunk's errors are the solution of one system, "
                   "found in one call, not token by token.", calls=32 * 40))),
    Value("lags", [-4950, "99/2", 0, 1, 3], (
        Mistake("Those are lags before the last write: a position sees "
                "itself, write first.", [-4850, 50, 1, 2, 4]),
        Mistake("Those are the reads; the lag is 100 less the read.",
                [5050, "101/2", 100, 99, 97]),
        Mistake("The sign: the lag is the last value less the read.",
                [4950, "-99/2", 0, -1, -3]),
        Mistake("You took β for the share that is kept; it is the share "
                "that is new.", [-4950, "99/2", 0, 1, "1/3"]),
        Mistake("With β multiplying the value alone, the rule forgets all "
                "but β of it: β belongs to the error.",
                [-4950, "99/2", 0, 50, 75]),
        Mistake("The last three should follow the value; yours add up: the "
                "delta rule reads before it writes.",
                [-4950, "99/2", -4950, -2425, "-2325/2"]))),
    Value("alike", alike(0.5, ["29/64", "21/64", 0]), (
        Mistake("Those are lengths: square them.",
                alike(0.5 ** 0.5, [29 ** 0.5 / 8, 21 ** 0.5 / 8, 0])),
        Mistake("Those are means over the three entries of an error; its "
                "squared length is their sum.",
                alike("1/6", ["29/192", "7/64", 0])),
        Mistake("You read each record at once after its own write; wait "
                "until all three are there.",
                alike([0, "1/4", "1/2"], [0, 0, 0])),
        Mistake("The two rows are exchanged: first the sum, then the delta "
                "rule.", [["29/64", "21/64", 0], ["1/2"] * 3]),
        Mistake("Those are the chapter's errors of two records; here are "
                "three.", alike("1/4", ["5/16", "5/16", 0])),
        Mistake("The delta rule's are in the wrong order: the last record is "
                "the exact one.", alike(0.5, [0, "21/64", "29/64"])))),
    Counterexample(
        "exposes_shortcuts", lambda a: 0.0,
        lambda a: min(gap(a, name) for name in STEPS), invalid, (
            (unseen("one"), "`one` is right on it. It divides by ‖k‖²: what "
             "must keys not be for that to show?"),
            (unseen("two"), "`two` is right on it. It never reads: which "
             "keys make a read come out zero?"),
            (unseen("three"), "`three` is right on it. Where does its β "
             "stand, and for which β does that not matter?"))),
)
