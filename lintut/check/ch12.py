"""The exercises of chapter 12: Gated DeltaNet."""

import numpy as np

from .core import Case, Counterexample, Function, Mistake, Value
from .work import Memory, Operations


def inputs(N, d=4, d_v=3, seed=0, least=0.3):
    """Gates from `least` to 1, β up to 2 within the stable range, a state."""
    rng = np.random.default_rng([12, N, d, d_v, seed])
    k = rng.normal(size=(N, d))
    k *= rng.uniform(0.6, 1.3, (N, 1)) / np.linalg.norm(
        k, axis=1, keepdims=True)
    beta = rng.uniform(0.1, 2, N) / np.maximum(1, (k * k).sum(1))
    return dict(q=rng.normal(size=(N, d)), k=k, v=rng.normal(size=(N, d_v)),
                alpha=least ** rng.uniform(0, 1, N), beta=beta,
                S=rng.normal(size=(d, d_v)))


def cases():
    return [Case(f"N={N}, d={d}, d_v={d_v}", inputs(N, d, d_v))
            for N, d, d_v in ((1, 2, 3), (5, 2, 2), (17, 4, 3), (33, 3, 5))]


def chunk_cases():
    sizes = ((1, 1), (6, 2), (7, 3), (65, 16), (20, 64))
    return [Case(f"N={N}, chunks of {C}", inputs(N) | {"C": C})
            for N, C in sizes] + [
        Case("N=60, chunks of 50, gates that nearly close",
             inputs(60, least=1e-40) | {"C": 50})]


def long():
    return inputs(2048, 8, 8) | {"C": 64}


# -- the right answer, as a product of matrices ------------------------------

def gated(q, k, v, alpha, beta, S, C=None):
    o = np.empty_like(v)
    for t in range(len(v)):
        P = alpha[t] * (np.eye(len(S)) - beta[t] * np.outer(k[t], k[t]))
        S = P @ S + beta[t] * np.outer(k[t], v[t])
        o[t] = S.T @ q[t]
    return o, S


# -- mistakes that people make ------------------------------------------------

def loop(step):
    """The recurrence with `step(S, k, v, α, β)` for its new state."""
    def run(q, k, v, alpha, beta, S, C=None):
        o = np.empty_like(v)
        for t in range(len(v)):
            S = step(S, k[t], v[t], alpha[t], beta[t])
            o[t] = q[t] @ S
        return o, S
    return run


def put(k, e):
    return np.outer(k, e)


unfaded = loop(lambda S, k, v, a, b: a * S + put(k, b * (v - k @ S)))
fade_last = loop(lambda S, k, v, a, b: a * (S + put(k, b * (v - k @ S))))
only_error = loop(lambda S, k, v, a, b: S + put(k, b * (v - a * k @ S)))
no_gate = loop(lambda S, k, v, a, b: S + put(k, b * (v - k @ S)))
no_correction = loop(lambda S, k, v, a, b: a * S + put(k, b * v))
no_beta = loop(lambda S, k, v, a, b: a * S + put(k, v - a * k @ S))
beta_on_value = loop(
    lambda S, k, v, a, b: a * S + put(k, b * v - a * k @ S))
gate_on_write = loop(
    lambda S, k, v, a, b: a * S + (1 - a) * put(k, b * (v - a * k @ S)))


def reads_first(q, k, v, alpha, beta, S, C=None):
    end = gated(q, k, v, alpha, beta, S)[1]
    before = [gated(*(x[:t] for x in (q, k, v, alpha, beta)), S)[1]
              for t in range(len(v))]
    return np.einsum("td,tde->te", q, before), end


def reads_faded(q, k, v, alpha, beta, S, C=None):
    """Between fading and writing."""
    end = gated(q, k, v, alpha, beta, S)[1]
    return alpha[:, None] * reads_first(q, k, v, alpha, beta, S)[0], end


def from_nothing(q, k, v, alpha, beta, S, C=None):
    return gated(q, k, v, alpha, beta, 0 * S)


