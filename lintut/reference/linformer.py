"""Linformer: the N keys and values are compressed to m before attention.

    N     length             d    width of q and k      d_v  width of v
    m     compressed length
    E, F  key_projection and value_projection, (…, m, N): each compressed key
          (value) is a learned mixture of all N

Wang et al. 2020, "Linformer": section 4, equation 7.  The weights are N×m,
so the cost is O(Nm).  E and F have a column for each position, which ties
them to one length; and each compressed key mixes the whole sequence, its
future too, so that the mechanism as it stands is not causal.
"""

from . import _checks, softmax


def projection(name, x, k):
    """A projection (…, m, N), checked against the keys (…, N, d)."""
    n = k.shape[-2]
    x = _checks.array(name, x, axes=f"(…, m, N) with N={n}")
    if x.shape[-1] != n:
        raise ValueError(
            f"{name} must have shape (…, m, N) with N={n}, the length of k; "
            f"its shape is {x.shape}: a projection is tied to one length")
    if x.dtype != k.dtype:
        raise ValueError(f"{name} must be {k.dtype}, as k is; it is {x.dtype}")
    return x


@_checks.quiet
def parallel(q, k, v, key_projection, value_projection, scale=None):
    """softmax(scale · q (E k)ᵀ) (F v)."""
    q, k, v, lead = _checks.qkv(q, k, v)
    E = projection("key_projection", key_projection, k)
    F = projection("value_projection", value_projection, k)
    if E.shape[-2] != F.shape[-2]:
        raise ValueError(f"value_projection must have key_projection's "
                         f"m={E.shape[-2]} rows; its shape is {F.shape}")
    _checks.lead("q, k, v, key_projection and value_projection",
                 lead, E.shape[:-2], F.shape[:-2])
    o = softmax.attend(softmax.scaled(q, scale), E @ k, F @ v)
    return _checks.finite(o, q=q, k=k, v=v, key_projection=E,
                          value_projection=F, scale=scale)
