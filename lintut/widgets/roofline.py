"""The roofline: the least time a mechanism can take on a GPU."""

from dataclasses import asdict

import traitlets

from lintut import cost, hardware
from lintut.reference._checks import count

from . import assets
from ._base import Widget, table

# label: mechanism and form of `lintut.cost`
MECHANISMS = {
    "softmax, stored": ("softmax", "parallel"),
    "FlashAttention": ("softmax", "blocked"),
    "linear, chunks": ("linear", "chunkwise"),
    "linear, token loop": ("linear", "recurrent"),
    "RetNet, chunks": ("retention", "chunkwise"),
    "GLA, chunks": ("gla", "chunkwise"),
    "DeltaNet, chunks": ("delta", "chunkwise"),
    "Gated DeltaNet, chunks": ("gated_delta", "chunkwise"),
}
MOST = dict(N=2 ** 20, d=512, C=4096, rows=65_536)
KERNELS = {             # what `lintut.kernels` runs, by mechanism
    mechanism: label for label, (mechanism, form) in MECHANISMS.items()
    if form in ("blocked", "chunkwise")}


def _formulas():
    """The causal formulas of `lintut.cost`."""
    def pick(formula):
        return formula if isinstance(formula, str) else formula[1]

    result = {}
    for label, (mechanism, form) in MECHANISMS.items():
        how = cost.MECHANISMS[mechanism].forms[form]
        result[label] = dict(
            label=label, pairs=pick(how.pairs), products=how.products,
            other=pick(how.other), moved=pick(how.moved))
    return result


def _points(record):
    """The forward passes of a `lintut.bench gpu` record, as points."""
    if record is None:
        return []
    gpu, dtype = record["hardware"]["gpu"] or "", record["settings"]["dtype"]
    here = [name for name in hardware.DEVICES if name in gpu]
    return [dict(device=max(here, key=len), dtype=dtype,
                 mechanism=KERNELS[row["mechanism"]],
                 intensity=row["flops"] / row["bytes"],
                 rate=row["flops"] / row["seconds"],
                 label=f"d={row['d']}, N={row['T']:,}")
            for row in record["rows"]
            if here and "seconds" in row and row["pass"] == "forward"
            and row["name"].startswith("lintut")
            and row["mechanism"] in KERNELS]


def _devices():
    return {name: asdict(row) | {"capability": ".".join(
        map(str, row.capability))} for name, row in hardware.DEVICES.items()}


class Roofline(Widget):
    """The least time of a forward pass, and which wall it hits.

    Parameters
    ----------
    mechanism : a key of `MECHANISMS`
    device : a row of `lintut.hardware`
    dtype : "float32", "tf32", "float16" or "bfloat16"
    N, d, C : int, with d_v = r = d
    rows : int, batch times heads
    recorded : dict, optional
        A record of `python -m lintut.bench gpu`: its forward passes are
        drawn as points, at the sizes that they were measured with.
    """

    name = "roofline"
    _esm = assets.module(name)

    sizes = traitlets.Dict().tag(sync=True)
    device = traitlets.Unicode().tag(sync=True)
    dtype = traitlets.Unicode().tag(sync=True)
    mechanism = traitlets.Unicode().tag(sync=True)
    formulas = traitlets.Dict().tag(sync=True)
    devices = traitlets.Dict().tag(sync=True)
    points = traitlets.List().tag(sync=True)

    def __init__(self, mechanism="linear, chunks", device="T4",
                 dtype="float16", N=4096, d=64, C=64, rows=64, recorded=None):
        hardware.peak(device, dtype)            # refuses what it has not
        if mechanism not in MECHANISMS:
            raise ValueError("mechanism must be one of "
                             f"{'; '.join(MECHANISMS)}; it is {mechanism!r}")
        sizes = dict(N=N, d=d, C=C, rows=rows)
        for name, value in sizes.items():
            if count(name, value) > MOST[name]:
                raise ValueError(f"{name} must be at most {MOST[name]}; "
                                 f"it is {value}")
        super().__init__(sizes=sizes, device=device, dtype=dtype,
                         mechanism=mechanism, formulas=_formulas(),
                         devices=_devices(), points=_points(recorded))

    def times(self):
        """{label: roofline} by `lintut.cost` and `lintut.hardware`."""
        result, s = {}, self.sizes
        size = "float32" if self.dtype == "tf32" else self.dtype
        for label, (mechanism, form) in MECHANISMS.items():
            c = cost.of(mechanism, form, N=s["N"], d=s["d"], C=s["C"],
                        heads=s["rows"], dtype=size,
                        on_chip=hardware.device(self.device).shared)
            result[label] = hardware.roofline(
                c.prefill_products, c.bytes_moved, self.device, self.dtype,
                c.prefill_other)
        return result

    def summary(self):
        return {"mechanism": self.mechanism, "device": self.device,
                "dtype": self.dtype, **self.sizes}

    def still(self):
        s = self.sizes
        rows = [[label, f"{time.seconds * 1e3:.3g} ms", time.wall,
                 f"{time.intensity:.3g}"]
                for label, time in self.times().items()]
        return table(
            f"Least time of a causal forward pass on {self.device}, "
            f"{self.dtype}, N = {s['N']:,}, d = d_v = {s['d']}, "
            f"C = {s['C']}, batch · heads = {s['rows']}. "
            f"Peaks: {hardware.device(self.device).source}",
            ["mechanism", "time", "wall", "FLOP a byte"], rows)
