"""The recurrent family as plain token loops: what its kernels are tested on.

Everything is float64 torch, (B, T, H, ·), one token after another, with
autograd: an oracle for outputs, states and gradients that shares nothing with
chunks.  The outputs are compared with `lintut.reference` besides.
"""

import torch

from . import harness


def linear(q, k, v, S, z):
    """Normalised, q and k already features: (o, S, z)."""
    out = []
    for t in range(q.shape[1]):
        S = S + torch.einsum("bhd,bhv->bhdv", k[:, t], v[:, t])
        z = z + k[:, t]
        read = torch.einsum("bhd,bhdv->bhv", q[:, t], S)
        out.append(read / torch.einsum("bhd,bhd->bh", q[:, t], z)[..., None])
    return torch.stack(out, 1), S, z


def gated(q, k, v, alpha, S):
    """alpha (B, T, H, D): (o, S)."""
    out = []
    for t in range(q.shape[1]):
        S = alpha[:, t, :, :, None] * S + torch.einsum(
            "bhd,bhv->bhdv", k[:, t], v[:, t])
        out.append(torch.einsum("bhd,bhdv->bhv", q[:, t], S))
    return torch.stack(out, 1), S


def packed(loop, bounds, sequences, states):
    """A loop over each of the sequences packed into B=1."""
    outputs, finals = [], []
    for n, (start, stop) in enumerate(zip(bounds, bounds[1:])):
        o, *last = loop(*(x[:, start:stop] for x in sequences),
                        *(x[n:n + 1] for x in states))
        outputs.append(o)
        finals.append(last)
    return torch.cat(outputs, 1), *map(torch.cat, zip(*finals))


def draw(B, T, H, D, V, n=None, dtype=torch.float32):
    """q, k, v, S in `dtype` (S in float32), all different; n states."""
    lead = (B, T, H)
    q, k = (harness.random((*lead, D), seed, dtype=dtype) for seed in (1, 2))
    v = harness.random((*lead, V), 3, dtype=dtype)
    S = harness.random((n or B, H, D, V), 4, dtype=torch.float32)
    return dict(q=q, k=k, v=v, S=S)


def wide(inputs):
    """The same numbers in float64."""
    return {name: x.double() for name, x in inputs.items()}


def weights(outputs, dtype):
    """What each output weighs in the loss; exact in the first one's dtype."""
    return [harness.random(o.shape, 20 + n).to(dtype if n == 0 else
                                               torch.float32).double()
            for n, o in enumerate(outputs)]


def compare(run, oracle, inputs, tolerance):
    """Outputs and gradients of `run`, each row within `tolerance`.

    For sixteen bits `tolerance` is a function like `run`, the plain torch
    path: the error may be twice its error.
    """
    dtype = inputs["q"].dtype
    w = weights(oracle(**wide(inputs)), dtype)
    expected = harness.gradients(oracle, wide(inputs), w)
    got = harness.gradients(run, inputs, w)
    plain = callable(tolerance) and harness.gradients(tolerance, inputs, w)
    for part in (0, 1):
        for n in (range(len(w)) if part == 0 else expected[1]):
            error = harness.row_error(got[part][n], expected[part][n])
            limit = tolerance
            if plain:
                limit = 2 * harness.row_error(plain[part][n],
                                              expected[part][n])
            assert error <= limit, (
                f"{('output', 'gradient of')[part]} {n}: error {error:.2g}, "
                f"limit {limit:.2g}")
