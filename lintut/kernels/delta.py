"""The delta rule: read what the key recalls, then write the error.

    S_t = S_{t-1} + β_t k_t (v_t − S_{t-1}ᵀ k_t)ᵀ,    o_t = S_tᵀ q_t

The gated delta rule with α = 1; its chunkwise form, the torch code and the
kernels are those of `lintut.kernels.gated_delta`.

Yang, Wang, Zhang, Shen and Kim 2024, "Parallelizing Linear Transformers with
the Delta Rule over Sequence Length", section 3.2.
"""

from . import _checks
from .gated_delta import _chunkwise, _step


def chunkwise(q, k, v, beta, initial_state=None, return_state=False,
              backend="auto", cu_seqlens=None, chunk_size=64):
    """The delta rule, a chunk at a time.

    Parameters, results and errors are those of `gated_delta.chunkwise`, less
    `alpha`.
    """
    _checks.qkv(q, k, v)
    return _chunkwise(q, k, v, None, beta, initial_state, return_state,
                      backend, cu_seqlens, chunk_size)


def step(q, k, v, beta, initial_state=None):
    """One token: q, k (B, 1, H, D), v (B, 1, H, D_v); returns (o, state)."""
    _checks.qkv(q, k, v)
    return _step(q, k, v, None, beta, initial_state)
