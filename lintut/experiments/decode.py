"""What does one more token cost, at position t?

    python -m lintut.experiments.decode [--out FILE] [--large | --quick]

One decoding step of each mechanism, by the `step` of `lintut.kernels`, with
t - 1 tokens behind it: B = 1, H heads, float32, on one CPU thread.

    softmax         from a KV cache
    recomputed      softmax without a cache: all t tokens anew, as some
                    baselines in papers do; up to `recomputed_up_to`
    sliding_window  from a rolling cache
    the others      from their states

`bytes` is what the step returns to carry on from, measured on its tensors.
`softmax.step` copies its cache to lengthen it, so that it moves the cache
about three times where an allocation in advance would let it read it once.
"""

from lintut.bench import record
from lintut.experiments import timing, training
from lintut.experiments.training import torch

from lintut.kernels import (                                # noqa: E402
    delta, gated_delta, gla, linear, retention, sliding_window, softmax)

WHAT = "time and bytes of one decoding step against the position"
NAMES = ["softmax", "recomputed", "sliding_window", "linear", "retention",
         "gla", "delta", "gated_delta"]
DEFAULT = {"names": NAMES, "heads": 4, "d": 64, "window": 256,
           "positions": [2 ** e for e in range(6, 15)],
           "recomputed_up_to": 2048, "rounds": 15}
LARGE = {"positions": [2 ** e for e in range(6, 18)], "rounds": 25}
QUICK = {"heads": 2, "d": 8, "window": 4, "positions": [4, 16],
         "recomputed_up_to": 4, "rounds": 3}


def calls(s, t):
    """{name: the step at position t, returning (o, state), or None}."""
    source, H, d, w = training.generator(t), s["heads"], s["d"], s["window"]

    def draw(*shape):
        return torch.randn(1, *shape, generator=source)

    Q, K, V = (draw(t, H, d) for _ in range(3))             # (1, t, H, d)
    K = torch.nn.functional.normalize(K, dim=-1)
    q, k, v = (x[:, -1:] for x in (Q, K, V))
    past, near = (K[:, :-1], V[:, :-1]), slice(max(0, t - w), t - 1)
    S, z = draw(H, d, d), draw(H, d).exp()
    gates = torch.full((1, 1, H, d), .99)
    alpha, beta = gates[..., 0], torch.full((1, 1, H), .5)
    gamma = torch.full((H,), .96875)

    def recomputed():
        return softmax.chunkwise(Q, K, V, causal=True)[:, -1:], (K, V)

    return {
        "softmax": lambda: softmax.step(q, k, v, initial_state=past),
        "recomputed": recomputed if t <= s["recomputed_up_to"] else None,
        "sliding_window": lambda: sliding_window.step(
            q, k, v, w, initial_state=(K[:, near], V[:, near])),
        "linear": lambda: linear.step(q, k, v, initial_state=(S, z)),
        "retention": lambda: retention.step(q, k, v, gamma, initial_state=S),
        "gla": lambda: gla.step(q, k, v, gates, initial_state=S),
        "delta": lambda: delta.step(q, k, v, beta, initial_state=S),
        "gated_delta": lambda: gated_delta.step(q, k, v, alpha, beta,
                                                initial_state=S)}


def carried(state):
    """The bytes of a state, one tensor or two."""
    parts = state if isinstance(state, tuple) else (state,)
    return sum(x.numel() * x.element_size() for x in parts)


def points(s):
    return [{"position": t} for t in s["positions"]]


@torch.no_grad()
def work(s, point):
    """All steps at one position, in turns."""
    load, every = record.load(), calls(s, point["position"])
    return {"bytes": [carried(call()[1]) if call and name != "recomputed"
                      else None for name, call in every.items()],
            **timing.interleaved(every, s["rounds"]), "load": load}


def main(arguments=None):
    return training.command("decode", WHAT, points, work, DEFAULT, LARGE,
                            QUICK, arguments, jobs=1, gpu=False)


if __name__ == "__main__":
    main()
