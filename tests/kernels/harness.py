"""What the kernels' tests share.

Triton reads TRITON_INTERPRET when it is imported, and a process either
interprets kernels or compiles them.  So the tests in `interpreted/` are
collected only where the variable is set: `interpret("test_linear.py")`, from
an ordinary test, runs such a file in a process of its own.
"""

import json
import os
import pathlib
import subprocess
import sys

import torch

HERE = pathlib.Path(__file__).parent


def interpret(file):
    """Run tests/kernels/interpreted/<file> in Triton's interpreter."""
    environment = os.environ | {"TRITON_INTERPRET": "1",
                                "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
         "-p", "no:xdist", str(HERE / "interpreted" / file)],
        env=environment, cwd=HERE.parents[1], capture_output=True, text=True,
        timeout=600)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def random(shape, seed, scale=1.0, dtype=torch.float64):
    """Normal entries from a seed, rounded to float32 so all dtypes share."""
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
    return x.float().to(dtype)


def gates(shape, seed, smallest=1e-6, dtype=torch.float64):
    """Gates in [smallest, 1]: a third near one, the rest down to `smallest`,
    evenly in their logarithm; the two ends included."""
    generator = torch.Generator().manual_seed(seed)
    u = torch.rand(shape, generator=generator, dtype=torch.float64)
    near = torch.rand(shape, generator=generator, dtype=torch.float64) < 1 / 3
    x = torch.where(near, 1 - 0.1 * u, smallest ** u)
    x.view(-1)[0], x.view(-1)[-1] = smallest, 1.0
    return x.float().to(dtype)


def row_error(got, expected, floor=1e-2):
    """The largest error of a row, relative to that row's largest entry.

    Rows lie along the last axis.  A row much smaller than the tensor is
    judged by `floor` times the tensor's largest entry.
    """
    assert got.shape == expected.shape, (got.shape, expected.shape)
    got, expected = got.detach().double(), expected.detach().double()
    error = (got - expected).abs().amax(-1)
    size = expected.abs().amax(-1)
    ratio = error / size.clamp(min=floor * expected.abs().max().item() + 1e-30)
    assert torch.isfinite(ratio).all(), "an entry is not finite"
    return ratio.max().item()


def poison():
    """Fill what torch.empty returns from now on with NaN, in place.

    A kernel that leaves a part of its output unwritten is then seen.
    """
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True)


def gradients(run, inputs, weights):
    """(outputs, gradients) of Σ weights·outputs; `inputs` are copied first.

    `run(**inputs)` returns a tensor or a tuple of tensors; the gradients are
    a dict with an entry for each floating input.
    """
    own = {name: x.detach().clone().requires_grad_()
           if isinstance(x, torch.Tensor) and x.is_floating_point() else x
           for name, x in inputs.items()}
    outputs = run(**own)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    loss = sum((o * w.to(o.dtype)).sum() for o, w in zip(outputs, weights))
    leaves = {n: x for n, x in own.items()
              if isinstance(x, torch.Tensor) and x.requires_grad}
    found = torch.autograd.grad(loss, list(leaves.values()))
    return outputs, dict(zip(leaves, found))


def compiled(mechanism):
    """Compile a mechanism's kernels for a T4 and an H100, in float16 at d=64,
    in a process of its own; each must fit, and spill nothing where the block
    table promises that."""
    script = ("import json, torch\n"
              "from lintut.kernels import compile_report as report\n"
              f"rows = report.rows({mechanism!r}, *report.QUICK)\n"
              "print(json.dumps(list(rows)))\n")
    environment = {name: value for name, value in os.environ.items()
                   if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", script], env=environment,
                          cwd=HERE.parents[1], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = json.loads(done.stdout)
    assert {row["capability"] for row in rows} == {"7.5", "9.0"}
    for row in rows:
        assert row["fits"], row
        tensor_cores = row["capability"] != "7.5"
        assert (row["products"] != "fma") == tensor_cores, row
        if tensor_cores or row["phase"] == "forward":
            assert row["spilled"] == 0, row
