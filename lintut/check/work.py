"""Bounds on how an answer works, for exercises that are about the work.

A limit has `judge(name, run)`, where `run(arguments)` calls the answer; it
raises `Wrong` with its reason.
"""

import contextlib
import functools
import math
import re
import tracemalloc
from dataclasses import dataclass

import numpy as np

from .core import Wrong


@dataclass(frozen=True)
class Memory:
    """At most `bytes` at once beyond the arguments, on `arguments()`."""
    bytes: int
    arguments: object
    says: str

    def judge(self, name, run):
        arguments = self.arguments()
        tracemalloc.start()
        try:
            run(arguments)
            # The run works on copies; they are not the answer's doing.
            copies = sum(x.nbytes for x in arguments.values()
                         if isinstance(x, np.ndarray))
            peak = tracemalloc.get_traced_memory()[1] - copies
        finally:
            tracemalloc.stop()
        if peak > self.bytes:
            raise Wrong(f"{name} gives the right result, but held "
                        f"{peak / 2**20:.1f} MiB at once where "
                        f"{self.bytes / 2**20:.1f} are enough. {self.says}")


@dataclass(frozen=True)
class Operations:
    """At most `calls` NumPy operations, `flops` in products, and `entries`
    that operations entry by entry give."""
    arguments: object
    says: str
    calls: float = np.inf
    flops: float = np.inf
    entries: float = np.inf

    def judge(self, name, run):
        Counted.calls = Counted.flops = Counted.entries = 0
        with counting():
            run({key: x.view(Counted) if isinstance(x, np.ndarray) else x
                 for key, x in self.arguments().items()})
        for what, got, most in (
                ("NumPy operations", Counted.calls, self.calls),
                ("FLOPs in matrix products", Counted.flops, self.flops),
                ("entries of intermediate results", Counted.entries,
                 self.entries)):
            if got > most:
                raise Wrong(f"{name} gives the right result, but took "
                            f"{got:,} {what} where {most:,.0f} are enough. "
                            f"{self.says}")


class Counted(np.ndarray):
    """An array that counts what is done with it, and with what comes of it."""
    calls = flops = entries = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **keywords):
        inputs = [x.view(np.ndarray) if isinstance(x, Counted) else x
                  for x in inputs]
        if out is not None:
            keywords["out"] = tuple(
                x.view(np.ndarray) if isinstance(x, Counted) else x
                for x in out)
        if isinstance(keywords.get("where"), Counted):
            keywords["where"] = keywords["where"].view(np.ndarray)
        result = getattr(ufunc, method)(*inputs, **keywords)
        Counted.calls += 1
        Counted.entries += np.size(result)
        if ufunc.signature:                 # matmul, vecdot and their like
            Counted.flops += 2 * np.size(result) * np.shape(inputs[0])[-1]
        if out is not None:
            return out[0]
        return _counted(result)

    def __array_function__(self, function, types, inputs, keywords):
        Counted.calls += 1
        before = Counted.flops
        result = super().__array_function__(function, types, inputs, keywords)
        if function in PRODUCTS or function is np.einsum:
            Counted.flops = before + _flops(function, inputs, keywords, result)
        return _counted(result)

    def dot(self, other, out=None):
        return np.dot(self, other, out)

    def __getitem__(self, key):
        """A single number, taken out, is counted with what is done with it."""
        result = super().__getitem__(key)
        if not isinstance(result, np.ndarray):
            Counted.calls += 1
        return result

    def tolist(self):
        Counted.calls += self.size
        return super().tolist()


@contextlib.contextmanager
def counting():
    """np.array and its like, which make plain arrays, keep the counting."""
    def keeping(make):
        @functools.wraps(make)
        def made(x, *rest, **keywords):
            result = make(x, *rest, **keywords)
            parts = x if isinstance(x, (list, tuple)) else (x,)
            return (result.view(Counted)
                    if any(isinstance(part, Counted) for part in parts)
                    else result)
        return made

    makers = {name: getattr(np, name) for name in (
        "array", "asarray", "ascontiguousarray")}
    for name, make in makers.items():
        setattr(np, name, keeping(make))
    try:
        yield
    finally:
        for name, make in makers.items():
            setattr(np, name, make)


PRODUCTS = np.dot, np.inner, np.vdot, np.tensordot


def _counted(result):
    return (result.view(Counted) if isinstance(result, np.ndarray)
            else result)


def _flops(function, inputs, keywords, result):
    """Of m×k by k×n: 2mkn, the root of 4 · mk · kn · mn."""
    if function is np.einsum:
        text = np.einsum_path(*inputs, optimize=keywords.get(
            "optimize", False))[1]
        return int(float(re.search(r"Optimized FLOP count: *(\S+)",
                                   text).group(1)))
    sizes = [np.size(x) for x in (*inputs[:2], result)]
    return 2 * math.isqrt(math.prod(sizes))
