"""Retrieval against distance: how far back can a fact lie?

    python -m lintut.experiments.distance [--out FILE] [--large | --quick]

    key value … key value   filler filler … filler   key   …   key
                                                     value … value   wanted

A few facts, then G symbols that say nothing, then every key once more, in
another order; in training `asks` times, which gives more to learn from.
Models are trained on the gaps G in `trained`, mixed, so that each rule meets
some within its reach, and tested on each gap alone, gaps longer than any they
were trained on included.  The filler's symbols are its own, so that a gate can
tell them; the model has no positions.  It is a toy of the "needle in a
haystack".
"""

from lintut.experiments import training
from lintut.experiments.model import RULES, Model, torch

WHAT = "accuracy of recall against the filler between a fact and its question"
DEFAULT = {"mechanisms": [*RULES, "hybrid"], "seeds": [0, 1, 2], "d": 16,
           "facts": 4, "asks": 4, "trained": [1, 4, 16, 64],
           "gaps": [1, 4, 16, 64, 256, 1024],
           "keys": 48, "values": 32, "filler": 32, "D": 64, "heads": 2,
           "layers": 2, "window": 16, "steps": 800, "batch": 8,
           "learning_rate": 0.01, "test_sequences": 64}
LARGE = {"d": 32, "facts": 16, "trained": [1, 4, 16, 64, 256],
         "seeds": [0, 1, 2, 3, 4],
         "gaps": [1, 4, 16, 64, 256, 1024, 4096], "D": 128, "window": 64,
         "steps": 10_000, "batch": 64, "learning_rate": 0.003,
         "test_sequences": 512}
QUICK = {"seeds": [0], "d": 8, "facts": 2, "trained": [1, 4], "gaps": [1, 8],
         "keys": 4, "values": 4, "filler": 4, "D": 16, "steps": 2,
         "test_sequences": 8}


def draw(source, batch, gap, s, asks=1):
    """Tokens and wanted symbols, (batch, (2 + asks)n + gap), n facts.

    Keys are the symbols from 0 on, then come the values, then the filler.
    """
    n = s["facts"]
    key = torch.rand(batch, s["keys"], generator=source).argsort(-1)[:, :n]
    value = s["keys"] + torch.randint(s["values"], (batch, n),
                                      generator=source)
    filler = s["keys"] + s["values"] + torch.randint(
        s["filler"], (batch, gap), generator=source)
    order = torch.rand(batch, n * asks, generator=source).argsort(-1) % n
    told = torch.cat([torch.stack([key, value], -1).flatten(1), filler], 1)
    asked, answer = key.gather(1, order), value.gather(1, order)
    nothing = torch.full_like(told, training.IGNORE)
    return torch.cat([told, asked], 1), torch.cat([nothing, answer], 1)


def points(settings):
    return [{"mechanism": mechanism, "seed": seed}
            for seed in settings["seeds"]
            for mechanism in settings["mechanisms"]]


def work(s, point):
    """Train one model on short gaps, test it on each gap."""
    model = Model(point["mechanism"], s["keys"] + s["values"] + s["filler"],
                  s["D"], s["heads"], s["d"], s["layers"], s["window"])

    def batch(source):
        pick = torch.randint(len(s["trained"]), (), generator=source)
        return draw(source, s["batch"], s["trained"][pick], s, s["asks"])

    losses = training.fit(model, batch, point["seed"], s["steps"],
                          s["learning_rate"])
    source = training.generator(1000 + point["seed"])
    right = [training.accuracy(model, *draw(
        source, s["test_sequences"], gap, s))
        for gap in s["gaps"]]
    return {"gaps": s["gaps"], "accuracy": [round(x, 4) for x in right],
            "loss": round(sum(losses[-50:]) / len(losses[-50:]), 4)}


def main(arguments=None):
    return training.command("distance", WHAT, points, work, DEFAULT, LARGE,
                            QUICK, arguments)


if __name__ == "__main__":
    main()
