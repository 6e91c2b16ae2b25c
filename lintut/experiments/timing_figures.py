"""The figures of the decode, speedup and performer_error records.

    timing_figures.show("decode")       draws it, or says that no record is
                                        at hand
    figure, alt, caption = timing_figures.decode(recorded("decode.json"))

Every number in an alt text or a caption comes from the record, but for those
of the papers, which are named as theirs.
"""

import numpy as np

from lintut import cost, plots
from lintut.experiments.figures import present
from lintut.plots import Series

NAMES = {"softmax": "KV cache", "recomputed": "no cache",
         "sliding_window": "window", "linear": "linear",
         "retention": "RetNet", "gla": "GLA", "delta": "DeltaNet",
         "gated_delta": "Gated DeltaNet"}

# Wang et al. 2020, table 3: inference, a whole model, m = 128, on a V100.
LINFORMER = {512: 1.5, 4096: 3.4, 65_536: 20}


def show(name):
    """Draw one figure on the page, below where its record comes from."""
    present(*FIGURES[name], provenance)


def provenance(record):
    """Where a record comes from, in lines that fit a column."""
    versions, hardware = record["versions"], record["hardware"]
    return (f"{record['command']}\n"
            f"{record['date']}, torch {versions['torch']}, NumPy "
            f"{versions['numpy']}; load before: {hardware['load']:g}\n"
            f"one thread of {hardware['cpu']}")


def columns(record, field):
    """(rows, names) of `field`; NaN where nothing was measured."""
    return np.array([row[field] for row in record["rows"]], float)


def micro(seconds):
    return f"{1e6 * seconds:,.0f} µs"


# -- decode -------------------------------------------------------------------


def decode(record):
    """Time of one step against position; the states' mean from its rows."""
    s = record["settings"]
    t = np.array([row["position"] for row in record["rows"]])
    time, low, high = (columns(record, f) for f in ("median", "low", "high"))
    series = []
    for i, name in enumerate(s["names"]):
        there = np.isfinite(time[:, i])
        series.append(Series(
            NAMES[name], t[there], time[there, i],
            "muted" if name == "recomputed" else name,
            low=low[there, i], high=high[there, i]))
    fig = plots.lines(series, x="position t (tokens)", y="time a step (s)",
                      log="xy", height=440)
    last = {name: time[-1, i] for i, name in enumerate(s["names"])}
    states = [last[name] for name in NAMES if name in last and name not in
              ("softmax", "recomputed", "sliding_window")]
    size = dict(zip(s["names"], record["rows"][-1]["bytes"]))
    words = (f"At t = {t[-1]:,} a step takes {micro(last['softmax'])} from "
             f"the cache of {cost.bytes_text(size['softmax'])}, "
             f"{micro(last['sliding_window'])} from the window, and "
             f"{micro(min(states))} to {micro(max(states))} from states of "
             f"{cost.bytes_text(size['delta'])}.")
    return fig, (
        "Time of one decoding step against position, both axes logarithmic: "
        "without a cache it rises steeply, from a KV cache it rises late, "
        f"windows and states stay level. {words}"), (
        f"One step of lintut.kernels on a CPU: {s['heads']} heads, d = "
        f"{s['d']}, window {s['window']}, float32; medians of {s['rounds']} "
        f"turns, bars from the least to the most. {words}")


def decode_ratios(record):
    """{position: (recomputed, cached) over linear}, as the paper's 317× and
    4,462×, and 18.9× and 55.8×; NaN where nothing was recomputed."""
    names = record["settings"]["names"]
    time = columns(record, "median")
    base = time[:, names.index("linear")]
    return {row["position"]: tuple(
        time[i, names.index(name)] / base[i]
        for name in ("recomputed", "softmax"))
        for i, row in enumerate(record["rows"])}


# -- speedup ------------------------------------------------------------------


