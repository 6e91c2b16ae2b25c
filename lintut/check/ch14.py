"""The exercises of chapter 14: choosing, and mixing."""

import numpy as np

from .core import Case, Function, Mistake, Value
from .work import Memory


def inputs(N, w, d=4, r=6, d_v=3, seed=0):
    """Scores of moderate size, positive features, nothing constant."""
    rng = np.random.default_rng([14, N, w, d, d_v, seed])
    return dict(q=rng.normal(size=(N, d)), k=rng.normal(size=(N, d)),
                f_q=rng.uniform(0.1, 2, (N, r)),
                f_k=rng.uniform(0.1, 2, (N, r)),
                v=rng.normal(size=(N, d_v)), w=w)


def cases():
    sizes = ((1, 1, 3, 2, 2), (6, 2, 2, 3, 4), (17, 5, 4, 6, 3),
             (33, 1, 3, 5, 2), (20, 64, 3, 4, 5), (40, 12, 5, 3, 4))
    return [Case(f"N={N}, w={w}, r={r}, d_v={d_v}",
                 inputs(N, w, d, r, d_v)) for N, w, d, r, d_v in sizes]


# -- the right answer, from all N×N weights -----------------------------------

def age(N):
    return np.arange(N)[:, None] - np.arange(N)


def parts(q, k, f_q, f_k, w):
    """The window's weights and the memory's, (N, N) each."""
    old, near = age(len(q)), np.exp(q @ k.T)
    return (np.where((0 <= old) & (old < w), near, 0),
            np.where(old >= w, f_q @ f_k.T, 0))


def divided(a, v):
    return (a @ v) / a.sum(-1, keepdims=True)


def both(q, k, f_q, f_k, v, w):
    near, far = parts(q, k, f_q, f_k, w)
    return divided(near + far, v)


# -- mistakes that people make ------------------------------------------------

def window_alone(q, k, f_q, f_k, v, w):
    return divided(parts(q, k, f_q, f_k, w)[0], v)


def twice(q, k, f_q, f_k, v, w):
    """The memory holds the window's tokens too."""
    near, _ = parts(q, k, f_q, f_k, w)
    return divided(near + np.tril(f_q @ f_k.T), v)


def twice_but_itself(q, k, f_q, f_k, v, w):
    near, _ = parts(q, k, f_q, f_k, w)
    return divided(near + np.tril(f_q @ f_k.T, -1), v)


def late(q, k, f_q, f_k, v, w):
    """The token that leaves the window reaches the memory a step later."""
    near, far = parts(q, k, f_q, f_k, w)
    return divided(near + np.where(age(len(q)) > w, far, 0), v)


def early(q, k, f_q, f_k, v, w):
    """The oldest token of the window is in the memory already."""
    near, _ = parts(q, k, f_q, f_k, w)
    return divided(near + parts(q, k, f_q, f_k, w - 1)[1], v)


def wider(q, k, f_q, f_k, v, w):
    return both(q, k, f_q, f_k, v, w + 1)


def narrower(q, k, f_q, f_k, v, w):
    return both(q, k, f_q, f_k, v, w - 1)


def two_means(q, k, f_q, f_k, v, w):
    """Each part is divided by its own sum, and the two are added."""
    near, far = parts(q, k, f_q, f_k, w)
    total = far.sum(-1, keepdims=True)
    return divided(near, v) + np.divide(
        far @ v, total, out=np.zeros_like(v), where=total > 0)


def halves(q, k, f_q, f_k, v, w):
    near = divided(parts(q, k, f_q, f_k, w)[0], v)
    mixed = (near + (two_means(q, k, f_q, f_k, v, w) - near)) / 2
    return np.where(np.arange(len(v))[:, None] < w, near, mixed)


def without_z(q, k, f_q, f_k, v, w):
    near, far = parts(q, k, f_q, f_k, w)
    return ((near + far) @ v) / near.sum(-1, keepdims=True)


