"""Which path runs, Triton or torch: decided by what the device can do.

A device is asked for its compute capability and its shared memory, never for
its name.  `pretend` answers in its place, so that the choice can be tested,
and kernels compiled, for a GPU that is not here.
"""

import contextlib
import importlib.util
import os
from dataclasses import dataclass

import torch

BACKENDS = ("auto", "triton", "torch")
WIDEST = 256            # the widest d and d_v that the Triton kernels take

# Bytes of shared memory one block may use (CUDA C++ Programming Guide,
# "Technical Specifications per Compute Capability", less 1 KiB on 8.0+).
SHARED_MEMORY = {(7, 5): 65_536, (8, 0): 166_912, (8, 6): 101_376,
                 (8, 9): 101_376, (9, 0): 232_448, (10, 0): 232_448,
                 (12, 0): 101_376}

_pretended = None


@dataclass(frozen=True)
class Choice:
    """What was chosen, and the reason as a sentence."""
    backend: str
    reason: str

    def __str__(self):
        return f"{self.backend}: {self.reason}"


@contextlib.contextmanager
def pretend(major, minor):
    """Answer every question about the device as this capability would."""
    global _pretended
    before, _pretended = _pretended, (major, minor)
    try:
        yield
    finally:
        _pretended = before


def interpreting():
    """Does Triton interpret its kernels on the CPU?"""
    return os.environ.get("TRITON_INTERPRET") == "1"


def capability(device):
    """The compute capability (major, minor) of a device; None on a CPU."""
    if _pretended is not None:
        return _pretended
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)
    return None


def shared_memory(device):
    """Bytes of shared memory that one block may use on this device."""
    if _pretended is None and device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return properties.shared_memory_per_block_optin
    return SHARED_MEMORY[capability(device) or (8, 0)]


def _installed(package):
    """Could `package` be imported?  Without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):       # hidden from this process
        return False


def _obstacle(q, widths):
    """Why the Triton kernels cannot run on this input, or None."""
    if not _installed("triton"):
        return "triton is not installed here: on Linux, pip install triton"
    if capability(q.device) is None and not interpreting():
        return f"q is on the {q.device.type}, and Triton's kernels need a " \
               "CUDA GPU"
    if torch.version.hip is not None:
        return "the block sizes are known for NVIDIA GPUs only"
    if q.dtype == torch.float64:
        return "the Triton kernels take float32, float16 and bfloat16, " \
               "and q is float64"
    if max(widths) > WIDEST:
        return f"the Triton kernels take widths up to {WIDEST}, and one " \
               f"here is {max(widths)}"
    return None


def choose_backend(q, widths=(), backend="auto"):
    """Choose the path for q and the widths (d, d_v) of this call.

    Raises
    ------
    ValueError
        An unknown backend; ``backend="triton"`` where Triton cannot run;
        bfloat16 on a device that has none.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; "
                         f"it is {backend!r}")
    at_hand = capability(q.device)
    version = "{}.{}".format(*at_hand) if at_hand else ""
    if q.dtype == torch.bfloat16 and at_hand and at_hand < (8, 0):
        raise ValueError("q is bfloat16, which a device of compute "
                         f"capability {version} does not have: use float16 "
                         "or float32")
    obstacle = _obstacle(q, (q.shape[-1], *widths))
    if backend == "torch":
        return Choice("torch", "asked for")
    if backend == "triton":
        if obstacle:
            raise ValueError(f"backend='triton' cannot run: {obstacle}")
        return Choice("triton", "asked for")
    if obstacle:
        return Choice("torch", obstacle)
    if at_hand is None:
        return Choice("torch", "q is on the cpu; Triton's interpreter is for "
                      "tests, and runs when backend='triton' asks for it")
    if at_hand < (8, 0):
        return Choice("torch", f"on compute capability {version} Triton "
                      "(3.4 and later) multiplies matrices without the "
                      "tensor cores, and cuBLAS, under torch, uses them")
    return Choice("triton", f"compute capability {version} has tensor cores "
                  "that Triton uses")


def explain(q, v=None, backend="auto"):
    """What ``backend="auto"`` chooses for a tensor (B, T, H, D), and why."""
    widths = () if v is None else (v.shape[-1],)
    return choose_backend(q, widths, backend)
