"""The exercises of chapter 4: low rank."""

import numpy as np

from .core import (Case, Counterexample, Function, Mistake, Value, fractions,
                   same)
from .work import Memory, Operations


def inputs(N, d, d_v, m):
    """Nothing constant, and no row of E or F that sums to one."""
    rng = np.random.default_rng([4, N, d, d_v, m])
    return dict(q=rng.normal(size=(N, d)), k=rng.normal(size=(N, d)),
                v=rng.normal(size=(N, d_v)),
                E=rng.normal(size=(m, N)) / np.sqrt(m),
                F=rng.uniform(-1, 2, (m, N)) / np.sqrt(m))


def cases():
    sizes = ((5, 3, 2, 2), (17, 4, 3, 5), (33, 3, 5, 8), (4, 2, 3, 6))
    return [Case(f"N={N}, d={d}, d_v={d_v}, m={m}", inputs(N, d, d_v, m))
            for N, d, d_v, m in sizes]


def stretches():
    sizes = ((6, 2, 3, 3), (7, 4, 3, 3), (33, 3, 5, 8), (5, 2, 2, 8))
    result = []
    for N, d, d_v, C in sizes:
        x = inputs(N, d, d_v, 1)
        result.append(Case(f"N={N}, d={d}, d_v={d_v}, stretches of {C}",
                           {name: x[name] for name in "qkv"} | {"C": C}))
    return result


# -- the right answers --------------------------------------------------------

def softmax(scores, axis=-1, count=1):
    e = np.exp(scores) * count
    return e / e.sum(axis, keepdims=True)


def attend(q, k, v):
    return softmax(q @ k.T / np.sqrt(q.shape[1])) @ v


def compressed(q, k, v, E, F):
    return attend(q, E @ k, F @ v)


def means(x, C):
    return np.array([x[i:i + C].mean(0) for i in range(0, len(x), C)])


def pooled(q, k, v, C):
    return attend(q, means(k, C), means(v, C))


# -- mistakes that people make ------------------------------------------------

def scaled_by(scale):
    return lambda q, k, v, E, F: softmax(
        q @ (E @ k).T * scale(q, v, E)) @ (F @ v)


def undivided(q, k, v, E, F):
    return np.exp(q @ (E @ k).T / np.sqrt(q.shape[1])) @ (F @ v)


def over_queries(q, k, v, E, F):
    return softmax(q @ (E @ k).T / np.sqrt(q.shape[1]), 0) @ (F @ v)


def softmax_first(q, k, v, E, F):
    return softmax(q @ k.T / np.sqrt(q.shape[1])) @ E.T @ (F @ v)


def tokens_divided(q, k, v, E, F):
    w = softmax(q @ (E @ k).T / np.sqrt(q.shape[1])) @ F
    return w / w.sum(-1, keepdims=True) @ v


def padded(x, C, **how):
    x = np.pad(x, ((0, -len(x) % C), (0, 0)), **how)
    return x.reshape(-1, C, x.shape[1]).mean(1)


