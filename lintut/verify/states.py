"""Mistakes people make in a rule with a state, each as a few wrong lines.

All rules with a state are one loop here, over tokens t, with S (…, d, d_v),
k (…, d, 1), v (…, 1, d_v), the gate a (…, d or 1, 1) and the step b (…, 1, 1):

    S = a S;   S = S + k (b (v − kᵀS))  (delta rules)  or  S + k v;   o = qᵀS

For linear attention v has a column of ones beside it, so that z is the last
column of S.  A `Step` is what a mistake makes of those lines.
"""

import numpy as np

from . import steps
from .steps import read, right


def mistakes(rule, options, chunks):
    """Yield (words, wrong): wrong(inputs, state) gives (o, state)."""
    delta, gated = rule.name.endswith("delta"), rule.name != "delta" and (
        rule.name != "linear")
    groups = [EVERY]
    groups += [GATED] if gated else []
    groups += [DELTA] if delta else []
    groups += [GATED_DELTA] if rule.name == "gated_delta" else []
    for group in groups:
        for words, change in group:
            yield words, _run(rule, options, **change)
    if rule.name == "linear":
        for words, change in LINEAR:
            yield words, _run(rule, options, **change)
    plain = _run(rule, options)
    yield ("the returned state holds the new tokens only.", lambda x, state:
           (plain(x, state)[0], plain(x, None)[1]))
    yield ("the returned state is the one that it was given.",
           lambda x, state: (plain(x, state)[0], _given(plain, x, state)))
    yield ("the returned state lacks the last token.", lambda x, state:
           (plain(x, state)[0], plain({name: y[:, :, :-1] for name, y
                                       in x.items()}, state)[1]))
    for C in chunks:
        for words, make, where in CHUNKED:
            if where(rule.name):
                yield (words.replace("{C}", str(C)),
                       _run(rule, options, **make(C)))


def _run(rule, options, step=None, prepare=None, begin=None,
         divide=None, write=None, apart=None):
    """The loop, with some of its parts exchanged for wrong ones.

    `apart` makes a pair of feature maps, for q and for k, from the right one.
    """
    def wrong(x, state):
        if apart:
            x = x | {"maps": apart(options["feature_map"])}
        q, k, v, a, b, S = _columns(rule, options, x, state, prepare)
        if begin:
            S = begin(S)
        o = np.empty(v.shape[:3] + v.shape[4:])
        memory = {"delta": rule.name.endswith("delta"), "T": q.shape[2]}
        for t in range(q.shape[2]):
            now = [y[:, :, t] for y in (q, k, v, a, b)]
            S, o[:, :, t] = (step or right)(S, *now, t, memory)
        if write:
            o = write(o, q, S)
        return _result(rule, x, o, S, divide)
    return wrong


def _given(plain, x, state):
    """The initial state, zero if there is none."""
    if state is not None:
        return state
    S = plain(x, None)[1]
    return tuple(0 * y for y in S) if isinstance(S, tuple) else 0 * S


def _columns(rule, options, x, state, prepare):
    """q, k, v, a and b as columns, and the state as one matrix."""
    if prepare:
        x = prepare(x)
    q, k, v = x["q"], x["k"], x["v"]
    if rule.name == "linear":
        maps = x.get("maps", options["feature_map"])
        φ = maps if isinstance(maps, tuple) else (maps, maps)
        q, k = φ[0](q), φ[1](k)
        v = np.concatenate([v, np.ones((*v.shape[:-1], 1))], -1)
    one = np.ones((*q.shape[:3], 1))
    a = x.get("alpha", options.get("gamma", 1.0)) * (
        1 if rule.name == "gla" else one[..., 0])
    a = a if a.ndim == 4 else a[..., None]
    b = x["beta"][..., None] if "beta" in x else one
    S = np.zeros((*q.shape[:2], q.shape[-1], v.shape[-1]))
    if state is not None:
        S = (np.concatenate([state[0], state[1][..., None]], -1)
             if rule.name == "linear" else state)
    return (q[..., None], k[..., None], v[..., None, :], a[..., None],
            b[..., None], S)


