"""Cases and oracle shared by the tests of softmax attention's two backends."""

import math
from functools import partial

import torch

from lintut.kernels import softmax

from . import harness

# B, H, T, T', d, d_v, keywords; the tests' tiles have sides of 16 and 32.
CASES = [
    (2, 3, 1, 1, 16, 16, dict()),
    (1, 2, 1, 100, 24, 16, dict()),
    (1, 2, 70, 9, 16, 40, dict(scale=0.4)),
    (2, 3, 34, 34, 20, 33, dict()),
    (1, 2, 1, 1, 16, 16, dict(causal=True)),
    (1, 2, 63, 63, 64, 16, dict(causal=True)),
    (2, 1, 65, 65, 33, 48, dict(causal=True, scale=-0.5)),
    (1, 2, 97, 97, 40, 24, dict(causal=True)),
    (1, 2, 66, 66, 16, 24, dict(causal=True, window=1)),
    (1, 2, 97, 97, 24, 40, dict(causal=True, window=33)),
    (1, 2, 100, 100, 16, 16, dict(causal=True, window=3, scale=2.0)),
    (1, 2, 49, 49, 16, 16, dict(causal=True, window=10**12)),
    (1, 2, 90, 90, 24, 16, dict(window=6)),
    (1, 2, 96, 96, 16, 20, dict(window=71)),
]
# Of those, some with tiles hidden, whole and cut.
HALF = [CASES[n] for n in (1, 3, 7, 9, 13)]


def name(case):
    *sizes, keywords = case
    return f"{sizes}, {keywords}"


def visible(T, T_k, causal, window):
    """(T, T'), True where query i may see key j: the definition, by hand."""
    i, j = torch.arange(T)[:, None], torch.arange(T_k)[None, :]
    i = i + (T_k - T if causal else 0)      # the cached keys come before
    see = torch.ones(T, T_k, dtype=torch.bool)
    if causal:
        see &= j <= i
    if window is not None and causal:
        see &= i - j <= window - 1
    elif window is not None:
        see &= (i - j <= window // 2) & (j - i <= (window - 1) // 2)
    return see


def explicit(q, k, v, causal=False, window=None, scale=None):
    """Plain attention, with the whole T×T' matrix."""
    s = torch.einsum("bihd,bjhd->bhij", q, k)
    s = s * (q.shape[-1] ** -0.5 if scale is None else scale)
    see = visible(q.shape[1], k.shape[1], causal, window)
    p = s.masked_fill(~see, -math.inf).softmax(-1)
    return torch.einsum("bhij,bjhe->bihe", p, v)


def inputs(B, H, T, T_k, d, d_v):
    """q, k, v, and weights for the output, in float64."""
    return (dict(q=harness.random((B, T, H, d), 1, 1.5),
                 k=harness.random((B, T_k, H, d), 2, 1.5),
                 v=harness.random((B, T_k, H, d_v), 3) + 0.5),
            harness.random((B, T, H, d_v), 4))


def compare(run, given, weights, keywords, dtype):
    """{name: (got, expected)} of the output and the gradients.

    `run` works in `dtype`; what is expected is explicit attention in float64.
    """
    (want,), wanted = harness.gradients(partial(explicit, **keywords), given,
                                        [weights])
    cast = {name: x.to(dtype) for name, x in given.items()}
    (o,), found = harness.gradients(partial(run, **keywords), cast, [weights])
    pairs = dict(o=(o, want))
    pairs |= {"d" + name: (found[name], wanted[name]) for name in given}
    assert all(got.dtype == dtype for got, _ in pairs.values())
    return pairs


def row_error(got, expected):
    """The largest error of a row, relative to that row's largest entry.

    For a small row, to a tenth of the tensor's largest: a gradient that
    cancels has no digits of its own.  One that vanishes is compared with 1.
    """
    assert got.shape == expected.shape, (got.shape, expected.shape)
    error = (got.detach().double() - expected.detach()).abs().amax(-1)
    size = expected.detach().abs().amax(-1)
    largest = size.max().item()
    ratio = error / size.clamp(min=0.1 * largest if largest > 1e-9 else 1.0)
    assert torch.isfinite(ratio).all(), "an entry is not finite"
    return ratio.max().item()


def exact(case, backend, dtype, tolerance):
    """Output and gradients of a case equal the oracle's, row by row."""
    *sizes, keywords = case
    pairs = compare(partial(softmax.attention, backend=backend),
                    *inputs(*sizes), keywords, dtype)
    found = {name: row_error(*pair) for name, pair in pairs.items()}
    assert max(found.values()) <= tolerance, found


def rounded(case, backend, dtype, plain=explicit):
    """In half precision: no more than twice the error of `plain`.

    Of the whole tensor in the mean square; and no row's largest error above
    twice the plain path's largest, plus a rounding of the largest entry.
    """
    *sizes, keywords = case
    given, weights = inputs(*sizes)
    given = {name: x.to(dtype).double() for name, x in given.items()}
    weights = weights.to(dtype).double()
    ours = compare(partial(softmax.attention, backend=backend), given,
                   weights, keywords, dtype)
    theirs = compare(plain, given, weights, keywords, dtype)
    for name, (got, expected) in ours.items():
        one = (got.double() - expected).abs()
        other = (theirs[name][0].double() - expected).abs()
        assert one.square().mean() <= 4 * other.square().mean(), name
        step = torch.finfo(dtype).eps * expected.abs().max()
        assert one.max() <= 2 * other.max() + step, name