def whole_ones(x, C):
    return means(x[:len(x) // C * C or None], C)


def folded(x, C):
    """The last tokens join the slot before them."""
    n = max(len(x) // C, 1)
    ends = [i * C for i in range(n)] + [len(x)]
    return np.array([x[a:b].mean(0) for a, b in zip(ends, ends[1:])])


def by_counts(q, k, v, C):
    count = np.minimum(C, len(k) - np.arange(0, len(k), C))
    scores = q @ means(k, C).T / np.sqrt(q.shape[1])
    return softmax(scores, count=count) @ means(v, C)


def with_slots(of_k, of_v, **how):
    return lambda q, k, v, C: attend(q, of_k(k, C, **how), of_v(v, C, **how))


# -- the input that exposes ---------------------------------------------------

C = 4       # tokens in a stretch


def half_causal(q, k, v):
    """A slot opens with the first token of its stretch: too early."""
    t, slot = np.arange(len(q))[:, None], np.arange(len(q) // C)
    scores = q @ means(k, C).T / np.sqrt(q.shape[1])
    return softmax(scores, count=slot * C <= t) @ means(v, C)


def before(answer):
    q, k, v, _, _, cut = answer
    return half_causal(q, k, v)[:cut]


def after(answer):
    q, _, _, k_new, v_new, cut = answer
    return half_causal(q, k_new, v_new)[:cut]


def invalid(answer):
    *arrays, cut = answer
    q, k, v, k_new, v_new = arrays
    for name, x in zip(("q", "k", "v", "k_new", "v_new"), arrays):
        if not isinstance(x, np.ndarray) or x.ndim != 2 or not (
                np.isfinite(x).all()):
            return f"{name} must be a finite array with two axes."
    if len(q) % C or len(q) > 256 or not len(q):
        return f"the length must be a multiple of {C}, up to 256."
    if k.shape != q.shape or len(v) != len(q):
        return "q and k must have one shape, and v as many rows."
    if k_new.shape != k.shape or v_new.shape != v.shape:
        return "k_new and v_new must have the shapes of k and v."
    if not 0 < cut < len(q):
        return f"cut must lie between 0 and {len(q)}; it is {cut}."
    if (k_new != k)[:cut].any() or (v_new != v)[:cut].any():
        return "something changes before the cut: that is not the future."
    if (k_new == k).all() and (v_new == v).all():
        return "nothing changes after the cut."
    return ""


def divided_stretch(answer):
    """The rows after the cut of the stretch that the cut divides."""
    *_, cut = answer
    return slice(cut, cut + -cut % C)


def elsewhere(answer):
    _, k, v, k_new, v_new, _ = answer
    rows = divided_stretch(answer)
    return (k[rows] == k_new[rows]).all() and (v[rows] == v_new[rows]).all()


# -- by hand ------------------------------------------------------------------

WEIGHTS = ["1/3", "5/12", "1/12", "1/3"]


def weighs(answer, weights):
    return same(answer[1], fractions(weights))


EXERCISES = (
    Value("tokens_through_slots", ["19/3", WEIGHTS], (
        Mistake("You made the tokens' weights sum to one. They need "
                "not: a row of F may sum to anything.",
                ["38/7", ["2/7", "5/14", "1/14", "2/7"]]),
        Mistake("You divided the rows of F by their sums first. F is "
                "used as it is: its rows need not be means.",
                ["50/9", ["1/3", "7/18", "1/18", "2/9"]]),
        Mistake("You exchanged the two slots' weights.",
                ["20/3", ["1/6", "1/3", "1/6", "2/3"]]),
        Mistake("Both slots weigh the same in that; the query gives "
                "them 2/3 and 1/3.",
                ["13/2", ["1/4", "3/8", "1/8", "1/2"]]),
        Mistake("The second token is in both slots: its two shares "
                "add up.", lambda x: any(
                    weighs(x, ["1/3", second, "1/12", "1/3"])
                    for second in ("1/3", "1/12"))),
        Mistake("The weights are right; the output is the sum of "
                "weight times value.", lambda x: weighs(x, WEIGHTS)),
        Mistake("The output is right. The weight of a token: each "
                "slot's weight times the token's entry in that row "
                "of F, added up.",
                lambda x: same(x[0], fractions("19/3"))))),
    Value("ranks", [2, "1/2", 6], (
        Mistake("Rows that are copies of each other do not add to the rank: "
                "how many different rows does A have?", lambda x: x[0] == 6),
        Mistake("Two rows of A that are not the same, none a multiple of the "
                "other: the rank is more than one.", lambda x: x[0] == 1),
        Mistake("A token's own group does not matter for the rank, nor does "
                "its size: count the rows that cannot be made from others.",
                lambda x: x[0] in (3, 4)),
        Mistake("Under the causal mask the rows are not copies any more: the "
                "first token sees one key, the second two, and so on.",
                lambda x: x[2] == 2),
        Mistake("A causal matrix is a triangle. What stands on its diagonal, "
                "and what does that say of its determinant?",
                lambda x: x[2] != 6),
        Mistake("The larger group has no larger singular value: each block "
                "of equal weights has one, and it is 1.",
                lambda x: same(x[1], fractions("2/3"))),
        Mistake("One singular value would hold all of them if the rank were "
                "one.", lambda x: x[1] == 1),
        Mistake("Only those that are not zero count in the sum, and they are "
                "as many as the rank.",
                lambda x: same(x[1], fractions("1/6"))))),
    Function("linformer", compressed, cases, (
        Mistake("E and F play no part: this is full softmax attention.",
                lambda q, k, v, E, F: attend(q, k, v)),
        Mistake("the scores lack their scale, 1/√d.",
                scaled_by(lambda q, v, E: 1)),
        Mistake("the scores are divided by √m; the scale belongs to the "
                "width d of a key.",
                scaled_by(lambda q, v, E: len(E) ** -0.5)),
        Mistake("the scores are divided by √N; the scale belongs to the "
                "width d of a key.",
                scaled_by(lambda q, v, E: len(q) ** -0.5)),
        Mistake("the scores are divided by d, not by its root.",
                scaled_by(lambda q, v, E: 1 / q.shape[1])),
        Mistake("E mixes keys and values both: the values have F.",
                lambda q, k, v, E, F: compressed(q, k, v, E, E)),
        Mistake("E and F have changed places: E belongs to the keys.",
                lambda q, k, v, E, F: compressed(q, k, v, F, E)),
        Mistake("nothing divides: the weights of a query on the slots must "
                "sum to one.", undivided),
        Mistake("the softmax runs over the queries, not over the slots.",
                over_queries),
        Mistake("the softmax is taken over the tokens, and its result "
                "compressed: E belongs inside the softmax.", softmax_first),
        Mistake("the tokens' weights are made to sum to one. The slots' "
                "weights do; the tokens' are what F makes of them.",
                tokens_divided)), (
        Memory(4 * 2**20, lambda: inputs(2048, 8, 8, 16), "Mix the N keys "
               "and values into m slots first; then nothing is N×N."),
        Operations(lambda: inputs(2048, 8, 8, 16), "Mix the keys and values "
                   "once, for all queries: 4·N·m·(d + d_v) is the count.",
                   flops=2 * 4 * 2048 * 16 * 16))),
    Counterexample("exposes_the_future", before, after, invalid, (
        (lambda a: a[-1] % C == 0,
         "The cut lies where a stretch ends: there this code is right."),
        (elsewhere, "What changes lies in stretches that are still closed. "
         "Change tokens of the stretch that the cut divides."),
        (lambda a: (a[2] == a[4]).all() and a[-1] < C,
         "Only keys change, and before the cut one slot alone is open: its "
         "weight is 1 whatever its key."),
        (lambda a: True, "Look at the slot that the cut divides: does its "
         "mean change?"))),
    Function("pooled", pooled, stretches, (
        Mistake("it is as it was: the last slot is a mean of real tokens and "
                "of zeros that were put in.", with_slots(padded, padded)),
        Mistake("the values are mended, the keys not: the last key still "
                "holds zeros that were put in.", with_slots(padded, means)),
        Mistake("the keys are mended, the values not: the last value still "
                "holds zeros that were put in.", with_slots(means, padded)),
        Mistake("the tokens after the last full stretch are left out.",
                with_slots(whole_ones, whole_ones)),
        Mistake("the last tokens join the slot before them; they should "
                "have one of their own.", with_slots(folded, folded)),
        Mistake("the last token is repeated until the stretch is full, and "
                "counts too much.",
                with_slots(padded, padded, mode="edge")),
        Mistake("slots weigh by the number of their tokens. A good thought, "
                "but another mechanism: here every slot counts as one.",
                by_counts))),
)