def speedup(record):
    """Softmax's time over Linformer's, the FLOPs' ratio behind."""
    s = record["settings"]
    N = np.array([row["N"] for row in record["rows"]])
    time, low, high = (columns(record, f) for f in ("median", "low", "high"))

    def flops(n, m):
        return (cost.of("softmax", N=n, d=s["d"], causal=False).prefill_flops
                / cost.of("linformer", N=n, d=s["d"], m=m).prefill_flops)

    # The lines go on to the paper's longest; there is nothing measured there.
    further = [n for n in LINFORMER if n > N[-1]]
    x, none = [*map(int, N), *further], [np.nan] * len(further)
    hues = ["read", "linformer", "write", "muted"]
    series = [Series(f"m = {m}", x, [*time[:, 0] / time[:, i], *none], hue,
                     low=np.array([*low[:, 0] / high[:, i], *none]),
                     high=np.array([*high[:, 0] / low[:, i], *none]),
                     predicted=[flops(n, m) for n in x])
              for i, (m, hue) in enumerate(zip(s["slots"], hues), 1)]
    ours = {m: time[-1, 0] / time[-1, i]
            for i, m in enumerate(s["slots"], 1)}
    series.append(Series("paper", list(LINFORMER),
                         list(LINFORMER.values()), "ink", dash="dot",
                         marker="star"))
    fig = plots.lines(series, x="length N (tokens)",
                      y="time of softmax / Linformer", log="xy", height=400)
    words = ", ".join(f"{ratio:.1f} for m = {m}" for m, ratio in ours.items())
    theirs = ", ".join(f"{x:g} at N = {n:,}" for n, x in LINFORMER.items())
    return fig, (
        "Time ratio of softmax attention to Linformer against length, both "
        "axes logarithmic, rising for every m, the more the smaller m is. At "
        f"N = {N[-1]:,}: {words}."), (
        f"Points: the attention core alone, plain PyTorch, one CPU thread, d "
        f"= {s['d']}, float32; medians of {s['rounds']} turns. Lines: the "
        f"ratio of FLOPs. At N = {N[-1]:,}: {words}. Stars: the paper's "
        f"whole models on a V100, m = 128: {theirs}.")


# -- performer_error ----------------------------------------------------------

SHORT = {"positive": "positive", "trigonometric": "trig."}


def performer_error(record, sigma):
    """The output's error against the number of features; quartiles."""
    s = record["settings"]
    rows = [row for row in record["rows"] if row["sigma"] == sigma]
    errors = np.array([row["errors"] for row in rows])  # (seed, kind, r)
    low, middle, high = np.quantile(errors, [.25, .5, .75], axis=0)
    mean = float(np.median([row["mean_of_v"] for row in rows]))
    r, series = s["features"], []
    for i, (kind, orthogonal) in enumerate(s["kinds"]):
        series.append(Series(
            f"{SHORT[kind]}, {'orth.' if orthogonal else 'iid'}", r,
            middle[i], "linear" if kind == "positive" else "delta",
            low=low[i], high=high[i], dash="solid" if orthogonal else "dash"))
    series.append(Series("mean of V", r, [mean] * len(r), "muted",
                         dash="dot"))
    fig = plots.lines(series, x="features r", y="squared error of the output",
                      log="xy", height=400)
    at = {f"{kind} {'orthogonal' if orthogonal else 'iid'}": middle[i, -1]
          for i, (kind, orthogonal) in enumerate(s["kinds"])}
    words = ", ".join(f"{name} {x:.1e}" for name, x in at.items())
    return fig, (
        f"Squared error of the output against the number of features, q and "
        f"k of standard deviation {sigma:g}, both axes logarithmic. At r = "
        f"{r[-1]}: {words}; the mean of V {mean:.1e}."), (
        f"N = {s['N']:,}, d = {s['d']}, q and k of standard deviation "
        f"{sigma:g}: medians of {len(rows)} draws, bars from quartile to "
        f"quartile. At r = {r[-1]}: {words}; the mean of V {mean:.1e}.")


FIGURES = {
    "decode": (decode, "decode.json"),
    "speedup": (speedup, "speedup.json"),
    "performer_error": (lambda record: performer_error(record, 0.5),
                        "performer_error.json"),
    "performer_error_1": (lambda record: performer_error(record, 1.0),
                          "performer_error.json"),
}
