"""The appendix of claims: each has its place, its cell, and its number."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = nbformat.read(ROOT / "chapters" / "claims.ipynb", as_version=4)

# For each claim: its verdict, what its cells assert, and what they print.
CLAIMS = {
    1: ("right", "'2 GiB', '8 MiB', '8.125 KiB'", "2 GiB, 8 MiB, 8.125 KiB"),
    2: ("right", "growth - 4", "0.5001 of the pairs"),
    3: ("right", "0.36603", "read from the state 0.36603"),
    4: ("right", "[[4, 1], [3, 3]]", "state: 5/3 7/6  weights: 5/3 7/6"),
    5: ("right", "[7, 3.5]", "added 7.0  normalised 3.5"),
    6: ("right", "without == -0.5", "faded state: 0; on the old one: -0.5"),
    7: ("right", "error < 10 * 2 ** (-52)", "largest difference 4.44e-16"),
    8: ("wrong", "== 3.2", "dropped: off by up to 3.2"),
    9: ("wrong", "[True, True, False]", "hyperbolic    smallest feature "
                                        "above zero: True"),
    10: ("contradict", "[0.5, 1, 32]", "2048: softmax / linear = 32"),
    11: ("loose", "grows == 2", "twice the tokens cost 2 times"),
    12: ("right", "determinant(n) != 0", "20 tokens, exact: True"),
    13: ("wrong", "three == 4", "φ(0)·φ(0) = 64 for d = 64, e⁰ = 1"),
    14: ("loose", "'8.9e+08'", "1.7e+02 5.4e+03 8.9e+08"),
    15: ("loose", "same", "is gated linear attention: True"),
    16: ("loose", "growth > 5", "1 softmax layer in 8: from 8k to 64k "
                                "tokens × 7.81"),
    17: ("wrong", "ones[:, 0]", "S for values of one is z: True"),
}


def sections():
    """{number: its cells}; what comes before the first claim is number 0."""
    found, number = {0: []}, 0
    for cell in NOTEBOOK.cells:
        heading = re.match(r"## (\d+)\. .", cell.source)
        if cell.cell_type == "markdown" and heading:
            number = int(heading[1])
            assert number not in found
            found[number] = []
        found[number].append(cell)
    return found


def code(cells):
    return [cell for cell in cells if cell.cell_type == "code"]


def test_every_claim_is_there_in_order():
    assert list(sections()) == [0, *CLAIMS]


@pytest.mark.parametrize("number", CLAIMS)
def test_a_claim_is_said_judged_computed_and_linked(number):
    cells = sections()[number]
    verdict, asserted, printed = CLAIMS[number]
    text = cells[0].source
    assert "**The source says**" in text
    bold = " ".join(re.findall(r"\*\*([^*]+)\*\*", text)[1:]).lower()
    assert verdict in bold, bold
    links = re.findall(r"\]\((/chapters/[\w-]+\.ipynb)#[\w-]+\)",
                       text.replace("\n", " "))
    assert links and all((ROOT / link[1:]).exists() for link in links)

    statements = [ast.unparse(node) for cell in code(cells)
                  for node in ast.walk(ast.parse(cell.source))
                  if isinstance(node, ast.Assert)]
    assert any(asserted in statement for statement in statements), statements
    output = "".join(output.text for cell in code(cells)
                     for output in cell.outputs)
    assert printed in output, output


def test_the_table_lists_and_judges_every_claim():
    rows = re.findall(r"^\| (\d+) \| \[.+\]\(#([\w-]+)\) \| (?:first|second) "
                      r"\| (.+) \|$", sections()[0][0].source, flags=re.M)
    assert [int(number) for number, _, _ in rows] == list(CLAIMS)
    for number, anchor, verdict in rows:
        assert CLAIMS[int(number)][0] in verdict
        heading = sections()[int(number)][0].source.splitlines()[0]
        slug = re.sub(r"[^\w -]", "", heading.removeprefix("## ").lower())
        assert anchor == slug.replace(" ", "-")


def test_cells_were_run_in_order_without_errors():
    cells = code(NOTEBOOK.cells)
    assert [cell.execution_count for cell in cells] == list(
        range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", cell.source
