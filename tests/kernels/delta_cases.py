"""Inputs for the delta rules, and what they should give: a token loop."""

import torch
from lintut.kernels import delta, gated_delta

from .harness import gates, gradients, random

NAMES = {"delta": ("q", "k", "v", "beta", "initial_state"),
         "gated_delta": ("q", "k", "v", "alpha", "beta", "initial_state")}
MODULES = {"delta": delta, "gated_delta": gated_delta}


def inputs(mechanism, T, B=2, H=2, d=10, d_v=7, seed=0, sequences=None,
           dtype=torch.float64):
    """Arguments by name: ‖k‖ from 0.6 to 1.1, α down to 1e-6, β up to 2.

    q, k and v are rounded to `dtype` and the rest to float32, so that every
    precision starts from the same numbers.
    """
    low = dtype if dtype.itemsize < 4 else torch.float32
    rows = torch.Generator().manual_seed(seed)
    k = random((B, T, H, d), seed + 1)
    k = k / k.norm(dim=-1, keepdim=True)
    k *= 0.6 + 0.5 * torch.rand(B, T, H, 1, generator=rows)
    beta = 2 * torch.rand(B, T, H, generator=rows)
    beta.view(-1)[0], beta.view(-1)[-1] = 2, 0
    found = dict(
        q=random((B, T, H, d), seed).to(low), k=k.to(low),
        v=random((B, T, H, d_v), seed + 2).to(low),
        alpha=gates((B, T, H), seed + 3), beta=beta,
        initial_state=random((sequences or B, H, d, d_v), seed + 4))
    precise = torch.float64 if dtype == torch.float64 else torch.float32
    return {name: found[name].to(dtype if name in ("q", "k", "v")
                                 else precise) for name in NAMES[mechanism]}


def loop(q, k, v, beta, initial_state, alpha=None):
    """The rule as it is written, a token at a time: (o, state)."""
    S, o = initial_state, []
    for t in range(q.shape[1]):
        if alpha is not None:
            S = torch.einsum("bh,bhde->bhde", alpha[:, t], S)
        error = v[:, t] - torch.einsum("bhde,bhd->bhe", S, k[:, t])
        S = S + torch.einsum("bh,bhd,bhe->bhde", beta[:, t], k[:, t], error)
        o.append(torch.einsum("bhde,bhd->bhe", S, q[:, t]))
    return torch.stack(o, 1), S


def packed(run, lengths):
    """`run` on each of the sequences packed in a row, put together."""
    def each(initial_state, **tensors):
        parts = zip(*(x.split(lengths, 1) for x in tensors.values()))
        done = [run(**dict(zip(tensors, part)),
                    initial_state=initial_state[n:n + 1])
                for n, part in enumerate(parts)]
        return (torch.cat([o for o, _ in done], 1),
                torch.cat([S for _, S in done]))
    return each


def weights(found, seed=9):
    """Random weights for o and for the final state."""
    B, T, H, d = found["q"].shape
    d_v = found["v"].shape[-1]
    return (random((B, T, H, d_v), seed),
            random(found["initial_state"].shape, seed + 1))


def named(run, found):
    """o, the state and every gradient, by name."""
    (o, S), rest = gradients(run, found, weights(found))
    return {"o": o, "state": S} | {f"d{n}": g for n, g in rest.items()}


def exact(found, run=loop):
    """`named` of the token loop in float64."""
    return named(run, {n: x.double() for n, x in found.items()})


def chunkwise(mechanism, **options):
    """The mechanism's chunkwise(…), returning its state."""
    def run(**tensors):
        return MODULES[mechanism].chunkwise(**tensors, return_state=True,
                                            **options)
    return run


def errors(got, expected):
    """The largest error of each result, relative to its largest entry."""
    return {n: ((got[n].double() - x).abs().max() / x.abs().max()).item()
            for n, x in expected.items()}
