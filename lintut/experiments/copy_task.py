"""The copy task: say again, in order, what was said.

    python -m lintut.experiments.copy_task [--out FILE] [--large | --quick]

    a   b   c   …   |   a   b   …
                    a   b   c   …     wanted

A row of symbols, a separator, the same row.  After Katharopoulos et al. 2020,
"Transformers are RNNs", section 4.1 (figure 2, convergence), scaled down: 10
symbols as there, but rows of one length, 32, where theirs have up to 128; 2
layers of 2 heads, theirs 4 of 8; AdamW and a cosine, theirs RAdam.  Our mixer
has a short convolution before the rule, theirs none.  Positions are learned.

The record holds the loss on the way, a mean over each stretch of steps, and
the accuracy at the end on fresh rows.
"""

from lintut.experiments import training
from lintut.experiments.model import Model, torch

WHAT = "loss against training steps on the copy task, and final accuracy"
DEFAULT = {"mechanisms": ["softmax", "linear", "retention", "delta",
                          "gated_delta"],
           "seeds": [0, 1, 2], "d": 16, "length": 32, "symbols": 10,
           "D": 64, "heads": 2, "layers": 2, "window": 16, "steps": 600,
           "stretch": 25, "batch": 8, "learning_rate": 0.005,
           "test_sequences": 128}
LARGE = {"seeds": [0, 1, 2, 3, 4], "d": 32, "length": 128, "D": 256,
         "heads": 8, "layers": 4, "steps": 10_000, "stretch": 100,
         "batch": 64, "learning_rate": 0.001, "test_sequences": 1024}
QUICK = {"seeds": [0], "d": 8, "length": 4, "D": 16, "steps": 4,
         "stretch": 2, "test_sequences": 8}


def draw(source, batch, length, symbols):
    """Tokens and wanted symbols, (batch, 2·length); the separator is last."""
    row = torch.randint(symbols, (batch, length), generator=source)
    bar = torch.full((batch, 1), symbols)
    nothing = torch.full_like(row, training.IGNORE)
    return (torch.cat([row, bar, row[:, :-1]], 1),
            torch.cat([nothing, row], 1))


def points(settings):
    return [{"mechanism": mechanism, "seed": seed}
            for seed in settings["seeds"]
            for mechanism in settings["mechanisms"]]


def work(s, point):
    """Train one model, keep its losses, test it on fresh rows."""
    model = Model(point["mechanism"], s["symbols"] + 1, s["D"], s["heads"],
                  s["d"], s["layers"], s["window"],
                  positions=2 * s["length"])

    def batch(source):
        return draw(source, s["batch"], s["length"], s["symbols"])

    losses = training.fit(model, batch, point["seed"], s["steps"],
                          s["learning_rate"])
    source = training.generator(1000 + point["seed"])
    right = training.accuracy(model, *draw(
        source, s["test_sequences"], s["length"], s["symbols"]))
    stretches = torch.tensor(losses).unflatten(0, (-1, s["stretch"]))
    return {"loss": [round(x, 4) for x in stretches.mean(1).tolist()],
            "accuracy": round(right, 4)}


def main(arguments=None):
    return training.command("copy_task", WHAT, points, work, DEFAULT, LARGE,
                            QUICK, arguments)


if __name__ == "__main__":
    main()
