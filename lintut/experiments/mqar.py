"""Multi-query associative recall: how many pairs can a mixer look up?

    python -m lintut.experiments.mqar [--out FILE] [--large | --quick]

    key value key value … key value   key   key   …   key
                                      value value … value     wanted

n different keys, each followed by its value; then every key once more, in
another order, and at each the model is to name its value.  One model is
trained for each mechanism, width d and seed, on sequences of all the sizes n
mixed, and tested on each n alone.

The task is that of Arora et al. 2023, "Zoology", section 4.1 and appendix E,
scaled down.  It differs: 48 keys and 32 values where they have 8,192 symbols;
all keys asked at once, where theirs are spread over the sequence by a power
law; one model for all n; widths of 8 to 32 a head, theirs 64 to 512 a model.

The hybrid is a layer of linear attention, then one with a window; at the
first width the other order is trained too.  `state` is what decoding keeps
after the longest sequence, in numbers for a layer and head.  The settings were
chosen on softmax and linear alone.
"""

from lintut.experiments import training
from lintut.experiments.model import RULES, Model, state_size, torch

WHAT = "accuracy of associative recall against pairs and state size"
DEFAULT = {"mechanisms": [*RULES, "hybrid"], "widths": [16, 8, 32],
           "seeds": [0, 1, 2], "pairs": [4, 8, 16, 32], "keys": 48,
           "values": 32, "D": 64, "heads": 2, "layers": 2, "window": 16,
           "steps": 600, "batch": 8, "learning_rate": 0.01,
           "test_sequences": 128}
LARGE = {"widths": [16, 32, 64, 128], "pairs": [8, 16, 32, 64, 128],
         "keys": 4096, "values": 4096, "D": 128, "window": 64,
         "seeds": [0, 1, 2, 3, 4], "steps": 20_000, "batch": 64,
         "learning_rate": 0.003, "test_sequences": 1024}
QUICK = {"widths": [8], "seeds": [0], "pairs": [2, 4], "keys": 8,
         "values": 4, "D": 16, "steps": 2, "test_sequences": 8}


def draw(source, batch, n, keys, values):
    """Tokens and wanted symbols, (batch, 3n).

    Keys are the symbols 0 … keys − 1, values follow them.
    """
    key = torch.rand(batch, keys, generator=source).argsort(-1)[:, :n]
    value = keys + torch.randint(values, (batch, n), generator=source)
    order = torch.rand(batch, n, generator=source).argsort(-1)
    told = torch.stack([key, value], -1).flatten(1)     # (batch, 2n)
    asked, answer = key.gather(1, order), value.gather(1, order)
    nothing = torch.full_like(told, training.IGNORE)
    return torch.cat([told, asked], 1), torch.cat([nothing, answer], 1)


def points(settings):
    """Every mechanism at every width; one more, at the first width."""
    first = settings["widths"][0]
    return [{"mechanism": mechanism, "d": d, "seed": seed}
            for d in settings["widths"] for seed in settings["seeds"]
            for mechanism in [*settings["mechanisms"],
                              *["hybrid_window_first"] * (d == first)]]


def work(s, point):
    """Train one model, test it on each number of pairs."""
    model = Model(point["mechanism"], s["keys"] + s["values"], s["D"],
                  s["heads"], point["d"], s["layers"], s["window"])

    def batch(source):
        pick = torch.randint(len(s["pairs"]), (), generator=source)
        return draw(source, s["batch"], s["pairs"][pick], s["keys"],
                    s["values"])

    losses = training.fit(model, batch, point["seed"], s["steps"],
                          s["learning_rate"])
    source = training.generator(1000 + point["seed"])
    right = [training.accuracy(model, *draw(source, s["test_sequences"], n,
                                            s["keys"], s["values"]))
             for n in s["pairs"]]
    return {"pairs": s["pairs"], "accuracy": [round(x, 4) for x in right],
            "loss": round(sum(losses[-50:]) / len(losses[-50:]), 4),
            "state": state_size(point["mechanism"], 3 * max(s["pairs"]),
                                point["d"], s["window"], s["layers"])}


def main(arguments=None):
    return training.command("mqar", WHAT, points, work, DEFAULT, LARGE,
                            QUICK, arguments)


if __name__ == "__main__":
    main()
