"""The exercises of chapter 15: verification, and the self-test."""

import numpy as np

from .core import Case, Counterexample, Function, Mistake, Value

# -- a leak test --------------------------------------------------------------


def features(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def weights(q, k, visible):
    a = features(q) @ features(k).T * visible(
        np.arange(len(q))[:, None], np.arange(len(k)))
    return a / a.sum(-1, keepdims=True)


def past(i, j):
    return j <= i


def causal(q, k, v):
    return weights(q, k, past) @ v


def sees_all(q, k, v):
    return weights(q, k, lambda i, j: (i > -1) & (j > -1)) @ v


def inside_chunks(C):
    """A chunk sees itself whole; at a border nothing leaks."""
    return lambda q, k, v: weights(q, k, lambda i, j: j // C <= i // C) @ v


def one_ahead(q, k, v):
    return weights(q, k, lambda i, j: j <= i + 1) @ v


def through_keys(q, k, v):
    """The denominator sums over all keys; the values are the past's."""
    a = features(q) @ features(k).T
    return np.tril(a) @ v / a.sum(-1, keepdims=True)


def through_values(q, k, v):
    """Values are centred on the mean of all of them."""
    return causal(q, k, v) - v.mean(0)


def first_rows_only(q, k, v):
    """Only the first output hears, of the fifth token (or last) alone."""
    o, j = causal(q, k, v), min(4, len(v) - 1)
    o[0] = o[0] + .01 * v[j] + .01 * k[j, :1]
    return o


def ignores(q, k, v):
    return q[:, :1] * np.ones(v.shape[1])


def leak_cases():
    cases = []
    for attend, N in ((causal, 24), (sees_all, 24), (inside_chunks(12), 24),
                      (inside_chunks(8), 40), (one_ahead, 17),
                      (through_keys, 24), (through_values, 24),
                      (first_rows_only, 33), (ignores, 9), (causal, 40)):
        rng = np.random.default_rng([15, N])
        q, k = rng.normal(size=(2, N, 3))
        cases.append(Case(
            "a function that " + ("leaks" if leaks(attend, q, k, q[:, :2])
                                  else "does not leak"),
            dict(attend=attend, q=q, k=k, v=rng.normal(size=(N, 2)))))
    return cases


def leaks(attend, q, k, v, cuts=None, keys=True, values=True, rows=None):
    before = attend(q, k, v)
    for cut in cuts or range(1, len(q)):
        k2, v2 = k.copy(), v.copy()
        if keys:
            k2[cut:] = 2 - k2[cut:]
        if values:
            v2[cut:] = 3 * v2[cut:] + 1
        moved = np.abs(attend(q, k2, v2) - before)[:cut if rows is None
                                                   else None]
        if moved.max() > 1e-9:
            return True
    return False


# -- inputs that expose -------------------------------------------------------


def gated_delta(answer, fades=True):
    """In chunks of 4; `fades` says whether overlaps do."""
    q, k, v, alpha, beta = map(np.asarray, answer)
    S, o = np.zeros((k.shape[1], v.shape[1])), np.empty(v.shape)
    for i in range(0, len(q), 4):
        Q, K, V, b = q[i:i + 4], k[i:i + 4], v[i:i + 4], beta[i:i + 4, None]
        n, a = len(Q), alpha[i:i + 4]
        D = np.array([[np.prod(a[s + 1:t + 1]) if s <= t else 0.
                       for s in range(n)] for t in range(n)])
        F = np.cumprod(a)[:, None]
        L = np.tril(b * (K @ K.T), -1) * (D if fades else 1)
        E = np.linalg.solve(np.eye(n) + L, b * (V - F * (K @ S)))
        o[i:i + 4] = F * (Q @ S) + (Q @ K.T * D) @ E
        S = F[-1] * S + (D[-1][:, None] * K).T @ E
    return o


def invalid_tokens(arrays, most):
    for name, x in arrays.items():
        if not isinstance(x, np.ndarray) or x.ndim != 2 or not (
                np.isfinite(x).all()) or not x.size:
            return f"{name} must be a finite array with two axes."
    q, k, v = (arrays[name] for name in "qkv")
    if q.shape != k.shape or len(v) != len(k):
        return "q and k must have one shape, and v as many rows."
    if len(q) > most:
        return f"there may be {most} tokens; yours has {len(q)}."
    return ""


def invalid_gated(answer):
    q, k, v, alpha, beta = answer
    reason = invalid_tokens(dict(q=q, k=k, v=v), 64)
    if reason:
        return reason
    for name, x, low, high in (("alpha", alpha, 1e-12, 1),
                               ("beta", beta, 0, 2)):
        x = np.asarray(x, float)
        if x.shape != (len(q),):
            return f"{name} must have shape ({len(q)},)."
        if not (low <= x.min() and x.max() <= high):
            return (f"{name} must lie in {'(0, 1]' if name == 'alpha' else ''}"
                    f"{'[0, 2]' if name == 'beta' else ''}.")
    if np.abs(np.linalg.norm(k, axis=1) - 1).max() > 1e-9:
        return "each key must have length 1."
    return ""


def one_a_chunk(answer):
    """Whether no chunk has two keys that overlap, or two that are written."""
    k, beta = np.asarray(answer[1]), np.asarray(answer[4])
    return all(np.abs(np.tril(beta[i:i + 4, None] * (
        k[i:i + 4] @ k[i:i + 4].T), -1)).max() < 1e-12
        for i in range(0, len(k), 4))


def retention(answer, fades=True):
    """In chunks of 4; `fades` says whether the state from before does."""
    q, k, v, gamma, S = answer
    S, o = np.array(S, float), np.empty(np.shape(v))
    for i in range(0, len(q), 4):
        Q, K, V = q[i:i + 4], k[i:i + 4], v[i:i + 4]
        t = np.arange(len(Q))
        D = np.tril(float(gamma) ** np.maximum(t[:, None] - t, 0))
        F = float(gamma) ** (t + 1)[:, None]
        o[i:i + 4] = F * (Q @ S) + (Q @ K.T * D) @ V
        S = (F[-1] if fades else 1) * S + (D[-1][:, None] * K).T @ V
    return o


def invalid_retention(answer):
    q, k, v, gamma, S = answer
    reason = invalid_tokens(dict(q=q, k=k, v=v, S0=S), 8)
    if reason:
        return reason
    if S.shape != (k.shape[1], v.shape[1]):
        return f"S0 must have shape {(k.shape[1], v.shape[1])}."
    if not 0 < float(gamma) <= 1:
        return "gamma must lie in (0, 1]."
    return ""


# -- a comparison -------------------------------------------------------------


def by_rows(o, right, factor=1e-6):
    if o.shape != right.shape:
        return False
    error = np.abs(o - right).max(-1)
    return bool((error <= factor * np.abs(right).max(-1)).all())


def not_worse(o, right):
    """Asked the wrong way round: NaN is not greater than anything."""
    if o.shape != right.shape:
        return False
    error = np.abs(o - right).max(-1)
    return not (error > 1e-6 * np.abs(right).max(-1)).any()


def results():
    """(what, o, right)"""
    rng = np.random.default_rng(15)
    right = rng.normal(size=(4096, 3))
    zeroed, nan, inf = right.copy(), right.copy(), right.copy()
    zeroed[777], nan[5], inf[9, 1] = 0, np.nan, np.inf
    small = right * np.where(np.arange(4096) == 40, 1e-5, 1)[:, None]
    lost = small.copy()
    lost[40] = 0
    large = 1e5 * right
    uneven = right * [1, 1e-9, 1]
    return [("the same rows, rounded", right * (1 + 1e-8), right),
            ("one row of zeros", zeroed, right),
            ("a row of NaN", nan, right), ("one infinity", inf, right),
            ("a result of one column", np.ones((6, 1)), np.ones((6, 3))),
            ("a small row lost", lost, small),
            ("large rows, rounded", large * (1 + 1e-8), large),
            ("rows off by a thousandth", right * 1.001, right),
            ("rounded rows with one small entry",
             uneven + 1e-8 * np.abs(right).max(-1, keepdims=True), uneven)]


def compare_cases():
    return [Case(name, dict(o=o, right=right)) for name, o, right in results()]


EXERCISES = (
    Value("same_order", [16, 100, 256, 72], (
        Mistake("A window of 16 counts the query's own key: v₁ is seen from "
                "positions 1 to 16.", [15, 100, 256, 72]),
        Mistake("A window of 16 counts the query's own key: v₁ is seen from "
                "positions 1 to 16.", [17, 100, 256, 72]),
        Mistake("The state forgets nothing: with positive features v₁ has "
                "weight in every later output.", [16, 16, 256, 72]),
        Mistake("You left out z, which has r entries.", [16, 100, 256, 64]),
        Mistake("The window carries values as well as keys.",
                [16, 100, 128, 72]),
        Mistake("That is a cache of all 100 tokens; the window drops what is "
                "16 old.", [16, 100, 1600, 72]),
        Mistake("One is the output at position 1 alone; later queries look "
                "back.", [1, 100, 256, 72]))),
    Value("where_softmax_stands", [4, 5], (
        Mistake("The second is a mean over values with weights q·kⱼ; its "
                "first weight is zero.", [4, 4]),
        Mistake("The first is not the second: softmax gives k = 0 the weight "
                "e⁰, not 0.", [5, 5]),
        Mistake("The softmax's weights are the other way round: k₂ is nearer "
                "to q.", [2, 5]),
        Mistake("Those are equal weights: use e^{q·k}.", [3, 5]),
        Mistake("The first is not divided by the sum of its weights.",
                [16, 5]),
        Mistake("The second is not divided by q(Kᵀ1).",
                [4, repr(5 * float(np.log(3)))]),
        Mistake("You have exchanged the two.", [5, 4]))),
    Value("what_z_holds", [21, 14, 7], (
        Mistake("The entries of S are sums over tokens: φ(k)·7 added up.",
                [7, 7, 7]),
        Mistake("S is right; the read is not divided by φ(q)·z.",
                [21, 14, 77]),
        Mistake("S is right; divide by φ(q)·z, not by a sum of entries of "
                "one of them.", [21, 14, "77/5"]),
        Mistake("The two entries are exchanged: S belongs to z entry by "
                "entry.", [14, 21, 7]),
        Mistake("That is z. S has the values in it.", [3, 2, 7]),
        Mistake("S has one entry a feature, not the sum over both.",
                [35, 35, 7]))),
    Value("fixed_state", [64, 129, 256], (
        Mistake("S has 4,096 entries, but d = 64 orthogonal keys: the 65th "
                "meets one of the others.", [4096, 129, 256]),
        Mistake("One record disturbs nobody: the error is (n − 1)/d.",
                [64, 128, 256]),
        Mistake("(n − 1)/d is already the squared error; twice the squared "
                "size is asked.", [64, 257, 256]),
        Mistake("That is float16, with 11 bits; bfloat16 has 8.",
                [64, 129, 2048]),
        Mistake("2⁸ − 1 is the largest whole number of 8 bits, and one more "
                "still fits: it is a power of two.", [64, 129, 255]),
        Mistake("The leading bit, which is not stored, counts too: 8 "
                "significant bits.", [64, 129, 128]),
        Mistake("d + 1 keys in d dimensions cannot all be orthogonal.",
                [65, 129, 256]))),
    Value("forget_or_correct", [[10, "5/2"], [9, 5]], (
        Mistake("Nothing faded under GLA.", [[11, 5], [9, 5]]),
        Mistake("The delta rule fades nothing: what lies along other keys "
                "stays.", [[10, "5/2"], [9, "5/2"]]),
        Mistake("Each channel of GLA fades by its own gate, whatever the key "
                "is: the second too.", [[10, 5], [9, 5]]),
        Mistake("GLA does not look at what is there: it adds 9 to the faded "
                "2.", [[9, "5/2"], [9, 5]]),
        Mistake("The gate comes before the write: the new 9 does not fade.",
                [["11/2", "5/2"], [9, 5]]),
        Mistake("The delta rule writes the error, 9 − 2, on top of the 2.",
                [[10, "5/2"], [11, 5]]),
        Mistake("The error 7 is added to what is there, it does not replace "
                "it.", [[10, "5/2"], [7, 5]]),
        Mistake("You have exchanged the two.", [[9, 5], [10, "5/2"]]))),
    Function("leak_test", leaks, leak_cases, (
        Mistake("only the values are changed: a leak through the keys, in "
                "the denominator for one, is not seen.",
                lambda **x: leaks(**x, keys=False)),
        Mistake("only the keys are changed: a leak through the values is not "
                "seen.", lambda **x: leaks(**x, values=False)),
        Mistake("one cut is tried, in the middle: code in chunks may leak "
                "everywhere but there.", lambda q, **x: leaks(
                    q=q, **x, cuts=[len(q) // 2])),
        Mistake("only multiples of 8 are tried as cuts, where a chunk ends.",
                lambda q, **x: leaks(q=q, **x, cuts=range(8, len(q), 8))),
        Mistake("only the last token is changed: what hears an earlier one "
                "too soon is not seen.",
                lambda q, **x: leaks(q=q, **x, cuts=[len(q) - 1])),
        Mistake("all outputs are compared, those after the cut too: they are "
                "meant to move.", lambda **x: leaks(**x, rows="all")),
        Mistake("it says the opposite: True is a leak.",
                lambda **x: not leaks(**x)),
        Mistake("it always says that there is a leak.", lambda **x: True),
        Mistake("it never finds a leak.", lambda **x: False))),
    Counterexample(
        "exposes_overlaps", gated_delta,
        lambda a: gated_delta(a, fades=False), invalid_gated, (
            (lambda a: np.all(np.asarray(a[3]) == 1),
             "With α = 1 there is nothing to leave out."),
            (lambda a: len(a[0]) == 1, "One token overlaps with no other."),
            (one_a_chunk, "No two keys of a chunk overlap (and are written): "
             "orthogonal keys do not, and chunks have 4 tokens."),
            (lambda a: np.abs(a[2]).max() == 0,
             "Values of zero write nothing."))),
    Counterexample(
        "exposes_carry", retention, lambda a: retention(a, fades=False),
        invalid_retention, (
            (lambda a: float(a[3]) == 1, "With γ = 1 nothing fades."),
            (lambda a: np.abs(a[4]).max() == 0,
             "With a state of zero the second chunk's state is still right: "
             "the mistake needs a third chunk, and there is no room."),
            (lambda a: len(a[0]) <= 4, "The state after the first chunk is "
             "never read: there is no second chunk."),
            (lambda a: True, "The state must reach a query of the second "
             "chunk."))),
    Function("agrees", by_rows, compare_cases, (
        Mistake("it looks at the mean over all rows: one row of thousands "
                "does not move it.", lambda o, right: bool(
                    np.abs(o - right).mean() < 1e-3)),
        Mistake("one number for all rows, a ratio of root mean squares, "
                "hides a row.", lambda o, right: o.shape == right.shape
                and bool(np.sqrt(((o - right) ** 2).sum()
                                 / (right ** 2).sum()) < .02)),
        Mistake("NaN is not greater than anything: ask whether each error is "
                "small, not whether one is large.", not_worse),
        Mistake("shapes that broadcast are not the same shape.",
                lambda o, right: bool((np.abs(o - right).max(-1) <= 1e-6
                                       * np.abs(right).max(-1)).all())),
        Mistake("the tolerance is the same for all rows: a small row may be "
                "lost, and a large one is never exact enough.",
                lambda o, right: o.shape == right.shape and bool(
                    (np.abs(o - right) <= 1e-6).all())),
        Mistake("the tolerance is taken from the largest entry of all rows: "
                "a small row may be lost.",
                lambda o, right: o.shape == right.shape and bool(
                    np.abs(o - right).max() <= 1e-5 * np.abs(right).max())),
        Mistake("each entry is compared with itself: an entry near zero in a "
                "row of large ones cannot be that exact.",
                lambda o, right: o.shape == right.shape and bool(
                    (np.abs(o - right) <= 1e-6 * np.abs(right)).all())))),
)
