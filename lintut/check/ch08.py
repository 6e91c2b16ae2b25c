"""The exercises of chapter 8: random features for softmax."""

import numpy as np

from .core import Case, Function, Mistake, Property, Value

# -- positive features --------------------------------------------------------


def feature_cases():
    found = []
    for N, d, m in ((1, 3, 2), (5, 4, 6), (17, 6, 3), (8, 16, 9)):
        rng = np.random.default_rng([8, N, d, m])
        found.append(Case(f"N={N}, d={d}, m={m}", dict(
            q=1.5 * rng.normal(size=(N, d)), rows=rng.normal(size=(m, d)))))
    return found


def exponents(x, rows, norm=0.5):
    """One for each token and row: ω·x less its share of ‖x‖²."""
    return (x[:, None] * rows).sum(-1) - norm * (x ** 2).sum(1)[:, None]


def scaled(q):
    return q * q.shape[1] ** -0.25


def features(q, rows):
    return np.exp(exponents(scaled(q), rows) - np.log(len(rows)) / 2)


def without_norm(q, rows):
    return np.exp(exponents(scaled(q), rows, 0)) / len(rows) ** 0.5


def whole_norm(q, rows):
    return np.exp(exponents(scaled(q), rows, 1)) / len(rows) ** 0.5


def added_norm(q, rows):
    return np.exp(exponents(scaled(q), rows, -0.5)) / len(rows) ** 0.5


def length_unsquared(q, rows):
    x = scaled(q)
    u = exponents(x, rows, 0) - np.linalg.norm(x, axis=1)[:, None] / 2
    return np.exp(u) / len(rows) ** 0.5


def norm_of_q(q, rows):
    u = exponents(scaled(q), rows, 0) - (q ** 2).sum(1)[:, None] / 2
    return np.exp(u) / len(rows) ** 0.5


def one_norm_for_all(q, rows):
    x = scaled(q)
    return (np.exp(exponents(x, rows, 0) - (x ** 2).sum() / 2)
            / len(rows) ** 0.5)


def unscaled(q, rows):
    return np.exp(exponents(q, rows)) / len(rows) ** 0.5


def scaled_by_root(q, rows):
    return unscaled(q / q.shape[1] ** 0.5, rows)


def scaled_twice(q, rows):
    return unscaled(q * q.shape[1] ** 0.25, rows)


def times_root_m(q, rows):
    return features(q, rows) * len(rows) ** 0.5


def over_m(q, rows):
    return features(q, rows) / len(rows) ** 0.5


def over_root_d(q, rows):
    return times_root_m(q, rows) / q.shape[1] ** 0.5


def less_maximum(q, rows):
    u = exponents(scaled(q), rows)
    return np.exp(u - u.max(1)[:, None]) / len(rows) ** 0.5


def normalised(q, rows):
    f = features(q, rows)
    return f / f.sum(1)[:, None]


# -- orthogonal rows ----------------------------------------------------------


def row_cases():
    sizes = (3, 5, 1), (12, 5, 2), (12, 5, 2), (12, 5, 3), (4000, 4, 4)
    return [Case(f"m={m}, d={d}, seed={seed}", dict(m=m, d=d, seed=seed))
            for m, d, seed in sizes]


