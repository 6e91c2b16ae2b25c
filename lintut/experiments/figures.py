"""The figures of the trained experiments, drawn from their records.

    figures.show("mqar_pairs")          draws it, or says that no record is
                                        at hand
    figure, alt, caption = figures.mqar_pairs(recorded("mqar.json"))

    mqar_pairs    accuracy against the number of pairs, at one width
    mqar_state    accuracy against the state's size, at the most pairs
    distance      accuracy against the filler between fact and question
    overwrite     accuracy for keys that hold now
    forget        accuracy for keys that were dropped
    copy          loss against training steps

Every number in an alt text or a caption comes from the record.  A point is
the mean over seeds; its bar goes from the lowest seed to the highest.
"""

import numpy as np

from lintut import plots
from lintut.experiments import recorded
from lintut.plots import Series

NAMES = {"softmax": "softmax", "sliding_window": "window",
         "linear": "linear, ELU+1", "retention": "retention", "gla": "GLA",
         "delta": "delta", "gated_delta": "gated delta",
         "hybrid": "linear + window"}

# Zoology, figure 2, read by eye: N = 512, width 512, 32 pairs (N/16).
ZOOLOGY = {"attention": 1.0, "gated convolution": 0.7, "RWKV": 0.37}


def show(name):
    """Draw one figure on the page, below where its record comes from."""
    present(*FIGURES[name], provenance)


def present(draw, file, provenance):
    """Draw a record's figure, below where it comes from; or say it is missing.
    """
    record = recorded(file)
    if record is None:
        print(f"results/{file} is not here: see the book's page")
        return
    print(provenance(record))
    plots.show(*draw(record))


def provenance(record):
    """Where a record comes from, in two lines."""
    rows, hardware = record["rows"], record["hardware"]
    minutes = sum(row["cpu_seconds"] for row in rows) / 60
    return (f"recorded {record['date']}, torch {record['versions']['torch']}"
            f", {hardware['gpu'] or hardware['cpu']}\n"
            f"{record['command']}: {len(rows)} models, "
            f"{seeds(record)} seeds, {minutes:.0f} processor minutes")


def seeds(record):
    return len({row["seed"] for row in record["rows"]})


def table(record, field, **only):
    """{mechanism: (seeds, …) array of `field`}, of the rows like `only`.

    In the order of `NAMES`; what it does not name is left out.
    """
    found = {name: [row[field] for row in record["rows"]
                    if row.items() >= {"mechanism": name, **only}.items()]
             for name in NAMES}
    return {name: np.array(rows, float) for name, rows in found.items()
            if rows}


def curves(found, x, labels=NAMES):
    """A series for each mechanism: mean, lowest and highest seed."""
    return [Series(labels[name], x, y.mean(0), name, low=y.min(0),
                   high=y.max(0)) for name, y in found.items()]


def ticks(fig, x):
    fig.update_xaxes(tickvals=list(x), ticktext=[plots.short(int(n))
                                                 for n in x])
    return fig


def percent(value):
    """A share in percent; 100% means all of them."""
    if 0.99 <= value < 1:
        return f"{min(100 * value, 99.9):.1f}%"
    return f"{100 * value:.0f}%"


def listed(pairs):
    """'softmax 100%, window 31%', highest first; a pair is (name, value)."""
    pairs = sorted(pairs, key=lambda pair: -pair[1])
    return ", ".join(f"{NAMES[name]} {percent(value)}"
                     for name, value in pairs)


def at(found, i):
    """(name, mean over seeds) at place i of the last axis."""
    return [(name, y.mean(0)[i]) for name, y in found.items()]


def mqar_pairs(record, d=16):
    """Accuracy against the number of pairs, for heads of width d."""
    settings, found = record["settings"], table(record, "accuracy", d=d)
    pairs, count = settings["pairs"], seeds(record)
    fig = ticks(plots.lines(curves(found, pairs), x="pairs in a sequence",
                            y="accuracy", log="x", height=440), pairs)
    theirs = ", ".join(f"{name} ≈ {value:g}"
                       for name, value in ZOOLOGY.items())
    return fig, (
        f"Accuracy of recall against {pairs[0]} to {pairs[-1]} pairs. At "
        f"{pairs[-1]} pairs: {listed(at(found, -1))}."), (
        f"Recall of {pairs[0]} to {pairs[-1]} pairs, heads of width d = {d}, "
        f"{count} seeds. At {pairs[-1]} pairs: {listed(at(found, -1))}. "
        f"{other_order(record, d)}Guessing a value: "
        f"{percent(1 / settings['values'])}. For comparison, "
        "Zoology's figure 2 read by eye, 32 pairs among 512 tokens, models "
        f"of width 512: {theirs}.")


def other_order(record, d):
    """The hybrid with its layers the other way round, in a sentence."""
    right = [row["accuracy"][-1] for row in record["rows"]
             if row["mechanism"] == "hybrid_window_first" and row["d"] == d]
    if not right:
        return ""
    return ("With the window in the first layer and linear in the second: "
            f"{percent(np.mean(right))}. ")


