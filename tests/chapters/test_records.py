"""What the stored pages show of results/*.json is what is in the files.

nbval passes over outputs of cells that show a record; here each is drawn, or
printed, once more from the file and compared with what the notebook stores.
"""

import ast
import contextlib
import io
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest

from lintut.experiments import recorded

pytest.importorskip("torch")
plots = pytest.importorskip("lintut.plots")

from lintut.experiments import figures, timing_figures      # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = {path.stem: nbformat.read(path, 4).cells
            for path in sorted((ROOT / "chapters").glob("*.ipynb"))}
CALL = re.compile(r"^(figures|timing_figures)\.show\(\"(\w+)\"\)$", re.M)
DRAWN = [(chapter, module, name) for chapter, cells in CHAPTERS.items()
         for cell in cells if cell.cell_type == "code"
         for module, name in CALL.findall(cell.source)]


def stored(cell):
    """The text that a cell printed."""
    return "".join(out.text for out in cell.outputs
                   if out.output_type == "stream")


def stored_figure(cell):
    figure, = (out.data["application/vnd.plotly.v1+json"]
               for out in cell.outputs if out.output_type == "display_data")
    return figure


def numbers(trace):
    """{name: array} of what a trace draws, its bars included."""
    found = {"x": trace.get("x"), "y": trace.get("y"),
             "high": (trace.get("error_y") or {}).get("array"),
             "low": (trace.get("error_y") or {}).get("arrayminus")}
    return {name: np.array(values, float) for name, values in found.items()
            if values is not None}


@pytest.fixture
def undrawn(monkeypatch):
    """(figure, alt, caption) of each call of `plots.show`."""
    seen = []
    monkeypatch.setattr(plots, "show", lambda *args, **named: seen.append(
        (*args, *named.values())))
    return seen


def same(figure, cell):
    """Whether a cell stores this (figure, alt, caption)."""
    drawn, alt, caption = figure
    store = stored_figure(cell)
    assert store["layout"]["meta"] == {"alt": alt, "caption": caption}
    assert [t.name for t in drawn.data] == [t["name"] for t in store["data"]]
    for mine, theirs in zip(drawn.data, store["data"]):
        mine, theirs = numbers(mine.to_plotly_json()), numbers(theirs)
        assert mine.keys() == theirs.keys() and "y" in mine
        for name in mine:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-12,
                                       err_msg=name)


@pytest.mark.parametrize("chapter, module, name", DRAWN)
def test_a_page_stores_the_figure_that_its_record_gives(
        chapter, module, name, undrawn, capsys):
    cell, = (c for c in CHAPTERS[chapter] if c.cell_type == "code"
             and f'{module}.show("{name}")' in c.source)
    {"figures": figures, "timing_figures": timing_figures}[module].show(name)
    assert stored(cell) == capsys.readouterr().out
    same(undrawn[0], cell)


def test_every_figure_of_an_experiment_is_on_a_page():
    assert {name for _, module, name in DRAWN if module == "figures"} == set(
        figures.FIGURES)
    assert {name for _, module, name in DRAWN
            if module == "timing_figures"} == set(timing_figures.FIGURES)


# chapter: the cells that read, print or draw a record, by a piece of each
PRINTED = {
    "07-memory": ['recorded("retrieval.json")', "PUBLISHED = {",
                  'x="number of keys S"', '"published, DPFP-1'],
    "13-hardware": ['recorded("kernels-compiled.json")', 'columns = ("7.5"'],
    "14-choosing": ["from lintut.experiments import recorded",
                    'recorded("decode.json")']}


@pytest.mark.parametrize("chapter", PRINTED)
def test_a_page_stores_what_its_cells_print_of_a_record(chapter, undrawn):
    space = {"np": np, "plots": plots, "Series": plots.Series,
             "recorded": recorded}
    for piece in PRINTED[chapter]:
        cell, = (c for c in CHAPTERS[chapter] if c.cell_type == "code"
                 and piece in c.source)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(cell.source, space)
        assert printed.getvalue() == stored(cell)
        if undrawn:
            same(undrawn.pop(), cell)


def test_every_record_is_shown():
    """No file lies in results/ that no page reads."""
    shown = {file for module in (figures, timing_figures)
             for _, file in module.FIGURES.values()}
    pages = "".join(c.source for cells in CHAPTERS.values() for c in cells)
    pages += (ROOT / "README.md").read_text()
    for path in (ROOT / "results").glob("*.json"):
        assert path.name in shown or path.name in pages, path.name


# -- sentences ----------------------------------------------------------------

WORDS = {word: n for n, word in enumerate(
    "zero one two three four five six".split())}


def said(chapter, pattern):
    """The numbers that the groups of `pattern` match in a chapter's prose."""
    text = " ".join(" ".join(c.source for c in CHAPTERS[chapter]
                             if c.cell_type == "markdown").split())
    found = re.search(pattern, text)
    assert found, pattern
    return [WORDS[x] if x in WORDS else int(x.replace(",", ""))
            for x in found.groups()]


def test_chapter_4_and_14_name_the_settings_of_their_timings():
    said("04-low-rank", "in plain PyTorch on (one) CPU thread")
    for file in ("speedup.json", "decode.json"):
        assert recorded(file)["hardware"]["threads"] == 1
    positions = recorded("decode.json")["settings"]["positions"]
    assert said("14-choosing", r"from position (\d+) to ([\d,]+), on one CPU "
                "thread") == [positions[0], positions[-1]]


