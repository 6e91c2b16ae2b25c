"""The exercises of chapter 6: causal recurrence."""

import numpy as np

from .core import Case, Counterexample, Function, Mistake, Value
from .work import Memory, Operations


def inputs(N, d=4, d_v=3, seed=0, state=False):
    """Positive features and values of both signs, nothing constant."""
    rng = np.random.default_rng([6, N, d, d_v, seed])
    result = dict(f_q=rng.uniform(0.1, 2, (N, d)),
                  f_k=rng.uniform(0.1, 2, (N, d)), v=rng.normal(size=(N, d_v)))
    if state:
        result |= dict(S=rng.normal(size=(d, d_v)), z=rng.uniform(1, 5, d))
    return result


def cases(**more):
    return [Case(f"N={N}, r={d}, d_v={d_v}", inputs(N, d, d_v, **more))
            for N, d, d_v in ((1, 2, 3), (5, 2, 2), (17, 4, 3), (33, 3, 5))]


# -- the right answers --------------------------------------------------------

def similarities(f_q, f_k, causal=True, self_too=True):
    a = f_q @ f_k.T
    return np.tril(a, 0 if self_too else -1) if causal else a


def by_weights(f_q, f_k, v):
    a = similarities(f_q, f_k)
    return (a @ v) / a.sum(-1, keepdims=True)


def continued(f_q, f_k, v, S, z):
    a = similarities(f_q, f_k)
    o = (a @ v + f_q @ S) / (a.sum(-1) + f_q @ z)[:, None]
    return o, S + f_k.T @ v, z + f_k.sum(0)


# -- mistakes that people make ------------------------------------------------

def undivided(f_q, f_k, v, **_):
    return similarities(f_q, f_k) @ v


def read_first(f_q, f_k, v, **_):
    a = similarities(f_q, f_k, self_too=False)
    return (a @ v) / a.sum(-1, keepdims=True)


def read_first_zero(f_q, f_k, v, **_):
    o = read_first(f_q, f_k, v)
    o[0] = 0
    return o


def sees_all(f_q, f_k, v, **_):
    a = similarities(f_q, f_k, causal=False)
    return (a @ v) / a.sum(-1, keepdims=True)


def z_of_all(f_q, f_k, v, **_):
    return (similarities(f_q, f_k) @ v) / (f_q @ f_k.sum(0))[:, None]


def divided_by_count(f_q, f_k, v, **_):
    return undivided(f_q, f_k, v) / np.arange(1, len(v) + 1)[:, None]


def only_itself(f_q, f_k, v, **_):
    return v.copy()


def mean(f_q, f_k, v, **_):
    return np.cumsum(v, 0) / np.arange(1, len(v) + 1)[:, None]


def without_z(f_q, f_k, v, S, z):
    a = similarities(f_q, f_k)
    return ((a @ v + f_q @ S) / a.sum(-1, keepdims=True),
            S + f_k.T @ v, z + f_k.sum(0))


def without_S(f_q, f_k, v, S, z):
    a = similarities(f_q, f_k)
    return ((a @ v) / (a.sum(-1) + f_q @ z)[:, None],
            S + f_k.T @ v, z + f_k.sum(0))


def from_nothing(f_q, f_k, v, S, z):
    return by_weights(f_q, f_k, v), S + f_k.T @ v, z + f_k.sum(0)


def returns_own_sums(f_q, f_k, v, S, z):
    return continued(f_q, f_k, v, S, z)[0], f_k.T @ v, f_k.sum(0)


def returns_old_state(f_q, f_k, v, S, z):
    return continued(f_q, f_k, v, S, z)[0], S.copy(), z.copy()


def chunk_alone(f_q, f_k, v, C):
    return np.concatenate([by_weights(f_q[i:i + C], f_k[i:i + C], v[i:i + C])
                           for i in range(0, len(v), C)])


