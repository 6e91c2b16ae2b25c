"""The exercises of chapter 5: the kernel trick."""

from dataclasses import dataclass

import numpy as np

from .core import (Case, Counterexample, Function, Mistake, Value, Wrong,
                   difference, fractions, same)
from .work import Memory, Operations


def inputs(N, r, d_v):
    """Positive features and values of both signs, nothing constant."""
    rng = np.random.default_rng([5, N, r, d_v])
    return dict(f_q=rng.uniform(0.1, 2, (N, r)),
                f_k=rng.uniform(0.1, 2, (N, r)), v=rng.normal(size=(N, d_v)))


def cases():
    return [Case(f"N={N}, r={r}, d_v={d_v}", inputs(N, r, d_v))
            for N, r, d_v in ((1, 2, 3), (5, 2, 4), (17, 4, 3), (33, 3, 5))]


def long():
    return inputs(1024, 8, 8)


# -- the right answers --------------------------------------------------------

def weights(f_q, f_k, axis=-1, mask=lambda a: a):
    a = mask(f_q @ f_k.T)
    return a / a.sum(axis, keepdims=True)


def weights_and_output(f_q, f_k, v):
    w = weights(f_q, f_k)
    return w, w @ v


def output(f_q, f_k, v):
    return weights(f_q, f_k) @ v


def squared(x, y):
    return (1 + x @ y.T) ** 2


# -- mistakes that people make ------------------------------------------------

def softmax(scores):
    e = np.exp(scores)
    return e / e.sum(-1, keepdims=True)


def with_weights(of):
    """The mistake of both results that come from such weights."""
    def wrong(f_q, f_k, v):
        w = of(f_q, f_k)
        return w, w @ v
    return wrong


def undivided_output(f_q, f_k, v):
    return weights(f_q, f_k), f_q @ f_k.T @ v


def divided_by(total):
    return lambda f_q, f_k, v: f_q @ (f_k.T @ v) / total(f_q, f_k)


def pairs_once(x, y):
    """x_i x_j for i ≤ j, without the root of two for those that differ."""
    s = x @ y.T
    return 1 + 2 * s + (s * s + (x * x) @ (y * y).T) / 2


@dataclass(frozen=True)
class FeatureMap(Function):
    """A map φ, judged by its kernel: other features may have the same."""

    def _run(self, answer, case, untouched=True):
        f_x, f_y = (self._features(answer, case.name, case.arguments[name])
                    for name in "xy")
        if f_x.shape[1] != f_y.shape[1]:
            raise Wrong(
                f"{self.name}, on {case.name}: {f_x.shape[1]} features for "
                f"some vectors, {f_y.shape[1]} for others. Their number must "
                "depend on d alone.")
        return f_x @ f_y.T

    def _features(self, answer, name, x):
        f = super()._run(answer, Case(name, {"x": x}))
        if difference(f, f, np.inf):
            raise Wrong(f"{self.name}, on {name}: {difference(f, f, np.inf)}")
        if np.ndim(f) != 2 or len(f) != len(x):
            raise Wrong(
                f"{self.name}, on {name}: it should return one row of "
                f"features for each of the {len(x)} rows of x; the shape of "
                f"its result is {np.shape(f)}.")
        return np.asarray(f)


def vectors():
    rng = np.random.default_rng(5)
    return [Case(f"d={d}", dict(x=rng.normal(size=(n, d)),
                                y=rng.normal(size=(m, d))))
            for n, m, d in ((1, 4, 1), (5, 7, 2), (6, 3, 5))]


# -- by hand ------------------------------------------------------------------

S, Z, O = [[6, 3], [1, 5]], [3, 4], ["8/11", "13/11"]


def part(i, *wrong):
    """Is part i of the answer one of these?"""
    return lambda x: any(same(x[i], fractions(w)) for w in wrong)


# -- the input that exposes ---------------------------------------------------

def relu_attention(answer):
    q, k, v = (np.asarray(x, float) for x in answer)
    a = np.maximum(k, 0) @ np.maximum(q, 0)
    return a @ v / (a.sum() + 1e-6)