def blocks(rows):
    """All whole blocks of d rows, (n, d, d); fewer rows are one block."""
    m, d = rows.shape
    return rows[:m // d * d].reshape(-1, d, d) if m >= d else rows[None]


def directions(x, axis=-1):
    size = np.linalg.norm(x, axis=axis, keepdims=True)
    return x / np.maximum(size, 1e-300)


def rest(rows):
    """The last rows, fewer than d, as a block; the first if there are none."""
    d = rows.shape[1]
    return rows[len(rows) // d * d:] if len(rows) % d else rows[:1]


def oblique(x):
    """The largest cosine between two different rows."""
    u = directions(x)
    cosines = np.abs(u @ np.swapaxes(u, -1, -2))
    return (cosines - np.eye(x.shape[-2])).max()


def columns_instead(results):
    return any(oblique(np.swapaxes(x, -1, -2)) < 1e-8 for x in (
        results[1], blocks(results[1])))


def repeated(results):
    first, second = directions(blocks(results[4])[:2])
    return np.allclose(np.abs(first), np.abs(second))


def lengths(results):
    return np.linalg.norm(blocks(results[4]), axis=-1)


def unlike_chi(results):
    """Six standard deviations of the mean of ℓ², and of its variance."""
    square, d = lengths(results) ** 2, 4
    return (abs(square.mean() - d) > 6 * (2 * d / square.size) ** 0.5
            or abs(square.var() - 2 * d) > 6 * (320 / square.size) ** 0.5)


def prefers_a_side(results):
    u = directions(blocks(results[4]))
    return np.abs(u.mean(0)).max() > 6 * (1 / 4 / len(u)) ** 0.5


def prefers_an_axis(results):
    """E u⁴ = 3/(d(d+2)) for an entry of a random direction."""
    fourth = (directions(blocks(results[4])) ** 4).mean()
    return abs(fourth - 1 / 8) > 0.01


ROWS = (
    Mistake("called twice with one seed it gives different rows. A state "
            "written with one Ω cannot be read with another.",
            lambda r: not np.array_equal(r[1], r[2])),
    Mistake("two different seeds give the same rows.",
            lambda r: np.array_equal(r[1], r[3])),
    Mistake("the columns are at right angles, the rows are not. Each row "
            "has a length of its own, and each block of d rows its own "
            "directions.", lambda r: oblique(blocks(r[1])) > 1e-8
            and columns_instead(r)),
    Mistake("the rows of a block are not at right angles; of every d rows, "
            "from the first on, each two must be.",
            lambda r: max(oblique(blocks(x)) for x in r) > 1e-8),
    Mistake("the last block, of fewer than d rows, is a block like the "
            "others: its rows must be at right angles too.",
            lambda r: max(oblique(rest(x)) for x in r) > 1e-8),
    Mistake("every block has the same directions: each starts anew.",
            repeated),
    Mistake("all rows have length 1, as QR gives them. That belongs to "
            "another kernel.", lambda r: np.allclose(lengths(r), 1)),
    Mistake("all rows have the length √d. Its square is right on average, "
            "but the length of a normal vector varies: without that the "
            "estimate is biased.", lambda r: np.allclose(lengths(r), 2)),
    Mistake("the rows of a block share one length; each needs its own.",
            lambda r: np.allclose(lengths(r), lengths(r)[:, :1])),
    Mistake("every block has the same lengths: draw them anew.",
            lambda r: np.allclose(lengths(r), lengths(r)[0])),
    Mistake("a length is the root of a sum of d squares; yours is the sum.",
            lambda r: not unlike_chi([*r[:4], directions(r[4]) * np.sqrt(
                np.linalg.norm(r[4], axis=1, keepdims=True))])),
    Mistake("the squared lengths are not distributed as sums of d squared "
            "normals, whose mean is d and whose variance is 2d.",
            unlike_chi),
    Mistake("lengths and angles are right, but some entries have one sign "
            "far more often than the other: QR itself prefers a side, by "
            "the signs on R's diagonal.", prefers_a_side),
    Mistake("lengths and angles are right, but not every direction is as "
            "likely as every other.", prefers_an_axis),
)

# -- a stabiliser that does not leak ------------------------------------------


def attention_inputs(N, d, m, d_v, seed, rows=1.0, x=0.5, y=0.5):
    rng = np.random.default_rng([8, N, d, m, seed])
    return dict(x=x * rng.normal(size=(N, d)), y=y * rng.normal(size=(N, d)),
                v=rng.normal(size=(N, d_v)),
                rows=rows * rng.normal(size=(m, d)))


def attention_cases():
    found = [Case(f"N={N}, d={d}, m={m}", attention_inputs(N, d, m, d_v, 0))
             for N, d, m, d_v in ((1, 3, 4, 2), (9, 4, 6, 3), (17, 5, 3, 4))]
    late = attention_inputs(12, 16, 8, 3, 1)
    late["y"][-1] = max(late["rows"], key=np.linalg.norm)
    found.append(Case("a long key at the end", late))
    low = attention_inputs(12, 4, 6, 3, 119, rows=12, x=0.02, y=16)
    low["y"][7] = max(low["rows"], key=np.linalg.norm)
    found.append(Case(
        "a long key in the middle", low,
        "There one key's features are e⁷⁴⁵ times those before it: scaled by "
        "the largest of all, the others are 0, and the first rows 0/0."))
    high = attention_inputs(12, 4, 6, 3, 3, rows=28, x=0.01, y=1)
    high["y"][7] = max(high["rows"], key=np.linalg.norm)
    high["y"][9] = 0.97 * high["y"][7]
    found.append(Case(
        "two keys whose features pass the largest number", high,
        "Their largest exponents are above 709, where float64 ends. A number "
        "must be subtracted in the exponent, and the same for all keys that "
        "one query compares."))
    return found


def attend(e_q, e_k, v):
    """Row by row, from logarithms: no feature is ever formed."""
    o = np.empty_like(v)
    for t in range(len(v)):
        logs = e_q[t] + e_k[:t + 1]
        weights = np.exp(logs - logs.max()).sum(1)
        o[t] = weights @ v[:t + 1] / weights.sum()
    return o


def stable(x, y, v, rows):
    return attend(exponents(x, rows), exponents(y, rows), v)


def by_features(f_q, f_k, v):
    a = np.tril(f_q @ f_k.T)
    return (a @ v) / a.sum(1)[:, None]


def both(x, y, rows):
    e_q, e_k = exponents(x, rows), exponents(y, rows)
    return np.exp(e_q - e_q.max(1)[:, None]), e_k


def leaky(x, y, v, rows):
    f_q, e_k = both(x, y, rows)
    return by_features(f_q + 1e-4, np.exp(e_k - e_k.max()) + 1e-4, v)


def leaky_keys(x, y, v, rows):
    f_q, e_k = both(x, y, rows)
    return by_features(f_q, np.exp(e_k - e_k.max()) + 1e-4, v)


def largest_of_all(x, y, v, rows):
    f_q, e_k = both(x, y, rows)
    return by_features(f_q, np.exp(e_k - e_k.max()), v)


def largest_of_each(x, y, v, rows):
    f_q, e_k = both(x, y, rows)
    return by_features(f_q, np.exp(e_k - e_k.max(1)[:, None]), v)


def largest_of_each_feature(x, y, v, rows):
    f_q, e_k = both(x, y, rows)
    return by_features(f_q, np.exp(e_k - e_k.max(0)), v)


def largest_so_far(x, y, v, rows):
    f_q, e_k = both(x, y, rows)
    c = np.maximum.accumulate(e_k.max(1))
    return by_features(f_q, np.exp(e_k - c[:, None]), v)


def without_maximum(x, y, v, rows):
    f_q, e_k = both(x, y, rows)
    return by_features(f_q + 1e-4, np.exp(e_k) + 1e-4, v)


def dropped_norms(x, y, v, rows):
    return attend(exponents(x, rows), exponents(y, rows, 0), v)


def sees_all(x, y, v, rows):
    a = np.exp(exponents(x, rows)) @ np.exp(exponents(y, rows)).T
    return (a @ v) / a.sum(1)[:, None]


def rescales(x, y, v, rows, S_too, z_too):
    f_q, e_k = both(x, y, rows)
    S, z, c, o = 0.0, 0.0, -np.inf, np.empty_like(v)
    for t in range(len(v)):
        new = max(c, e_k[t].max())
        S = S * np.exp(c - new) if S_too else S
        z = z * np.exp(c - new) if z_too else z
        c, f = new, np.exp(e_k[t] - new)
        S, z = S + np.outer(f, v[t]), z + f
        o[t] = f_q[t] @ S / (f_q[t] @ z)
    return o


EXERCISES = (
    Function("positive_features", features, feature_cases, (
        Mistake("−‖x‖²/2 is missing from the exponent.", without_norm),
        Mistake("‖x‖² is subtracted whole; half of it belongs to x, half of "
                "the rest comes with y.", whole_norm),
        Mistake("‖x‖²/2 is added. That is the trigonometric features' "
                "factor.", added_norm),
        Mistake("the length ‖x‖ is subtracted, not its square.",
                length_unsquared),
        Mistake("‖q‖²/2 is subtracted, of the vector before its scale.",
                norm_of_q),
        Mistake("one sum of squares over all tokens is subtracted; each has "
                "its own.", one_norm_for_all),
        Mistake("the scale 1/√d is missing: this estimates the exponential "
                "of qᵀk itself.", unscaled),
        Mistake("each side is divided by √d, so that the product is qᵀk/d.",
                scaled_by_root),
        Mistake("the root of the scale multiplies where it should divide.",
                scaled_twice),
        Mistake("the 1/√m is missing: the dot product is then a sum over "
                "rows, not their mean.", times_root_m),
        Mistake("each side is divided by m: together that is m².", over_m),
        Mistake("it is divided by √d in place of √m: the mean is over rows.",
                over_root_d),
        Mistake("the largest exponent is subtracted. In attention that "
                "cancels for a query; it is not the feature that was asked "
                "for, and for a key it is wrong.", less_maximum),
        Mistake("the features are normalised to sum to 1: their sizes are "
                "what estimates the kernel.", normalised))),
    Property("orthogonal_rows", lambda m, d, seed: np.zeros((m, d)),
             row_cases, ROWS),
    Function("mended", stable, attention_cases, (
        Mistake("the maximum is taken over all keys, and ε does not shrink "
                "with it: a long key in the future changes the past.",
                leaky),
        Mistake("ε is gone from the queries. At the keys the maximum of all "
                "still leaks through it.", leaky_keys),
        Mistake("without ε nothing leaks, but the maximum is still that of "
                "all keys: one long key turns the others to 0, and the rows "
                "before it to 0/0.", largest_of_all),
        Mistake("each key is divided by its own largest feature. That "
                "factor differs from key to key, and does not cancel.",
                largest_of_each),
        Mistake("each feature is divided by its largest value. That factor "
                "differs from feature to feature, and does not cancel.",
                largest_of_each_feature),
        Mistake("each key is divided by the largest so far, and stays so. "
                "When the maximum rises, what was summed before must be "
                "brought to the new one.", largest_so_far),
        Mistake("the maximum is gone, and ε is still there: it adds a "
                "similarity of its own to all pairs.", without_maximum),
        Mistake("the keys' −‖y‖²/2 is missing. A query's factor cancels; a "
                "key's does not.", dropped_norms),
        Mistake("the causal mask is missing.", sees_all),
        Mistake("S is brought to the new maximum, z is not.",
                lambda **x: rescales(**x, S_too=True, z_too=False)),
        Mistake("z is brought to the new maximum, S is not.",
                lambda **x: rescales(**x, S_too=False, z_too=True)))),
    Value("features_needed", 215, (
        Mistake("214 are just too few: the error is then 0.2505.", 214),
        Mistake("The scale 1/√d is missing: it makes ‖x + y‖² half of that.",
                11920),
        Mistake("‖x + y‖² is not ‖x‖² + ‖y‖² here, nor is the scale 1/d: "
                "the two vectors are equal, and each is divided by d^¼.",
                26),
        Mistake("The error is exp(s²) − 1 over m, not exp(s²) over m.", 219),
        Mistake("That is for a relative squared error of 1.", 54),
        Mistake("You took 1/4 as the error before it is squared.", 858),
        Mistake("That is for the squared error itself; the question is for "
                "the relative one, divided by K².", 1585))),
    Value("which_kind", [2, 1, 2, 1, 2], (
        Mistake("Positive features are not always better: look at a key "
                "that equals the query.", [1] * 5),
        Mistake("Trigonometric features are not always better: look at a key "
                "opposite to the query.", [2] * 5),
        Mistake("You have the two kinds exchanged.", [1, 2, 1, 2, 1]),
        Mistake("You compared at equal numbers of rows; at equal numbers of "
                "features the trigonometric kind has half as many rows.",
                [2, 1, 2, 2, 2]),
        Mistake("At a right angle K = 1, whatever the lengths. Compare "
                "1 − exp(−s²) with the square of 1 − exp(−t²).",
                [2, 1, 1, 1, 1]),
        Mistake("The last pair is at a right angle like the third: there "
                "the lengths do not change who wins.", [2, 1, 2, 1, 1]))),
)
