"""The chunk dial: one knob between the token loop and the triangle."""

import traitlets

from lintut import cost
from lintut.reference._checks import count

from . import assets
from ._base import Widget, table

MOST = dict(N=65_536, C=65_536, d=1024, d_v=1024)


class ChunkDial(Widget):
    """What chunkwise linear attention costs at each chunk size.

    Parameters
    ----------
    N, d, d_v, C : int
        Length, widths (r = d) and chunk size.
    rate : float, GFLOP/s
    wait : float, microseconds that each step in a row costs besides its work
    """

    name = "chunk_dial"
    _esm = assets.module(name)

    sizes = traitlets.Dict().tag(sync=True)
    speed = traitlets.Dict().tag(sync=True)
    bytes = traitlets.Int(4).tag(sync=True)

    def __init__(self, N=4096, d=64, d_v=64, C=64, rate=40, wait=20):
        sizes = dict(N=N, C=C, d=d, d_v=d_v)
        for name, value in sizes.items():
            if count(name, value) > MOST[name]:
                raise ValueError(f"{name} must be at most {MOST[name]}; "
                                 f"it is {value}")
        if not 0.001 <= rate <= 1e6:
            raise ValueError("rate must lie from 0.001 to 1,000,000 GFLOP/s; "
                             f"it is {rate}")
        if not 0 <= wait <= 1e5:
            raise ValueError("wait must lie from 0 to 100,000 µs; "
                             f"it is {wait}")
        super().__init__(sizes=sizes, speed=dict(rate=rate, wait=wait))

    def cost(self, C):
        """`lintut.cost` at this chunk size, in float32."""
        sizes = self.sizes | {"C": C}
        return cost.of("linear", "chunkwise", **sizes, dtype="float32")

    def summary(self):
        return dict(self.sizes)

    def still(self):
        N, rows = self.sizes["N"], []
        chunks = sorted({1, min(self.sizes["C"], N), N})
        for C in chunks:
            c = self.cost(C)
            rows.append([f"C = {C:,}", f"{-(-N // C):,}",
                         c.text("prefill_flops"), c.text("bytes_moved"),
                         c.text("saved_bytes")])
        s = self.sizes
        return table(
            f"Chunkwise linear attention, N = {N:,}, d = r = {s['d']}, "
            f"d_v = {s['d_v']}, float32",
            ["chunk", "steps in a row", "FLOPs", "bytes moved",
             "kept to train"], rows)
