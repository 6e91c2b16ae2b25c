"""The exercises of chapter 1: the cost of attention."""

import numpy as np

from .core import Case, Function, Mistake, Value
from .work import Memory, Operations


def inputs(N, d=4, d_v=3, size=1.0):
    rng = np.random.default_rng([1, N, d, d_v])
    return dict(q=size * rng.normal(size=(N, d)),
                k=size * rng.normal(size=(N, d)), v=rng.normal(size=(N, d_v)))


def cases(*more):
    return [Case(f"N={N}, d={d}, d_v={d_v}", inputs(N, d, d_v))
            for N, d, d_v in ((1, 2, 3), (5, 2, 2), (17, 4, 3), (33, 3, 5))
            ] + list(more)


def cases_with_large():
    return cases(Case("N=20, d=8, d_v=3, with scores in the tens of "
                      "thousands", inputs(20, 8, 3, size=100.0),
                      "The formula is right where scores are small: "
                      "what it does with large ones is the question."))


# -- softmax, and mistakes that people make -----------------------------------

def attention(q, k, v, diagonal=0, scale=None, hidden=-np.inf, shift="row",
              axis=-1, mask="before", divide=True):
    """Causal softmax; each option leaves the right path at one place."""
    N, d = q.shape
    visible = np.tri(N, N, diagonal, dtype=bool)
    every = q @ k.T * (d ** -0.5 if scale is None else scale)
    scores = (np.where(visible, every, hidden) if mask == "before"
              else every)
    top = {"row": scores.max(-1, keepdims=True), "none": 0,
           "axis": scores.max(axis, keepdims=True),
           "hidden too": every.max(-1, keepdims=True),
           "global": scores.max()}[shift]
    weights = np.exp(scores - top)
    if divide:
        weights = weights / weights.sum(axis, keepdims=True)
    if mask == "after":
        weights = np.where(visible, weights, 0)
    return weights @ v


def reads_first(q, k, v, **options):
    o = attention(q, k, v, diagonal=-1, **options)
    o[0] = 0
    return o


def by_d(q, k, v, **options):
    return attention(q, k, v, scale=1 / q.shape[1], **options)


def by_root_of_d_v(q, k, v, **options):
    return attention(q, k, v, scale=v.shape[1] ** -0.5, **options)


def mean(q, k, v):
    return np.cumsum(v, 0) / np.arange(1, len(v) + 1)[:, None]


def either_way(says, wrong=attention, shifts=("row", "none"), **options):
    """The mistake, in code that is safe for large scores and in other."""
    return [Mistake(says, lambda q, k, v, shift=shift: wrong(
        q, k, v, shift=shift, **options)) for shift in shifts]


LOOKS_BACK = (
    *either_way("the scores are not divided by √d.", scale=1),
    *either_way("the scores are divided by d, not by its root.", by_d),
    *either_way("the root is that of the values' width; it should be that "
                "of the queries'.", by_root_of_d_v),
    *either_way("nothing is hidden: a query sees the keys of the future.",
                mask="none"),
    *either_way("a position does not see itself; the first one then has "
                "nothing to see, and divides 0 by 0.", diagonal=-1),
    *either_way("a position does not see itself.", reads_first),
    *either_way("a position sees one key of the future, the next.",
                diagonal=1),
    *either_way("hidden scores are 0, and a score of 0 has the weight e⁰, "
                "not 0.", hidden=0.0),
    *either_way("weights are hidden after they were divided by a sum that "
                "counts the future: the rows no longer sum to one.",
                mask="after"),
    *either_way("columns sum to one; it should be the rows, one a query.",
                shifts=("axis", "row", "none"), axis=0),
    *either_way("nothing divides the exponentials.", divide=False),
    Mistake("all keys weigh the same: the scores play no part.", mean),
    Mistake("each position reads its own value and nothing before it.",
            lambda q, k, v: v.copy()),
    *either_way("the exponential of a large score overflows: infinity by "
                "infinity is not a number. Make the scores smaller first, in "
                "a way that changes no weight.", shifts=("none",)),
    *either_way("each row is lowered by its largest score, but the largest "
                "is looked for among hidden ones too: what is left to see "
                "can underflow to 0.", shifts=("hidden too",)),
    *either_way("all rows are lowered by one number, the largest score of "
                "all: in another row every exponential can underflow to 0. "
                "Each row needs its own.", shifts=("global",)),
)


def long():
    return inputs(256, 16, 16)


PAIRS = 256 * 257 // 2

EXERCISES = (
    Value("prefill_flops", 768_768_000, (
        Mistake("You counted the whole square; the mask leaves less.",
                1_536_000_000),
        Mistake("You counted a multiplication and its addition as one; they "
                "are two.", 384_384_000),
        Mistake("That is one head's work.", 96_096_000),
        Mistake("You left out the product with V.", 512_512_000),
        Mistake("You left out the product QKᵀ.", 256_256_000),
        Mistake("You took d for both products; the second has width d_v.",
                1_025_024_000),
        Mistake("You left out the diagonal: each position sees itself.",
                767_232_000),
        Mistake("You took exactly half of the square; the diagonal belongs "
                "to it whole.", 768_000_000))),
    Value("cache_mib", 720, (
        Mistake("You counted a cache for each query head: four of them share "
                "the keys and values of one.", 2880),
        Mistake("That is one layer's cache.", 30),
        Mistake("That is one sequence's cache; three are being written.",
                240),
        Mistake("That is one head's cache.", 180),
        Mistake("You counted keys without values.", 432),
        Mistake("You counted values without keys.", 288),
        Mistake("You counted numbers; in float16 each takes two bytes.", 360),
        Mistake("That is four bytes a number; float16 takes two.", 1440),
        Mistake("You divided by 10⁶; a MiB has 2²⁰ bytes.",
                lambda g: abs(float(g) - 754.974720) < 1),
        Mistake("That is in bytes; the question is in MiB.", 754_974_720))),
    Value("first_cheaper", 137, (
        Mistake("There linear attention still costs a little more.", 136),
        Mistake("That is without a mask. A causal softmax compares "
                "N(N+1)/2 pairs.", lambda g: g in (68, 69)),
        Mistake("You took N²/2 pairs; the diagonal makes it N(N+1)/2.", 138),
        Mistake("N = 2d − 1 holds where r = d = d_v. Here the widths differ: "
                "go back to the two counts.", lambda g: g in (63, 64, 65)),
        Mistake("N = d holds without a mask, and where r = d = d_v.",
                lambda g: g in (32, 33)),
        Mistake("You took one width for all three: they differ.",
                lambda g: g in (95, 96, 97, 159, 160, 161)),
        Mistake("The clock may cross that late. The question is about "
                "FLOPs.", lambda g: g >= 1000))),
    Function("causal_softmax", attention, cases_with_large, LOOKS_BACK),
    Function("mended", attention, cases, LOOKS_BACK, (
        Operations(long, "A pair needs its score once and its weight once: "
                   "2(d + d_v) FLOPs, and there are N(N+1)/2 pairs.",
                   flops=int(2.1 * PAIRS * 32)),
        Memory(2**18, long, "A step of decoding has one query, and so one "
               "row of scores, never a square of them."))),
)
