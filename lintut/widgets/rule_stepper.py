"""The rule stepper: the same tokens through several rules, side by side."""

import json
import re

import numpy as np
import traitlets

from lintut.reference import delta, gated_delta, gla, linear, retention

from . import assets
from ._base import Widget, table
from .stepper import _numbers, _same_shape, _typed

# The examples are the module's own.
PRESETS = json.loads(re.search(r"const PRESETS = (\{.*?\n\});",
                               assets.module("rule_stepper"), re.DOTALL)[1])
RULES = {"additive": "additive", "normalised": "normalised",
         "retention": "retention", "gla": "GLA", "delta": "delta",
         "gated_delta": "gated delta",
         "misplaced": "gated delta, error unfaded"}


class RuleStepper(Widget):
    """Write token t under several rules, then read; weights over the past.

    Parameters
    ----------
    preset : "two-then-five", "similar-keys", "long-gap" or "forget"
        An example; the arguments below replace its numbers.
    rules : names out of `RULES`, the cards to show
        "misplaced" is the gated delta rule with its error taken before the
        state has faded: a mistake, to be compared.
    step : int
        0 is the empty state, 2t−1 the write of token t, 2t its read.
    keys, queries : rows of numbers, shape (N, d)
    values : rows of numbers, shape (N, d_v); N ≤ 8, d and d_v ≤ 4
    gamma : a number in (0, 1], retention's
    channels : rows of numbers in (0, 1], shape (N, d), GLA's α; if alone
        left out, α at every channel
    alpha : N numbers in (0, 1], the gated delta rule's
    beta : N numbers in [0, 2], the delta rules'

    With new keys, gates left out are those of the preset's first token.
    """

    name = "rule_stepper"
    _esm = assets.module(name)

    # The numbers as texts, so that fractions stay fractions.
    k = traitlets.List().tag(sync=True)
    v = traitlets.List().tag(sync=True)
    q = traitlets.List().tag(sync=True)
    gamma = traitlets.Unicode().tag(sync=True)
    channels = traitlets.List().tag(sync=True)
    alpha = traitlets.List().tag(sync=True)
    beta = traitlets.List().tag(sync=True)
    rules = traitlets.List().tag(sync=True)
    preset = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, preset="two-then-five", rules=None, step=0, *,
                 keys=None, values=None, queries=None, gamma=None,
                 channels=None, alpha=None, beta=None):
        if preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}; "
                             f"it is {preset!r}")
        own = PRESETS[preset]
        rules = list(own["rules"] if rules is None else rules)
        if not rules or not set(rules) <= set(RULES):
            raise ValueError(f"rules must be some of {', '.join(RULES)}; "
                             f"they are {rules!r}")
        k, v, q = (own[name] if given is None else given for name, given in
                   (("k", keys), ("v", values), ("q", queries)))
        _same_shape(keys=_numbers("keys", k), values=_numbers("values", v),
                    queries=_numbers("queries", q))
        N, d = len(k), len(k[0])
        if channels is None and alpha is not None:
            channels = [[a] * d for a in alpha]
        fresh = keys is not None
        if channels is None:
            channels = ([[own["channels"][0][-1]] * d] * N if fresh
                        else own["channels"])
        alpha, beta = (
            given if given is not None else
            [own[name][0]] * N if fresh else own[name]
            for name, given in (("alpha", alpha), ("beta", beta)))
        gamma = own["gamma"] if gamma is None else gamma
        _gate("gamma", [[gamma]], (1, 1))
        _gate("alpha", [alpha], (1, N))
        _gate("channels", channels, (N, d))
        _gate("beta", [beta], (1, N), high=2, above=False)
        if step not in range(2 * N + 1):
            raise ValueError(f"step must be a whole number from 0 to "
                             f"{2 * N}; it is {step!r}")
        texts = {name: [[_typed(x) for x in row] for row in rows] for
                 name, rows in (("k", k), ("v", v), ("q", q),
                                ("channels", channels))}
        super().__init__(**texts, gamma=_typed(gamma),
                         alpha=[_typed(x) for x in alpha],
                         beta=[_typed(x) for x in beta], preset=preset,
                         rules=[name for name in RULES if name in rules],
                         step=step)

    def summary(self):
        return {"preset": self.preset, "rules": self.rules,
                "step": self.step, "tokens": len(self.k)}

    def outputs(self, rule):
        """o (N, d_v) of a rule in float64; None where it has no read."""
        k, v, q, channels = (_floats(x) for x in
                             (self.k, self.v, self.q, self.channels))
        alpha, beta = _floats([self.alpha, self.beta])
        if rule == "normalised":
            def read(t):
                return linear.recurrent(q[:t], k[:t], v[:t],
                                        feature_map=lambda x: x)[-1]
            total = (q * np.cumsum(k, 0)).sum(-1)
            return [read(t) if total[t - 1] > 0 else None
                    for t in range(1, len(k) + 1)]
        if rule == "misplaced":
            S, o = np.zeros((k.shape[1], v.shape[1])), []
            for t in range(len(k)):
                error = beta[t] * (v[t] - S.T @ k[t])
                S = alpha[t] * S + np.outer(k[t], error)
                o.append(S.T @ q[t])
            return o
        return {"additive": lambda: retention.recurrent(q, k, v, 1),
                "retention": lambda: retention.recurrent(
                    q, k, v, _floats(self.gamma)),
                "gla": lambda: gla.recurrent(q, k, v, channels),
                "delta": lambda: delta.recurrent(q, k, v, beta),
                "gated_delta": lambda: gated_delta.recurrent(
                    q, k, v, alpha, beta)}[rule]()

    def still(self):
        columns = [self.outputs(rule) for rule in self.rules]
        return table(
            "What each rule reads after each token",
            ["token", "q", *(RULES[rule] for rule in self.rules)],
            [[t, ", ".join(self.q[t - 1]),
              *("none" if o is None else ", ".join(map(_short, o))
                for o in reads)]
             for t, reads in enumerate(zip(*columns), 1)])


def _gate(name, rows, shape, high=1, above=True):
    """Numbers of that shape in (0, high], or [0, high]."""
    numbers = _numbers(name, rows)
    lengths = {len(row) for row in numbers}
    if len(numbers) != shape[0] or lengths != {shape[1]}:
        wanted = shape if shape[0] > 1 else shape[1:]
        raise ValueError(f"{name} must have shape {wanted}; "
                         f"it is {rows!r}")
    for x in (x for row in numbers for x in row):
        if x > high or x < 0 or (above and x == 0):
            raise ValueError(f"{name} must lie in {'(' if above else '['}0, "
                             f"{high}]; one entry is {x}")


def _floats(x):
    """Texts, nested or not, as float64."""
    return np.vectorize(lambda y: float(_numbers("x", [[y]])[0][0]))(
        np.array(x, object)).astype(np.float64)


def _short(x):
    return f"{round(x, 12) + 0.0:.4g}".replace("-", "−")
