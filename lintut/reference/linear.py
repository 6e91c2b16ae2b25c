"""Linear attention: exp(q·k) replaced by φ(q)·φ(k), so that sums can be kept.

    N    length               d    width of q and k     d_v  width of v
    φ    feature map          r    width of φ           C    chunk size
    S    Σ φ(k_j) v_jᵀ        (…, r, d_v)   what was written
    z    Σ φ(k_j)             (…, r)        how much weight was written

Katharopoulos et al. 2020, "Transformers are RNNs": section 3.2 (kernel),
3.3 (causal), 3.4 (the RNN).
"""

import numpy as np

from . import _checks
from .feature_maps import elu_plus_one


@_checks.quiet
def weights(q, k, feature_map=elu_plus_one, causal=True):
    """The N×N weights themselves; each row sums to one."""
    q, k, _, _ = _checks.qkv(q, k, k)
    similarity = feature_map(q) @ np.swapaxes(feature_map(k), -1, -2)
    if causal:
        similarity = np.tril(similarity)
    total = _checks.positive(similarity.sum(-1))
    return _checks.finite(similarity / total[..., None], q=q, k=k)


@_checks.quiet
def parallel(q, k, v, feature_map=elu_plus_one, causal=True):
    """The definition: every pair compared."""
    q, k, v, _ = _checks.qkv(q, k, v)
    o = weights(q, k, feature_map, causal) @ v
    return _checks.finite(o, q=q, k=k, v=v)
