"""The exercises of chapter 9: retention."""

import numpy as np

from .carried import carried
from .core import Case, Counterexample, Function, Mistake, Value
from .work import Memory, Operations


def inputs(N, gamma, d=4, d_v=3):
    """A state to start from, queries, keys and values, of both signs."""
    rng = np.random.default_rng([9, N, d, d_v])
    q, k = rng.normal(size=(2, N, d))
    return dict(q=q, k=k, v=rng.normal(size=(N, d_v)), gamma=gamma,
                S=rng.normal(size=(d, d_v)))


def state_cases():
    sizes = (1, 0.5, 2, 3), (5, 0.9, 3, 2), (17, 0.3, 4, 3), (33, 0.97, 3, 5)
    return [Case(f"N={N}, γ={gamma}, d={d}, d_v={d_v}",
                 inputs(N, gamma, d, d_v)) for N, gamma, d, d_v in sizes]


# -- the recurrence -----------------------------------------------------------

def steps(N):
    """How many tokens lie between j and i; negative above the diagonal."""
    return np.subtract.outer(np.arange(N), np.arange(N))


def faded(x, rates):
    return x * np.reshape(rates, (-1, 1))


def past(q, k, v, gamma, power=lambda n: n, self_too=True):
    """What the tokens themselves give each other."""
    n = steps(len(v))
    D = np.where(n >= (not self_too), float(gamma) ** power(np.abs(n)), 0)
    return (D * (q @ k.T)) @ v


def retained(q, k, v, gamma, S, first=1):
    """The definition; the state has faded `first` times at the first read."""
    N = len(v)
    o = past(q, k, v, gamma) + faded(q @ S, gamma ** (np.arange(N) + first))
    written = faded(k, gamma ** np.arange(N - 1, -1, -1)).T @ v
    return o, gamma ** (N + first - 1) * S + written


def plain_sum(q, k, v, gamma, S):
    return retained(q, k, v, 1.0, S)


def write_too(q, k, v, gamma, S):
    return retained(q, k, gamma * v, gamma, S)


def averaged(q, k, v, gamma, S):
    return retained(q, k, (1 - gamma) * v, gamma, S)


def reads_first(q, k, v, gamma, S):
    o = past(q, k, v, gamma, lambda n: n - 1, self_too=False)
    return (o + faded(q @ S, gamma ** np.arange(len(v))),
            retained(q, k, v, gamma, S)[1])


def reads_faded_first(q, k, v, gamma, S):
    own = np.einsum("td,td->t", q, k)
    o, S = retained(q, k, v, gamma, S)
    return o - faded(v, own), S


def fades_after(q, k, v, gamma, S):
    o, end = retained(q, k, v, gamma, S, first=0)
    return o, gamma * end


def fades_from_start(q, k, v, gamma, S):
    return retained(q, faded(k, gamma ** np.arange(len(v))), v, 1.0, S)


def divided(q, k, v, gamma, S):
    o, end = retained(q, k, v, gamma, S)
    totals, _ = retained(q, k, np.ones((len(v), 1)), gamma,
                         np.zeros((len(S), 1)))
    return o / totals, end


# -- the mask -----------------------------------------------------------------

def mask_cases():
    sizes = (1, 0.5), (2, 0.9), (7, 0.75), (40, 0.97)
    return [Case(f"N={N}, γ={gamma}", dict(gamma=gamma, N=N))
            for N, gamma in sizes] + [
        Case("N=1100, γ=0.5", dict(gamma=0.5, N=1100),
             "On short texts it is right. Here γ^1099 is below the smallest "
             "float64 and γ^−1099 above the largest: form neither of the "
             "two, or multiply neither by 0.")]


def mask(gamma, N, power=lambda n: n, lowest=0):
    n = steps(N)
    return np.where(n >= lowest, gamma ** power(np.maximum(n, lowest)
                                                .astype(float)), 0)


def two_sided(gamma, N):
    return gamma ** np.abs(steps(N)).astype(float)


def ratio(gamma, N):
    powers = gamma ** np.arange(N)
    return np.tril(powers[:, None] / powers)


def product(gamma, N):
    powers = gamma ** np.arange(N)
    return np.tril(np.outer(powers, 1 / powers))


def zero_times(gamma, N):
    return gamma ** steps(N).astype(float) * np.tri(N)


def of_columns(gamma, N):
    return np.tril(np.broadcast_to(gamma ** np.arange(N), (N, N)))


def one_step(gamma, N):
    return np.where(steps(N) > 0, gamma, 1) * np.tri(N)


def to_one(gamma, N):
    right = mask(gamma, N)
    return right / right.sum(-1, keepdims=True)


# -- chunks -------------------------------------------------------------------

