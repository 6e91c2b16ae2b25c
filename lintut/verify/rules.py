"""The rules that a function may claim, their inputs and their definitions.

All arrays here are float64 and (B, H, T, ·), gates (B, H, T) or
(B, H, T, d), S (B, H, d, d_v), z (B, H, d).
"""

from dataclasses import dataclass

import numpy as np

from lintut.reference import (delta, gated_delta, gla, linear, retention,
                              sliding_window, softmax)
from lintut.reference.feature_maps import elu_plus_one


@dataclass(frozen=True)
class Rule:
    """A rule: its module in `lintut.reference`, and what it takes.

    `state` is "KV", "S" or "Sz"; `options` are constants, with defaults;
    `short_keys` says that the state stays bounded for such keys alone.
    """
    name: str
    module: object
    state: str
    gates: tuple = ()
    options: tuple = ()
    short_keys: bool = False

    def inputs(self, T, d, d_v, lead=(2, 3), seed=0):
        """Random q, k, v and gates by name; nothing constant, all varied."""
        rng = np.random.default_rng([seed, T, d, d_v])
        x = {name: rng.normal(size=(*lead, T, width))
             for name, width in zip("qkv", (d, d, d_v))}
        if "alpha" in self.gates:
            shape = (*lead, T, d) if self.name == "gla" else (*lead, T)
            x["alpha"] = .99 * .2 ** rng.random(shape) ** 2
        if "beta" in self.gates:
            x["beta"] = rng.uniform(.1, 1, (*lead, T))
        if self.short_keys:         # not of length 1: β‖k‖² < 2 is enough
            x["k"] *= rng.uniform(.7, 1.2, (*lead, T, 1)) / np.linalg.norm(
                x["k"], axis=-1, keepdims=True)
        return x

    def start(self, d, d_v, lead=(2, 3), seed=0, options=None):
        """A state that has seen something: not zero, not symmetric."""
        x = self.inputs(7, d, d_v, lead, seed + 100)
        return self.define(x, None, options)[1]

    def define(self, x, state, options):
        """(o, state) by the definition; without a state if not causal."""
        options = dict(options)
        causal = options.pop("causal", True)
        if not causal:
            return self.module.parallel(**x, **options, causal=False), None
        o, after = self.module.recurrent(**x, **options, initial_state=state,
                                         return_state=True)
        if state is None:                   # from the explicit weights
            more = ({"causal": True} if "causal" in dict(self.options) else {})
            o = self.module.parallel(**x, **options, **more)
        return o, after


RULES = {rule.name: rule for rule in (
    Rule("softmax", softmax, "KV",
         options=(("causal", False), ("scale", None))),
    Rule("sliding_window", sliding_window, "KV",
         options=(("window", 8), ("causal", True), ("scale", None))),
    Rule("linear", linear, "Sz",
         options=(("feature_map", elu_plus_one), ("causal", True))),
    Rule("retention", retention, "S", options=(("gamma", .9),)),
    Rule("gla", gla, "S", gates=("alpha",)),
    Rule("delta", delta, "S", gates=("beta",), short_keys=True),
    Rule("gated_delta", gated_delta, "S", gates=("alpha", "beta"),
         short_keys=True))}


def find(name, options):
    """The rule of that name, and its options with their defaults."""
    if name not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}; "
                         f"it is {name!r}")
    rule = RULES[name]
    known = dict(rule.options)
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option}; it has "
                             + (", ".join(known) or "none"))
        if option == "gamma" and np.ndim(options[option]):
            raise ValueError("gamma must be one number, the same for all "
                             "heads: how many there are is tried out; it is "
                             f"{options[option]!r}")
    return rule, known | options


@dataclass
class Case:
    """One input, by name, and what the definition makes of it."""
    name: str
    inputs: dict
    state: object
    right: tuple            # (o, state)

    @property
    def T(self):
        return self.inputs["q"].shape[2]


def case(rule, options, T, d, d_v, lead, begin=False, seed=0):
    """The case of length T, with an initial state if `begin`."""
    x = rule.inputs(T, d, d_v, lead, seed)
    state = rule.start(d, d_v, lead, seed, options) if begin else None
    return Case(f"T={T}" + (" from a state" if begin else ""), x, state,
                rule.define(x, state, options))
