"""Start a Triton kernel, or note down what would have been started.

Every kernel of `lintut.kernels` is started by `launch`.  Inside `record()` it
starts nothing and keeps the kernel, the arguments' types and the options:
what `compile_report` then compiles for a GPU that is not here is what a call
on that GPU would run, block sizes included.
"""

import contextlib
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ._backend import capability, interpreting

_recording = None

_TYPES = {torch.float32: "fp32", torch.float16: "fp16",
          torch.bfloat16: "bf16", torch.int32: "i32", torch.int64: "i64"}


@dataclass(frozen=True)
class Launch:
    """One kernel as it would have been started."""
    kernel: object          # the triton.JITFunction
    signature: dict         # argument name: Triton's type, or "constexpr"
    constants: dict         # argument name: value
    aligned: tuple          # arguments that are multiples of 16
    num_warps: int
    num_stages: int


@contextlib.contextmanager
def record():
    """Collect launches in a list instead of performing them."""
    global _recording
    before, _recording = _recording, []
    try:
        yield _recording
    finally:
        _recording = before


def launch(kernel, grid, *args, blocks, **constants):
    """kernel[grid](*args, **constants) with the warps and stages of `blocks`.

    `args` are tensors, numbers or None; `constants` the kernel's constexprs.

    Raises
    ------
    ValueError
        The block needs more shared memory than the device has.
    """
    options = dict(num_warps=blocks.warps, num_stages=blocks.stages)
    if _recording is not None:
        _recording.append(_describe(kernel, args, constants, **options))
        return
    on = next(x for x in args if isinstance(x, torch.Tensor))
    try:
        with torch.cuda.device_of(on):
            kernel[grid](*args, **constants, **options)
    except triton.OutOfResources as error:
        raise ValueError(
            "a block is too large for this device: it would need "
            f"{error.required} bytes of {error.name}, and {error.limit} are "
            "there; a smaller chunk_size or width needs less") from None


def _describe(kernel, args, constants, num_warps, num_stages):
    """The types as Triton's own launcher would specialise them."""
    signature, fixed, aligned = {}, dict(constants), []
    for name, x in zip(kernel.arg_names, args):
        if isinstance(x, torch.Tensor):
            signature[name] = "*" + _TYPES[x.dtype]
            aligned.append(name)
        elif isinstance(x, bool) or x is None or x == 1:
            signature[name], fixed[name] = "constexpr", x
        elif isinstance(x, int):
            signature[name] = "i32" if -2**31 <= x < 2**31 else "i64"
            aligned += [name] if x % 16 == 0 else []
        else:
            signature[name] = "fp32"
    signature |= dict.fromkeys(constants, "constexpr")
    signature = {name: signature[name] for name in kernel.arg_names}
    return Launch(kernel, signature, fixed, tuple(aligned),
                  num_warps, num_stages)


def products(q):
    """How the kernels multiply: the constants DOT, PRECISION, and the dtype
    in which they keep states between kernels.

    bfloat16   as it is: its range is float32's
    float16    as tf32, whose mantissa is float16's and whose range is
               float32's: sums over a long sequence leave float16's range
    float32    as three tf32 products, or as one if torch was told that one
               is enough (torch.set_float32_matmul_precision)

    Without tensor cores, and in the interpreter, in float32.
    """
    cores = capability(q.device) is None or capability(q.device) >= (8, 0)
    if q.dtype == torch.bfloat16 and not interpreting():
        return dict(DOT=tl.bfloat16, PRECISION="tf32"), torch.bfloat16
    if not cores:
        precision = "ieee"
    elif q.dtype == torch.float16 or \
            torch.get_float32_matmul_precision() != "highest":
        precision = "tf32"
    else:
        precision = "tf32x3"
    return dict(DOT=tl.float32, PRECISION=precision), torch.float32
