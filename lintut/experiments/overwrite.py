"""Overwrite and forget: the latest value of a key, and nothing of old ones.

    python -m lintut.experiments.overwrite [--out FILE] [--large | --quick]

    reset  key value key value …   reset  key value …   key   key     …
                                                        value NOTHING …

A stream of three subjects.  Each begins with the symbol `reset`, from which
on everything said before no longer holds, and names n keys twice, the second
time with a new value.  Then come 2n questions, mixed: the n keys of the last
subject, whose latest value is wanted, and n keys that only earlier subjects
used, for which the answer is the symbol NOTHING.

Two scores: the share of right answers for keys that hold ("now"), and for
keys that were dropped ("dropped").  Saying NOTHING always makes them 0 and 1.

Chapter 12 shows the same task with gates set by hand; here a model must learn
them.  Every model has a learned table of positions: softmax has no other way
to tell a later value from an earlier one.
"""

from lintut.experiments import training
from lintut.experiments.model import Model, torch

WHAT = "accuracy for keys written again, and for keys that were dropped"
DEFAULT = {"mechanisms": ["softmax", "linear", "retention", "gla", "delta",
                          "gated_delta"], "seeds": [0, 1, 2], "d": 16,
           "facts": [2, 4, 8], "keys": 32, "values": 16, "D": 64, "heads": 2,
           "layers": 2, "window": 16, "steps": 800, "batch": 8,
           "learning_rate": 0.01, "test_sequences": 128}
LARGE = {"d": 32, "facts": [4, 8, 16, 32], "keys": 256, "values": 256,
         "D": 128, "window": 64, "seeds": [0, 1, 2, 3, 4], "steps": 20_000,
         "batch": 64, "learning_rate": 0.003, "test_sequences": 1024}
QUICK = {"seeds": [0], "d": 8, "facts": [1, 2], "keys": 8, "values": 4,
         "D": 16, "steps": 2, "test_sequences": 8}


def draw(source, batch, n, keys, values):
    """Tokens and wanted symbols, (batch, 14n + 3).

    Keys are the symbols 0 … keys − 1, then the values, RESET and NOTHING.
    """
    reset, nothing = keys + values, keys + values + 1

    def shuffled(x):
        return x.gather(1, torch.rand(x.shape, generator=source).argsort(-1))

    pool = torch.rand(batch, keys, generator=source).argsort(-1)[:, :2 * n]
    now, old = pool[:, :n], pool[:, n:]
    said, latest = [], None
    for subject in (old, shuffled(pool)[:, :n], now):
        said.append(torch.full((batch, 1), reset))
        for _ in range(2):
            key = shuffled(subject)
            value = keys + torch.randint(values, (batch, n), generator=source)
            said.append(torch.stack([key, value], -1).flatten(1))
            # the answers, in the order of `subject`
            latest = value.gather(1, place(key, subject))
    asked = shuffled(pool)
    at = place(pool, asked)                             # (batch, 2n)
    answer = torch.cat([latest, torch.full_like(old, nothing)],
                       1).gather(1, at)
    told = torch.cat(said, 1)
    return (torch.cat([told, asked], 1), torch.cat(
        [torch.full_like(told, training.IGNORE), answer], 1))


def place(row, symbols):
    """Where each of `symbols` (B, m) stands in `row` (B, n)."""
    return (row[:, None] == symbols[..., None]).int().argmax(-1)


def points(settings):
    return [{"mechanism": mechanism, "seed": seed}
            for seed in settings["seeds"]
            for mechanism in settings["mechanisms"]]


def work(s, point):
    """Train one model on all loads mixed, test it on each."""
    symbols = s["keys"] + s["values"] + 2
    model = Model(point["mechanism"], symbols, s["D"], s["heads"], s["d"],
                  s["layers"], s["window"],
                  positions=14 * max(s["facts"]) + 3)

    def batch(source):
        pick = torch.randint(len(s["facts"]), (), generator=source)
        return draw(source, s["batch"], s["facts"][pick], s["keys"],
                    s["values"])

    losses = training.fit(model, batch, point["seed"], s["steps"],
                          s["learning_rate"])
    source = training.generator(1000 + point["seed"])
    scores = {"now": [], "dropped": []}
    for n in s["facts"]:
        tokens, wanted = draw(source, s["test_sequences"], n, s["keys"],
                              s["values"])
        asked = wanted != training.IGNORE
        for name, where in (("now", asked & (wanted < symbols - 1)),
                            ("dropped", wanted == symbols - 1)):
            scores[name].append(round(training.accuracy(
                model, tokens, wanted, where), 4))
    return {"facts": s["facts"], **scores,
            "loss": round(sum(losses[-50:]) / len(losses[-50:]), 4)}


def main(arguments=None):
    return training.command("overwrite", WHAT, points, work, DEFAULT, LARGE,
                            QUICK, arguments)


if __name__ == "__main__":
    main()
