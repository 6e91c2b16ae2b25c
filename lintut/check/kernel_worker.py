"""The process in which `kernel` runs Triton: python -m … interpret|compile.

Reads (source, calls, unwritten, seconds) from its input and answers, until
the input ends, with one of

    ("done", outputs, whether each was stored outside of)
    ("error", which call or −1 for the compiler, words)
    ("late", which call)    ("unable", why)
"""

import ctypes
import importlib.util
import os
import pickle
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

from .core import Late, at_most

HEAD = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
GUARD = 4096            # entries before and after each array
CONTROL = '''def control(x, o, n, C: tl.constexpr):
    i = tl.arange(0, C)
    at = i[:, None] * C + i[None, :]
    tl.store(o + at, tl.dot(tl.load(x + at), tl.load(x + at)))
'''


def define(source, folder):
    """The kernel, in a file: Triton reads its text from there."""
    name = source.split("(")[0].removeprefix("def ").strip()
    path = Path(folder) / f"answer_{name}.py"
    path.write_text(HEAD + source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def run(kernel, call, unwritten, device):
    """One call: the output, and whether something was stored beside it."""
    import torch
    grid, arguments = call
    passed, output = [], None
    for x in arguments:
        if not isinstance(x, (np.ndarray, tuple)):
            passed.append(x)
            continue
        shape, fill = (x, unwritten) if isinstance(x, tuple) else (
            x.shape, np.nan)        # what is read outside of an input
        n = int(np.prod(shape))
        room = torch.full((n + 2 * GUARD,), fill, device=device)
        middle = room[GUARD:GUARD + n]
        if isinstance(x, tuple):
            output = room, middle.reshape(shape)
        else:
            middle.copy_(torch.from_numpy(x).reshape(-1))
        passed.append(middle.reshape(shape))
    kernel[grid](*passed)
    room, o = (x.cpu().numpy() for x in output)
    outside = np.r_[room[:GUARD], room[-GUARD:]]
    return o.copy(), bool((outside != np.float32(unwritten)).any())


def compile_only(kernel, call):
    """Compile for capability 8.0, which may not be here."""
    import triton
    from triton.backends.compiler import GPUTarget
    signature, fixed = {}, {}
    for parameter, x in zip(kernel.params, call[1], strict=True):
        if parameter.is_constexpr:
            signature[parameter.name], fixed[parameter.name] = "constexpr", x
        else:
            array = isinstance(x, (np.ndarray, tuple))
            signature[parameter.name] = "*fp32" if array else "i32"
    triton.compile(
        triton.compiler.ASTSource(fn=kernel, signature=signature,
                                  constexprs=fixed),
        target=GPUTarget("cuda", 80, 32))


def interpreted(request):
    source, calls, unwritten, seconds = request
    with tempfile.TemporaryDirectory() as folder:
        return perform(source, calls, unwritten, seconds, folder, "cpu")


def compiled(request, gpu):
    """Compile and, on a GPU, run; what works is tried on `CONTROL` first."""
    source, calls, unwritten, _ = request
    control = (1,), (np.ones((16, 16), np.float32), (16, 16), 16, 16)
    with tempfile.TemporaryDirectory() as folder:
        for text, those in ((CONTROL, [control]), (source, calls)):
            try:
                if gpu:
                    told = perform(text, those, unwritten, 60, folder, "cuda")
                else:
                    compile_only(define(text, folder), those[0])
                    told = "done", [], []
            except Exception as error:
                told = "error", -1, words(error)
            if told[0] != "done" and text is CONTROL:
                return "unable", told[-1]
    return told


def perform(source, calls, unwritten, seconds, folder, device):
    done, n = [], 0
    try:
        with np.errstate(all="ignore"):
            kernel = define(source, folder)
            for n, call in enumerate(calls):
                with at_most(seconds):
                    done.append(run(kernel, call, unwritten, device))
    except Late:
        return "late", n
    except Exception as error:
        return "error", n, words(error)
    return "done", *map(list, zip(*done))


def words(error):
    """What went wrong, and in which line of the kernel."""
    chain = [error]                         # Triton wraps what a kernel raises
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    last = chain[-1]
    node = getattr(last, "node", None)      # of Triton's compiler
    if hasattr(node, "lineno"):
        line = (last.src or "").split("\n")[node.lineno - 1].strip()
        said = getattr(last, "error_message", None)
        return f"{said or type(last).__name__} (line: {line})"
    own = [frame.line for link in chain
           for frame in traceback.extract_tb(link.__traceback__)
           if Path(frame.filename).name.startswith("answer_") and frame.line]
    return (f"{type(last).__name__}: {last}"
            + (f" (line: {own[-1]})" if own else ""))


def main(mode):
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)    # a kernel may print
    lacks, gpu = "", False
    try:
        import triton           # noqa: F401
        import triton.language  # noqa: F401
        if mode == "interpret":
            import torch        # noqa: F401
        else:
            gpu = has_gpu()
    except Exception as error:
        lacks = ("it needs torch and Triton (pip install torch triton; "
                 f"Triton runs on Linux): {type(error).__name__}, {error}.")
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer = (("unable", lacks) if lacks else interpreted(request)
                  if mode == "interpret" else compiled(request, gpu))
        pickle.dump(answer, channel)
        channel.flush()


def has_gpu():
    """Is a GPU there?  torch, slow to import, is asked if a driver is."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    import torch
    return torch.cuda.is_available()


if __name__ == "__main__":
    main(sys.argv[1])