def chunk_cases():
    found = [Case(f"N={N}, chunks of {C}, γ={gamma}",
                  inputs(N, gamma, d, d_v) | {"C": C})
             for N, C, gamma, d, d_v in (
                 (1, 1, 0.5, 2, 3), (6, 2, 0.8, 3, 2), (7, 3, 0.6, 4, 3),
                 (65, 16, 0.95, 4, 3), (20, 64, 0.9, 3, 5))]
    return found + [Case(
        "N=230, chunks of 100, γ=0.0001", inputs(230, 1e-4) | {"C": 100},
        "All else is right. Here γ⁹⁹ is below the smallest float64 and γ⁻⁹⁹ "
        "above the largest: raise γ to differences that are at least zero, "
        "and divide by no power of it.")]


def in_chunks(q, k, v, gamma, S, C, inside=past, before=lambda i: i + 1,
              until=lambda i, n, C: n - 1 - i, total=lambda n, C: n,
              carry=1, write_first=False):
    """The chunkwise form, with the exponents it is made of."""
    o = np.empty_like(v)
    for start in range(0, len(v), C):
        rows = slice(start, start + C)
        Q, K, V = q[rows], k[rows], v[rows]
        n, i = len(V), np.arange(len(V))
        written = faded(K, gamma ** until(i, n, C)).T @ V
        new = carry * gamma ** total(n, C) * S + written
        o[rows] = inside(Q, K, V, gamma) + faded(
            Q @ (new if write_first else S), gamma ** before(i))
        S = new
    return o, S


def chunks(**changes):
    return lambda **x: in_chunks(**x, **changes)


def each_alone(q, k, v, gamma, S, C):
    parts = [retained(q[i:i + C], k[i:i + C], v[i:i + C], gamma, 0 * S)
             for i in range(0, len(v), C)]
    return np.concatenate([o for o, _ in parts]), parts[-1][1]


def sees_chunk(q, k, v, gamma):
    return (gamma ** np.abs(steps(len(v))) * (q @ k.T)) @ v


def by_ratio(q, k, v, gamma):
    """The trap: one factor a query, one a key, and one of them inverted."""
    up = gamma ** -np.arange(len(v)).astype(float)
    return np.tril(faded(q, 1 / up) @ faded(k, up).T) @ v


def drops_the_rest(q, k, v, gamma, S, C):
    whole = len(v) // C * C
    o, end = np.zeros_like(v), S
    if whole:
        o[:whole], end = retained(q[:whole], k[:whole], v[:whole], gamma, S)
    return o, end


def without_C(answer):
    return lambda C, **x: answer(**x)


def long():
    return inputs(2048, 0.97, 8, 8) | {"C": 64}


RULE = (
    Mistake("nothing fades: that is the plain sum, γ = 1.", plain_sum),
    Mistake("a token's record is faded in the step that writes it. Only what "
            "was there before fades.", write_too),
    Mistake("the new record enters with weight 1 − γ. That is a running "
            "average; retention writes it in full.", averaged),
    Mistake("the read comes before the write: a position does not see "
            "itself.", reads_first),
    Mistake("the read comes between fading and writing: a position does not "
            "see itself.", reads_faded_first),
    Mistake("the state fades after the read. Then the first read finds the "
            "given state unfaded, and the returned one has faded once too "
            "often.", fades_after),
    Mistake("each record is weighed by γ to the power of its own position, "
            "counted from the start: the newest counts least.",
            fades_from_start),
    *carried(retained),
    Mistake("the outputs are divided by the sum of the weights: retention "
            "has no denominator.", divided),
)


def unfaded_carry(answer):
    q, k, v, gamma, C = answer
    S = np.zeros((k.shape[1], v.shape[1]))
    return in_chunks(q, k, v, gamma, S, C, total=lambda n, C: 0)[0]


def invalid(answer):
    q, k, v, gamma, C = answer
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, np.ndarray) or x.ndim != 2 or not (
                np.isfinite(x).all() and 0 < x.size <= 10**5):
            return (f"{name} must be a finite array with two axes and at "
                    "most 100,000 numbers.")
    if q.shape != k.shape or len(v) != len(k):
        return "q and k must have one shape, and v as many rows."
    if not 0 < gamma <= 1:
        return f"gamma must lie in (0, 1]; it is {gamma}."
    if not isinstance(C, (int, np.integer)) or C < 1:
        return f"C must be a whole number of at least 1; it is {C}."
    return ""