def _result(rule, x, o, S, divide):
    if rule.name != "linear":
        return o, S
    with np.errstate(all="ignore"):
        total = divide(o) if divide else o[..., -1:]
        return o[..., :-1] / total, (S[..., :-1], S[..., -1])


# -- the lists ----------------------------------------------------------------

def with_(**changes):
    """`prepare`: some inputs exchanged, each computed from all of them."""
    return lambda x: x | {name: f(x) for name, f in changes.items()}


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def shifted(x, by):
    """Along t, the end repeated."""
    return np.concatenate(
        [x[:, :, :1], x[:, :, :-1]] if by > 0 else
        [x[:, :, 1:], x[:, :, -1:]], 2)


EVERY = (
    ("the state is read before the token is written: position t does not see "
     "itself.", dict(step=steps.read_first)),
    ("all tokens are written before the first is read: the past hears of the "
     "future.", dict(write=lambda o, q, S: read(S[:, :, None], q))),
    ("S is read as S q; with S of d×d_v the read is Sᵀq (o = qᵀS).",
     dict(step=steps.turned)),
    ("q and k are exchanged.", dict(prepare=with_(
        q=lambda x: x["k"], k=lambda x: x["q"]))),
    ("q is scaled by 1/√d, which this rule does not have.", dict(
        prepare=with_(q=lambda x: x["q"] / x["q"].shape[-1] ** .5))),
    ("each position reads its own token alone: the state starts anew at "
     "every step.", dict(step=steps.only_itself)),
    ("the initial state is ignored.", dict(begin=lambda S: 0 * S)),
    ("every batch entry reads what entry 0 wrote.", dict(prepare=with_(**{
        name: lambda x, name=name: np.broadcast_to(
            x[name][:1], x[name].shape) for name in "kv"}))))

GATED = (
    ("the gate is left out: nothing fades.",
     dict(step=steps.regated(np.ones_like))),
    ("the gate is applied twice in each step.",
     dict(step=steps.regated(np.square))),
    ("the gate is taken for a logarithm: the state is multiplied by its "
     "exponential.", dict(step=steps.regated(np.exp))),
    ("what is written is multiplied by 1 − the gate, as in a running mean; "
     "this rule writes the whole of it.", dict(step=steps.running_mean)),
    ("the gate is applied after the write: the new token fades at once (one "
     "power too many).", dict(step=steps.fade_last)),
    ("the old state is read as it was before this step's gate (one power too "
     "few).", dict(step=steps.read_unfaded)),
    ("token t is faded by the gate of token t−1.", dict(prepare=lambda x: x
     | ({"alpha": shifted(x["alpha"], 1)} if "alpha" in x else {}))),
    ("token t is faded by the gate of token t+1.", dict(prepare=lambda x: x
     | ({"alpha": shifted(x["alpha"], -1)} if "alpha" in x else {}))))

DELTA = (
    ("the value is written, not the error: nothing is read before the write.",
     dict(step=steps.written_as_is)),
    ("β multiplies the value alone; it belongs to the whole error.",
     dict(step=steps.step_on_value)),
    ("β multiplies the old value alone; it belongs to the whole error.",
     dict(step=steps.step_on_old)),
    ("β is left out.", dict(prepare=with_(
        beta=lambda x: np.ones_like(x["beta"])))),
    ("β is applied twice.", dict(prepare=with_(
        beta=lambda x: x["beta"] ** 2))),
    ("β goes through a sigmoid inside; it is given as it is used.",
     dict(prepare=with_(beta=lambda x: 1 / (1 + np.exp(-x["beta"]))))),
    ("k is brought to length 1 inside; the rule takes it as it is given.",
     dict(prepare=with_(k=lambda x: unit(x["k"])))),
    ("q and k are brought to length 1 inside; the rule takes them as they "
     "are given.", dict(prepare=with_(k=lambda x: unit(x["k"]),
                                      q=lambda x: unit(x["q"])))),
    ("the old value is added to the error, not taken away.",
     dict(step=steps.adds_old)),
    ("the error has the wrong sign: it is the value less what is read.",
     dict(step=steps.wrong_sign)),
    ("the old value is read with q, not with k.",
     dict(step=steps.old_by_query)),
    ("the whole state is multiplied by 1 − β: the old value should go from "
     "this key alone.", dict(step=steps.all_cleared)))

