"""Compile every Triton kernel for GPUs that are not here, and say how it fits.

    python -m lintut.kernels.compile_report [--quick] [--mechanism NAME]

writes, for each kernel, GPU, width and dtype, the registers of a thread, the
bytes it spills, the shared memory of a block and whether its products use the
tensor cores, to `results/kernels-compiled.json` (or --output).  Rows of
mechanisms that were not asked for stay as they are; --quick writes nothing.

A mechanism takes part by having a `mechanism_triton.py` that starts its
kernels through `_launch.launch` and has a function

    sample(d, dtype)    one call on a small input with gradients, the output

It runs with its launches recorded, forward and then backward, so what is
compiled is what a call on that GPU would run.
"""

import argparse
import datetime
import importlib
import json
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import torch
import triton
from triton.backends.compiler import GPUTarget

from ._backend import SHARED_MEMORY, pretend
from ._launch import record

MECHANISMS = ("linear", "retention", "gla", "delta", "gated_delta",
              "softmax")
GPUS = ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0))
WIDTHS = (64, 128)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
QUICK = ((7, 5), (9, 0)), (64,), (torch.float16,)   # what the tests compile


def launches(mechanism, gpu, d, dtype):
    """The launches of one forward and one backward call: (phase, Launch)."""
    module = importlib.import_module(f"lintut.kernels.{mechanism}_triton")
    with pretend(*gpu):
        with record() as forward:
            o = module.sample(d, dtype)
        with record() as backward:
            torch.autograd.backward(o, torch.zeros_like(o))
    return ([("forward", x) for x in forward]
            + [("backward", x) for x in backward])


def compile_for(launch, gpu):
    """Compile one launch; return its figures as a dict."""
    attributes = {(launch.kernel.arg_names.index(name),):
                  [["tt.divisibility", 16]] for name in launch.aligned}
    source = triton.compiler.ASTSource(
        fn=launch.kernel, signature=launch.signature,
        constexprs=launch.constants, attrs=attributes)
    compiled = triton.compile(
        source, target=GPUTarget("cuda", 10 * gpu[0] + gpu[1], 32),
        options=dict(num_warps=launch.num_warps,
                     num_stages=launch.num_stages))
    ptx = compiled.asm["ptx"]
    registers, spilled = _registers(ptx)
    return dict(warps=launch.num_warps, stages=launch.num_stages,
                shared=compiled.metadata.shared, registers=registers,
                spilled=spilled, products=_products(ptx),
                fits=compiled.metadata.shared <= SHARED_MEMORY[gpu])


def _products(ptx):
    """The instruction that multiplies matrices in this program."""
    for name, pattern in (("tcgen05", r"tcgen05\.mma"),
                          ("wgmma", r"wgmma\.mma"), ("mma", r"\bmma\.sync")):
        if re.search(pattern, ptx):
            return name
    return "fma"


def _registers(ptx):
    """(registers of a thread, bytes spilled), as Triton's ptxas says."""
    arch = re.search(r"\.target (sm_\w+)", ptx).group(1)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "kernel.ptx")
        path.write_text(ptx)
        done = subprocess.run(
            [_ptxas(arch), "-v", f"--gpu-name={arch}", str(path), "-o",
             str(path.with_suffix(".cubin"))],
            capture_output=True, text=True, check=True)
    said = done.stderr + done.stdout
    return (int(re.search(r"Used (\d+) registers", said).group(1)),
            sum(map(int, re.findall(r"(\d+) bytes spill stores", said))))


def _ptxas(arch):
    folder = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin"
    newer = folder / "ptxas-blackwell"
    blackwell = int(re.search(r"\d+", arch).group()) >= 100
    return str(newer if blackwell and newer.exists() else folder / "ptxas")


def rows(mechanism, gpus=GPUS, widths=WIDTHS, dtypes=DTYPES):
    """Compile all kernels of a mechanism; yield one dict for each."""
    for gpu in gpus:
        for d in widths:
            for dtype in dtypes:
                if dtype == torch.bfloat16 and gpu < (8, 0):
                    continue
                done = set()
                for phase, launch in launches(mechanism, gpu, d, dtype):
                    key = str((launch.kernel.__name__, launch.signature,
                               launch.constants))
                    if key in done:
                        continue
                    done.add(key)
                    yield dict(
                        mechanism=mechanism, kernel=launch.kernel.__name__,
                        phase=phase, capability="{}.{}".format(*gpu), d=d,
                        dtype=str(dtype).removeprefix("torch."),
                        **compile_for(launch, gpu))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true",
                        help="float16 at d=64 on 7.5 and 9.0 only")
    parser.add_argument("--mechanism", choices=MECHANISMS, action="append")
    parser.add_argument("--output", default="results/kernels-compiled.json")
    options = parser.parse_args(arguments)
    table = []
    for mechanism in options.mechanism or MECHANISMS:
        for row in rows(mechanism, *(QUICK if options.quick else ())):
            print("{mechanism:12} {kernel:16} {phase:8} {capability:>4} "
                  "d={d:<3} {dtype:8} {shared:>6} B shared, {registers:>3} "
                  "registers, {spilled:>5} B spilled, {products}".format(
                      **row), flush=True)
            table.append(row)
    if not options.quick:
        _write(pathlib.Path(options.output), table)


def _write(path, table):
    """Replace the rows of the mechanisms in `table`, keep the others."""
    done = {row["mechanism"] for row in table}
    if path.exists():
        before = json.loads(path.read_text())["rows"]
        table = [row for row in before if row["mechanism"] not in done] + table
    table.sort(key=lambda row: MECHANISMS.index(row["mechanism"]))
    path.write_text(json.dumps(dict(
        what="Triton kernels compiled ahead of time; no GPU was used",
        hardware=f"none: a {platform.machine()} CPU compiled them",
        versions=dict(python=platform.python_version(),
                      torch=torch.__version__, triton=triton.__version__),
        date=datetime.date.today().isoformat(),
        command="python -m lintut.kernels.compile_report",
        rows=table), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
