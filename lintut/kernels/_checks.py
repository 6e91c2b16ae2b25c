"""What every function of `lintut.kernels` refuses, and in which words.

A refusal is a ValueError that names the argument, says what it got and what
it should be.  Values are looked at on the CPU only (see `lintut.kernels`).
"""

import math

import torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def _name(dtype):
    return str(dtype).removeprefix("torch.")


def state_dtype(q):
    """States are float32; float64 for float64 input."""
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def tensor(name, x, axes, ndim, like=None):
    """Check that x is a floating tensor of `ndim` axes, on `like`'s device."""
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"{name} must be a torch.Tensor of shape {axes}; "
                         f"it is {type(x).__name__}")
    if x.ndim != ndim:
        raise ValueError(f"{name} must have shape {axes}; "
                         f"its shape is {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise ValueError(f"{name} must be float32, float16, bfloat16 or "
                         f"float64; it is {_name(x.dtype)}")
    if x.numel() == 0:
        raise ValueError(f"{name} is empty: its shape is {tuple(x.shape)}")
    if like is not None and x.device != like.device:
        raise ValueError(f"{name} must be on q's device, {like.device}; "
                         f"it is on {x.device}")
    return finite(name, x)


def finite(name, x):
    """Raise if x, on the CPU, has an entry that is not finite."""
    if x.device.type == "cpu":
        good = torch.isfinite(x.detach())
        if not good.all():
            where = tuple((~good).nonzero()[0].tolist())
            raise ValueError(f"{name} must be finite; {name}{list(where)} "
                             f"is {x[where].item()}")
    return x


def qkv(q, k, v, same_length=True):
    """Check q, k (B, T, H, D) and v (B, T, H, D_v).

    Unless `same_length`, k and v may have a T of their own.
    """
    tensor("q", q, "(B, T, H, D)", 4)
    tensor("k", k, "(B, T, H, D)", 4, like=q)
    tensor("v", v, "(B, T, H, D_v)", 4, like=q)
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError("q, k and v must share one dtype; they are "
                         + ", ".join(_name(x.dtype) for x in (q, k, v)))
    if same_length and k.shape != q.shape:
        raise ValueError(f"k must have q's shape {tuple(q.shape)}; "
                         f"its shape is {tuple(k.shape)}")
    if k.shape[:1] + k.shape[2:] != q.shape[:1] + q.shape[2:]:
        raise ValueError(f"k must have q's shape {tuple(q.shape)}, T aside; "
                         f"its shape is {tuple(k.shape)}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v must have {'q' if same_length else 'k'}'s axes "
                         f"(B, T, H) = {tuple(k.shape[:3])}; "
                         f"its shape is {tuple(v.shape)}")


def gate(name, x, q, per_key, low=0.0, high=1.0, open_low=True):
    """Check a gate of shape (B, T, H, D) if `per_key`, else (B, T, H).

    Its dtype may be q's or the state's (float32): gates close to one lose
    their meaning in sixteen bits.
    """
    axes, ndim = ("(B, T, H, D)", 4) if per_key else ("(B, T, H)", 3)
    tensor(name, x, axes, ndim, like=q)
    if x.shape != q.shape[:ndim]:
        raise ValueError(f"{name} must have shape {axes} = "
                         f"{tuple(q.shape[:ndim])}; "
                         f"its shape is {tuple(x.shape)}")
    if x.dtype not in (q.dtype, state_dtype(q)):
        raise ValueError(f"{name} must be {_name(q.dtype)}, as q is, or "
                         f"{_name(state_dtype(q))}; it is {_name(x.dtype)}")
    return within(name, x, low, high, open_low)


def within(name, x, low, high, open_low):
    """Raise if x, on the CPU, has an entry outside its range."""
    if x.device.type == "cpu":
        smallest, largest = x.detach().min().item(), x.detach().max().item()
        low_ok = smallest > low if open_low else smallest >= low
        if not low_ok or largest > high:
            bad, word = ((largest, "largest") if low_ok else
                         (smallest, "smallest"))
            raise ValueError(f"{name} must lie in {'(' if open_low else '['}"
                             f"{low:g}, {high:g}]; its {word} entry is "
                             f"{bad:g}")
    return x


def state(name, x, q, shape):
    """Check an initial state: None, or exactly `shape` in float32."""
    if x is None:
        return None
    tensor(name, x, str(tuple(shape)), len(shape), like=q)
    if x.dtype != state_dtype(q):
        raise ValueError(f"{name} must be {_name(state_dtype(q))}; "
                         f"it is {_name(x.dtype)}")
    if x.shape != torch.Size(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}; "
                         f"its shape is {tuple(x.shape)}")
    return x


def count(name, n, low=1):
    """A whole number of at least `low`."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise ValueError(f"{name} must be a whole number; it is {n!r}")
    if n < low:
        raise ValueError(f"{name} must be at least {low}; it is {n}")
    return n


def number(name, x):
    """A finite real number."""
    if isinstance(x, bool) or not isinstance(x, (int, float)) \
            or not math.isfinite(x):
        raise ValueError(f"{name} must be a finite number; it is {x!r}")
    return float(x)


def tile(chunk_size):
    """A chunk size that a Triton kernel can use as the side of a tile."""
    if chunk_size not in (16, 32, 64, 128):
        raise ValueError("chunk_size must be 16, 32, 64 or 128 for the "
                         f"Triton kernels; it is {chunk_size} (any works "
                         "with backend='torch')")
    return chunk_size


def bounds(cu_seqlens, q):
    """The packed sequences' bounds (0, end of the first, …, T), or None.

    Reading them waits for the device, when they are on one.
    """
    if cu_seqlens is None:
        return None
    x = cu_seqlens
    if not isinstance(x, torch.Tensor) or x.ndim != 1 or x.dtype not in (
            torch.int32, torch.int64):
        raise ValueError("cu_seqlens must be a tensor of int32 or int64, "
                         "of shape (sequences + 1,); it is "
                         + (f"{_name(x.dtype)} of shape {tuple(x.shape)}"
                            if isinstance(x, torch.Tensor)
                            else type(x).__name__))
    if q.shape[0] != 1:
        raise ValueError("with cu_seqlens the sequences are packed into one "
                         f"row, B=1; q's shape is {tuple(q.shape)}")
    ends = tuple(x.tolist())
    if len(ends) < 2 or ends[0] != 0 or ends[-1] != q.shape[1] or any(
            b <= a for a, b in zip(ends, ends[1:])):
        raise ValueError("cu_seqlens must rise from 0 to T="
                         f"{q.shape[1]}; it is {list(ends)[:8]}"
                         + (" …" if len(ends) > 8 else ""))
    return ends


def one_token(q):
    """`step` takes one token: T=1."""
    if q.shape[1] != 1:
        raise ValueError("step takes one token, q of shape (B, 1, H, D); "
                         f"its shape is {tuple(q.shape)}")
