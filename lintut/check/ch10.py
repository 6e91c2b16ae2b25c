"""The exercises of chapter 10: gated linear attention."""

import numpy as np

from .carried import carried
from .core import Case, Function, Mistake, Value
from .work import Memory, Operations


def inputs(N, d=4, d_v=3, strength=1):
    """Gates from 10^−strength to 1, some of them 1; a state to start from."""
    rng = np.random.default_rng([10, N, d, d_v])
    q, k = rng.normal(size=(2, N, d))
    alpha = 10.0 ** rng.uniform(-strength, 0, (N, d))
    return dict(q=q, k=k, v=rng.normal(size=(N, d_v)),
                alpha=np.where(rng.uniform(size=(N, d)) < 0.1, 1, alpha),
                S=rng.normal(size=(d, d_v)))


def state_cases():
    sizes = (1, 2, 3), (5, 3, 2), (17, 4, 3), (33, 3, 5)
    return [Case(f"N={N}, d={d}, d_v={d_v}", inputs(N, d, d_v))
            for N, d, d_v in sizes]


# -- the recurrence -----------------------------------------------------------

def after(alpha):
    """What is left of each row's record, by the gates of the later rows."""
    ones = np.ones((1, alpha.shape[1]))
    return np.cumprod(np.vstack([ones, alpha[:0:-1]]), axis=0)[::-1]


def gated(q, k, v, alpha, S):
    """The definition: each query through the gates between."""
    o = np.empty_like(v)
    for i in range(len(v)):
        seen = slice(i + 1)
        weights = (q[i] * k[seen] * after(alpha[seen])).sum(1)
        o[i] = weights @ v[seen] + (q[i] * alpha[seen].prod(0)) @ S
    return o, alpha.prod(0)[:, None] * S + (k * after(alpha)).T @ v


def steps(q, k, v, alpha, S, order="fade write read"):
    """Token by token, in an order that may be wrong."""
    o = np.empty_like(v)
    for t in range(len(v)):
        for what in order.split():
            if what == "fade":
                S = alpha[t][:, None] * S
            elif what == "write":
                S = S + np.outer(k[t], v[t])
            else:
                o[t] = q[t] @ S
    return o, S


def in_order(order):
    return lambda **x: steps(**x, order=order)


def other_gates(change):
    """The rule with gates made of the right ones."""
    return lambda alpha, **x: steps(alpha=change(alpha), **x)


def averaged(q, k, v, alpha, S):
    return steps(q, (1 - alpha) * k, v, alpha, S)


def everywhere(x):
    """One gate a token, for all channels."""
    return lambda alpha: np.broadcast_to(x(alpha), alpha.shape)


def shifted(alpha):
    return np.vstack([np.ones((1, alpha.shape[1])), alpha[:-1]])


RULE = (
    Mistake("nothing fades: that is the plain sum, all gates 1.",
            other_gates(np.ones_like)),
    Mistake("a token's gate fades its own record. It fades only what was "
            "there before the token wrote.", in_order("write fade read")),
    Mistake("the read comes before the write: a position does not see "
            "itself.", in_order("read fade write")),
    Mistake("the read comes between fading and writing: a position does not "
            "see itself.", in_order("fade read write")),
    Mistake("the gate is applied after the read: each record then passes its "
            "own gate, and misses the reader's.",
            in_order("write read fade")),
    Mistake("the gates are one token late: token t is given the gate of "
            "t − 1.", other_gates(shifted)),
    Mistake("all channels of a token fade alike, by the mean of its gates; "
            "each has its own.",
            other_gates(everywhere(lambda a: a.mean(1, keepdims=True)))),
    Mistake("all channels of a token fade alike, by the gate of the first; "
            "each has its own.", other_gates(everywhere(lambda a: a[:, :1]))),
    Mistake("all channels of a token fade alike, by the product of its "
            "gates; each has its own.",
            other_gates(everywhere(lambda a: a.prod(1, keepdims=True)))),
    Mistake("at each step the state is faded by the product of all gates so "
            "far: they have faded it already.",
            other_gates(lambda a: np.cumprod(a, axis=0))),
    Mistake("the new record is weighed by 1 − α: that is a running average; "
            "this rule writes it in full.", averaged),
    Mistake("the state forgets by 1 − α. A gate of 1 keeps everything.",
            other_gates(lambda a: 1 - a)),
    *carried(gated),
)

# -- padding ------------------------------------------------------------------


def padding_cases():
    texts = {"padding at the end": "1111100", "no padding": "11111",
             "padding in front": "00111111",
             "padding at both ends and in the middle": "0110001101100"}
    found = []
    for name, text in texts.items():
        x = inputs(len(text), 3, 2)
        del x["q"]
        found.append(Case(name, x | dict(
            real=np.array([letter == "1" for letter in text]))))
    return found


