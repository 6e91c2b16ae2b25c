"""The block sizes: one row a kernel, device class and dtype, with a reason.

A class is what matters for a tile, and is asked of the device: tensor cores
that Triton uses (capability 8.0 and up), and how much shared memory a block
may have.

    fma     7.5               no tensor cores for Triton, 64 KiB
    small   8.6, 8.9, 12.0    tensor cores, 99 KiB
    large   8.0, 9.0, 10.0    tensor cores, 163 KiB and more
"""

from dataclasses import dataclass

from ._backend import capability, shared_memory


@dataclass(frozen=True)
class Blocks:
    """Tile sides over d (`k`) and d_v (`v`); in `softmax` over queries (`k`)
    and keys (`v`)."""
    k: int
    v: int
    warps: int
    stages: int
    why: str


# Reasons that several rows share.
WHOLE = "one tile holds d_v = 64: the scores are computed once"
REGISTERS = "the running state stays in registers without spilling"
GATES = "gates and their products beside the tiles: 64 would spill"
THREE = "three tf32 products for one: twice the operands in registers"
NO_CORES = "scalar multiply-adds hold their operands: small tiles, eight warps"
WARPGROUPS = "64 rows for each group of four warps, two groups to a tile"
HALVED = "as at d = 64, half the rows: twice the accumulators"
QUARTER = "tiles hold 256 columns: what fits beside them"

