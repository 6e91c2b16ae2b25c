"""A stand-in for Colab: its package versions, its module, our set-up cell.

Two things are not Colab's: Python itself, and torch and triton, which are
lent by the environment that runs the tests.
"""

import json
import shutil
import subprocess
import venv
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from browser import serve
from book.run import notebooks
from book.stamp import SET, UNSET, setup_cell
from lintut.check.graft import solution_of

ROOT = Path(__file__).resolve().parents[1]
RUNS = [path.relative_to(ROOT) for path in notebooks(ROOT)
        if not solution_of(path)]       # the stubs are for the reader
LENT = ("torch", "torchgen", "functorch", "triton")


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, timeout=1200,
                          capture_output=True, **more).stdout


def lend(site):
    """torch and triton of this environment, by a link, and nothing beside."""
    import torch
    lender = Path(torch.__file__).parents[1]
    for path in lender.iterdir():
        if path.name.split("-")[0] in LENT:
            (site / path.name).symlink_to(path)


def repository(folder):
    """The working tree's files in a repository of their own."""
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    run("git", "init", "-q", cwd=folder)
    run("git", "add", "-A", cwd=folder)
    run("git", "-c", "user.name=a", "-c", "user.email=a@example.org",
        "commit", "-qm", "all", cwd=folder)
    run("git", "update-server-info", cwd=folder)    # to be fetched over HTTP


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    """Runs a notebook there: `colab(notebook)`; has `python` and `setup`."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    folder = tmp_path_factory.mktemp("colab")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-compile",
        "-r", ROOT / "tests" / "colab-requirements.txt")
    site = next((folder / "env" / "lib").glob("python*")) / "site-packages"
    lend(site)
    (site / "google" / "colab").mkdir(parents=True)
    (site / "google" / "colab" / "__init__.py").touch()
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "colab.py").write_text("import google.colab\n")
    kernel = folder / "jupyter" / "kernels" / "colab"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(json.dumps({
        "argv": [str(python), "-m", "ipykernel_launcher", "-f",
                 "{connection_file}"],
        "display_name": "Colab", "language": "python",
        "env": {"IPYTHONDIR": str(folder / "ipython"), "PYTHONPATH": "",
                "PYTHONDONTWRITEBYTECODE": "",      # compiled when imported
                "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}}))
    (folder / "repository").mkdir()
    repository(folder / "repository")
    elsewhere = folder / "content"      # results/ is not in sight
    elsewhere.mkdir()

    def execute(notebook):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
            patch.delenv("PLOTLY_RENDERER", raising=False)
            NotebookClient(
                notebook, timeout=600, kernel_name="colab",
                resources={"metadata": {"path": str(elsewhere)}}).execute()
        return notebook

    def versions():
        return dict(line.split("==") for line in run(
            python, "-m", "pip", "list", "--format=freeze").splitlines())

    execute.before = versions()
    with serve(folder / "repository" / ".git") as address:
        cell = nbformat.v4.new_code_cell(SET.format(url=address))
        execute.setup = execute(nbformat.v4.new_notebook(cells=[cell]))
    execute.after = versions()
    return execute


def said(notebook):
    return "".join(output.get("text", "") for cell in notebook.cells
                   for output in cell.get("outputs", []))


def test_the_setup_cell_replaces_nothing_of_colabs(colab):
    new = {"lintut", "anywidget", "psygnal"}
    assert set(colab.after) - set(colab.before) == new
    assert {name: version for name, version in colab.after.items()
            if name not in new} == colab.before


def test_the_setup_cell_says_what_it_found(colab):
    words = said(colab.setup)
    assert f"numpy {colab.before['numpy']}" in words
    assert "no GPU" in words and "missing" not in words


@pytest.mark.parametrize("path", RUNS, ids=str)
def test_every_notebook_runs_from_top_to_bottom(colab, path):
    notebook = nbformat.read(ROOT / path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    setup_cell(notebook).source = UNSET     # it is installed by now
    colab(notebook)
