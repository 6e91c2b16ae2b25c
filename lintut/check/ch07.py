"""The exercises of chapter 7: memory."""

import numpy as np

from .core import Case, Function, Mistake, Value, fractions, same
from .work import Memory, Operations


def records(n, d, d_v):
    """Keys of different lengths, values of both signs."""
    rng = np.random.default_rng([7, n, d, d_v])
    return dict(k=rng.normal(size=(n, d)), v=rng.normal(size=(n, d_v)))


def record_cases():
    return [Case(f"{n} records, d={d}, d_v={d_v}", records(n, d, d_v))
            for n, d, d_v in ((1, 2, 3), (5, 3, 2), (17, 4, 3), (33, 40, 5))]


def many():
    return records(2048, 16, 4)


def alike_cases():
    rng = np.random.default_rng(7)
    return [Case(f"{n} cosines", dict(c=rng.uniform(-0.9, 1, n),
                                      v=rng.normal(size=2) * 3))
            for n in (1, 5, 12)]


def half_width(N, d, d_v, size=1.0):
    """Keys above zero, as features are, and values of mean `size`."""
    rng = np.random.default_rng([7, N])
    return dict(
        k=rng.uniform(0.5, 1.5, (N, d)).astype(np.float16),
        v=(size * rng.normal(1, 0.5, (N, d_v))).astype(np.float16))


def half_width_cases():
    sizes = ((2, 3, 2, 1.0), (200, 2, 3, 1.0), (3000, 3, 2, 1.0),
             (3000, 2, 3, 60.0))
    return [Case(f"N={N}, d={d}, d_v={d_v}, values near {size:g}",
                 half_width(N, d, d_v, size)) for N, d, d_v, size in sizes]


# -- the right answers --------------------------------------------------------

def split(k, v, others=lambda a: a - np.diag(np.diag(a))):
    record = (k * k).sum(-1, keepdims=True) * v
    return record, others(k @ k.T) @ v


def reads(c, v):
    """Key 1's reads: additive, normalised, delta."""
    return np.stack([v[0] + c * v[1], (v[0] + c * v[1]) / (1 + c),
                     v[0] + c * (v[1] - c * v[0])], axis=-1)


def errors(c, v):
    return reads(c, v) - v[0]


def wide(k, v):
    k, v = k.astype(np.float64), v.astype(np.float64)
    return k.T @ v, k.sum(0)


# -- mistakes that people make ------------------------------------------------

def with_column(i, error):
    def wrong(c, v):
        result = errors(c, v)
        result[:, i] = error(c, v)
        return result
    return wrong


def by_steps(k, v, S=np.float16, z=np.float16, product=np.float16):
    """Sums kept in the formats S and z, products rounded to another."""
    S = np.zeros((k.shape[1], v.shape[1]), S)
    z = np.zeros(k.shape[1], z)
    with np.errstate(all="ignore"):
        for k_t, v_t in zip(k, v):
            S += np.outer(k_t.astype(product), v_t.astype(product))
            z += k_t
    return S, z


f2, f4 = np.float16, np.float32


def rounded_last(k, v):
    with np.errstate(all="ignore"):
        return tuple(x.astype(f2) for x in wide(k, v))


def by_product(k, v):
    with np.errstate(all="ignore"):
        return k.T @ v, k.sum(0)


# -- by hand ------------------------------------------------------------------

def part(i, *wrong):
    """Is part i of the answer one of these?"""
    return lambda x: any(same(x[i], fractions(w)) for w in wrong)


