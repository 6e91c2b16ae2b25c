"""What lintut needs, what it says when that is missing, and who imports whom.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lintut

PACKAGE = Path(lintut.__file__).parent
HEAVY = ("torch", "triton", "plotly", "anywidget")

BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}",
                                      name=name.split(".")[0])
sys.meta_path.insert(0, Block())
"""


def without(packages, code):
    """Run code in a new Python that finds none of the packages."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=set(packages)) + code],
        capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)})


def modules(folder):
    """Dotted names of the public modules below lintut/folder."""
    return sorted(
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in (PACKAGE / folder).rglob("*.py")
        if path.name != "__init__.py")


def test_numpy_is_enough_for_the_reference():
    names = modules("reference") + ["lintut.cost", "lintut.hardware",
                                    "lintut.palette"]
    done = without(HEAVY, f"""
import importlib
for name in {names}:
    importlib.import_module(name)
import lintut
lintut.report()
loaded = {{name.split(".")[0] for name in sys.modules}}
assert not loaded & {set(HEAVY)}, loaded
""")
    assert done.returncode == 0, done.stderr
    assert "numpy" in done.stdout and "no GPU" in done.stdout


def test_importing_lintut_loads_nothing_heavy():
    """They are installed, and stay unloaded until they are needed."""
    done = without((), f"""
import lintut, lintut.cost, lintut.hardware
from lintut.reference import linear
assert not {set(HEAVY)} & set(sys.modules), "loaded too early"
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package, line, extra", [
    ("plotly", "import lintut.plots", "plots"),
    ("anywidget", "from lintut.widgets import Stepper", "widgets"),
    ("torch", "import lintut.kernels.linear", "kernels|torch"),
])
def test_a_missing_package_says_how_to_install_it(package, line, extra):
    done = without([package], line)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ") and package in last
    assert f"pip install {package}" in last
    assert any(f"-e '.[{name}]'" in last for name in extra.split("|"))


def test_without_triton_the_kernels_run_on_torch():
    done = without(["triton"], """
import torch
from lintut.kernels import linear
q = torch.ones(1, 5, 1, 4)
assert linear.chunkwise(q, q, q).shape == (1, 5, 1, 4)
try:
    linear.chunkwise(q, q, q, backend="triton")
except ValueError as error:
    print(error)
""")
    assert done.returncode == 0, done.stderr
    assert "cannot run: triton is not installed" in done.stdout
    assert "pip install triton" in done.stdout


def imported(path):
    """Absolute dotted names of everything that a file imports."""
    package = path.relative_to(PACKAGE.parent).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1]
            base = ".".join(base) if node.level else ""
            start = ".".join(filter(None, (base, node.module)))
            yield start
            yield from (f"{start}.{alias.name}" for alias in node.names)
        elif (isinstance(node, ast.Call) and node.args
              and getattr(node.func, "id", "") == "require"
              and isinstance(node.args[0], ast.Constant)):
            yield node.args[0].value


def files(folder):
    return sorted((PACKAGE / folder).rglob("*.py"))


def starts(name, *prefixes):
    return any(name == p or name.startswith(p + ".") for p in prefixes)


def test_reference_imports_only_numpy():
    standard = sys.stdlib_module_names
    for path in files("reference"):
        for name in imported(path):
            assert (name.split(".")[0] in standard
                    or starts(name, "numpy", "lintut.reference")), (
                f"{path.name} imports {name}")


def test_kernels_never_import_the_reference():
    for path in files("kernels"):
        for name in imported(path):
            assert not starts(name, "lintut.reference"), (
                f"{path.name} imports {name}")


def test_nothing_imports_widgets():
    for path in files("."):
        if "widgets" in path.relative_to(PACKAGE).parts:
            continue
        for name in imported(path):
            assert not starts(name, "lintut.widgets"), (
                f"{path.name} imports {name}")


def test_kernels_import_no_plots_and_reference_no_kernels():
    for folder in ("kernels", "reference"):
        for path in files(folder):
            for name in imported(path):
                assert not starts(name, "plotly", "anywidget",
                                  "lintut.plots"), (path, name)


def test_the_arrows_are_seen():
    """`imported` finds each way of writing an import."""
    names = set(imported(PACKAGE / "reference" / "linear.py"))
    assert {"numpy", "lintut.reference._checks",
            "lintut.reference.feature_maps.elu_plus_one"} <= names
    assert "plotly.graph_objects" in set(imported(PACKAGE / "plots.py"))


def test_report_names_versions_and_gpu(capsys):
    lintut.report()
    text = capsys.readouterr().out
    assert text.startswith("lintut ") and "on Python 3" in text
    for package in ("numpy", "torch", "triton", "plotly", "anywidget"):
        assert f"{package} " in text
    assert "GPU" in text
    assert max(map(len, text.splitlines())) <= 52       # fits a phone


@pytest.mark.parametrize("capability, path", [((7, 5), "torch"),
                                              ((8, 9), "triton")])
def test_the_report_says_what_the_gpu_means(monkeypatch, capsys, capability,
                                            path):
    pytest.importorskip("triton")
    monkeypatch.setattr(lintut.environment, "gpu",
                        lambda: ("some GPU", capability))
    lintut.report()
    said = capsys.readouterr().out
    version = "{}.{}".format(*capability)
    assert f"GPU: some GPU, compute capability {version}\n" in said
    assert f"lintut.kernels takes {path}: " in said and version in said[-120:]


def test_every_package_is_installed():
    """… and with them the recorded results, for notebooks elsewhere."""
    import tomllib
    root = PACKAGE.parent
    listed = tomllib.loads((root / "pyproject.toml").read_text())[
        "tool"]["setuptools"]["packages"]
    found = {".".join(path.parent.relative_to(root).parts)
             for path in PACKAGE.rglob("__init__.py")}
    assert set(listed) == found | {"lintut.results"}
