"""The chooser: what you need in, what fits and why the rest does not out."""

from dataclasses import asdict

import traitlets

from lintut import cost, hardware
from lintut.reference._checks import count

from . import assets
from ._base import Widget, table
from .cost_explorer import FIXED, FORMS, LABELS, _formulas

NEEDS = {
    "same": "equal softmax attention",
    "causal": "generate: no token sees a later one",
    "recall": "give back any one of n facts, however old",
    "far": "hear of the whole past in one layer",
    "overwrite": "replace a fact when its key comes again",
    "drop": "drop old context when the input says so",
}
LIMITS = {
    "memory": "between two tokens, MiB",
    "time": "memory time a token, µs",
    "training": "kept for the backward pass, MiB",
}
SIZES = dict(N=32768, d=64, heads=16, layers=24, batch=1, w=1024, n=1000)
MOST = dict(N=2 ** 20, d=512, heads=256, layers=256, batch=1024, w=2 ** 20,
            n=2 ** 20)

# Which mechanisms a candidate is made of, and how many heads each has in all.
ALL = "layers*heads"
QUARTER, HALF = "ceil(layers/4)", "ceil(layers/2)"
PARTS = {name: {name: ALL} for name in LABELS} | {
    "hybrid": {"sliding_window": "layers*ceil(heads/2)",
               "linear": "layers*floor(heads/2)"},
    "mixed_window": {"sliding_window": f"{HALF}*heads",
                     "gated_delta": f"(layers-{HALF})*heads"},
    "mixed_full": {"flash": f"{QUARTER}*heads",
                   "gated_delta": f"(layers-{QUARTER})*heads"},
}
NAMES = LABELS | {
    "softmax": "softmax, weights stored",
    "hybrid": "window heads + linear heads",
    "mixed_window": "window layers + Gated DeltaNet layers",
    "mixed_full": "1 full layer in 4, Gated DeltaNet in 3",
}

# -- what each can do: (when, verdict, why), the first that holds -------------

YES, PART, NO = "yes", "part", "no"
WIDE = ("w>=N", YES, "The window is as wide as the sequence.")


def _always(verdict, why):
    return [("1", verdict, why)]


def _room(width, why):
    """Facts in a state of so many directions."""
    return [(f"n<={width}", PART, why),
            ("1", NO, "n facts share a state of "
             f"{'r' if width == 'r' else 'd'} directions: they disturb one "
             "another.")]


LEFT_OUT = "It leaves pairs out."
OTHER = "Its weights are not softmax's."
KEPT = "Every key and value is kept."
BOTH = ("Both values stay; the model must learn to prefer the later one by "
        "its position.")
LOOK_AWAY = "All of it stays; the model must learn to look away."
APART = "Only if the model learns n keys that stay apart."
AHEAD = "With its causal pattern; the original also looks ahead."

DENSE = {
    "same": _always(YES, "The same pairs and the same weights."),
    "causal": _always(YES, "With the causal mask."),
    "recall": _always(YES, KEPT),
    "far": _always(YES, KEPT),
    "overwrite": _always(PART, BOTH),
    "drop": _always(PART, LOOK_AWAY),
}
SPARSE = {
    "same": [WIDE, *_always(NO, LEFT_OUT)],
    "causal": _always(PART, AHEAD),
    "recall": [WIDE, *_always(NO, "In one layer it does not meet most old "
                              "tokens.")],
    "far": [WIDE, *_always(PART, "Through its global tokens.")],
    "overwrite": _always(PART, BOTH),
    "drop": _always(PART, LOOK_AWAY),
}
KERNEL = {
    "same": _always(NO, OTHER),
    "causal": _always(YES, "The past is a sum; the future is not yet in it."),
    "recall": _room("r", APART),
    "far": _always(YES, "In a sum that all tokens share."),
    "overwrite": _always(NO, "Old and new are averaged."),
    "drop": _always(NO, "A sum takes nothing back."),
}
RULE = KERNEL | {
    "causal": _always(YES, "Its state holds the past alone."),
    "recall": _room("d", APART),
}
GATED = {
    "far": _always(PART, "As far as the gates let it."),
    "drop": _always(YES, "A gate near 0 clears the state."),
}
CORRECTED = {
    "overwrite": _always(YES, "With a unit key and β = 1 the key then holds "
                         "the new value."),
}