def returns_old_state(q, k, v, alpha, beta, S, C=None):
    return gated(q, k, v, alpha, beta, S)[0], S.copy()


def left(alpha, ratio=False):
    """D_ij = α_{j+1} … α_i and F_i = α_1 … α_i of one chunk."""
    n, F = len(alpha), np.cumprod(alpha)
    if ratio:
        return np.tril(F[:, None] / F), F
    inside = np.where(np.tri(n, k=-1) > 0, alpha[:, None], 1)
    return np.tril(np.cumprod(inside, 0)), F


def chunks(overlaps=True, old=True, pairs=True, ratio=False, write=True):
    """The gated chunk with some of its gates left out."""
    def run(q, k, v, alpha, beta, S, C):
        o = np.empty_like(v)
        for start in range(0, len(v), C):
            r = slice(start, start + C)
            Q, K, V, b = q[r], k[r], v[r], beta[r, None]
            D, F = left(alpha[r], ratio)
            ones = np.tri(len(K))
            L = np.tril(b * (K @ K.T) * (D if overlaps else ones), -1)
            E = np.linalg.solve(
                np.eye(len(K)) + L,
                b * (V - (F[:, None] if old else 1) * (K @ S)))
            o[r] = (F[:, None] * (Q @ S)
                    + (Q @ K.T * (D if pairs else ones)) @ E)
            S = F[-1] * S + (D[-1][:, None] * K if write else K).T @ E
        return o, S
    return run


def chunk_alone(q, k, v, alpha, beta, S, C):
    parts = [gated(*(x[i:i + C] for x in (q, k, v, alpha, beta)), S)
             for i in range(0, len(v), C)]
    return np.concatenate([o for o, _ in parts]), parts[-1][1]


STEP = (
    Mistake("α is left out of the error: the old value is read before the "
            "state fades. Fade first, and read what is left.", unfaded),
    Mistake("the state is corrected first and faded afterwards, the new "
            "record with it.", fade_last),
    Mistake("the error reads a faded state, but the state itself keeps all "
            "of the old.", only_error),
    Mistake("nothing fades: the gate plays no part.", no_gate),
    Mistake("β·v is added to what is left, whatever the key holds: that is a "
            "gate without a correction.", no_correction),
    Mistake("β is missing: the whole error is written.", no_beta),
    Mistake("β multiplies v alone; it belongs to the error.", beta_on_value),
    Mistake("the write is multiplied by 1 − α; the size of the step is β's "
            "affair.", gate_on_write),
    Mistake("the output is read before the token has faded and written.",
            reads_first),
    Mistake("the output is read after fading, before the write.",
            reads_faded),
    Mistake("it starts from zero, whatever state it is given.",
            from_nothing),
    Mistake("it returns the state that it was given.", returns_old_state),
)


# -- an input for two orders --------------------------------------------------

def directions(answer, last):
    """Each output scaled to length 1; `last`: faded after correcting."""
    q, k, v, alpha, beta = answer
    zero = np.zeros((k.shape[1], v.shape[1]))
    o = (fade_last if last else gated)(q, k, v, alpha, beta, zero)[0]
    return o / np.linalg.norm(o, axis=1, keepdims=True)


def invalid(answer):
    q, k, v, alpha, beta = answer
    for name, x, axes in (("q", q, 2), ("k", k, 2), ("v", v, 2),
                          ("alpha", alpha, 1), ("beta", beta, 1)):
        if not isinstance(x, np.ndarray) or x.ndim != axes or not (
                np.isfinite(x).all()):
            return (f"{name} must be a finite array with {axes} "
                    f"ax{'is' if axes == 1 else 'es'}.")
    if q.shape != k.shape or not (
            len(k) == len(v) == len(alpha) == len(beta) > 0):
        return ("q and k must have one shape, and v, alpha and beta as many "
                "rows.")
    if alpha.min() <= 0 or alpha.max() > 1:
        return "alpha must lie in (0, 1]."
    share = beta * (k * k).sum(1)
    if share.min() < 0 or share.max() > 2:
        return "β‖k‖² must lie between 0 and 2."
    with np.errstate(all="ignore"):
        if not all(np.isfinite(directions(answer, x)).all()
                   for x in (False, True)):
            return "an output is zero, and has no direction."
    return ""