def of_text(k, v, alpha, real, S):
    return gated(k[real], k[real], v[real], alpha[real], S)[1]


def end(k, v, alpha, S, writes=True, fades=True):
    """The state where only some tokens write, and some fade."""
    return gated(k, k * np.reshape(writes, (-1, 1)), v,
                 np.where(np.reshape(fades, (-1, 1)), alpha, 1), S)[1]


def clears(k, v, alpha, real, S):
    return end(k, v, np.where(real[:, None], alpha, 0), S, real)


def stops(k, v, alpha, real, S):
    n = len(v) if real.all() else int(real.argmin())
    return end(k[:n], v[:n], alpha[:n], S)


def first_ones(k, v, alpha, real, S):
    n = real.sum()
    return end(k[:n], v[:n], alpha[:n], S)


# -- chunks -------------------------------------------------------------------

STRONG = ("All else is right. Here the product of a chunk's gates is below "
          "the smallest float64, and one over it infinite. No factor may be "
          "above 1: split each product between its two tokens, or take "
          "the difference of the two sums of logs before its exponential.")


def chunk_cases():
    sizes = (1, 1), (6, 2), (7, 3), (65, 16), (20, 64)
    found = [Case(f"N={N}, chunks of {C}", inputs(N) | {"C": C})
             for N, C in sizes]
    found.append(Case("gates from 1e-8 to 1, N=257, chunks of 100",
                      inputs(257, 3, 5, strength=8) | {"C": 100}, STRONG))
    few = inputs(150, 4, 2, strength=0.01) | {"C": 64}
    few["alpha"][[20, 25, 90, 91], [0, 0, 3, 3]] = 1e-200
    return found + [Case("gates near 1, but for two of 1e-200 in a chunk",
                         few, STRONG)]


def products(q, k, alpha, own=False, reader=True):
    """All W_ij of one chunk, through logs; `own` lets α_j in."""
    b = np.cumsum(np.log(alpha), axis=0)
    to, since = (b if reader else b - np.log(alpha),
                 b - np.log(alpha) if own else b)
    gap = np.minimum(to[:, None] - since, 0)
    return np.tril((q[:, None] * k * np.exp(gap)).sum(-1))


def in_chunks(q, k, v, alpha, S, C, inside=products,
              before=lambda a: np.cumprod(a, axis=0), until=after,
              total=lambda a: a.prod(0), carry=1, write_first=False):
    """The chunkwise form, with the products it is made of."""
    o = np.empty_like(v)
    for start in range(0, len(v), C):
        rows = slice(start, start + C)
        Q, K, V, A = q[rows], k[rows], v[rows], alpha[rows]
        new = (carry * np.reshape(total(A), (-1, 1)) * S
               + (K * until(A)).T @ V)
        o[rows] = inside(Q, K, A) @ V + (Q * before(A)) @ (
            new if write_first else S)
        S = new
    return o, S


def chunks(**changes):
    return lambda **x: in_chunks(**x, **changes)


def inside(**changes):
    return chunks(inside=lambda *x: products(*x, **changes))


def one_gate_inside(q, k, alpha):
    return products(q, k, np.broadcast_to(alpha.mean(1, keepdims=True),
                                          alpha.shape))


def unmasked(q, k, alpha):
    b = np.cumsum(np.log(alpha), axis=0)
    return (q[:, None] * k * np.exp(b[:, None] - b)).sum(-1)


def by_logs(q, k, alpha):
    b = np.cumsum(np.log(alpha), axis=0)
    return np.tril((q * np.exp(b)) @ (k * np.exp(-b)).T)


def by_products(q, k, alpha):
    b = np.cumprod(alpha, axis=0)
    return np.tril((q * b) @ (k / b).T)


def by_quotients(q, k, alpha):
    b = np.cumprod(alpha, axis=0)
    return np.tril((q[:, None] * k * (b[:, None] / b)).sum(-1))


def each_alone(q, k, v, alpha, S, C):
    parts = [gated(q[i:i + C], k[i:i + C], v[i:i + C], alpha[i:i + C], 0 * S)
             for i in range(0, len(v), C)]
    return np.concatenate([o for o, _ in parts]), parts[-1][1]


def drops_the_rest(q, k, v, alpha, S, C):
    n = len(v) // C * C
    o, end = np.zeros_like(v), S
    if n:
        o[:n], end = gated(q[:n], k[:n], v[:n], alpha[:n], S)
    return o, end


def without_C(answer):
    return lambda C, **x: answer(**x)


def long():
    return inputs(2048, 8, 8, strength=2) | {"C": 64}


OVERFLOWS = ("products of gates are divided by each other, or the "
             "exponential is taken of minus the sum of their logs. Over a "
             "chunk of strong gates that is 0 times infinity.")

