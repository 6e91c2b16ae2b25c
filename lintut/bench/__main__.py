"""Choose what to measure, keep it on one thread, print, record."""

import argparse
import os
import sys

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
              "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m lintut.bench",
        description="Measure lintut on this machine.")
    parser.add_argument("what", nargs="?", choices=("cpu", "gpu"),
                        help="default: gpu where there is one, else cpu")
    parser.add_argument("--quick", action="store_true",
                        help="a few small sizes only")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="for gpu: cpu tries the script out, tiny")
    parser.add_argument("--out", metavar="FILE",
                        help="write the measurements as JSON")
    chosen = parser.parse_args(arguments)
    if chosen.what is None:
        from lintut.environment import gpu
        chosen.what = "gpu" if gpu() else "cpu"
    if chosen.what == "cpu":
        for name in ONE_THREAD:         # read when numpy is first imported
            os.environ[name] = "1"
        from lintut.bench import cpu as bench
        result = bench.run(quick=chosen.quick)
    else:
        from lintut.bench import gpu as bench
        result = bench.run(quick=chosen.quick, device=chosen.device)
    bench.show(result)
    if chosen.out:
        from lintut.bench import record
        record.save(result, chosen.out)
        print(f"recorded in {chosen.out}")


if __name__ == "__main__":
    sys.exit(main())