EXERCISES = (
    Function("decay_mask", mask, mask_cases, (
        Mistake("it fades on both sides: above the diagonal, where the "
                "future is, it must be 0.", two_sided),
        Mistake("it is transposed: rows are queries, columns are keys.",
                lambda gamma, N: mask(gamma, N).T),
        Mistake("each weight is faded once too often: a token has not faded "
                "when it reads itself.",
                lambda gamma, N: mask(gamma, N, lambda n: n + 1)),
        Mistake("the diagonal is 0: a position sees itself, unfaded.",
                lambda gamma, N: mask(gamma, N, lowest=1)),
        Mistake("the diagonal is 0, and what lies before it has faded once "
                "too little.", lambda gamma, N: mask(
                    gamma, N, lambda n: n - 1, lowest=1)),
        Mistake("that is the causal mask alone: nothing fades.",
                lambda gamma, N: np.tri(N)),
        Mistake("every weight before the diagonal is γ: it fades once more "
                "at each further token.", one_step),
        Mistake("the power is counted from the start of the text, so that "
                "the newest counts least: it must be counted back from the "
                "reader.", of_columns),
        Mistake("the rows are normalised to sum to 1: retention has no "
                "denominator.", to_one),
        Mistake("it divides γ^i by γ^j, and on a long text both are 0.",
                ratio),
        Mistake("it multiplies γ^i by γ^−j. On a long text the first is 0 and "
                "the second infinite.", product),
        Mistake("above the diagonal the powers are negative; on a long text "
                "they are infinite, and 0 times that is NaN.", zero_times))),
    Value("an_eighth_left", 532, (
        Mistake("After 531 tokens a little more than an eighth is left.",
                531),
        Mistake("That is one half-life: there one half is left.", 178),
        Mistake("That is one half-life: there one half is left.", 177),
        Mistake("An eighth is three halvings, not eight.", 1417),
        Mistake("You took three e-foldings: after them e⁻³ is left.", 767),
        Mistake("You lost a 256th of the whole at each token; it is a 256th "
                "of what is left.", 224),
        Mistake("You lost a 256th of the whole at each token; it is a 256th "
                "of what is left.", 225),
        Mistake("That is the next head: h = 3 has γ = 1 − 2⁻⁸.", 1063),
        Mistake("That is the next head: h = 3 has γ = 1 − 2⁻⁸.", 1064),
        Mistake("That is the head before: h = 3 has γ = 1 − 2⁻⁸.", 266))),
    Function("retention", retained, state_cases, RULE, (
        Memory(6 * 2**20, lambda: inputs(2048, 0.97, 8, 8), "Keep S alone, "
               "and no N×N array: that is what the recurrence is for."),)),
    Function("retention_chunks", lambda C, **x: retained(**x), chunk_cases, (
        Mistake("from chunk to chunk the state does not fade.",
                chunks(total=lambda n, C: 0)),
        Mistake("from chunk to chunk the state fades by one γ; a chunk has "
                "as many as it has tokens.", chunks(total=lambda n, C: 1)),
        Mistake("the queries read the earlier chunks unfaded.",
                chunks(before=lambda i: 0 * i)),
        Mistake("the queries read the earlier chunks faded once too little: "
                "the first token of a chunk has faded the state too.",
                chunks(before=lambda i: i)),
        Mistake("the records of a chunk enter the state unfaded.",
                chunks(until=lambda i, n, C: 0 * i)),
        Mistake("the records of a chunk enter the state faded once too "
                "often: the last one is fresh.",
                chunks(until=lambda i, n, C: n - i)),
        Mistake("the records of a chunk enter the state faded the wrong way "
                "round: the last one is fresh, the first has faded most.",
                chunks(until=lambda i, n, C: i)),
        Mistake("the last chunk is shorter than C, and the state is faded "
                "there as if it were not.", chunks(total=lambda n, C: C)),
        Mistake("the last chunk is shorter than C, and its records are faded "
                "as if it were not.",
                chunks(until=lambda i, n, C: C - 1 - i)),
        Mistake("the last chunk is shorter than C, and is faded as if it "
                "were not.", chunks(total=lambda n, C: C,
                                    until=lambda i, n, C: C - 1 - i)),
        Mistake("inside a chunk nothing fades.", chunks(
            inside=lambda q, k, v, gamma: past(q, k, v, 1.0))),
        Mistake("inside its chunk a query sees later keys.",
                chunks(inside=sees_chunk)),
        Mistake("each chunk reads itself alone: nothing comes from before.",
                each_alone),
        Mistake("what came before the chunk is not kept: the state holds the "
                "last chunk alone.", chunks(carry=0)),
        Mistake("the chunk is added to the state before its queries read, "
                "and counts twice.", chunks(write_first=True)),
        Mistake("the last chunk, shorter than C, is left out.",
                drops_the_rest),
        Mistake("keys are multiplied by γ^−j. In a long chunk that is "
                "infinite, and γ^i is 0.", chunks(inside=by_ratio)),
        *(Mistake(m.says, without_C(m.answer)) for m in RULE)), (
        Memory(6 * 2**20, long, "Build C×C squares, never N×N."),
        Operations(long, "A chunk's tokens are handled by a few products "
                   "together, not one by one.", calls=32 * 40))),
    Counterexample(
        "exposes_unfaded_carry", lambda a: past(*a[:4]), unfaded_carry,
        invalid, (
            (lambda a: a[3] == 1, "With γ = 1 there is nothing to fade."),
            (lambda a: len(a[2]) <= a[4], "There is only one chunk: nothing "
             "is carried."),
            (lambda a: len(a[2]) <= 2 * a[4], "There are only two chunks. "
             "The state that the second one reads is right: it was zero "
             "before the first."),
            (lambda a: not np.abs(a[2]).max(), "Values that are all zero "
             "hide everything."),
            (lambda a: True, "What the first chunk wrote must be asked for "
             "in the third, or later, and be more than 1e-6 off."))),
)