# (kernel, class, bits): Blocks.  A class left out takes the row of "large";
# a capability ("10.0") may have a row of its own.
TABLE = {
    ("linear.states", "large", 16): Blocks(64, 32, 4, 2, REGISTERS),
    ("retention.states", "large", 16): Blocks(64, 32, 4, 2, REGISTERS),
    ("linear.states", "large", 32): Blocks(32, 32, 4, 2, THREE),
    ("retention.states", "large", 32): Blocks(32, 32, 4, 2, THREE),
    ("linear.states", "fma", 16): Blocks(32, 32, 8, 1, NO_CORES),
    ("retention.states", "fma", 16): Blocks(32, 32, 8, 1, NO_CORES),
    ("linear.states", "fma", 32): Blocks(32, 16, 8, 1, NO_CORES),
    ("retention.states", "fma", 32): Blocks(32, 16, 8, 1, NO_CORES),
    ("linear.attend", "large", 16): Blocks(64, 64, 4, 2, WHOLE),
    ("retention.attend", "large", 16): Blocks(64, 64, 4, 2, WHOLE),
    ("linear.attend", "large", 32): Blocks(32, 32, 8, 2, THREE),
    ("retention.attend", "large", 32): Blocks(32, 32, 8, 2, THREE),
    ("linear.attend", "fma", 16): Blocks(32, 32, 8, 1, NO_CORES),
    ("retention.attend", "fma", 16): Blocks(32, 32, 8, 1, NO_CORES),
    ("linear.attend", "fma", 32): Blocks(16, 16, 8, 1, NO_CORES),
    ("retention.attend", "fma", 32): Blocks(16, 16, 8, 1, NO_CORES),
    ("gla.states", "large", 16): Blocks(32, 64, 4, 2, GATES),
    ("gla.states", "small", 16): Blocks(32, 32, 4, 2, GATES),
    ("gla.states", "large", 32): Blocks(32, 16, 4, 1, THREE),
    ("gla.states", "fma", 16): Blocks(32, 32, 8, 1, NO_CORES),
    ("gla.states", "fma", 32): Blocks(16, 16, 8, 1, NO_CORES),
    ("gla.scores", "large", 16): Blocks(32, 64, 4, 2, GATES),
    ("gla.scores", "large", 32): Blocks(16, 32, 8, 2, THREE),
    ("gla.scores", "fma", 16): Blocks(32, 32, 8, 1, NO_CORES),
    ("gla.scores", "fma", 32): Blocks(16, 16, 8, 1, NO_CORES),
    ("gla.outputs", "large", 16): Blocks(32, 32, 4, 2, GATES),
    ("gla.outputs", "large", 32): Blocks(16, 32, 8, 2, THREE),
    ("gla.outputs", "fma", 16): Blocks(16, 32, 8, 1, NO_CORES),
    ("gla.outputs", "fma", 32): Blocks(16, 16, 8, 1, NO_CORES),
    ("gla.gradients", "large", 16): Blocks(16, 64, 8, 2, GATES),
    ("gla.gradients", "small", 16): Blocks(16, 32, 4, 2, GATES),
    ("gla.gradients", "large", 32): Blocks(16, 32, 8, 2, THREE),
    ("gla.gradients", "fma", 16): Blocks(16, 32, 8, 1, NO_CORES),
    ("gla.gradients", "fma", 32): Blocks(16, 16, 8, 1, NO_CORES),
    # The delta rules, chunks as in gated_delta_triton.longest_chunk.
    ("delta.chunk", "large", 16): Blocks(
        64, 64, 4, 2, "with 8 warps each (64, 64) tile is held twice"),
    ("delta.chunk", "large", 32): Blocks(
        32, 32, 4, 1, "64 rows spill 700 bytes in the backward pass"),
    ("delta.chunk", "fma", 16): Blocks(
        32, 32, 8, 1, "without tensor cores a product's rows lie in "
        "registers: short rows"),
    ("delta.chunk", "fma", 32): Blocks(32, 32, 8, 1, "as float16"),
    ("delta.scan", "large", 16): Blocks(
        256, 32, 4, 2, "all of d, so that S stays in registers"),
    ("delta.scan", "small", 16): Blocks(
        256, 16, 4, 2, "at d = 128, 32 columns spill 24 bytes"),
    ("delta.scan", "large", 32): Blocks(
        256, 16, 4, 1, "at d = 128, 32 columns spill 276 bytes"),
    ("delta.scan", "fma", 16): Blocks(
        256, 16, 8, 1, "at d = 128, 4 warps spill 236 bytes"),
    ("delta.scan", "fma", 32): Blocks(256, 16, 8, 1, "as float16"),
    ("delta.gradient", "large", 16): Blocks(
        32, 64, 4, 1, "three sums at once: at d = 128, 64 rows of d spill "
        "228 bytes"),
    ("delta.gradient", "large", 32): Blocks(
        32, 32, 4, 1, "the fewest spills found: 20 bytes at most, at d = 64"),
    ("delta.gradient", "fma", 16): Blocks(
        32, 32, 8, 1, "spills nothing at d = 64 and 128"),
    ("delta.gradient", "fma", 32): Blocks(32, 32, 8, 1, "as float16"),
    # queries × keys, and the widest d or d_v they are for
    ("softmax.forward.64", "large", 16): Blocks(128, 64, 8, 3, WARPGROUPS),
    ("softmax.forward.64", "10.0", 16): Blocks(128, 128, 8, 2,
        "a 128×64 tile spills 8 bytes here"),
    ("softmax.forward.64", "fma", 16): Blocks(64, 32, 8, 1, NO_CORES),
    ("softmax.forward.64", "large", 32): Blocks(32, 32, 8, 2, THREE),
    ("softmax.forward.64", "fma", 32): Blocks(32, 32, 8, 1, NO_CORES),
    ("softmax.forward.128", "large", 16): Blocks(128, 64, 8, 3, WARPGROUPS),
    ("softmax.forward.128", "fma", 16): Blocks(32, 32, 8, 1, NO_CORES),
    ("softmax.forward.128", "large", 32): Blocks(32, 32, 8, 2, THREE),
    ("softmax.forward.128", "fma", 32): Blocks(32, 16, 8, 1, NO_CORES),
    ("softmax.forward.256", "large", 16): Blocks(64, 64, 8, 2, QUARTER),
    ("softmax.forward.256", "small", 16): Blocks(64, 32, 8, 2, QUARTER),
    ("softmax.forward.256", "fma", 16): Blocks(16, 16, 8, 1, NO_CORES),
    ("softmax.forward.256", "large", 32): Blocks(16, 16, 8, 1, THREE),
    ("softmax.forward.256", "fma", 32): Blocks(16, 16, 8, 1, NO_CORES),
    ("softmax.grad_q.64", "large", 16): Blocks(128, 64, 8, 2, WARPGROUPS),
    ("softmax.grad_q.64", "fma", 16): Blocks(32, 32, 8, 1, NO_CORES),
    ("softmax.grad_q.64", "large", 32): Blocks(32, 32, 8, 2, THREE),
    ("softmax.grad_q.64", "fma", 32): Blocks(32, 32, 8, 1, NO_CORES),
    ("softmax.grad_q.128", "large", 16): Blocks(64, 64, 8, 2, HALVED),
    ("softmax.grad_q.128", "fma", 16): Blocks(16, 16, 8, 1, NO_CORES),
    ("softmax.grad_q.128", "large", 32): Blocks(32, 32, 8, 2, THREE),
    ("softmax.grad_q.128", "fma", 32): Blocks(16, 16, 8, 1, NO_CORES),
    ("softmax.grad_q.256", "large", 16): Blocks(64, 32, 8, 2, QUARTER),
    ("softmax.grad_q.256", "small", 16): Blocks(32, 32, 8, 2, QUARTER),
    ("softmax.grad_q.256", "fma", 16): Blocks(16, 16, 8, 1, NO_CORES),
    ("softmax.grad_q.256", "large", 32): Blocks(16, 16, 8, 1, THREE),
    ("softmax.grad_kv.64", "large", 16): Blocks(64, 128, 8, 2, WARPGROUPS),
    ("softmax.grad_kv.64", "fma", 16): Blocks(16, 32, 8, 1, NO_CORES),
    ("softmax.grad_kv.64", "large", 32): Blocks(32, 32, 8, 2, THREE),
    ("softmax.grad_kv.64", "fma", 32): Blocks(16, 32, 8, 1, NO_CORES),
    ("softmax.grad_kv.128", "large", 16): Blocks(64, 64, 8, 2, HALVED),
    ("softmax.grad_kv.128", "fma", 16): Blocks(16, 16, 8, 1, NO_CORES),
    ("softmax.grad_kv.128", "large", 32): Blocks(16, 16, 8, 2, THREE),
    ("softmax.grad_kv.128", "fma", 32): Blocks(16, 16, 8, 1, NO_CORES),
    ("softmax.grad_kv.256", "large", 16): Blocks(32, 32, 8, 2, QUARTER),
    ("softmax.grad_kv.256", "fma", 16): Blocks(16, 16, 8, 1, NO_CORES),
    ("softmax.grad_kv.256", "large", 32): Blocks(16, 16, 8, 1, THREE),
}


def device_class(device):
    """"fma", "small" or "large" (a CPU, in the interpreter, is "large")."""
    if (capability(device) or (8, 0)) < (8, 0):
        return "fma"
    return "large" if shared_memory(device) >= 160_000 else "small"


def blocks(kernel, q):
    """The row for a kernel's name and q's device and dtype."""
    bits = q.dtype.itemsize * 8
    exact = "{}.{}".format(*capability(q.device) or (8, 0))
    for kind in (exact, device_class(q.device)):
        if (kernel, kind, bits) in TABLE:
            return TABLE[kernel, kind, bits]
    return TABLE[kernel, "large", bits]


def padded(width, block, least=16):
    """The side of a tile over `width`: a power of two, `block` at most."""
    side = 1 << (width - 1).bit_length()
    return min(max(side, least), block)
