"""Mistakes people make in softmax attention, each as wrong weights."""

import numpy as np


def mistakes(rule, options, chunks):
    """Yield (words, wrong): wrong(inputs, state) gives (o, state)."""
    window = options.get("window")
    causal = options["causal"]

    def sees(i, j):
        return _sees(i, j, window, causal)

    for words, change in SCALES + ORDERS:
        yield words, _attention(sees, options, window, **change)
    if causal or window:
        for words, change in MASKS:
            yield words, _attention(sees, options, window, **change)
    if causal:
        yield ("it is not causal: every query sees every key, or the window "
               "reaches ahead.", _attention(lambda i, j: _sees(
                   i, j, window, False), options, window))
        yield ("the query's own position is hidden from it.", _attention(
            lambda i, j: sees(i, j) & (i != j), options, window))
        yield ("the mask is off by one: a query sees the key after its own.",
               _attention(lambda i, j: sees(i, j) | (j == i + 1), options,
                          window))
        yield ("the mask is upside down: a query sees the keys after it.",
               _attention(lambda i, j: sees(j, i), options, window))
    else:
        yield ("it is causal; what it claims to be is not (causal=False).",
               _attention(lambda i, j: _sees(i, j, window, True), options,
                          window))
    if window:
        yield from _windows(window, causal, options)
    for C in chunks:
        yield (f"queries see the keys of their own block of {C} alone.",
               _attention(lambda i, j, C=C: sees(i, j) & (i // C == j // C),
                          options, window))
        yield (f"the tokens after the last whole block of {C} are zero.",
               _attention(sees, options, window, whole=C))
    yield "the initial state is ignored.", _attention(
        sees, options, window, forgets=True)


def _windows(window, causal, options):
    for w, words in ((window + 1, "one too many"),
                     (window - 1, "one too few")):
        yield (f"the window is off by one: {w} keys instead of {window}, "
               f"{words} (w counts the query's own).", _attention(
                   lambda i, j, w=w: _sees(i, j, w, causal), options, w))
    yield ("the window is ignored: all keys are seen.", _attention(
        lambda i, j: _sees(i, j, None, causal), options, None))
    if causal:
        yield (f"the window reaches {window - 1} keys ahead as well.",
               _attention(lambda i, j: abs(i - j) < window, options, window))


def _sees(i, j, window, causal):
    """Whether query i sees key j: w keys, its own included."""
    seen = (j <= i) if causal else np.ones(np.broadcast_shapes(
        i.shape, j.shape), bool)
    if window is None:
        return seen
    if causal:
        return seen & (j > i - window)
    return (j >= i - window // 2) & (j <= i + (window - 1) // 2)


def _attention(sees, options, window, scale=lambda s, d, d_v: s,
               weights=None, swap=False, whole=None, forgets=False):
    def wrong(x, state):
        q, k, v = (x[name] for name in ("kqv" if swap else "qkv"))
        if state is not None and not forgets:
            k, v = (np.concatenate([y, z], 2) for y, z in
                    zip(state, (k, v)))
        d = q.shape[-1]
        right = options["scale"]
        right = d ** -.5 if right is None else right
        before = k.shape[2] - q.shape[2]
        i = before + np.arange(q.shape[2])[:, None]
        visible = sees(i, np.arange(k.shape[2]))
        s = scale(right, d, v.shape[-1]) * (q @ np.swapaxes(k, -1, -2))
        o = (weights or normalised)(s, visible) @ v
        if whole:
            o[:, :, o.shape[2] // whole * whole:] = 0
        last = slice(None) if window is None else slice(-window, None)
        return o, (k[:, :, last], v[:, :, last])
    return wrong


def normalised(s, visible):
    s = np.where(visible, s, -np.inf)
    with np.errstate(all="ignore"):
        p = np.exp(s - s.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)


def masked_late(s, visible):
    return normalised(s, True) * visible


def masked_by_zero(s, visible):
    return normalised(s * visible, True)


def over_queries(s, visible):
    s = np.where(visible, s, -np.inf)
    with np.errstate(all="ignore"):
        p = np.exp(s - s.max(-2, keepdims=True))
        return p / p.sum(-2, keepdims=True)


SCALES = (
    ("the scale is missing: the scores need 1/√d (or the scale given).",
     dict(scale=lambda s, d, d_v: 1)),
    ("the scale is applied twice.", dict(scale=lambda s, d, d_v: s * s)),
    ("the scale is 1/√d_v; it should be taken from the width of the keys.",
     dict(scale=lambda s, d, d_v: d_v ** -.5)),
    ("the scores are multiplied by √d, not divided.",
     dict(scale=lambda s, d, d_v: 1 / s)))

ORDERS = (
    ("the softmax runs over the queries, not over the keys.",
     dict(weights=over_queries)),
    ("there is no softmax: Q(KᵀV) is not softmax(QKᵀ)V.", dict(
        weights=lambda s, visible: s * visible)),
    ("the weights are exponentials that nothing divides.", dict(
        weights=lambda s, visible: np.exp(s) * visible)),
    ("all visible keys weigh the same.", dict(
        weights=lambda s, visible: normalised(0 * s, visible))),
    ("q and k are exchanged.", dict(swap=True)))

MASKS = (
    ("the mask comes after the softmax: the rows no longer sum to one.",
     dict(weights=masked_late)),
    ("hidden scores are set to 0, and exp(0) = 1: they should be −∞.",
     dict(weights=masked_by_zero)))