GATED_DELTA = (
    ("α is left out of the error: it is taken from the state before it "
     "fades.", dict(step=steps.error_unfaded)),
    ("α is applied twice to what is read for the error.",
     dict(step=steps.old_faded_twice)),
    ("α and β are exchanged.", dict(prepare=with_(
        alpha=lambda x: x["beta"], beta=lambda x: x["alpha"]))))


LINEAR = (
    ("nothing is divided: the read needs φ(q)·z below.",
     dict(divide=lambda o: 1)),
    ("the sum is divided by the number of tokens, not by φ(q)·z.", dict(
        divide=lambda o: np.arange(1, o.shape[2] + 1.)[:, None])),
    ("the feature map is left out: q and k are used as they are.", dict(
        prepare=with_(maps=lambda x: lambda y: y))),
    ("the feature map is ReLU, not the one claimed.", dict(
        prepare=with_(maps=lambda x: lambda y: np.maximum(y, 0)))),
    ("the feature map is ELU; it should be ELU + 1, above zero.", dict(
        prepare=with_(maps=lambda x: lambda y: np.where(
            y > 0, y, np.expm1(np.minimum(y, 0)))))),
    ("the feature map is applied to k and left out for q.", dict(
        apart=lambda φ: (lambda y: y, φ))),
    ("the feature map is applied to q and left out for k.", dict(
        apart=lambda φ: (φ, lambda y: y))),
    ("the feature map is exp, not the one claimed.", dict(
        prepare=with_(maps=lambda x: np.exp))),
    ("z is the sum over all tokens, not over those so far.", dict(
        write=lambda o, q, S: np.concatenate([o[..., :-1], read(
            S[:, :, None, :, -1:], q)], -1))),
    ("z of the initial state is ignored: the old tokens' weight is missing "
     "below.", dict(begin=lambda S: S * (np.arange(S.shape[-1])
                                          < S.shape[-1] - 1))),
    ("S of the initial state is ignored: the old values are missing above.",
     dict(begin=lambda S: S * (np.arange(S.shape[-1]) == S.shape[-1] - 1))))

def fades(name):
    return name in ("retention", "gla", "gated_delta")


# (words, what makes the step for C, the rules it belongs to)
CHUNKED = (
    ("each chunk of {C} starts from nothing: no state comes from the chunks "
     "before.", steps.alone, lambda name: True),
    ("z is not carried between chunks of {C}, S is.", steps.z_alone,
     lambda name: name == "linear"),
    ("the state at the start of a chunk of {C} is read without the fading "
     "inside the chunk.", steps.carried_unfaded,
     fades),
    ("the state at the start of a chunk of {C} is read with one gate too few: "
     "that of the position itself is left out.", steps.carried_late, fades),
    ("the state that a chunk of {C} starts with is handed to the next one "
     "without the fading of the whole chunk.", lambda C: steps.handed_on(
         C, True, False), fades),
    ("what a chunk of {C} writes is handed to the next one without the "
     "fading from there to the chunk's end.", lambda C: steps.handed_on(
         C, False, True), fades),
    ("the errors of a chunk of {C} are taken from the state that it starts "
     "with: they need one another (the WY transform).", steps.errors_at_start,
     lambda name: name.endswith("delta")),
    ("α is left out of the keys' overlaps inside a chunk of {C} (the WY "
     "transform).", steps.overlaps_unfaded,
     lambda name: name == "gated_delta"),
    ("the tokens after the last whole chunk of {C} are left out.",
     steps.rest_dropped, lambda name: True))