EXERCISES = (
    Value("effective_weight", "7/2", (
        Mistake("Token 2's own gate is not in the product: it fades what was "
                "there before token 2 wrote.", "5/2"),
        Mistake("The reader's own gate is in the product: token 4 fades the "
                "state before it reads.", 13),
        Mistake("Token 3's gate is missing.", 8),
        Mistake("That is q₄ᵀk₂: nothing has faded.", 22),
        Mistake("Each channel fades by its own gates. You multiplied q₄ᵀk₂ by "
                "the gates of both.", "11/20"),
        Mistake("Each channel fades by its own gates. You multiplied q₄ᵀk₂ by "
                "their mean.", "143/40"),
        Mistake("The product begins after token 2; you began at token 1.",
                1),
        Mistake("That is token 2's own gate; those after it count.", 17),
        Mistake("That is the first channel alone.", 2),
        Mistake("That is the second channel alone.", "3/2"))),
    Function("gated", gated, state_cases, RULE, (
        Memory(6 * 2**20, lambda: inputs(2048, 8, 8), "Keep S alone, and no "
               "N×N array: that is what the recurrence is for."),)),
    Function("padded_state", of_text, padding_cases, (
        Mistake("padding writes nothing, but its gates still fade the "
                "state.", lambda real, **x: end(**x, writes=real)),
        Mistake("padding fades nothing, but it still writes.",
                lambda real, **x: end(**x, fades=real)),
        Mistake("padding writes and fades like any token.",
                lambda real, **x: end(**x)),
        Mistake("the gate of padding is 0: it clears the state. Which gate "
                "leaves it as it is?", clears),
        Mistake("all gates are 1: the tokens of the text must still fade the "
                "state.", lambda real, **x: end(**x, writes=real,
                                                fades=False)),
        Mistake("the text does not fade the state, and the padding does: the "
                "mask is the wrong way round.",
                lambda real, **x: end(**x, writes=real, fades=~real)),
        Mistake("it stops at the first padding; there may be text after it.",
                stops),
        Mistake("it takes as many tokens from the front as the text has; "
                "some of them are padding.", first_ones),
        Mistake("it starts from zero, whatever state it is given.",
                lambda S, **x: of_text(S=0 * S, **x)))),
    Function("gated_chunks", lambda C, **x: gated(**x), chunk_cases, (
        Mistake("from chunk to chunk the state does not fade.",
                chunks(total=lambda a: np.ones(a.shape[1]))),
        Mistake("from chunk to chunk the state fades by the last gates "
                "alone; a chunk has as many as it has tokens.",
                chunks(total=lambda a: a[-1])),
        Mistake("the queries read the earlier chunks unfaded.",
                chunks(before=np.ones_like)),
        Mistake("the queries read the earlier chunks without their own gate: "
                "it fades the state before they read.",
                chunks(before=lambda a: np.cumprod(shifted(a), axis=0))),
        Mistake("the records of a chunk enter the state unfaded.",
                chunks(until=np.ones_like)),
        Mistake("the records of a chunk enter the state faded by their own "
                "gates too: the last one is fresh.",
                chunks(until=lambda a: a * after(a))),
        Mistake("the records of a chunk enter the state faded by the gates "
                "before them; those after them count.",
                chunks(until=lambda a: np.cumprod(a, axis=0))),
        Mistake("inside a chunk nothing fades.",
                chunks(inside=lambda q, k, alpha: np.tril(q @ k.T))),
        Mistake("inside a chunk a record is faded by its own gate.",
                inside(own=True)),
        Mistake("inside a chunk the reader's own gate is missing.",
                inside(reader=False)),
        Mistake("inside a chunk each token has one gate for all channels.",
                chunks(inside=one_gate_inside)),
        Mistake("inside its chunk a query sees later keys.",
                chunks(inside=unmasked)),
        Mistake("each chunk reads itself alone: nothing comes from before.",
                each_alone),
        Mistake("what came before the chunk is not kept: the state holds the "
                "last chunk alone.", chunks(carry=0)),
        Mistake("the chunk is added to the state before its queries read, "
                "and counts twice.", chunks(write_first=True)),
        Mistake("the last chunk, shorter than C, is left out.",
                drops_the_rest),
        *(Mistake(OVERFLOWS, chunks(inside=f))
          for f in (by_logs, by_products, by_quotients)),
        *(Mistake(m.says, without_C(m.answer)) for m in RULE)), (
        Memory(12 * 2**20, long, "Hold one chunk's pairs at a time, never "
               "all N×N."),
        Operations(long, "A chunk's pairs are handled by a few operations "
                   "together, not one token, or one border, at a time.",
                   calls=32 * 160))),
)
