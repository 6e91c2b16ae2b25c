"""The same mechanisms on PyTorch and Triton; module names as in `reference`.

    linear  retention  gla  delta  gated_delta
    softmax  sliding_window  performer

    chunkwise(q, k, v, …, initial_state=None, return_state=False,
              backend="auto", cu_seqlens=None, chunk_size=64)
    step(q, k, v, …, initial_state=None)      one token; returns (o, state)

q and k are (B, T, H, D), v and the result (B, T, H, D_v); gates keep their
names, shaped (B, T, H, D) or (B, T, H).  S is (B, H, D, D_v), o = Sᵀq, and
position t sees itself.  The result has v's dtype, the state is float32 (both
are float64 for float64 input).  Everything is differentiable.

`learned` holds a feature map for `linear`, and how to train it.
`mechanism.py` holds the checks and the torch path, which runs on any device;
`mechanism_triton.py` the GPU kernels.  ``backend="auto"`` chooses between
them; `explain` says what it chose for a tensor, and why:

>>> import torch
>>> print(explain(torch.zeros(1, 8, 2, 64)))
torch: q is on the cpu, and Triton's kernels need a CUDA GPU

Values (finite entries, gates in their range) are checked on the CPU only: on
a GPU that would wait for the device on every call.  Shapes, dtypes and
devices are always checked.
"""

from lintut._optional import require

require("torch", "torch", "lintut.kernels")

from ._backend import Choice, explain        # noqa: E402

__all__ = ["Choice", "explain"]
