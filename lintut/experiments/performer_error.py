"""How far is the Performer's output from softmax's, as features grow?

    python -m lintut.experiments.performer_error [--out FILE]
                                                 [--large | --quick]

q and k have independent entries N(0, σ²), v has N(0, 1); the output of softmax
attention, not causal, against the one through r random features: positive or
trigonometric (r/2 rows), independent rows or orthogonal ones.  The error is
the mean squared one over all entries.  `mean_of_v` is the error of answering
every query with the mean of V.

Choromanski et al. 2021, figure 4, at its length and width (L = 4096, d = 16, 15
samples; it compares numbers of rows, not of features).
"""

import numpy as np

from lintut.experiments import training
from lintut.reference import performer, softmax

WHAT = "output error of random features against their number"
KINDS = [["positive", True], ["positive", False], ["trigonometric", True],
         ["trigonometric", False]]          # kind, orthogonal
DEFAULT = {"N": 4096, "d": 16, "kinds": KINDS, "sigmas": [0.5, 1.0],
           "features": [16, 32, 64, 128, 256], "seeds": list(range(15))}
OTHER = 1000        # seeds of rows: those of q and k would draw the same numbers
LARGE = {"N": 16_384, "features": [16, 64, 256, 1024]}
QUICK = {"N": 64, "d": 4, "features": [8, 16], "seeds": [0, 1, 2]}


def estimate(q, k, v, r, kind, orthogonal, seed):
    """The output through r features; a denominator may be negative."""
    rows = r if kind == "positive" else r // 2
    d = q.shape[1]
    omega = performer.projection(rows, d, OTHER + seed, orthogonal)
    fq = performer.features(q / d ** 0.25, omega, kind, query=True)
    fk = performer.features(k / d ** 0.25, omega, kind)     # (N, r)
    return (fq @ (fk.T @ v)) / (fq @ fk.sum(0))[:, None]


def points(s):
    return [{"sigma": sigma, "seed": seed} for sigma in s["sigmas"]
            for seed in s["seeds"]]


def work(s, point):
    """One draw of q, k, v and of every feature map."""
    rng = np.random.default_rng(point["seed"])
    q, k = point["sigma"] * rng.normal(size=(2, s["N"], s["d"]))
    v = rng.normal(size=(s["N"], s["d"]))
    exact = softmax.blocked(q, k, v)

    def error(o):
        return float(f"{((o - exact) ** 2).mean():.6g}")

    return {"errors": [[error(estimate(q, k, v, r, *kind, point["seed"]))
                        for r in s["features"]] for kind in s["kinds"]],
            "mean_of_v": error(v.mean(0))}


def main(arguments=None):
    return training.command("performer_error", WHAT, points, work, DEFAULT,
                            LARGE, QUICK, arguments, gpu=False)


if __name__ == "__main__":
    main()