def mqar_state(record):
    """Accuracy against the numbers kept, at the most pairs."""
    settings, count = record["settings"], seeds(record)
    pairs, series, best = settings["pairs"][-1], [], []
    for name in NAMES:
        rows = [r for r in record["rows"] if r["mechanism"] == name]
        states = sorted({r["state"] for r in rows})
        if not rows:
            continue
        y = [[r["accuracy"][-1] for r in rows if r["state"] == state]
             for state in states]
        if name != "softmax":           # its cache is far to the right
            series.append(Series(
                NAMES[name], states, [np.mean(v) for v in y], name,
                low=np.array([min(v) for v in y]),
                high=np.array([max(v) for v in y])))
        best.append(f"{NAMES[name]} {percent(np.mean(y[0]))} with "
                    f"{states[0]:.0f} and {percent(np.mean(y[-1]))} with "
                    f"{states[-1]:.0f}")
    widths = ", ".join(str(d) for d in sorted(settings["widths"]))
    return plots.lines(
        series, x="state (numbers, a layer and head)", y="accuracy",
        log="x", height=440), (
        f"Accuracy at {pairs} pairs against the size of the state: "
        + "; ".join(best) + "."), (
        f"{pairs} pairs, heads of width d = {widths}, {count} seeds. What "
        f"decoding keeps after {3 * pairs} tokens, and the accuracy: "
        + "; ".join(best) + ". Softmax is not drawn: its cache grows with "
        "the sequence, the others do not.")


def distance(record):
    """Accuracy against the filler between the facts and the questions."""
    settings, found = record["settings"], table(record, "accuracy")
    gaps, longest = settings["gaps"], max(settings["trained"])
    fig = ticks(plots.lines(
        curves(found, gaps), x="filler between fact and question (tokens)",
        y="accuracy", log="x", height=440), gaps)
    fig.add_vline(x=longest, line=dict(color=plots.MUTED, dash="dot",
                                       width=1.5))
    fig.add_annotation(x=np.log10(longest), y=1, yref="paper", yshift=14,
                       text="longest in training", showarrow=False,
                       font=dict(color=plots.MUTED))
    fig.layout.margin.t = 36
    inside = max(i for i, gap in enumerate(gaps) if gap <= longest)
    return fig, (
        f"Accuracy of recall against {gaps[0]} to {gaps[-1]} tokens of "
        f"filler. At {gaps[-1]}: {listed(at(found, -1))}."), (
        f"{settings['facts']} facts, then filler, then the questions; heads "
        f"of width {settings['d']}, {seeds(record)} seeds, trained on at "
        f"most {longest} tokens of filler. At {gaps[inside]}: "
        f"{listed(at(found, inside))}. At {gaps[-1]}: "
        f"{listed(at(found, -1))}. {unlearned(found)}Guessing a value: "
        f"{percent(1 / settings['values'])}.")


def unlearned(found, enough=0.6):
    """Which rules have seeds that fail at the first x already, in words."""
    late = [f"{NAMES[name]} {(y[:, 0] < enough).sum()}"
            for name, y in found.items() if (y[:, 0] < enough).any()]
    if not late:
        return ""
    return ("Seeds that had not learned the task when training ended "
            f"(below {percent(enough)} at the shortest): "
            + ", ".join(late) + ". ")


def _subjects(record, field, asked, guess):
    settings, found = record["settings"], table(record, field)
    loads = settings["facts"]
    fig = ticks(plots.lines(curves(found, loads), x="facts in a subject, n",
                            y="accuracy", log="x", height=440), loads)
    return fig, (
        f"Accuracy for {asked} against facts in a subject. At n = "
        f"{loads[-1]}: {listed(at(found, -1))}."), (
        f"Trained models, asked for {asked}; {seeds(record)} seeds. At n = "
        f"{loads[0]}: {listed(at(found, 0))}. At n = {loads[-1]}: "
        f"{listed(at(found, -1))}. {guess}")


def overwrite(record):
    """Accuracy for the keys of the last subject: the latest value."""
    guess = percent(1 / record["settings"]["values"])
    return _subjects(record, "now", "the latest value of a key that holds",
                     f"Guessing a value: {guess}.")


def forget(record):
    """Accuracy for the keys that only earlier subjects used: nothing."""
    return _subjects(record, "dropped", "keys that were dropped",
                     "Saying “nothing” always would score 100% here, and 0% "
                     "on the keys that hold.")


def copy(record):
    """Loss against training steps, and the accuracy at the end."""
    settings, found = record["settings"], table(record, "loss")
    steps = settings["stretch"] * np.arange(
        1, settings["steps"] // settings["stretch"] + 1)
    end = listed((name, y.mean())
                 for name, y in table(record, "accuracy").items())
    lost = ", ".join(f"{NAMES[name]} {y.mean(0)[-1]:.3f}"
                     for name, y in found.items())
    fig = plots.lines(curves(found, steps), x="training steps",
                      y="loss (nats a symbol)", height=400)
    return fig, (
        f"Training loss of the copy task against {steps[-1]} steps; at the "
        f"end: {lost}."), (
        f"Copying {settings['length']} symbols out of {settings['symbols']}, "
        f"{seeds(record)} seeds; means of {settings['stretch']} steps. Loss "
        f"at the end: {lost}. {learned(found, steps)} Right symbols on fresh "
        f"rows: {end}. Guessing costs ln {settings['symbols']} = "
        f"{np.log(settings['symbols']):.2f}.")


def learned(found, steps, loss=0.1):
    """When the mean loss first fell below `loss`, in words."""
    first = {NAMES[name]: steps[y.mean(0) < loss] for name, y in
             found.items()}
    return f"Steps until the loss is below {loss:g}: " + ", ".join(
        f"{name} {at[0] if at.size else 'never'}"
        for name, at in first.items()) + "."


FIGURES = {"mqar_pairs": (mqar_pairs, "mqar.json"),
           "mqar_state": (mqar_state, "mqar.json"),
           "distance": (distance, "distance.json"),
           "overwrite": (overwrite, "overwrite.json"),
           "forget": (forget, "overwrite.json"),
           "copy": (copy, "copy.json")}