def features_alone(q, k, f_q, f_k, v, w):
    return divided(np.tril(f_q @ f_k.T), v)


def no_memory_of_age(q, k, f_q, f_k, v, w):
    return divided(np.tril(np.exp(q @ k.T)), v)


def undivided(q, k, f_q, f_k, v, w):
    near, far = parts(q, k, f_q, f_k, w)
    return (near + far) @ v


def long():
    return inputs(2048, 16, 8, 8, 8)


# Of every four layers one is full, one has a window, two hold a state.
HEADS, WIDTH, LENGTH, WINDOW, GROUPS, MIB = 16, 64, 65_536, 1024, 8, 2 ** 20
FULL = GROUPS * HEADS * LENGTH * 2 * WIDTH * 2 // MIB           # 2,048
NEAR = GROUPS * HEADS * WINDOW * 2 * WIDTH * 2 // MIB           # 32
STATE = 2 * GROUPS * HEADS * WIDTH * WIDTH * 4 // MIB           # 4

EXERCISES = (
    Function("window_and_memory", both, cases, (
        Mistake("what leaves the window is lost: the memory is empty.",
                window_alone),
        Mistake("the memory holds all tokens so far, so that those in the "
                "window count twice.", twice),
        Mistake("the memory holds all earlier tokens, so that those in the "
                "window count twice.", twice_but_itself),
        Mistake("a token that has left the window is missing for a step "
                "before the memory has it.", late),
        Mistake("the oldest token in the window is in the memory already, "
                "and counts twice.", early),
        Mistake("the window is one token too wide: it holds w tokens, the "
                "query's own included.", wider),
        Mistake("the window is one token too narrow: it holds w tokens, the "
                "query's own included.", narrower),
        Mistake("window and memory are each divided by their own sum; there "
                "is one sum for both.", two_means),
        Mistake("two means are averaged; there is one sum of weights for "
                "window and memory together.", halves),
        Mistake("the memory's values are read, but z is left out of what "
                "divides them.", without_z),
        Mistake("near tokens are weighed by their features too: in the "
                "window the weight is exp(q·k).", features_alone),
        Mistake("old tokens are weighed by exp(q·k) too: a memory has only "
                "their features.", no_memory_of_age),
        Mistake("the sums are right, but nothing divides them.", undivided)),
        (Memory(6 * 2 ** 20, long, "Keep w keys and values and one S and z; "
                "no array needs N×N entries, or N of S."),)),
    Value("kept_mib", FULL + NEAR + STATE, (
        Mistake("Those are the full layers alone.", FULL),
        Mistake("A state in 32 bits has four bytes a number; you counted "
                "two.", FULL + NEAR + STATE // 2),
        Mistake("You counted keys without values: a cache holds both.",
                (FULL + NEAR) // 2 + STATE),
        Mistake("A window's cache stops at w tokens; you let it grow with "
                "N.", 2 * FULL + STATE),
        Mistake("That is what 32 full layers keep.", 4 * FULL),
        Mistake("That is one head's share; there are 16.",
                f"{FULL + NEAR + STATE}/{HEADS}"),
        Mistake("That is one group of four layers; there are 8.",
                f"{FULL + NEAR + STATE}/{GROUPS}"),
        Mistake("Those are bytes; the question is how many MiB.",
                (FULL + NEAR + STATE) * MIB),
        Mistake("The states are missing: they are small, but they are kept.",
                FULL + NEAR))),
    Value("mixing_pays", 138, (
        Mistake("At that N it is still a little more than two fifths.", 137),
        Mistake("There the mixed stack keeps half; the question is two "
                "fifths.", 83),
        Mistake("There the mixed stack begins to keep less at all; the "
                "question is two fifths.", 28),
        Mistake("There are three layers with a state; you counted one.", 46),
        Mistake("You counted keys without values: the cache holds both.",
                440),
        Mistake("You counted values without keys: the cache holds both.",
                200),
        Mistake("A state has d×d_v entries; you used d×d.", 63))),
)
