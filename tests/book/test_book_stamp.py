"""The set-up cells, from one setting, and nothing else that names a host."""

import re
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest

from book import run, stamp
from small_book import ROOT, small_source

HERE = "https://github.com/someone/something"


def test_every_set_up_cell_is_what_stamp_writes():
    source = stamp.setup_source(ROOT)
    for path in run.notebooks(ROOT):
        cell = stamp.setup_cell(nbformat.read(path, as_version=4))
        assert cell is not None, f"{path}: no set-up cell"
        assert cell.source == source, f"{path}: run `python -m book stamp`"
        assert cell.metadata.tags == stamp.TAGS, path


def strays(text):
    """What names a place of the book, or installs something from one."""
    return re.findall(
        r"git\+\w+|colab\.research|raw\.githubusercontent|nbviewer|mybinder"
        r"|(?:github|gitlab|bitbucket|codeberg)\.\w+/[^\s)\"']*lintut[^\s)\"']*"
        r"|pip install (?:-\S+ )*lintut",
        text, re.IGNORECASE)


def test_nothing_else_says_where_the_book_is():
    tracked = subprocess.run(
        ["git", "ls-files", "*.ipynb", "*.md", "*.py", "*.yml", "*.toml",
         "*.txt", "*.js", "*.css", "*.html", "Makefile"], cwd=ROOT,
        capture_output=True, text=True, check=True).stdout.split()
    ours = {"_config.yml", "book/site.py", "book/stamp.py"}
    found = {}
    for name in tracked:
        path = ROOT / name
        if name in ours or name.startswith("tests/book/test_book_"):
            continue
        if not path.exists():           # removed, and not yet committed
            continue
        text = path.read_text(encoding="utf-8")
        text = text.replace(stamp.setup_source(ROOT), "")
        if strays(text):
            found[name] = strays(text)
    assert not found


@pytest.mark.parametrize("text, names", [
    ("%pip install git+https://example.org/x", 1),
    ("https://github.com/somebody/lintut-book", 1),
    ("pip install -q lintut", 1),
    ("see https://github.com/fla-org/flash-linear-attention", 0),
    ("pip install -e .", 0),
])
def test_a_stray_is_seen(text, names):
    assert len(strays(text)) == names


def test_the_setting_reaches_every_notebook(tmp_path):
    source = small_source(tmp_path, HERE)
    path = source / "chapters" / "01-sample.ipynb"
    before = nbformat.read(path, as_version=4)
    assert stamp.stamp(source) == 0
    after = nbformat.read(path, as_version=4)
    cell = stamp.setup_cell(after)
    assert f'"lintut[colab] @ git+{HERE}"' in cell.source
    cell.source = stamp.setup_cell(before).source
    assert after == before              # and nothing else changed


def test_a_notebook_without_a_set_up_cell_is_named(tmp_path, capsys):
    source = small_source(tmp_path)
    path = source / "chapters" / "01-sample.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells
                      if "setup" not in cell.metadata.get("tags", [])]
    nbformat.write(notebook, path)
    assert stamp.stamp(source) == 1
    assert "01-sample.ipynb" in capsys.readouterr().err


def test_without_a_repository_the_cell_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "lintut", None)
    with pytest.raises(ModuleNotFoundError, match=r"%pip install .*\[colab\]"):
        exec(stamp.UNSET, {})


@pytest.mark.parametrize("source", [stamp.UNSET, stamp.SET.format(url=HERE)])
@pytest.mark.parametrize("colab", [False, True])
def test_the_cell_installs_on_colab_only(monkeypatch, capsys, source, colab):
    """IPython's %pip is replaced by one that only says that it was called."""
    from IPython.core.inputtransformer2 import TransformerManager
    called = []
    shell = SimpleNamespace(
        run_line_magic=lambda name, line: called.append((name, line)))
    if colab:
        monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    exec(TransformerManager().transform_cell(source),
         {"get_ipython": lambda: shell})
    assert "lintut" in capsys.readouterr().out      # lintut.report()
    installs = [("pip", f'install --quiet "lintut[colab] @ git+{HERE}"')]
    assert called == (installs if colab and HERE in source else [])


def test_what_readers_are_told_to_install_has_the_colab_extra():
    """Without it the widgets' cells fail there: Colab has no anywidget."""
    for text in (stamp.UNSET, stamp.SET, (ROOT / "README.md").read_text()):
        commands = re.findall(r"%pip install [^\n]+", text)
        assert commands and all("[colab]" in line for line in commands)


def test_what_colab_ships_is_not_replaced():
    """The colab extra asks for nothing that Colab has, in no exact version."""
    import tomllib
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + project[
        "optional-dependencies"]["colab"]
    assert {re.match(r"\w+", line)[0] for line in asked} == {
        "numpy", "anywidget"}
    assert not any(re.search("==|<|~=", line) for line in asked)
