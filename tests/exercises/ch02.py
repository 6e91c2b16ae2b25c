"""Answers to chapter 2's exercises, as people write them (see ch06)."""

import numpy as np

from lintut.check.ch02 import GROWTH, ROUTES


def but(table, *place, to):
    """A copy of the table with another row, or another entry."""
    result = np.array(table).tolist()
    inner = result
    for i in place[:-1]:
        inner = inner[i]
    inner[place[-1]] = to
    return result


COMBINES, HEARS = [1, 0, 1, 0, 0, 1], [4, 7, 7, 16]

RIGHT = {
    "routes": [np.array(ROUTES), [[str(x) for x in r] for r in ROUTES]],
    "combines": [np.array(COMBINES), tuple(map(float, COMBINES))],
    "who_hears": [np.array(HEARS), ["4", "7", "7", "16"]],
    "growth": [np.array(GROWTH), [["1024", 32], [32.0, 1], ["32", "1"]]],
}

WRONG = {
    "routes": {
        "turned": (np.array(ROUTES).T, "yours is turned"),
        "other way round": (1 - np.array(ROUTES), "other way round"),
        "numbers": (but(ROUTES, 3, to=[0, 0, 0, 4, 0]), "0 or 1"),
        "FlashAttention is sparse": (but(ROUTES, 4, to=[1, 0, 0, 0, 1]),
                                     "no pair out"),
        "FlashAttention is a kernel": (but(ROUTES, 4, to=[0, 0, 1, 0, 0]),
                                       "no result changes"),
        "BigBird squeezes": (but(ROUTES, 0, to=[1, 1, 0, 0, 0]), "BigBird"),
        "Linformer is sparse": (but(ROUTES, 1, to=[1, 0, 0, 0, 0]),
                                "Linformer: no pair"),
        "Performer is exact": (but(ROUTES, 2, to=[0, 0, 0, 0, 1]),
                               "is an estimate exact"),
        "two rules, two routes": (but(ROUTES, 3, to=[0, 0, 1, 1, 0]),
                                  "same thing"),
        "the window alone": (but(ROUTES, 5, to=[1, 0, 0, 0, 0]),
                             "computed by FlashAttention: a combination"),
        "the state alone": (but(ROUTES, 6, to=[0, 0, 0, 1, 0]),
                            "layers of RetNet: a combination"),
    },
    "combines": {
        "other way round": ([0, 1, 0, 1, 1, 0], "other way round"),
        "FlashAttention needs all": (but(COMBINES, 0, to=0), "The first"),
        "two maps": (but(COMBINES, 1, to=1), "two different φ"),
        "one rule": (but(COMBINES, 2, to=0), "The third"),
        "Linformer decodes": (but(COMBINES, 3, to=1), "first slot"),
        "FlashAttention anywhere": (but(COMBINES, 4, to=1), "from tile"),
        "one for all heads": (but(COMBINES, 5, to=0), "The sixth"),
    },
    "who_hears": {
        "not itself": (but(HEARS, 0, to=3), "its own change"),
        "until the end": (but(HEARS, 0, to=7), "too far after"),
        "both ways": (but(HEARS, 0, to=5), "looks back"),
        "after it": (but(HEARS, 1, to=6), "its own token"),
        "linear, all": (but(HEARS, 1, to=16), "cannot hear of it"),
        "linear, a window": (but(HEARS, 1, to=4), "until the end"),
        "a tile": (but(HEARS, 2, to=4), "what causal softmax computes"),
        "causal Linformer": (but(HEARS, 3, to=7), "earlier outputs"),
        "slots": (but(HEARS, 3, to=4), "not slots"),
    },
    "growth": {
        "turned": (np.array(GROWTH).T, "turned"),
        "FlashAttention is linear": (but(GROWTH, 0, 0, to=32),
                                     "stay those of softmax"),
        "half": (but(GROWTH, 0, 0, to=512), "how they grow"),
        "cubed": (but(GROWTH, 0, 0, to=32**3), "four times the pairs"),
        "no cache": (but(GROWTH, 0, 1, to=1), "what decoding must keep"),
        "a square kept": (but(GROWTH, 0, 1, to=1024), "not the N×N"),
        "window, free": (but(GROWTH, 1, 0, to=1), "as many tokens"),
        "window, square": (but(GROWTH, 1, 0, to=1024), "each query sees w"),
        "window's cache": (but(GROWTH, 1, 1, to=32), "no later query"),
        "linear, free": (but(GROWTH, 2, 0, to=1), "as many tokens"),
        "linear, square": (but(GROWTH, 2, 0, to=1024), "writes once"),
        "linear, kept": (but(GROWTH, 2, 1, to=32), "S and z"),
    },
}
