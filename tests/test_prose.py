"""What the prose says of the recorded results, held against the records.

`says` asserts that the sentence stands on the page: who changes a sentence, or
a record, has to look at the other.
"""

import json
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

from lintut.experiments import recorded

ROOT = Path(__file__).resolve().parents[1]


def says(page, sentence):
    path = next(ROOT.glob(page))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join(cell.source
                         for cell in nbformat.reads(text, 4).cells
                         if cell.cell_type == "markdown")
    assert " ".join(sentence.split()) in " ".join(text.split()), sentence


def numbers(page, pattern):
    """What the groups of `pattern` match on a page, as floats."""
    words = pattern.split()
    found = re.search(r"\s+".join(words), (ROOT / page).read_text())
    assert found, pattern
    return tuple(float(x.replace(",", "")) for x in found.groups())


def mean(file, mechanism, **where):
    """The mean accuracy over seeds, an array over the last setting."""
    rows = [row["accuracy"] for row in recorded(file)["rows"]
            if row["mechanism"] == mechanism
            and all(row[k] == v for k, v in where.items())]
    assert len(rows) >= 3
    return np.array(rows)


# -- README: results/cpu.json -------------------------------------------------

@pytest.fixture(scope="module")
def bench():
    return json.loads((ROOT / "results" / "cpu.json").read_text())


def seconds(bench, name, N=16_384):
    return next(row["seconds"] for row in bench["rows"]
                if (row["name"], row["N"]) == (name, N))


def test_readme_times(bench):
    ours = seconds(bench, "linear.chunkwise")
    ms, sdpa, loop, bare = numbers(
        "README.md", r"`linear.chunkwise` took (\d+) ms of processor time: "
        r"(\d+) times faster than SDPA, ([\d.]+) times faster than the numba "
        r"loop, ([\d.]+) times its bare matrix products")
    assert ms == round(1e3 * ours)
    assert sdpa == round(seconds(bench, "torch SDPA") / ours)
    assert loop == round(
        seconds(bench, "numba token loop (linear)") / ours, 1)
    assert bare == round(
        ours / seconds(bench, "bare matmuls of linear.chunkwise"), 1)


def test_readme_chunks_against_loops(bench):
    gain = {rule: seconds(bench, f"{rule}.recurrent")
            / seconds(bench, f"{rule}.chunkwise")
            for rule in ("linear", "performer", "retention", "gla", "delta",
                         "gated_delta", "hybrid")}
    gated, plain, low, high = numbers(
        "README.md", r"token loop ([\d.]+) times for the gated delta rule, "
        r"([\d.]+) times for the delta rule, .*? and (\d+) to (\d+) times "
        r"for the others")
    assert gated == round(gain.pop("gated_delta"), 1)
    assert plain == round(gain.pop("delta"), 1)
    assert (low, high) == (round(min(gain.values())),
                           round(max(gain.values())))


def test_readme_growth(bench):
    forms = [f"{rule}.chunkwise" for rule in (
        "linear", "performer", "retention", "gla", "delta", "gated_delta",
        "hybrid")]

    def grows(name, field):
        at = {row["N"]: row for row in bench["rows"] if row["name"] == name}
        return at[65_536][field] / at[4096][field]

    memory, low, high, bare = numbers(
        "README.md", r"memory grew no more than (\d+) times; their time grew "
        r"(\d+) to (\d+) times, that of the bare matrix products (\d+) times")
    assert max(grows(f, "peak_bytes") for f in forms) < memory + 0.5
    times = [grows(f, "seconds") for f in forms]
    assert (low, high) == (round(min(times)), round(max(times)))
    assert bare == round(grows("bare matmuls of linear.chunkwise", "seconds"))


# -- chapter 4: results/speedup.json ------------------------------------------

def test_chapter_4_speedup():
    says("chapters/04*", "Points above their line say that FLOPs are not all")
    record = recorded("speedup.json")
    above = [row["median"][0] / row["median"][1 + i] > row["N"] / (2 * m)
             for row in record["rows"]
             for i, m in enumerate(record["settings"]["slots"])]
    assert any(above)


# -- chapter 6: results/copy.json ---------------------------------------------

def test_chapter_6_copy():
    says("chapters/06*", "The other two end at losses of 0.010 and 0.045, "
         "where softmax has 0.0015; they say 99.8 and 98.7 % of the symbols "
         "right.")
    ends = {name: sorted((row["loss"][-1], row["accuracy"])
                         for row in recorded("copy.json")["rows"]
                         if row["mechanism"] == name)
            for name in ("softmax", "linear")}
    (best, right), (second, also), _ = ends["linear"]
    assert (round(best, 3), round(second, 3)) == (0.010, 0.045)
    assert (round(100 * right, 1), round(100 * also, 1)) == (99.8, 98.7)
    assert {round(loss, 4) for loss, _ in ends["softmax"]} <= {.0014, .0015}


# -- chapter 7: results/retrieval.json ----------------------------------------

def losses(update, keys, feature_map):
    found = {}
    for row in recorded("retrieval.json")["rows"]:
        if (row["update"], row["keys"], row["feature_map"]) == (
                update, keys, feature_map):
            found.setdefault(row["S"], []).append(row["loss"])
    return {S: np.array(x) for S, x in found.items()}