def a_mean(answer):
    """What it gives, brought between the smallest and the largest value."""
    v = np.asarray(answer[2], float)
    return np.clip(relu_attention(answer), v.min(), v.max())


def invalid(answer):
    q, k, v = (np.asarray(x, float) for x in answer)
    if q.ndim != 1 or k.ndim != 2 or k.shape[1:] != q.shape:
        return ("q must be one vector, and k a list of vectors of its width; "
                f"their shapes are {q.shape} and {k.shape}.")
    if v.shape != k.shape[:1] or len(k) < 2:
        return "there must be two keys or more, and one number in v for each."
    if not all(np.isfinite(x).all() for x in (q, k, v)):
        return "it holds NaN or infinity."
    if v.min() < 10 or v.max() > 20:
        return "the values must lie between 10 and 20."
    if q.max() < 1 or k.max(1).min() < 1:
        return ("the query and every key must have an entry of at least 1: "
                "without one, they would have no features at all.")
    if (k @ q).min() < 1:
        return f"every q·k must be at least 1; they are {(k @ q).tolist()}."
    return ""


EXERCISES = (
    Value("sums_by_hand", [S, Z, O], (
        Mistake("That is S transposed: its rows belong to the features, its "
                "columns to the values.", part(0, [[6, 1], [3, 5]])),
        Mistake("S lacks a minus: the third token's second value is −1.",
                part(0, [[6, 5], [1, 5]])),
        Mistake("S is not right: it is the sum of three tables, feature "
                "times value.", lambda x: not part(0, S)(x)),
        Mistake("S is right. z is one sum a feature, over the tokens: the "
                "columns of the table of φ(k).",
                lambda x: not part(1, Z)(x)),
        Mistake("S and z are right; o is the numerator, φ(q)ᵀS: divide it "
                "by φ(q)ᵀz.", part(2, [8, 13])),
        Mistake("S and z are right; in o you divided by the number of "
                "tokens.", part(2, ["8/3", "13/3"])),
        Mistake("S and z are right; in o you divided by the sum of z: it "
                "must be weighted by φ(q).", part(2, ["8/7", "13/7"])),
        Mistake("S and z are right; in o all tokens weigh the same.",
                part(2, ["5/3", "2/3"])),
        Mistake("S and z are right; o reads Sφ(q), and should read "
                "Sᵀφ(q).", part(2, ["12/11", 1])),
        Mistake("S and z are right; o is not.", lambda x: True))),
    Value("not_the_same", [66, 49], (
        Mistake("You exchanged the two.", [49, 66]),
        Mistake("They are not the same: softmax takes the exponential of each "
                "q·k before anything is added.", [49, 49]),
        Mistake("They are not the same: with φ(x) = x no exponential is "
                "taken, and the weights are as 1 to 2 to 3.", [66, 66]),
        Mistake("In softmax you left q = 2 out: the exponents are q·k.",
                part(0, 54)),
        Mistake("In softmax, nothing divides by the sum of the "
                "exponentials.", part(0, 5544, 4704)),
        Mistake("Softmax's weights are not equal here, nor as 1 to 2 to 3.",
                part(0, 42, 49)),
        Mistake("The second lacks its denominator, qz.",
                lambda x: min(abs(float(x[1]) - total) for total in (
                    294, 588, 294 * np.log(2), 588 * np.log(2))) < 0.1))),
    Function("weights_first", weights_and_output, cases, (
        Mistake("the rows of weights do not sum to one: nothing divides "
                "them.", with_weights(lambda f_q, f_k: f_q @ f_k.T)),
        Mistake("the weights are right, but the output is made from what "
                "was not divided yet.", undivided_output),
        Mistake("the columns sum to one, not the rows.", with_weights(
            lambda f_q, f_k: weights(f_q, f_k, 0))),
        Mistake("all N² weights together sum to one; each row should.",
                with_weights(lambda f_q, f_k: weights(f_q, f_k, (0, 1)))),
        Mistake("it takes a softmax of the similarities. They are the "
                "weights, up to their sum.",
                with_weights(lambda f_q, f_k: softmax(f_q @ f_k.T))),
        Mistake("later tokens are masked. In this chapter all see all.",
                with_weights(lambda f_q, f_k: weights(
                    f_q, f_k, mask=np.tril))),
        Mistake("queries and keys have changed places: row i is query i.",
                with_weights(lambda f_q, f_k: weights(f_k, f_q))),
        Mistake("each row is divided by N, not by its sum.", with_weights(
            lambda f_q, f_k: f_q @ f_k.T / len(f_k))))),
    Function("sums_first", output, cases, (
        Mistake("the sums are right, but nothing divides them: o needs "
                "φ(q)·z below.", divided_by(lambda f_q, f_k: 1)),
        Mistake("it divides by the number of tokens, not by φ(q)·z.",
                divided_by(lambda f_q, f_k: len(f_k))),
        Mistake("it divides by the sum of all of z: each feature of z "
                "counts as much as the query has of it.",
                divided_by(lambda f_q, f_k: f_k.sum())),
        Mistake("it divides by the query's features alone: z, the sum of "
                "the keys' features, is missing.",
                divided_by(lambda f_q, f_k: f_q.sum(1, keepdims=True))),
        Mistake("z is made from the queries. It belongs to the keys.",
                divided_by(lambda f_q, f_k: (f_q @ f_q.sum(0))[:, None])),
        Mistake("it sums only the tokens so far. In this chapter all see "
                "all.", lambda f_q, f_k, v: weights(
                    f_q, f_k, mask=np.tril) @ v),
        Mistake("it takes a softmax of the similarities: that cannot be "
                "reordered, and is another kernel.",
                lambda f_q, f_k, v: softmax(f_q @ f_k.T) @ v),
        Mistake("all tokens weigh the same: the features play no part.",
                lambda f_q, f_k, v: np.repeat(v.mean(0)[None], len(v), 0))),
        (Memory(2 * 2**20, long, "Multiply the keys' features with the "
                "values first: then nothing is N×N."),
         Operations(long, "The sums over all keys are taken once, for all "
                    "queries.", calls=64,
                    flops=2 * (4 * 1024 * 8 * 8 + 2 * 1024 * 8)))),
    FeatureMap("squared_kernel", squared, vectors, (
        Mistake("this is the chapter's Taylor map, 1 + x·y + (x·y)²/2. "
                "Multiply (1 + x·y)² out, and compare.",
                lambda x, y: 1 + x @ y.T + (x @ y.T) ** 2 / 2),
        Mistake("the middle term, 2x·y, is there only once.",
                lambda x, y: 1 + x @ y.T + (x @ y.T) ** 2),
        Mistake("the middle term comes out as 4x·y: a factor in φ stands on "
                "both sides, and is squared.",
                lambda x, y: 1 + 4 * (x @ y.T) + (x @ y.T) ** 2),
        Mistake("the middle term, 2x·y, is missing.",
                lambda x, y: 1 + (x @ y.T) ** 2),
        Mistake("the feature that is always 1 is missing.",
                lambda x, y: 2 * (x @ y.T) + (x @ y.T) ** 2),
        Mistake("this is (x·y)² alone: the feature that is always 1 and the "
                "entries of x themselves are missing.",
                lambda x, y: (x @ y.T) ** 2),
        Mistake("squares of single entries are not enough: (x·y)² also "
                "holds the products of different ones.",
                lambda x, y: 1 + 2 * x @ y.T + (x * x) @ (y * y).T),
        Mistake("each product of two different entries is there once, and "
                "must count twice.", pairs_once),
        Mistake("this is 1 + x·y, without the square.",
                lambda x, y: 1 + x @ y.T),
        Mistake("this squares entry by entry: Σ(1 + x_i)²(1 + y_i)².",
                lambda x, y: ((1 + x) ** 2) @ ((1 + y) ** 2).T))),
    Counterexample("no_mean", a_mean, relu_attention, invalid, (
        (lambda a: len(a[0]) < 3,
         "With two entries it cannot be done: try three."),
        (lambda a: (np.maximum(a[1], 0) @ np.maximum(a[0], 0)).min() > 0,
         "The query meets every key: look for entries at which both are "
         "positive."),
        (lambda a: True, "The query still meets one key: a mean of few "
         "values is a mean.")), tolerance=1e-3),
)