def chunk_sees_all(f_q, f_k, v, C):
    o = np.empty_like(v)
    for i in range(0, len(v), C):
        a = f_q[i:i + C] @ f_k[:i + C].T
        o[i:i + C] = (a @ v[:i + C]) / a.sum(-1, keepdims=True)
    return o


def chunk_twice(f_q, f_k, v, C):
    """The chunk is added to the state before its queries read it."""
    o = np.empty_like(v)
    S, z = np.zeros((f_k.shape[1], v.shape[1])), np.zeros(f_k.shape[1])
    for i in range(0, len(v), C):
        rows = slice(i, i + C)
        S, z = S + f_k[rows].T @ v[rows], z + f_k[rows].sum(0)
        o[rows] = continued(f_q[rows], f_k[rows], v[rows], S, z)[0]
    return o


def chunk_without_z(f_q, f_k, v, C):
    o = np.empty_like(v)
    S = np.zeros((f_k.shape[1], v.shape[1]))
    for i in range(0, len(v), C):
        rows = slice(i, i + C)
        zero = np.zeros(f_k.shape[1])
        o[rows] = continued(f_q[rows], f_k[rows], v[rows], S, zero)[0]
        S = S + f_k[rows].T @ v[rows]
    return o


def drops_the_rest(f_q, f_k, v, C):
    o = by_weights(f_q, f_k, v)
    o[len(v) // C * C:] = 0
    return o


def chunk_cases():
    sizes = ((1, 1), (6, 2), (7, 3), (65, 16), (20, 64))
    return [Case(f"N={N}, chunks of {C}", inputs(N) | {"C": C})
            for N, C in sizes]


def long(C=None):
    more = {} if C is None else {"C": C}
    return lambda: inputs(2048, 8, 8) | more


LOOKS_BACK = (
    Mistake("the sums are right, but nothing divides them: o_t needs "
            "φ(q_t)·z_t below.", undivided),
    Mistake("the read comes before the write, so that a position does not "
            "see itself.", read_first_zero),
    Mistake("the read comes before the write: the first position then has "
            "nothing to read, and divides 0 by 0.", read_first),
    Mistake("all tokens are summed before the first is read: the past hears "
            "of the future.", sees_all),
    Mistake("z is the sum over all tokens, not over those so far.", z_of_all),
    Mistake("the sum is divided by the number of tokens, not by their "
            "weights φ(q_t)·z_t.", divided_by_count),
    Mistake("each position reads only its own value: S starts anew at every "
            "step.", only_itself),
    Mistake("all tokens weigh the same: the features play no part.", mean),
)

# The second example to work by hand.
F_K, V, F_Q = [[1, 0], [1, 1], [0, 2]], [[2, 0], [1, 3], [0, 1]], [2, 1]


def leaves_z_behind(answer):
    """What an implementation that carries S alone gives after the cut."""
    f_q, f_k, v, cut = answer
    S = f_k[:cut].T @ v[:cut]
    return without_z(f_q[cut:], f_k[cut:], v[cut:], S, 0)[0]


def invalid(answer):
    f_q, f_k, v, cut = answer
    for name, x in (("f_q", f_q), ("f_k", f_k), ("v", v)):
        if not isinstance(x, np.ndarray) or x.ndim != 2 or not (
                np.isfinite(x).all()):
            return f"{name} must be a finite array with two axes."
    if f_q.shape != f_k.shape or len(v) != len(f_k):
        return "f_q and f_k must have one shape, and v as many rows."
    if min(f_q.min(), f_k.min()) < 0 or (f_q @ f_k.T).min() <= 0:
        return ("features must be at least zero, and every query must meet "
                "every key.")
    if not 0 < cut < len(v):
        return f"cut must lie between 0 and {len(v)}; it is {cut}."
    return ""


EXERCISES = (
    Value("state_by_hand", [[[3, 3], [1, 5]], [2, 3]], (
        Mistake("That is S₃ transposed, and z: rows of S belong to the "
                "features, columns to the values.",
                [[[3, 1], [3, 5]], [2, 3]]),
        Mistake("That is the state after two tokens.",
                [[[3, 3], [1, 3]], [2, 1]]),
        Mistake("The third token wrote 1·v₃; its second feature is 2.",
                [[[3, 3], [1, 4]], [2, 2]]),
        Mistake("S is right; z sums the features of all three keys, one sum "
                "a feature.", [[[3, 3], [1, 5]], [1, 2]]),
        Mistake("S is right; z is not the sum of all features but one sum a "
                "feature.", [[[3, 3], [1, 5]], [5, 5]]))),
    Value("output_by_hand", ["7/7", "11/7"], (
        Mistake("That is the numerator: divide by φ(q₃)·z₃.", [7, 11]),
        Mistake("You divided by the number of tokens.", ["7/3", "11/3"]),
        Mistake("You divided by the sum of z: it must be weighted by φ(q₃).",
                ["7/5", "11/5"]),
        Mistake("All tokens weigh the same in that: use the similarities.",
                [1, "4/3"]),
        Mistake("Those are the weights of two tokens only; the third "
                "position sees itself.", ["7/5", "9/5"]),
        Mistake("You read Sφ(q₃); the read is Sᵀφ(q₃).", ["9/7", "7/7"]))),
    Function("recurrence", by_weights, cases, LOOKS_BACK, (
        Memory(6 * 2**20, long(), "Keep S and z, which do not grow, and no "
               "N×N array: that is what the recurrence is for."),)),
    Function("continue_from", continued, lambda: cases(state=True), (
        Mistake("z is not carried over: the old tokens' weight is missing "
                "from the denominator.", without_z),
        Mistake("S is not carried over: the old values are missing from the "
                "numerator.", without_S),
        Mistake("it starts from zero, whatever state it is given.",
                from_nothing),
        Mistake("the state that it returns holds the new tokens only.",
                returns_own_sums),
        Mistake("it returns the state that it was given.",
                returns_old_state))),
    Function("mended", by_weights, cases, LOOKS_BACK),
    Function("chunkwise", lambda f_q, f_k, v, C: by_weights(f_q, f_k, v),
             chunk_cases, (
        Mistake("each chunk reads itself alone: nothing comes from the "
                "chunks before.", chunk_alone),
        Mistake("inside its chunk a query sees later keys: the C×C square "
                "needs its mask.", chunk_sees_all),
        Mistake("the chunk is added to the state before its queries read, "
                "and counts twice.", chunk_twice),
        Mistake("z is not carried between chunks.", chunk_without_z),
        Mistake("the last chunk, shorter than C, is left out.",
                drops_the_rest)) + tuple(
            Mistake(m.says, lambda C, f=m.answer, **x: f(**x))
            for m in LOOKS_BACK), (
        Memory(6 * 2**20, long(64), "Build C×C squares, never N×N."),
        Operations(long(64), "A chunk's tokens are handled by a few products "
                   "together, not one by one.", calls=32 * 40))),
    Value("cache_passes_state", 69, (
        Mistake("There the two are equal; the question is when the cache is "
                "the larger one.", 68),
        Mistake("You left out z, which has r entries.", 65),
        Mistake("You left out z, which has r entries, and there the two are "
                "equal: the question is when the cache is larger.", 64),
        Mistake("You counted keys without values: the cache holds both.", 91),
        Mistake("You counted values without keys: the cache holds both.",
                273),
        Mistake("S has r×d_v entries; you used d×d_v.", 13))),
    Counterexample(
        "exposes_lost_z", lambda a: by_weights(*a[:3])[a[3]:],
        leaves_z_behind, invalid, (
            (lambda a: np.abs(a[2][:a[3]]).max() > 0,
             "Then v must be special: think of what z changes."),
            (lambda a: True, "Values that are all zero hide everything."))),
)
