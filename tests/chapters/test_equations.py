"""The equation index is complete, and what it names is there."""

import ast
import copy
import re
from functools import cache
from pathlib import Path

import pytest

from book import equations

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = ast.FunctionDef | ast.ClassDef


@cache
def displayed():
    """Labels of the displayed equations, in the order of the book."""
    labels = []
    for path in sorted((ROOT / "chapters").glob("[0-9]*.ipynb")):
        text = "\n".join(cell.source for cell in equations.cells(path)
                         if cell.cell_type == "markdown")
        labels += re.findall(r"^\$\$ \((eq-[\w-]+)\)$", text, flags=re.M)
    return labels


@cache
def defined(path):
    """Names of the functions and classes at the top of a Python file."""
    if not path.is_file():
        return set()
    return {node.name for node in ast.parse(path.read_text()).body
            if isinstance(node, DEFINITION)}


def fault(label, row):
    """What is wrong with a row; None if nothing is."""
    if not set(row) <= {"says", "code", "test"} or not row.get("says"):
        return f"{label}: a row has says, code and test"
    code = row.get("code", "")
    if "." in code:
        *modules, name = code.split(".")
        path = (ROOT / "lintut").joinpath(*modules).with_suffix(".py")
        if name not in defined(path):
            return f"{label}: there is no lintut.{code}"
    elif code:
        try:
            equations.section_of(code, int(label[3:5]))
        except ValueError as error:
            return f"{label}: {error}"
    if not row["test"]:
        return f"{label}: no test"
    for test in row["test"]:
        path, _, name = test.partition("::")
        if name not in defined(ROOT / "tests" / path) or not re.match(
                "test_|Test", name):
            return f"{label}: there is no test {test}"
    return None


def faults(rows):
    """Everything wrong with the index."""
    labels = displayed()
    found = [f"{label}: no row" for label in labels if label not in rows]
    found += [f"{label}: no such equation" for label in rows
              if label not in labels]
    found += filter(None, (fault(label, row) for label, row in rows.items()))
    if ([label for label in rows if label in labels]
            != [label for label in labels if label in rows]):
        found.append("the rows are not in the order of the book")
    return found


def test_every_equation_has_its_row_its_code_and_its_test():
    assert len(displayed()) == len(set(displayed())) > 90
    assert faults(equations.rows()) == []


@pytest.mark.parametrize("spoil, complaint", [
    (lambda rows: rows.pop("eq-06-state"), "eq-06-state: no row"),
    (lambda rows: rows.update({"eq-06-new": rows["eq-06-state"]}),
     "eq-06-new: no such equation"),
    (lambda rows: rows["eq-06-state"].update(
        code="reference.linear.recurent"), "there is no lintut.reference"),
    (lambda rows: rows["eq-08-variance"].update(code="lemma3"),
     "no cell of 08-performer.ipynb defines lemma3"),
    (lambda rows: rows["eq-06-state"].update(
        test=["reference/test_linear.py::test_nothing"]),
     "there is no test reference/test_linear.py::test_nothing"),
    (lambda rows: rows["eq-06-state"].update(
        test=["reference/test_linear.py::TestLinear", "test_no.py::test_x"]),
     "there is no test test_no.py::test_x"),
    (lambda rows: rows["eq-06-state"].update(test=[]), "no test"),
    (lambda rows: rows.update({"eq-06-state": rows.pop("eq-06-state")}),
     "not in the order")])
def test_a_fault_is_seen(spoil, complaint):
    rows = copy.deepcopy(equations.rows())
    spoil(rows)
    found = set(faults(rows)) - set(faults(equations.rows()))
    assert len(found) == 1 and complaint in found.pop()


def test_the_page_has_the_list_of_every_chapter():
    page = (ROOT / "chapters" / "equations.md").read_text()
    shown = re.findall(r"^## (\d+)\. .+\n\n```\{equations\} (\d+)\n```$",
                       page, flags=re.M)
    wanted = list(dict.fromkeys(str(int(label[3:5]))
                                for label in displayed()))
    assert shown == [(number, number) for number in wanted]


def test_a_row_names_equation_code_and_test():
    shown = "\n".join(equations.markdown(8))
    assert shown.count("{eq}`") == len(equations.rows(8))
    assert "{eq}`eq-08-positive` positive features" in shown
    assert "in `lintut.reference.performer.features`" in shown
    assert "[`lemma2`](/chapters/08-performer.ipynb#how-far-is-one-draw)" in (
        shown)
    assert ("checked by <code>tests/reference/test_performer.py::"
            "test_the_kernel_is_unbiased</code>") in shown.replace(
                "<wbr>", "")
    assert "a step of the derivation" in shown      # the identity itself