EXERCISES = (
    Value("changing_value", [15, 5, 1, "7/2", "-9/2"], (
        Mistake("In the additive memory you counted the value under b: b is "
                "at right angles to a, and adds nothing.", part(0, 22)),
        Mistake("A sum does not replace: additive reads all that was ever "
                "written under a.", part(0, 1)),
        Mistake("You divided by four tokens; the weights are a·a three "
                "times and a·b = 0.", part(1, "11/2", "15/4")),
        Mistake("Normalised does not mean latest: it is the mean of what was "
                "written under a.", part(1, 1)),
        Mistake("The delta rule replaces what the key read before: with a "
                "unit key and β = 1, all of it.", part(2, 15, 5, 22)),
        Mistake("β = 1/2 does not halve the sum: each write goes half the "
                "way from what is read to the new value.",
                part(3, "15/2", "1/2", 11)),
        Mistake("At β = 1/2 you took the mean of the last two values; each "
                "write starts from what is read then.", part(3, "11/2")),
        Mistake("The read after the write is exact for a unit key only: "
                "here each write moves it by 3/2 of the error.",
                part(4, 1)),
        Mistake("That is 3/2 times the last value. Follow the read, write by "
                "write: r ← r + 3/2·(v − r).", part(4, "3/2", "45/2")),
        Mistake("The length of a enters as a·a = 3/2, once, and not as its "
                "root or square.", lambda x: not same(
                    x[4], fractions("-9/2"))))),
    Function("split_read", split, record_cases, (
        Mistake("the record is v_i only for keys of length 1: these have "
                "other lengths.", lambda k, v: (v.copy(), split(k, v)[1])),
        Mistake("the record is multiplied with the key's length, not with "
                "its square.", lambda k, v: (
                    np.linalg.norm(k, axis=1)[:, None] * v, split(k, v)[1])),
        Mistake("the second part is the whole read: it still holds the "
                "record itself.", lambda k, v: (
                    split(k, v)[0], k @ (k.T @ v))),
        Mistake("the interference is the whole read less v_i: what was "
                "stored under k_i is ‖k_i‖² v_i.", lambda k, v: (
                    split(k, v)[0], k @ (k.T @ v) - v)),
        Mistake("only the records written before interfere in it. The state "
                "is read after all are written.",
                lambda k, v: split(k, v, others=lambda a: np.tril(a, -1))),
        Mistake("the interference is divided by the number of records.",
                lambda k, v: (split(k, v)[0], split(k, v)[1] / len(k))),
        Mistake("the two parts have changed places.",
                lambda k, v: split(k, v)[::-1]),
        Mistake("the other records count by size, without the sign of "
                "k_j·k_i.", lambda k, v: split(k, v, others=lambda a: np.abs(
                    a - np.diag(np.diag(a)))))), (
        Memory(4 * 2**20, many, "Read S, which is d×d_v: the n×n table of "
               "all k_j·k_i is not needed."),
        Operations(many, "Write S once and read it with all keys.",
                   flops=4 * 2 * 2 * 2048 * 16 * 4))),
    Function("alike", errors, alike_cases, (
        Mistake("these are the reads; take v₁ from them.", reads),
        Mistake("the sign is lost: the error is the read less v₁.",
                lambda c, v: np.abs(errors(c, v))),
        Mistake("the sign is turned: the error is the read less v₁.",
                lambda c, v: -errors(c, v)),
        Mistake("this is what key 2 reads, less v₂; the question is for "
                "key 1.", lambda c, v: np.stack([
                    c * v[0], (v[1] + c * v[0]) / (1 + c) - v[1],
                    0 * c], -1)),
        Mistake("delta adds v₂ without first taking off what key 2 read.",
                with_column(2, lambda c, v: c * v[1])),
        Mistake("delta is exact for the key written last, and that is "
                "key 2.", with_column(2, lambda c, v: 0 * c)),
        Mistake("delta's second write is right, but key 1 reads it in full: "
                "it reads c times what is written under k₂.",
                with_column(2, lambda c, v: v[1] - c * v[0])),
        Mistake("normalised divides by 2; the weights are 1 and c.",
                with_column(1, lambda c, v: (v[0] + c * v[1]) / 2 - v[0])),
        Mistake("normalised divides the error; divide the read, then take "
                "v₁ off.", with_column(1, lambda c, v: c * v[1] / (1 + c))),
        Mistake("c is taken for an angle; it is the cosine itself.",
                lambda c, v: errors(np.cos(c), v)))),
    Value("load", [13, 48, 17, 96], (
        Mistake("For the random keys, n − 1 records interfere, not n: "
                "(n − 1)/d.", part(0, 12)),
        Mistake("There the error is as large as the value; the first "
                "question asks for a quarter of that.", part(0, 49, 48)),
        Mistake("A quarter is the squared error itself: it is not to be "
                "squared again.", part(0, 4)),
        Mistake("In d dimensions there are d directions at right angles, "
                "and the state has d rows.", part(1, 47, 49, 24, 96)),
        Mistake("The width of the values has no part in how many keys fit.",
                part(1, 16, 768)),
        Mistake("For keys that are alike, n − 1 records interfere, not n.",
                part(2, 16)),
        Mistake("It is the square of the cosine that counts: the error is "
                "(n − 1)·c².", part(2, 5, 4)),
        Mistake("DPFP-1 has 2d features, not d.", part(3, 48)),
        Mistake("DPFP-1 has 2d features: with ν = 1 each entry of [x; −x] "
                "gives one.", part(3, 144, 192, 24)))),
    Function("accumulate", wide, half_width_cases, (
        Mistake("the sums are kept in float16, term by term: once large "
                "enough they no longer move, or overflow.", by_steps),
        Mistake("the sums are left to NumPy in float16: then they are kept "
                "and returned in float16 as well.", by_product),
        Mistake("z is mended, S is still kept in float16.",
                lambda k, v: by_steps(k, v, z=f4)),
        Mistake("S is mended, z is still kept in float16.",
                lambda k, v: by_steps(k, v, S=f4, product=f4)),
        Mistake("S is mended up to its products, which are still rounded to "
                "float16, and z is kept in float16.",
                lambda k, v: by_steps(k, v, S=f4)),
        Mistake("the sums are wide, but each product k·v is rounded to "
                "float16 before it is added.",
                lambda k, v: by_steps(k, v, S=f4, z=f4)),
        Mistake("the sums are wide, and rounded to float16 at the end: "
                "return them wide.", rounded_last)),
        tolerance=3e-5, keeps_dtype=False),
)