def test_chapter_7_differences_from_the_published_runs():
    says("chapters/07*", "at most 1,000 steps a point")
    says("chapters/07*", "a stop after six tests without progress, not eleven")
    says("chapters/07*", "three seeds a point (one at $S=600$)")
    record = recorded("retrieval.json")
    assert record["settings"]["steps"] == 1000
    assert record["settings"]["patience"] + 1 == 6
    assert max(row["steps"] for row in record["rows"]) == 1000
    count = {}
    for row in record["rows"]:
        point = row["update"], row["keys"], row["feature_map"], row["S"]
        count[point] = count.get(point, 0) + 1
    assert {n for (*_, S), n in count.items() if S == 600} == {1}
    assert {n for (*_, S), n in count.items() if S != 600} == {3}


def test_chapter_7_capacity_against_features():
    says("chapters/07*", "ELU+1 has $r = 64$ features and is full at about 60 "
         "keys; DPFP-1 has 128 and is full between 100 and 200; DPFP-3 has "
         "384")
    elu, dpfp = (losses("sum", "unique", name) for name in ("elu+1", "dpfp-1"))
    assert elu[40].max() < .001 < .02 < elu[60].min() < .06 < elu[100].min()
    assert np.median(dpfp[100]) < .001 < .1 < dpfp[200].min()
    assert np.median(losses("sum", "unique", "dpfp-3")[200]) < .001
    says("chapters/07*", "FAVOR+, the random features of chapter 8 drawn anew "
         "for every batch")
    assert losses("sum", "unique", "favor+64")[20].min() > 100 * elu[20].max()


def test_chapter_7_writing_again():
    says("chapters/07*", "A sum cannot take the old value back; the delta rule "
         "can.")
    sums, delta = (losses(update, "repeated", "dpfp-1")
                   for update in ("sum", "delta"))
    for S in (20, 60, 100):
        assert sums[S].min() > 10 * delta[S].max()


# -- chapter 8: results/performer_error.json ----------------------------------

def test_chapter_8_orthogonal_rows():
    says("chapters/08*", r"Orthogonal rows make the trigonometric error "
         r"clearly smaller at $\sigma=0.5$, and the positive one a little. At "
         r"$\sigma=1$, where no kind reaches the line, they change nothing")
    record = recorded("performer_error.json")
    kinds = [tuple(kind) for kind in record["settings"]["kinds"]]

    def errors(sigma, kind, orthogonal):            # (seeds, features)
        i = kinds.index((kind, orthogonal))
        return np.array([row["errors"][i] for row in record["rows"]
                         if row["sigma"] == sigma])

    def gain(sigma, kind):
        return np.median(np.median(errors(sigma, kind, False), 0)
                         / np.median(errors(sigma, kind, True), 0))
    assert gain(.5, "trigonometric") > 1.8 > gain(.5, "positive") > 1
    line = np.median([row["mean_of_v"] for row in record["rows"]
                      if row["sigma"] == 1])
    for kind in ("positive", "trigonometric"):
        plain, square = errors(1., kind, False), errors(1., kind, True)
        assert np.median(square, 0).min() > line
        assert np.median(plain, 0).min() > line
        for a, b in zip(plain.T, square.T):         # the seeds overlap
            assert a.min() < b.max() and b.min() < a.max()


# -- chapter 14: results/mqar.json, distance.json, decode.json ----------------

def test_chapter_14_the_order_of_a_hybrids_layers():
    says("chapters/14*", "With the state in the first layer and the window in "
         "the second it does as well as its state; the other way round it "
         "failed")
    first, state, last, window = (
        mean("mqar.json", name, d=16)[:, -1] for name in (
            "hybrid", "linear", "hybrid_window_first", "sliding_window"))
    assert first.min() <= state.max() and state.min() <= first.max()
    assert last.max() < 0.3 < 0.6 < first.min()
    assert abs(last.mean() - window.mean()) < 0.1


def test_chapter_14_what_decides_is_how_much_is_kept():
    says("chapters/14*", "Among the states, what decides most is how much one "
         "keeps; a window of the same size is full after its last tokens.")
    assert mean("mqar.json", "sliding_window", d=32)[:, -1].max() < .2
    for name in ("linear", "retention", "gla", "delta", "gated_delta"):
        by_width = [mean("mqar.json", name, d=d)[:, -1].mean()
                    for d in (8, 16, 32)]
        assert by_width == sorted(by_width) and by_width[-1] > .8, name


def test_chapter_14_distance():
    says("chapters/14*", "A bar that is wide from the shortest gap on is a "
         "rule that some seeds had not learned when training ended; one that "
         "widens only beyond the dotted line is a rule that some seeds carry "
         "further than others.")
    record = recorded("distance.json")
    reached = record["settings"]["gaps"].index(record["settings"]["trained"][-1])
    kinds = {"not learned": set(), "carried further": set()}
    for name in record["settings"]["mechanisms"]:
        found = mean("distance.json", name)
        if np.ptp(found[:, 0]) > .3:
            kinds["not learned"].add(name)
        elif np.ptp(found[:, -1]) > .2 + np.ptp(found[:, :reached], 0).max():
            kinds["carried further"].add(name)
    assert {"gated_delta"} <= kinds["not learned"]
    assert {"delta"} <= kinds["carried further"]


def test_chapter_14_decoding():
    says("chapters/14*", "without a cache the ratio grows much faster than "
         "with one")
    record = recorded("decode.json")
    at = record["settings"]["names"].index
    rows = {row["position"]: row["median"] for row in record["rows"]}

    def growth(name):
        """Of the ratio to linear attention's step, from 64 to 2,048."""
        ratio = [rows[t][at(name)] / rows[t][at("linear")]
                 for t in (64, 2048)]
        return ratio[1] / ratio[0]
    assert growth("recomputed") > 3 * growth("softmax") > 3
