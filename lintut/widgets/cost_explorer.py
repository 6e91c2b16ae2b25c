"""The cost explorer: what each mechanism costs at sizes of your choice."""

from dataclasses import replace

import traitlets

from lintut import cost, palette

from . import assets
from ._base import Widget, table

LABELS = {
    "softmax": "softmax", "flash": "FlashAttention",
    "sliding_window": "window", "longformer": "Longformer",
    "bigbird": "BigBird", "linformer": "Linformer", "linear": "linear",
    "performer": "Performer", "retention": "RetNet", "gla": "GLA",
    "delta": "DeltaNet", "gated_delta": "Gated DeltaNet",
}
HYBRID = {"hybrid": "window + linear"}
FORMS = {name: "chunkwise" for name in cost.RECURRENT_FAMILY} | {
    "flash": "blocked"}

# The defaults of `cost.of`, for what the reader does not set.
FIXED = dict(g=1, b=64, n_w=3, n_g=2, n_r=3, on_chip=166_912)
BOOK = dict(N=32768, d=64, d_v=64, heads=1, batch=1)
PRESETS = [
    dict(label="the book's example: one head", sizes=BOOK,
         source="One layer, one head, as on this page."),
    dict(label="GPT-2 small", source="12 heads of width 64, N = 1,024: "
         "Radford et al. 2019, table 2, and the released configuration.",
         sizes=dict(N=1024, d=64, d_v=64, heads=12, batch=1)),
    dict(label="GPT-3 175B", source="96 heads of width 128, N = 2,048: "
         "Brown et al. 2020, table 2.1.",
         sizes=dict(N=2048, d=128, d_v=128, heads=96, batch=1)),
    dict(label="Llama 2 7B", source="32 heads of width 128, N = 4,096: "
         "Touvron et al. 2023, table 1, and Llama 1's table 2.",
         sizes=dict(N=4096, d=128, d_v=128, heads=32, batch=1)),
]


def _formulas():
    """The formulas of `lintut.cost`, causal where a mechanism can be."""
    result = {}
    for name, label in LABELS.items():
        mechanism = cost.MECHANISMS["softmax" if name == "flash" else name]
        form = mechanism.forms[FORMS.get(name, next(iter(mechanism.forms)))]
        step = mechanism.step

        def pick(formula):
            return formula if isinstance(formula, str) else formula[1]

        result[name] = dict(
            label=label, dash=palette.MECHANISMS[name][2],
            pairs=pick(form.pairs),
            products=form.products, other=pick(form.other),
            moved=pick(form.moved),
            step_products=step and step.products,
            step_other=step and step.other, step_moved=step and step.moved,
            state=step and step.state)
    return result


def _with_hybrid(formulas):
    """… and a hybrid's: half of the heads follow each of its rules."""
    return formulas | {"hybrid": dict(
        label=HYBRID["hybrid"], dash=palette.MECHANISMS["hybrid"][2],
        halves=[formulas["sliding_window"], formulas["linear"]])}


def _half(**settings):
    """A hybrid's cost with half of the heads for each of its rules."""
    heads = settings.pop("heads")
    whole = cost.of("hybrid", **settings, heads=2 * heads, window_heads=heads)
    return replace(whole, **{
        key: value / 2 for key, value in vars(whole).items()
        if isinstance(value, (int, float))})


class CostExplorer(Widget):
    """FLOPs, bytes and state of every mechanism, and their growth with N.

    Parameters
    ----------
    metric : what is drawn against N: "prefill_flops", "bytes_moved",
        "decode_flops", "decode_bytes" or "state_bytes"
    shown : the mechanisms drawn, of `LABELS`, or "hybrid"
    dtype : of `lintut.cost.DTYPES`
    **sizes : N, d, d_v, heads, batch, r, w, m, C
    """

    name = "cost_explorer"
    _esm = assets.module(name)

    sizes = traitlets.Dict().tag(sync=True)
    metric = traitlets.Unicode().tag(sync=True)
    dtype = traitlets.Unicode().tag(sync=True)
    shown = traitlets.List().tag(sync=True)
    formulas = traitlets.Dict().tag(sync=True)
    dtypes = traitlets.Dict().tag(sync=True)
    presets = traitlets.List().tag(sync=True)

    def __init__(self, metric="state_bytes", dtype="float16",
                 shown=("softmax", "sliding_window", "linear"), **sizes):
        allowed = BOOK | dict(r=64, w=256, m=256, C=64)
        unknown = set(sizes) - set(allowed)
        if unknown:
            raise ValueError(f"sizes must be among {', '.join(allowed)}; "
                             f"{sorted(unknown)} is not")
        for name, value, known in (("shown", shown, LABELS | HYBRID),
                                   ("metric", [metric], METRICS)):
            if set(value) - set(known):
                raise ValueError(f"{name} must be of {', '.join(known)}; "
                                 f"it is {value!r}")
        super().__init__(
            sizes=FIXED | allowed | sizes, metric=metric, dtype=dtype,
            shown=list(shown), formulas=_with_hybrid(_formulas()),
            dtypes=dict(cost.DTYPES), presets=PRESETS)
        self.costs()                    # refuses what cost.of refuses

    def costs(self):
        """{mechanism: Cost} at the present sizes."""
        return {name: cost.of(
            name, FORMS.get(name), **self.sizes, dtype=self.dtype,
            causal=name != "linformer") for name in LABELS} | {
                "hybrid": _half(**self.sizes, dtype=self.dtype)}

    def summary(self):
        return {"N": self.sizes["N"], "metric": self.metric}

    def still(self):
        rows = []
        for name, c in self.costs().items():
            rows.append([(LABELS | HYBRID)[name]] + [
                "none" if getattr(c, key) is None else c.text(key)
                for key in METRICS])
        s = self.sizes
        return table(
            f"One layer, N = {s['N']:,}, d = {s['d']}, d_v = {s['d_v']}, "
            f"r = {s['r']}, w = {s['w']}, m = {s['m']}, C = {s['C']}, "
            f"{s['heads']} head(s), batch {s['batch']}, {self.dtype}",
            ["mechanism", *METRICS.values()], rows)


METRICS = {
    "prefill_flops": "sequence: FLOPs", "bytes_moved": "sequence: bytes",
    "decode_flops": "step: FLOPs", "decode_bytes": "step: bytes",
    "state_bytes": "state",
}
