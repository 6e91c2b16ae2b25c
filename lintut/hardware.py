"""What a few GPUs can do at most, and the roofline that follows.

The figures are the makers' peaks: no program passes them, few come near.
Tensor-core figures are *dense*: NVIDIA's newer sheets print them with 2:4
sparsity, which doubles them, and are halved here.  Shared memory is what one
block may use at most (CUDA C++ Programming Guide, "Technical Specifications
per Compute Capability", less the 1 KiB that the system keeps from 8.0 on).

    roofline(flops, bytes_moved, "T4")   the least time, and which wall
    ridge("T4")                          FLOPs a byte where the walls meet

A CPU is not in the table: machines called "CPU" differ by a factor of 100.
`python -m lintut.bench cpu` measures the one at hand.
"""

from dataclasses import dataclass
from types import SimpleNamespace

TERA, GIGA = 10 ** 12, 10 ** 9


@dataclass(frozen=True)
class Device:
    """One row of the table; rates in FLOP/s and bytes/s, sizes in bytes.

    `float32` is the plain (non-tensor-core) rate, the one that a softmax's
    exponentials and a state update made of multiply-adds see; `tf32`,
    `float16` and `bfloat16` are the tensor cores' dense rates, None where
    the hardware has no such mode.
    """
    name: str
    capability: tuple
    float32: float
    tf32: float | None
    float16: float
    bfloat16: float | None
    bandwidth: float            # bytes/s, device memory
    memory: float               # bytes of device memory, as sold (10⁹)
    shared: int                 # bytes of shared memory, one block
    source: str


DEVICES = {device.name: device for device in (
    Device("T4", (7, 5), 8.1 * TERA, None, 65 * TERA, None,
           320 * GIGA, 16 * GIGA, 65_536,
           "NVIDIA T4 Tensor Core GPU datasheet (2019)"),
    Device("L4", (8, 9), 30.3 * TERA, 60 * TERA, 121 * TERA, 121 * TERA,
           300 * GIGA, 24 * GIGA, 101_376,
           "NVIDIA L4 Tensor Core GPU datasheet (2023); the sheet prints "
           "120, 242 and 242 with sparsity"),
    Device("A100-40", (8, 0), 19.5 * TERA, 156 * TERA, 312 * TERA,
           312 * TERA, 1_555 * GIGA, 40 * GIGA, 166_912,
           "NVIDIA A100 Tensor Core GPU datasheet (2021), SXM4 40 GB"),
    Device("A100-80", (8, 0), 19.5 * TERA, 156 * TERA, 312 * TERA,
           312 * TERA, 2_039 * GIGA, 80 * GIGA, 166_912,
           "NVIDIA A100 Tensor Core GPU datasheet (2021), SXM4 80 GB"),
    Device("H100", (9, 0), 67 * TERA, 494.5 * TERA, 989.5 * TERA,
           989.5 * TERA, 3_350 * GIGA, 80 * GIGA, 232_448,
           "NVIDIA H100 Tensor Core GPU datasheet (2023), SXM5; the sheet "
           "prints 989, 1,979 and 1,979 with sparsity"),
    Device("H200", (9, 0), 67 * TERA, 494.5 * TERA, 989.5 * TERA,
           989.5 * TERA, 4_800 * GIGA, 141 * GIGA, 232_448,
           "NVIDIA H200 Tensor Core GPU datasheet (2024), SXM; the sheet "
           "prints 989, 1,979 and 1,979 with sparsity"),
)}

def device(name):
    """The row called `name`; a ValueError lists the rows there are."""
    if name not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}; "
                         f"it is {name!r}")
    return DEVICES[name]


def peak(name, dtype="float16"):
    """FLOP/s of products in `dtype` ("float32", "tf32", "float16", …)."""
    row = device(name)
    if dtype not in ("float32", "tf32", "float16", "bfloat16"):
        raise ValueError("dtype must be float32, tf32, float16 or bfloat16; "
                         f"it is {dtype!r}")
    rate = getattr(row, dtype)
    if rate is None:
        raise ValueError(f"{name} (compute capability "
                         f"{row.capability[0]}.{row.capability[1]}) "
                         f"has no {dtype} tensor cores")
    return rate


def ridge(name, dtype="float16"):
    """FLOPs a byte above which `name` waits for its arithmetic."""
    return peak(name, dtype) / device(name).bandwidth


def roofline(flops, bytes_moved, name, dtype="float16", other_flops=0):
    """The least time that the work can take, and which wall it hits.

    Parameters
    ----------
    flops : multiply-adds of matrix products, as FLOPs (2 each)
    bytes_moved : bytes between device memory and the chip
    name, dtype : row of the table, and the products' type
    other_flops : everything elementwise; runs at the plain float32 rate,
        beside the products

    Returns
    -------
    an object with `seconds`, `wall` ("memory", "products" or "elementwise"),
    `walls` (seconds for each) and `intensity` (FLOPs a byte)

    Williams, Waterman & Patterson 2009, "Roofline".
    """
    walls = {"memory": bytes_moved / device(name).bandwidth,
             "products": flops / peak(name, dtype),
             "elementwise": other_flops / device(name).float32}
    wall = max(walls, key=walls.get)
    return SimpleNamespace(
        seconds=walls[wall], wall=wall, walls=walls,
        intensity=(flops + other_flops) / bytes_moved)