def test_chapter_6_names_the_settings_of_the_copy_task():
    s = recorded("copy.json")["settings"]
    assert said("06-recurrence", r"rows of (\d+) symbols where theirs have up "
                r"to 128, out of (\d+) as there; (\d+) layers of (\d+) heads"
                ) == [s["length"], s["symbols"], s["layers"], s["heads"]]
    assert said("06-recurrence", r"two layers of small states hold a row of "
                r"(\d+) symbols") == [s["length"]]
    said("06-recurrence", "learned sum over the last (four) tokens")
    from lintut.experiments import model
    assert model.Mixer("linear", 8, 1, 4, 4).taps == 4


def copy_losses():
    """{mechanism: (seeds, stretches)}"""
    found = {}
    for row in recorded("copy.json")["rows"]:
        found.setdefault(row["mechanism"], []).append(row["loss"])
    return {name: np.array(rows) for name, rows in found.items()}


def test_chapter_6_says_who_learns_to_copy_and_when():
    loss = copy_losses()

    def first(name, below):
        """The first stretch whose mean loss is below."""
        x = loss[name].mean(0) < below
        return x.argmax() if x.any() else x.size

    begun = sorted(loss, key=lambda name: first(name, 1.5))
    done = {name: first(name, .1) for name in loss}
    assert said("06-recurrence", "Softmax needs the fewest steps by far. "
                "Linear attention is the next to start and the last to "
                "finish; with (one) of the (three) seeds it has not finished "
                "at the end") == [(loss["linear"][:, -1] > .1).sum(),
                                  len(loss["linear"])]
    assert begun[:2] == ["softmax", "linear"]
    others = [n for name, n in done.items() if name != "softmax"]
    assert done["softmax"] < min(others) / 2
    assert max(done, key=done.get) == "linear"


def test_chapter_8_draws_the_error_at_the_papers_size():
    s = recorded("performer_error.json")["settings"]
    assert said("08-performer", r"its figure 4, \$N = (\d+)\$, \$d = (\d+)\$, "
                r"(\d+) draws") == [s["N"], s["d"], len(s["seeds"])]
    said("08-performer", "once more, at the paper's own size")


def test_chapter_12_names_the_settings_of_the_learned_stream():
    s = recorded("overwrite.json")["settings"]
    assert said("12-gated-deltanet", r"the latest value is wanted, out of "
                r"(\d+)") == [s["values"]]
    assert said("12-gated-deltanet", r"(two) layers, (two) heads of width "
                r"(\d+), a short convolution before the rule, learned "
                r"positions; (\d+) steps on \$n\$ = (\d+), (\d+) and (\d+) "
                "mixed") == [s["layers"], s["heads"], s["d"], s["steps"],
                             *s["facts"]]
    assert said("12-gated-deltanet", r"a small network around it makes of it "
                r"in (\d+) steps") == [s["steps"]]


def test_chapter_13_says_what_the_compiler_made_of_products():
    said("13-hardware", r"On 7\.5 every product is scalar")
    made = {}
    for row in recorded("kernels-compiled.json")["rows"]:
        made.setdefault(row["capability"], set()).add(row["products"])
    assert made["7.5"] == {"fma"} and "fma" not in made["8.0"] | made["9.0"]


def test_chapter_14_names_the_settings_of_recall():
    s = recorded("mqar.json")["settings"]
    assert said("14-choosing", r"(\d+) keys and (\d+) values where they have "
                r"8,192 symbols; .* heads of width (\d+) to (\d+), where"
                ) == [s["keys"], s["values"], min(s["widths"]),
                      max(s["widths"])]


def test_chapter_12_says_what_the_learned_stream_showed():
    """The numbers are in test_experiments; here that they are said."""
    said("12-gated-deltanet", "the rules that correct keep the latest value, "
         "the other states lose it as .n. grows, and the sum gives up and "
         "says .nothing. to nearly everything")
    said("12-gated-deltanet", "the delta rule drops old facts .without. a "
         "gate, and the gated rule is no better than the plain one by more "
         "than the seeds differ")
    now, dropped = {}, {}
    for row in recorded("overwrite.json")["rows"]:
        now.setdefault(row["mechanism"], []).append(row["now"])
        dropped.setdefault(row["mechanism"], []).append(row["dropped"])
    for name in ("gla", "retention"):
        fall = np.mean(now[name], 0)
        assert fall[0] > fall[1] > fall[2], name
    assert np.mean(now["linear"]) < .1 and np.mean(dropped["linear"]) > .9


# -- published numbers that stand in two places -------------------------------

def assigned(chapter, name):
    """The value of a literal that a cell of a chapter assigns to a name."""
    found, = (node.value for cell in CHAPTERS[chapter]
              if cell.cell_type == "code"
              for node in ast.walk(ast.parse(cell.source))
              if isinstance(node, ast.Assign)
              and getattr(node.targets[0], "id", "") == name)
    return ast.literal_eval(found)


def test_chapters_12_and_14_quote_the_same_needles():
    text = "\n".join(c.source for c in CHAPTERS["14-choosing"])
    for rule, row in assigned("12-gated-deltanet",
                              "PUBLISHED")["S-NIAH-2"].items():
        quoted, = re.findall(rf"^\| {rule} \| (.+) \|$", text, flags=re.M)
        assert [float(x) for x in quoted.split("|")] == list(row), rule


def test_pages_and_figures_quote_the_same_numbers():
    text = " ".join(" ".join(c.source for c in
                             CHAPTERS["14-choosing"]).split())
    quoted = re.search(r"attention about ([\d.]+), gated convolutions about "
                       r"([\d.]+), RWKV about ([\d.]+)\.", text).groups()
    assert tuple(map(float, quoted)) == tuple(figures.ZOOLOGY.values())
    assert {N: time for N, (time, _) in assigned(
        "04-low-rank", "reported").items()} == timing_figures.LINFORMER
