"""What the prose says of the recorded results, held against the records.

`says` asserts that the sentence stands on the page: who changes a sentence, or
a record, has to look at the other.
"""

import ast
import json
import re
from functools import cache
from pathlib import Path

import nbformat
import numpy as np
import pytest

from lintut.experiments import recorded

pytest.importorskip("torch")
pytest.importorskip("lintut.plots")

from lintut.experiments import figures, timing_figures      # noqa: E402

ROOT = Path(__file__).resolve().parents[1]


WORDS = {word: n for n, word in enumerate(
    "zero one two three four five six".split())}


@cache
def prose(page):
    """The words of a page, in one line."""
    path, = ROOT.glob(page)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = " ".join(cell.source for cell in nbformat.reads(text, 4).cells
                        if cell.cell_type == "markdown")
    return " ".join(text.split())


def says(page, sentence):
    assert " ".join(sentence.split()) in prose(page), sentence


def said(page, pattern):
    """The numbers that the groups of `pattern` match on a page."""
    found = re.search(pattern, prose(page))
    assert found, pattern
    return [WORDS[x] if x in WORDS else float(x.replace(",", ""))
            for x in found.groups()]


def by_rule(file, field):
    """{mechanism: (seeds, …)}, read without the figures' help."""
    found = {}
    for row in recorded(file)["rows"]:
        found.setdefault(row["mechanism"], []).append(row[field])
    return {name: np.array(rows) for name, rows in found.items()}


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
    ms, sdpa, loop, bare = said(
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
    gated, plain, low, high = said(
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

    memory, low, high, bare = said(
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


def test_chapter_4_and_14_name_the_settings_of_their_timings():
    said("chapters/04*", "in plain PyTorch on (one) CPU thread")
    for file in ("speedup.json", "decode.json"):
        assert recorded(file)["hardware"]["threads"] == 1
    positions = recorded("decode.json")["settings"]["positions"]
    assert said("chapters/14*", r"from position (\d+) to ([\d,]+), on one CPU "
                "thread") == [positions[0], positions[-1]]


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


def test_chapter_6_names_the_settings_of_the_copy_task():
    s = recorded("copy.json")["settings"]
    assert said("chapters/06*", r"rows of (\d+) symbols where theirs have up "
                r"to 128, out of (\d+) as there; (\d+) layers of (\d+) heads"
                ) == [s["length"], s["symbols"], s["layers"], s["heads"]]
    assert said("chapters/06*", r"two layers of small states hold a row of "
                r"(\d+) symbols") == [s["length"]]
    said("chapters/06*", "learned sum over the last (four) tokens")
    from lintut.experiments import model
    assert model.Mixer("linear", 8, 1, 4, 4).taps == 4


def test_chapter_6_says_who_learns_to_copy_and_when():
    loss, right = (by_rule("copy.json", field)
                   for field in ("loss", "accuracy"))
    says("chapters/06*", "Every rule learns to copy")
    assert all((x > 0.85).all() for x in right.values())

    def first(name, below):
        """The first stretch whose mean loss is below."""
        x = loss[name].mean(0) < below
        return x.argmax() if x.any() else x.size

    begun = sorted(loss, key=lambda name: first(name, 1.5))
    done = {name: first(name, .1) for name in loss}
    assert said("chapters/06*", "Softmax needs the fewest steps by far. "
                "Linear attention is the next to start and the last to "
                "finish; with (one) of the (three) seeds it has not finished "
                "at the end") == [(loss["linear"][:, -1] > .1).sum(),
                                  len(loss["linear"])]
    assert begun[:2] == ["softmax", "linear"]
    others = [n for name, n in done.items() if name != "softmax"]
    assert done["softmax"] < min(others) / 2
    assert max(done, key=done.get) == "linear"


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
    says("chapters/07*", "A sum cannot take the old value back; the delta "
         "rule can.")
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


def test_chapter_8_draws_the_error_at_the_papers_size():
    s = recorded("performer_error.json")["settings"]
    assert said("chapters/08*", r"its figure 4, \$N = (\d+)\$, \$d = (\d+)\$, "
                r"(\d+) draws") == [s["N"], s["d"], len(s["seeds"])]
    said("chapters/08*", "once more, at the paper's own size")


# -- chapter 12: results/overwrite.json ---------------------------------------

def test_chapter_12_names_the_settings_of_the_learned_stream():
    s = recorded("overwrite.json")["settings"]
    assert said("chapters/12*", r"the latest value is wanted, out of "
                r"(\d+)") == [s["values"]]
    assert said("chapters/12*", r"(two) layers, (two) heads of width "
                r"(\d+), a short convolution before the rule, learned "
                r"positions; (\d+) steps on \$n\$ = (\d+), (\d+) and (\d+) "
                "mixed") == [s["layers"], s["heads"], s["d"], s["steps"],
                             *s["facts"]]
    assert said("chapters/12*", r"a small network around it makes of it "
                r"in (\d+) steps") == [s["steps"]]


def test_chapter_12_says_what_the_learned_stream_showed():
    said("chapters/12*", "the rules that correct keep the latest value, "
         "the other states lose it as .n. grows, and the sum gives up and "
         "says .nothing. to nearly everything")
    said("chapters/12*", "the delta rule drops old facts .without. a "
         "gate, and the gated rule is no better than the plain one by more "
         "than the seeds differ")
    now, dropped = (by_rule("overwrite.json", field)
                    for field in ("now", "dropped"))
    for name in ("gla", "retention"):
        fall = np.mean(now[name], 0)
        assert fall[0] > fall[1] > fall[2], name
    mean = {name: x.mean(0)[-1] for name, x in now.items()}
    assert (min(mean["delta"], mean["gated_delta"]) > mean["gla"] + 0.1
            and mean["gla"] > mean["retention"] + 0.1
            and mean["retention"] > mean["linear"])
    assert now["linear"].mean() < .1 and dropped["linear"].mean(0).min() > .9
    assert mean["linear"] < 0.1
    for x in (now, dropped):        # the seeds of the two overlap
        a, b = x["delta"][:, -1], x["gated_delta"][:, -1]
        assert a.min() < b.max() and b.min() < a.max()
    assert dropped["delta"].mean(0).min() > 0.8


# -- chapter 13: results/kernels-compiled.json --------------------------------

def test_chapter_13_says_what_the_compiler_made_of_products():
    said("chapters/13*", r"On 7\.5 every product is scalar")
    made = {}
    for row in recorded("kernels-compiled.json")["rows"]:
        made.setdefault(row["capability"], set()).add(row["products"])
    assert made["7.5"] == {"fma"} and "fma" not in made["8.0"] | made["9.0"]


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
    s = record["settings"]
    reached = s["gaps"].index(s["trained"][-1])
    kinds = {"not learned": set(), "carried further": set()}
    for name in s["mechanisms"]:
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


def test_chapter_14_names_the_settings_of_recall():
    s = recorded("mqar.json")["settings"]
    assert said("chapters/14*", r"(\d+) keys and (\d+) values where they have "
                r"8,192 symbols; .* heads of width (\d+) to (\d+), where"
                ) == [s["keys"], s["values"], min(s["widths"]),
                      max(s["widths"])]


# -- published numbers that stand in two places -------------------------------

def assigned(chapter, name):
    """The value of a literal that a cell of a chapter assigns to a name."""
    path, = ROOT.glob(f"chapters/{chapter}.ipynb")
    found, = (node.value for cell in nbformat.read(path, 4).cells
              if cell.cell_type == "code"
              for node in ast.walk(ast.parse(cell.source))
              if isinstance(node, ast.Assign)
              and getattr(node.targets[0], "id", "") == name)
    return ast.literal_eval(found)


def test_chapters_12_and_14_quote_the_same_needles():
    for rule, row in assigned("12-gated-deltanet",
                              "PUBLISHED")["S-NIAH-2"].items():
        cells = r" \| ".join([rule] + [r"([\d.]+)"] * len(row))
        assert said("chapters/14*", rf"\| {cells} \|") == list(row), rule


def test_pages_and_figures_quote_the_same_numbers():
    quoted = said("chapters/14*", r"attention about ([\d.]+), gated "
                  r"convolutions about ([\d.]+), RWKV about ([\d.]+)\.")
    assert quoted == list(figures.ZOOLOGY.values())
    assert {N: time for N, (time, _) in assigned(
        "04-low-rank", "reported").items()} == timing_figures.LINFORMER
