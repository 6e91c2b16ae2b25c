"""Linear attention: exp(q·k) replaced by φ(q)·φ(k), so that sums can be kept.

    B batch   T length   H heads   D width of q and k   r width of φ
    S    Σ φ(k_j) v_jᵀ   (B, H, r, D_v)    what was written
    z    Σ φ(k_j)        (B, H, r)         how much weight was written
    o_t  = Sᵀφ(q_t) / z·φ(q_t)

Katharopoulos et al. 2020, "Transformers are RNNs", sections 3.3 and 3.4.
"""

import torch

from . import _checks, _sequences
from ._backend import choose_backend
from ._chunked import join, split


def elu_plus_one(x):
    """φ(x) = ELU(x) + 1, always positive; r = D."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def chunkwise(q, k, v, feature_map=elu_plus_one, initial_state=None,
              return_state=False, backend="auto", cu_seqlens=None,
              chunk_size=64):
    """Causal normalised linear attention, a chunk at a time.

    Parameters
    ----------
    q, k : tensor (B, T, H, D), v : tensor (B, T, H, D_v)
    feature_map : callable, (…, D) to (…, r), or a pair: for q and for k.
        Its values should be positive.
    initial_state : (S, z), float32, (B, H, r, D_v) and (B, H, r)
    backend : "auto", "triton" or "torch"
    cu_seqlens : int tensor (n + 1,), bounds of n sequences packed into B=1;
        states then have a leading axis of n
    chunk_size : int; 16, 32, 64 or 128 on Triton

    Returns
    -------
    o (B, T, H, D_v), or (o, (S, z)) with `return_state`.

    Raises
    ------
    ValueError
        Shapes, dtypes, values; on the CPU also a denominator that is not
        positive.
    """
    _checks.qkv(q, k, v)
    bounds = _checks.bounds(cu_seqlens, q)
    chunk_size = _checks.count("chunk_size", chunk_size)
    phi_q, phi_k = _features(feature_map, q, k)
    state = _state(initial_state, phi_q, v, bounds)
    choice = choose_backend(phi_q, (v.shape[-1],), backend)
    if choice.backend == "triton":
        from . import linear_triton
        o, state = linear_triton.run(phi_q, phi_k, v, state, bounds,
                                     _checks.tile(chunk_size))
    elif bounds is not None:
        def run(q, k, v, state):
            return _torch(q, k, v, state, chunk_size)
        o, state = _sequences.each(run, bounds, (phi_q, phi_k, v), state)
    else:
        o, state = _torch(phi_q, phi_k, v, state, chunk_size)
    return (o, state) if return_state else o


def step(q, k, v, feature_map=elu_plus_one, initial_state=None):
    """One token, q (B, 1, H, D): write it, then read.  Returns (o, (S, z))."""
    _checks.qkv(q, k, v)
    _checks.one_token(q)
    phi_q, phi_k = _features(feature_map, q, k)
    S, z = _state(initial_state, phi_q, v, None)
    phi_q, phi_k, x = (x[:, 0].to(S.dtype) for x in (phi_q, phi_k, v))
    S = S + phi_k[..., None] * x[..., None, :]              # (B, H, r, D_v)
    z = z + phi_k                                           # (B, H, r)
    weight = _positive((phi_q * z).sum(-1, keepdim=True))
    o = (phi_q[..., None, :] @ S)[..., 0, :] / weight       # (B, H, D_v)
    return o[:, None].to(v.dtype), (S, z)


def _torch(q, k, v, state, chunk_size):
    """All chunks at once; q and k are φ(q) and φ(k)."""
    T, dtype = q.shape[1], v.dtype
    q = split(q, chunk_size, 1.0)   # no weight of zero after the end
    k, v = split(k, chunk_size), split(v, chunk_size)   # (B, H, n, C, ·)
    wide = state[0].dtype
    S = torch.cat([state[0][:, :, None], (k.mT @ v).to(wide)], 2).cumsum(2)
    z = torch.cat([state[1][:, :, None], k.to(wide).sum(-2)], 2).cumsum(2)
    last = S[:, :, -1], z[:, :, -1]
    S, z = S[:, :, :-1], z[:, :, :-1, :, None]
    P = (q @ k.mT).to(wide).tril()                          # (B, H, n, C, C)
    weight = P.sum(-1, keepdim=True) + q.to(wide) @ z       # (B, H, n, C, 1)
    _positive(join(weight, T))
    # Sixteen bits hold averages of values, and weights that sum to one.
    unit = z.detach().abs().clamp(min=1)                    # (B, H, n, r, 1)
    o = ((P / weight).to(dtype) @ v
         + (q * unit.mT / weight).to(dtype) @ (S / unit).to(dtype))
    return join(o, T), last


def _features(feature_map, q, k):
    """φ(q) and φ(k), checked: (B, T, H, r), in q's dtype."""
    maps = feature_map
    if not isinstance(maps, tuple):
        maps = (maps, maps)
    if len(maps) != 2 or not all(map(callable, maps)):
        raise ValueError("feature_map must be a function, or a pair of them; "
                         f"it is {feature_map!r}")
    features = []
    for name, φ, x in zip(("feature_map(q)", "feature_map(k)"), maps, (q, k)):
        phi = _checks.tensor(name, φ(x), "(B, T, H, r)", 4, like=q)
        if phi.shape[:3] != q.shape[:3]:
            raise ValueError(f"{name} must keep q's axes (B, T, H) = "
                             f"{tuple(q.shape[:3])}; "
                             f"its shape is {tuple(phi.shape)}")
        features.append(phi.to(q.dtype))
    if features[0].shape != features[1].shape:
        raise ValueError("feature_map must give q and k one width r; its "
                         f"shapes are {tuple(features[0].shape)} and "
                         f"{tuple(features[1].shape)}")
    return features


def _state(initial, q, v, bounds):
    """(S, z) as checked tensors; zeros where there is no initial state."""
    n = q.shape[0] if bounds is None else len(bounds) - 1
    shapes = ((n, q.shape[2], q.shape[3], v.shape[3]), (n, *q.shape[2:]))
    if initial is None:
        return tuple(q.new_zeros(shape, dtype=_checks.state_dtype(q))
                     for shape in shapes)
    if not isinstance(initial, (tuple, list)) or len(initial) != 2:
        raise ValueError("initial_state must be a pair (S, z); it is "
                         f"{type(initial).__name__}")
    return tuple(_checks.state(f"initial_state's {name}", x, q, shape)
                 for name, x, shape in zip("Sz", initial, shapes))


def _positive(weight):
    """Raise if a weight, on the CPU, is not above zero."""
    if weight.device.type == "cpu" and not (weight > 0).all():
        bad = weight.detach().min().item()
        raise ValueError("the denominator φ(q)·z must be positive; its "
                         f"smallest value is {bad:g} (does feature_map give "
                         "positive values in this dtype?)")
    return weight
