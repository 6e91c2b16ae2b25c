"""How much faster is Linformer than softmax attention, as N grows?

    python -m lintut.experiments.speedup [--out FILE] [--large | --quick]

The forward pass of the attention core, not causal: float32, one sequence of H
heads, on one CPU thread, in plain PyTorch,

    softmax     softmax(q kᵀ/√d) v                 N×N weights
    Linformer   softmax(q (E k)ᵀ/√d) (F v)         N×m weights, E and F (m, N)

Wang et al. 2020 report the speed of whole models on a V100 (table 3).
"""

from lintut.bench import record
from lintut.experiments import timing, training
from lintut.experiments.training import torch

WHAT = "time of softmax attention over that of Linformer, against N"
DEFAULT = {"heads": 1, "d": 64, "slots": [64, 128, 256],
           "lengths": [2 ** e for e in range(8, 14)], "rounds": 11}
LARGE = {"lengths": [2 ** e for e in range(8, 16)], "rounds": 21}
QUICK = {"d": 8, "slots": [2, 4], "lengths": [16, 32], "rounds": 3}


def full(q, k, v):
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


def linformer(q, k, v, E, F):
    """q, k, v (H, N, d); E, F (m, N)."""
    return full(q, E @ k, F @ v)


def calls(s, N):
    source = training.generator(N)
    q, k, v = torch.randn(3, s["heads"], N, s["d"], generator=source)
    result = {"softmax": lambda: full(q, k, v)}
    for m in s["slots"]:
        E, F = torch.randn(2, m, N, generator=source) / N ** 0.5
        result[m] = lambda E=E, F=F: linformer(q, k, v, E, F)
    return result


def points(s):
    return [{"N": N} for N in s["lengths"]]


@torch.no_grad()
def work(s, point):
    """Softmax first, then Linformer for every m."""
    load = record.load()
    return {**timing.interleaved(calls(s, point["N"]), s["rounds"]),
            "load": load}


def main(arguments=None):
    return training.command("speedup", WHAT, points, work, DEFAULT, LARGE,
                            QUICK, arguments, jobs=1, gpu=False)


if __name__ == "__main__":
    main()
