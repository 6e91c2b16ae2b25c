"""Notation, glossary, papers, and the page about the book."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml

from lintut.reference import delta, gated_delta, gla, linear, retention
from lintut.reference.feature_maps import elu_plus_one

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ROOT / "chapters"
BIBLIOGRAPHY = (ROOT / "references.bib").read_text()
KEYS = re.findall(r"^@\w+\{(\w+),", BIBLIOGRAPHY, flags=re.M)

# 002 §12, in its order.
TEN = ["katharopoulos2020", "choromanski2021", "beltagy2020", "zaheer2020",
       "wang2020", "sun2023", "yang2024gla", "schlag2021", "yang2025",
       "dao2022"]

USUAL_NAMES = """
    attention; softmax attention; scaled dot-product attention; SDPA;
    sparse attention; sliding window; sliding window attention; SWA;
    local attention; Longformer; global attention; dilated attention; BigBird;
    Linformer; low-rank attention; linear attention; Linear Transformer;
    kernel trick; feature map; ELU+1; DPFP; random features;
    random Fourier features; RFF; Performer; FAVOR+; positive random features;
    orthogonal random features; state; normaliser; denominator; RNN;
    recurrent form; parallel form; chunkwise form; fast weights; delta rule;
    DeltaNet; least mean squares; LMS; WY form; WY representation;
    Gated DeltaNet; gated delta rule; RetNet; retention; Retentive Network;
    decay; GLA; gated linear attention; forget gate; FlashAttention;
    online softmax; roofline; arithmetic intensity; KV cache; rolling cache;
    prefill; decode; MQAR; associative recall; needle in a haystack; hybrid;
    Mamba; Mamba-2; S4; state-space model; RWKV; Jamba; Triton; leak test;
    causal mask; capacity; interference; Hedgehog; Based; FLOP"""


def page(name):
    return (CHAPTERS / f"{name}.md").read_text()


def citations(text):
    return {key for keys in re.findall(r"\{cite[a-z:]*\}`([^`]+)`", text)
            for key in re.split(r"\s*,\s*", keys)}


def glossary():
    """(terms, definition) of each entry."""
    body = re.search(r"```\{glossary\}\n(.+?)\n```", page("glossary"),
                     flags=re.S)[1]
    entries = []
    for entry in body.split("\n\n"):
        lines = entry.splitlines()
        terms = [line for line in lines if not line.startswith("  ")]
        assert lines[:len(terms)] == terms, entry
        entries.append((terms, " ".join(map(str.strip, lines[len(terms):]))))
    return entries


def test_the_appendices_are_in_the_book_in_this_order():
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text())["parts"]
    assert parts[-1]["caption"] == "Appendices"
    assert [item["file"] for item in parts[-1]["chapters"]] == [
        f"chapters/{name}" for name in (
            "claims", "equations", "notation", "glossary", "papers", "about")]


# -- glossary ---------------------------------------------------------------

def test_the_glossary_has_every_usual_name():
    terms = [term for terms, _ in glossary() for term in terms]
    assert len(terms) == len({term.lower() for term in terms})
    wanted = {" ".join(name.split()) for name in USUAL_NAMES.split(";")}
    assert wanted <= set(terms), wanted - set(terms)


def test_each_entry_is_a_sentence_or_two_and_leads_to_its_place():
    for terms, text in glossary():
        links = re.findall(r"\]\(/(chapters/[\w-]+\.ipynb)", text)
        assert links and all((ROOT / link).exists() for link in links), terms
        said = re.sub(r" ?\[[^]]+\]\([^)]+\)", "", text)
        assert said.endswith(".") and len(said.split()) >= 7, terms


def test_entries_stand_in_order():
    first = [terms[0].lower() for terms, _ in glossary()]
    for a, b in pairwise(first):
        assert re.sub(r"\W", "", a) <= re.sub(r"\W", "", b), (a, b)


# -- papers -----------------------------------------------------------------

def test_the_ten_of_the_source_say_what_to_read_and_where():
    rows = [line for line in page("papers").splitlines()
            if line.startswith("| [")]
    assert sorted(TEN) == sorted(*map(citations, ["".join(rows)]))
    for row in rows:
        (key,) = citations(row)
        entry = BIBLIOGRAPHY.split(f"{{{key},")[1].split("\n@")[0]
        (url,) = re.findall(r"url = \{([^}]+)\}", entry)
        assert f"]({url})" in row
        for chapter in re.findall(r"\]\(/(chapters/[\w-]+\.ipynb)\)", row):
            assert f"cite}}`{key}" in (ROOT / chapter).read_text()
        assert row.count("|") == 4 and "/chapters/" in row


def test_every_citation_has_its_entry_and_every_entry_its_citations():
    sources = [*CHAPTERS.glob("*.ipynb"), *CHAPTERS.glob("*.md"),
               *(ROOT / "exercises").rglob("*.ipynb"), ROOT / "intro.md"]
    cited = {path: citations(path.read_text()) for path in sources}
    for path, keys in cited.items():
        assert keys <= set(KEYS), (path, keys - set(KEYS))
    assert len(KEYS) == len(set(KEYS))
    chapters = set().union(*(keys for path, keys in cited.items()
                             if path.suffix == ".ipynb"))
    assert chapters == set(KEYS), set(KEYS) - chapters
    assert cited[CHAPTERS / "papers.md"] == set(KEYS)


def test_addresses_of_papers_are_whole():
    for url in re.findall(r"url = \{([^}]*)\}", BIBLIOGRAPHY):
        assert re.fullmatch(r"https://(arxiv\.org/abs/\d{4}\.\d{5}"
                            r"|doi\.org/10\.\d{4,}/\S+)", url), url


# -- about ------------------------------------------------------------------

def test_the_citation_is_the_books_own_and_readmes():
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text, readme = page("about"), (ROOT / "README.md").read_text()
    version = f"lintut {project['version']}"
    assert f"title   = {{{config['title']}}}" in text
    assert f"author  = {{{{{config['author']}}}}}" in text
    assert f"year    = {{{config['copyright']}}}" in text
    assert f"note    = {{{version}}}" in text
    citing = " ".join(readme.split("## Citing")[1].split())
    assert config["title"] in citing and version in citing
    assert f"| | {project['version']} |" in text
    # An address is added here when there is one.
    assert bool(config["repository"]["url"]) == ("http" in text)


def test_it_says_that_there_is_no_gpu_record_as_long_as_there_is_none():
    records = [path for path in (ROOT / "results").glob("*.json")
               if re.match("gpu", path.stem)]
    said = " ".join(page("about").split())
    assert ("no GPU timing is recorded yet" in said) == (not records)


# -- notation ---------------------------------------------------------------

@pytest.mark.parametrize("name", ["N", "d", "d_v", "r", "w", "m", "C", "B",
                                  "H", "L", "P", "S_t", "z_t", r"\gamma",
                                  r"\alpha_t", r"\beta_t", r"\varphi(x)"])
def test_a_symbol_has_its_row(name):
    symbols = re.findall(r"^\| ((?:\$[^$|]+\$(?:, )?)+) \|", page("notation"),
                         flags=re.M)
    assert f"${name}$" in ", ".join(symbols).split(", ")


def test_the_transposed_states_are_the_same_rules():
    """The table of papers, each as it is written there, with d ≠ d_v."""
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 8, 4))
    v, alpha = rng.normal(size=(8, 3)), rng.uniform(.3, 1, (8, 4))
    a, b, f_q, f_k = alpha[:, 0], 2 * rng.random(8), *map(elu_plus_one,
                                                          (q, k))

    def run(S, write, read):
        o = []
        for t in range(8):
            S = write(S, t)
            o.append(read(S, t))
        return np.array(o)

    ours, theirs = np.zeros((4, 3)), np.zeros((3, 4))
    flip = [np.eye(4) - b[t] * np.outer(k[t], k[t]) for t in range(8)]
    rows = k[:, None], v[:, None]                       # (1, d), (1, d_v)
    for expected, got in (
        (linear.recurrent(f_q, f_k, v, lambda x: x) * (
            f_q * f_k.cumsum(0)).sum(-1, keepdims=True),
         run(theirs, lambda W, t: W + np.outer(v[t], f_k[t]),
             lambda W, t: W @ f_q[t])),
        (retention.recurrent(q, k, v, .9),
         run(ours, lambda S, t: .9 * S + rows[0][t].T @ rows[1][t],
             lambda S, t: q[t] @ S)),
        (gla.recurrent(q, k, v, alpha),
         run(ours, lambda S, t: np.diag(alpha[t]) @ S
             + rows[0][t].T @ rows[1][t], lambda S, t: q[t] @ S)),
        (delta.recurrent(q, k, v, b),
         run(theirs, lambda S, t: S @ flip[t] + b[t] * np.outer(v[t], k[t]),
             lambda S, t: S @ q[t])),
        (gated_delta.recurrent(q, k, v, a, b),
         run(theirs, lambda S, t: S @ (a[t] * flip[t])
             + b[t] * np.outer(v[t], k[t]), lambda S, t: S @ q[t]))):
        assert np.allclose(got, expected)