FACTS = {
    "softmax": DENSE,
    "flash": DENSE,
    "sliding_window": DENSE | {
        "same": [WIDE, *_always(NO, LEFT_OUT)],
        "recall": [WIDE, *_always(NO, "A fact older than w tokens is gone.")],
        "far": [WIDE, *_always(NO, "What is older than w tokens is heard of "
                               "only through other layers.")],
        "drop": [("w>=N", PART, LOOK_AWAY),
                 *_always(PART, "After w tokens, whatever they held.")]},
    "longformer": SPARSE,
    "bigbird": SPARSE | {
        "same": _always(NO, LEFT_OUT),
        "recall": _always(NO, SPARSE["recall"][-1][2]),
        "far": _always(PART, SPARSE["far"][-1][2])},
    "linformer": {
        "same": _always(NO, "It attends to mixtures of tokens."),
        "causal": _always(NO, "Its slots mix the whole sequence, the future "
                          "too."),
        "recall": _always(NO, "Tokens in one slot cannot be told apart."),
        "far": _always(YES, "Each slot mixes all positions."),
        "overwrite": _always(NO, "Old and new share their slots."),
        "drop": _always(NO, "The slots are the same whatever is said.")},
    "linear": KERNEL,
    "performer": KERNEL | {
        "same": _always(NO, "It estimates softmax's weights, with an error "
                        "that grows with the lengths of q and k.")},
    "retention": RULE | {
        "recall": _room("d", "Only if n learned keys stay apart, and while "
                        "the decay leaves enough of them."),
        "far": _always(PART, "With the weight γ to the power of the age."),
        "overwrite": _always(NO, "Old and new add up, the old a little "
                             "faded."),
        "drop": _always(PART, "At a fixed rate, whatever is said.")},
    "gla": RULE | GATED | {
        "overwrite": _always(NO, "A gate fades a whole row of the state, not "
                             "one key's fact.")},
    "delta": RULE | CORRECTED | {
        "far": _always(YES, "Until its key is written again."),
        "drop": _always(NO, "Only key by key, by writing over it.")},
    "gated_delta": RULE | GATED | CORRECTED,
    "hybrid": KERNEL | {
        "causal": _always(YES, "Both kinds of heads are causal."),
        "recall": [WIDE, *_room("r", "Within the window yes; further back "
                                "only if n learned keys stay apart.")],
        "far": _always(YES, "Through its linear heads."),
        "overwrite": _always(NO, "Its linear heads average old and new."),
        "drop": _always(NO, "Its linear heads take nothing back.")},
    "mixed_window": RULE | CORRECTED | {
        "recall": [WIDE, *_room("d", "Within the window yes; further back "
                                "only if n learned keys stay apart.")],
        "far": _always(PART, "Its Gated DeltaNet layers, as far as the gates "
                       "let them."),
        "overwrite": _always(YES, "In its Gated DeltaNet layers."),
        "drop": _always(YES, "Gates clear the states; the window empties "
                        "within w tokens.")},
    "mixed_full": RULE | CORRECTED | {
        "recall": _always(YES, "Its full layers keep every key and value."),
        "far": _always(YES, "Through its full layers."),
        "overwrite": _always(YES, "In its Gated DeltaNet layers."),
        "drop": _always(PART, "Its gates clear the states; its full layers "
                        "keep everything.")},
}

PRESETS = {
    "a trained model, served faster": dict(
        needs=["same", "causal"], limits={}),
    "a stream without an end": dict(
        needs=["causal", "far"], limits={"memory": 64}),
    "facts that change": dict(
        needs=["causal", "overwrite", "drop"], limits={"memory": 64}),
    "look up anything said": dict(
        needs=["causal", "recall"], limits={}),
    "look up anything, with a quarter of the cache": dict(
        needs=["causal", "recall"], limits={"memory": 800}),
    "whole documents, nothing generated": dict(
        needs=["far"], limits={"training": 8192}),
}
REST = dict(FIXED, m=256, C=64)


def _data():
    """The candidates, with formulas and the words of their verdicts."""
    forms = _formulas()
    for name, form in forms.items():
        mechanism = cost.MECHANISMS["softmax" if name == "flash" else name]
        form["saved"] = mechanism.forms[
            FORMS.get(name, next(iter(mechanism.forms)))].saved
    candidates = {name: dict(label=label, parts=PARTS[name],
                             facts={need: [list(fact) for fact in facts]
                                    for need, facts in FACTS[name].items()})
                  for name, label in NAMES.items()}
    return forms, candidates