def table(**changed):
    """The five ends of `special_cases`, some of them changed."""
    right = dict(a=[8, 16], b=[1, 2], c=[6, 16], d=[6, 2], e=["25/4", 16])
    return list((right | changed).values())


EXERCISES = (
    Value("by_hand", ["16/5", "13/5"], (
        Mistake("You read the old value before fading: α belongs into the "
                "error.", ["13/5", "9/5"]),
        Mistake("You corrected first and faded afterwards.",
                ["23/10", "7/5"]),
        Mistake("Nothing has faded in that.", ["23/5", "14/5"]),
        Mistake("β is missing: half of the error is written.",
                ["22/5", "21/5"]),
        Mistake("You added β·v without taking off what the key holds.",
                ["19/5", "17/5"]),
        Mistake("That is what is written; it joins what is left of the old "
                "state.", ["6/5", "8/5"]),
        Mistake("You wrote the error into both rows whole; each gets it "
                "times its entry of the key.", [4, 3]))),
    Function("recurrence", gated, cases, STEP),
    Value("special_cases", table(), (
        Mistake("With β = 0 nothing is written at all: the rule does not "
                "become the sum.", table(a=[26, 16], b=["23/2", 2])),
        Mistake("In the fourth, the value that was just written fades too: "
                "fade first, then correct.", table(d=[3, 2])),
        Mistake("In the fourth, α is missing from the error: the key does "
                "not end up with its value.", table(d=["7/2", 2])),
        Mistake("In the fourth, the gate fades the whole state, also the row "
                "that nobody writes.", table(d=[6, 16])),
        Mistake("That is the state after one token; there are three.",
                [[8, 16], [4, 8], [6, 16], [6, 8], [7, 16]]),
        Mistake("You added the values: the error takes off what the key "
                "holds already.",
                table(c=[26, 16], d=["23/2", 2], e=[17, 16])),
        Mistake("In the last, half of the error is written three times, not "
                "once.", table(e=[7, 16])))),
    Function("mended", gated, chunk_cases, (
        Mistake("the errors know nothing of the gates: what they subtract "
                "must have faded.", chunks(overlaps=False, old=False)),
        Mistake("the errors fade what the chunk wrote, but not the state "
                "before it.", chunks(old=False)),
        Mistake("the errors fade the state before the chunk, but not what "
                "the chunk itself wrote.", chunks(overlaps=False)),
        Mistake("the output's pairs are not faded.", chunks(pairs=False)),
        Mistake("the errors are not faded on their way into the next state.",
                chunks(write=False)),
        Mistake("what is left is a ratio of two products: both reach zero, "
                "and 0/0 is not a number.", chunks(ratio=True)),
        Mistake("every chunk starts from the first state: nothing is "
                "carried on.", chunk_alone)) + STEP, (
        Memory(6 * 2**20, long, "Build C×C squares, never N×N."),
        Operations(long, "Keep the chunks: a loop over tokens is not what "
                   "is to be mended.", calls=32 * 120))),
    Counterexample(
        "exposes_order", lambda a: directions(a, False),
        lambda a: directions(a, True), invalid, (
            (lambda a: len(a[3]) == 1, "One token from an empty state: "
             "fading afterwards is a factor, which the norm takes out."),
            (lambda a: np.ptp(a[3]) == 0, "From zero, and with one gate for "
             "all tokens, the two states differ by a factor alone, which the "
             "norm takes out."),
            (lambda a: a[2].shape[1] == 1, "An output of one number keeps "
             "nothing but its sign."),
            (lambda a: True, "Let a later output mix its own value with "
             "older ones that have faded by other gates."))),
)
