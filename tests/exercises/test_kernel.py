"""Where a reader's kernel cannot be run, the check says so and why."""

import os
import subprocess
import sys

import numpy as np
import pytest

from lintut.check import Wrong, kernel
from lintut.check.ch13 import EXERCISES

from .ch13 import kernel as right

LINEAR = EXERCISES[-1]


@pytest.fixture
def no_workers():
    """Workers of before, or of this test, serve no other."""
    for mode in ("interpret", "compile"):
        kernel._stop(mode)
    yield
    for mode in ("interpret", "compile"):
        kernel._stop(mode)


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_a_missing_package_is_named_in_a_sentence(missing, tmp_path,
                                                  monkeypatch, no_workers):
    (tmp_path / f"{missing}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{missing}'\")")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(Wrong) as caught:
        LINEAR.judge(right())
    says = str(caught.value)
    assert says.startswith("linear_kernel cannot be checked here")
    assert f"No module named '{missing}'" in says and "\n" not in says


def test_a_worker_that_ended_is_replaced(no_workers):
    worker = kernel._workers["interpret"] = kernel._start("interpret")
    worker.kill()
    worker.wait()
    kind, results, outside = kernel.ask(
        "interpret", LINEAR._source(right()),
        [LINEAR.call(**case.arguments) for case in LINEAR.cases()[:1]],
        kernel.UNWRITTEN, 20)
    assert kind == "done" and outside == [False]
    assert np.isfinite(results[0]).all()


def test_the_checks_import_neither_torch_nor_triton():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, lintut.check.ch13\n"
         "assert not {'torch', 'triton'} & set(sys.modules)"],
        env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_expected_results_are_those_of_lintut():
    from lintut.reference import linear
    from lintut.reference.feature_maps import identity
    for case in LINEAR.cases():
        np.testing.assert_allclose(
            LINEAR.expected(**case.arguments),
            linear.recurrent(*(x.astype(float)
                               for x in case.arguments.values()),
                             feature_map=identity), atol=1e-6)