class Chooser(Widget):
    """Which attentions meet what you need, and why the others do not.

    Parameters
    ----------
    needs : some of `NEEDS`
    device : a row of `lintut.hardware`: its bandwidth gives the time a token
    memory, time, training : int or None, limits of `LIMITS`
    **sizes : N, d (= d_v = r), heads, layers, batch, w and n, the facts to
        recall
    """

    name = "chooser"
    _esm = assets.module(name)

    needs = traitlets.List().tag(sync=True)
    limits = traitlets.Dict().tag(sync=True)
    sizes = traitlets.Dict().tag(sync=True)
    device = traitlets.Unicode().tag(sync=True)
    words = traitlets.Dict().tag(sync=True)
    most = traitlets.Dict().tag(sync=True)
    rest = traitlets.Dict().tag(sync=True)
    formulas = traitlets.Dict().tag(sync=True)
    candidates = traitlets.Dict().tag(sync=True)
    devices = traitlets.Dict().tag(sync=True)
    presets = traitlets.Dict().tag(sync=True)

    def __init__(self, needs=("causal", "recall"), device="A100-80",
                 memory=800, time=None, training=None, **sizes):
        unknown = set(sizes) - set(SIZES)
        if unknown or set(needs) - set(NEEDS):
            raise ValueError(f"sizes must be among {', '.join(SIZES)} and "
                             f"needs among {', '.join(NEEDS)}; they are "
                             f"{list(sizes)} and {list(needs)}")
        sizes = SIZES | sizes
        limits = dict(memory=memory, time=time, training=training)
        for name, value in (sizes | limits).items():
            if value is None and name in limits:
                continue
            if count(name, value) > MOST.get(name, 10 ** 9):
                raise ValueError(f"{name} must be at most "
                                 f"{MOST.get(name, 10 ** 9)}; it is {value}")
        hardware.device(device)
        formulas, candidates = _data()
        super().__init__(
            needs=list(needs), limits=limits, sizes=sizes, device=device,
            words=dict(needs=NEEDS, limits=LIMITS), most=MOST, rest=REST,
            formulas=formulas, candidates=candidates, presets=PRESETS,
            devices={name: {key: asdict(row)[key] for key in
                            ("bandwidth", "shared")}
                     for name, row in hardware.DEVICES.items()})

    def costs(self, name):
        """{metric: value} of one candidate, by `lintut.cost`."""
        s, total = self.sizes, {}
        for part, heads in PARTS[name].items():
            c = cost.of(part, FORMS.get(part), N=s["N"], d=s["d"], w=s["w"],
                        batch=s["batch"], causal=part != "linformer",
                        on_chip=hardware.device(self.device).shared,
                        **{key: REST[key] for key in REST
                           if key != "on_chip"})
            for metric in ("prefill_flops", "saved_bytes", "decode_bytes",
                           "state_bytes"):
                value = getattr(c, metric)
                total[metric] = None if value is None else (
                    total.get(metric, 0) + value * cost.evaluate(heads, s))
        return total

    def verdict(self, name, need):
        """(verdict, why): "yes", "part" or "no" at the present sizes."""
        s = self.sizes | {"r": self.sizes["d"]}
        return next((verdict, why) for when, verdict, why
                    in FACTS[name][need] if cost.evaluate(when, s))

    def assess(self):
        """{candidate: (costs, what it breaks, what to mind)}."""
        bandwidth = hardware.device(self.device).bandwidth
        result = {}
        for name in NAMES:
            c, broken, minded = self.costs(name), [], []
            for need in self.needs:
                verdict, why = self.verdict(name, need)
                {YES: [], PART: minded, NO: broken}[verdict].append(need)
            for limit, metric, unit in (
                    ("memory", "state_bytes", 2 ** 20),
                    ("time", "decode_bytes", bandwidth / 1e6),
                    ("training", "saved_bytes", 2 ** 20)):
                most = self.limits[limit]
                if most is not None and (c[metric] is None
                                         or c[metric] > most * unit):
                    broken.append(limit)
            result[name] = c, broken, minded
        return result

    def summary(self):
        return {"needs": self.needs,
                **{k: v for k, v in self.limits.items() if v is not None}}

    def still(self):
        s, words = self.sizes, NEEDS | LIMITS
        rows = []
        for name, (c, broken, minded) in self.assess().items():
            state = c["state_bytes"]
            rows.append([
                NAMES[name], "none" if state is None
                else cost.bytes_text(state), cost.bytes_text(c["saved_bytes"]),
                "no: " + "; ".join(words[b] for b in broken) if broken
                else "fits" + "".join(f"; mind: {words[m]}" for m in minded)])
        limits = "; ".join(f"at most {value:,} {LIMITS[name]}"
                           for name, value in self.limits.items() if value)
        return table(
            f"Needed: {'; '.join(NEEDS[need] for need in self.needs)}. "
            f"{limits.capitalize()}. N = {s['N']:,}, d = {s['d']}, "
            f"{s['heads']} heads, {s['layers']} layers, {s['batch']} "
            f"sequence(s), w = {s['w']:,}, n = {s['n']:,}; 16-bit numbers",
            ["candidate", "between tokens", "kept to train", "verdict"], rows)
