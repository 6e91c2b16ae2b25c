"""Exercises whose answer is a Triton kernel.

Triton decides when it is imported whether it interprets kernels on the CPU or
compiles them, and it reads a kernel's source from its file.  So the answer's
source goes to processes of their own (`kernel_worker`), one that interprets
and one that compiles; they stay for the next answer, since starting takes
seconds.  Nothing here imports torch or Triton.
"""

import copy
import inspect
import os
import pickle
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .core import Function, Wrong, _brief

UNWRITTEN = -1.5e30     # fills an output before the kernel runs

_workers = {}


@dataclass(frozen=True)
class Kernel(Function):
    """A kernel, compared with `expected` as a `Function` is, in float32.

    `call(**arguments)` gives the grid and the kernel's arguments in order; a
    tuple among them is the shape of the output.  The kernel is run in
    Triton's interpreter, and then compiled, for the GPU that is there or for
    compute capability 8.0.  On a GPU it is run and compared once more, more
    loosely, as products there may be rounded to TF32.
    """
    call: object = None
    tolerance: float = 1e-4
    on_gpu: float = 2e-2

    def judge(self, answer):
        source = self._source(answer)
        cases = self.cases()
        right = [self.expected(**copy.deepcopy(case.arguments))
                 for case in cases]
        calls = [self.call(**copy.deepcopy(case.arguments)) for case in cases]
        given = self._results("interpret", source, cases, calls)
        self._compare(cases, given, right)
        given = self._results("compile", source, cases, calls)
        if given:
            replace(self, tolerance=self.on_gpu)._compare(cases, given, right)
        return f"{self.name}: correct, on {len(cases)} cases."

    def _source(self, answer):
        """The function's text, without decorators."""
        function = getattr(answer, "fn", answer)    # @triton.jit was added
        if not inspect.isfunction(function):
            raise Wrong(f"{self.name} must be a function; "
                        f"it is {_brief(answer)}")
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError):
            raise Wrong(f"{self.name}: its text cannot be read. Define it "
                        "with def, in the answer's cell.") from None
        found = re.search(r"^def .*", source, re.M | re.S)
        if not found:
            raise Wrong(f"{self.name} must be defined with def.")
        return found.group()

    def _results(self, mode, source, cases, calls):
        """The output of each case; [] where this machine cannot do it."""
        kind, *told = ask(mode, source, calls, UNWRITTEN, self.seconds)
        if kind == "unable":
            if mode == "compile":
                return []
            raise Wrong(f"{self.name} cannot be checked here: {told[0]}")
        if kind == "late":
            raise Wrong(f"{self.name} was stopped after {self.seconds:g} "
                        f"seconds on {cases[told[0]].name}.")
        if kind == "error":
            case, words = told
            where = (f"on {cases[case].name}" if mode == "interpret" else
                     "when it was compiled, although Triton's interpreter "
                     "ran it" if case < 0 else
                     f"on the GPU, on {cases[case].name}")
            raise Wrong(f"{self.name} raised an error {where}: {words}")
        results, outside = told
        if results and all((o == np.float32(UNWRITTEN)).all()
                           for o in results):
            raise Wrong(f"{self.name} is still to be written: it stores "
                        "nothing.")
        for case, o, beyond in zip(cases, results, outside):
            missing = o == np.float32(UNWRITTEN)
            if missing.any():
                raise Wrong(
                    f"{self.name}, on {case.name}: {missing.sum()} of "
                    f"{o.size} entries of the output are never stored, the "
                    f"first at {[int(i) for i in np.argwhere(missing)[0]]}.")
            if beyond:
                raise Wrong(f"{self.name}, on {case.name}: it stores outside "
                            "its output. Where the rows end the store needs "
                            "a mask.")
        return results


def ask(mode, *request):
    """The answer of a worker, which is started if it is not there."""
    worker = _workers.get(mode)
    if worker is None or worker.poll() is not None:
        worker = _workers[mode] = _start(mode)
    try:
        pickle.dump(request, worker.stdin)
        worker.stdin.flush()
        return pickle.load(worker.stdout)
    except (EOFError, OSError):
        _stop(mode)
        return "unable", "the process that runs Triton ended."
    except BaseException:       # interrupted: an answer may be under way
        _stop(mode)
        raise


def _start(mode):
    environment = {name: value for name, value in os.environ.items()
                   if name != "TRITON_INTERPRET"}
    if mode == "interpret":
        environment["TRITON_INTERPRET"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parents[2])]
        + [x for x in [environment.get("PYTHONPATH")] if x])
    return subprocess.Popen(
        [sys.executable, "-m", "lintut.check.kernel_worker", mode],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL)


def _stop(mode):
    worker = _workers.pop(mode, None)
    if worker:
        worker.kill()
        worker.wait()
        worker.stdin.close()
        worker.stdout.close()
