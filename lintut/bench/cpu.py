"""Every form of every mechanism of `lintut.reference`, on one CPU thread.

float32, d = d_v = 64, one sequence (two heads for the hybrid).  Beside them:
PyTorch's attention, a token loop compiled by numba, the naive functions of
flash-linear-attention, and the matrix products of `linear.chunkwise` alone.

All candidates of one length take turns, round after round, and a time is the
median of its rounds.  It is processor time, user and system, of the one
thread, so that other programs lengthen it little; the wall-clock median is
recorded beside it.  Peak memory is what a run needs beyond its inputs: as
tracemalloc sees it for NumPy, as the process's resident size for the others.
A candidate sits out a length that would take it too long or too much memory,
and the table says so.
"""

import ctypes
import gc
import importlib
import math
import re
import statistics
import time
import tracemalloc
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lintut.bench import record
from lintut.cost import bytes_text

D = 64
LENGTHS = (256, 1024, 4096, 16_384, 65_536)
QUICK = (64, 128)
SLOWEST = 10.0              # seconds that one run may take
LARGEST = 4 * 2 ** 30       # bytes that one run may need
FORMS = ("parallel", "blocked", "banded", "recurrent", "chunkwise")
WINDOW = 256

# What each mechanism is called with, besides q, k and v.
OPTIONS = {
    "softmax": lambda x: dict(causal=True),
    "sliding_window": lambda x: dict(window=WINDOW),
    "longformer": lambda x: dict(window=WINDOW, global_positions=[0],
                                 causal=True),
    "bigbird": lambda x: dict(block_size=64, n_window=3, n_global=2,
                              n_random=3, seed=0, causal=True),
    "linformer": lambda x: dict(key_projection=x["E"],
                                value_projection=x["F"]),
    "linear": lambda x: {},
    "performer": lambda x: dict(n_features=D, seed=0),
    "retention": lambda x: dict(gamma=x["gamma"]),
    "gla": lambda x: dict(alpha=x["alpha"]),
    "delta": lambda x: dict(beta=x["beta"]),
    "gated_delta": lambda x: dict(alpha=x["decay"], beta=x["beta"]),
    "hybrid": lambda x: dict(window=WINDOW, heads=("window", "linear")),
}


@dataclass
class Candidate:
    """`prepare(inputs)` returns the call to time; it makes no copies later.

    `same_as` names the candidate whose output it must equal.
    """
    name: str
    prepare: object
    memory: str = "tracemalloc"
    same_as: str | None = None
    work: str = ""
    rows: dict = field(default_factory=dict)


def inputs(n):
    """Random float32 inputs of length n; unit keys, gates as models have."""
    rng = np.random.default_rng(n)
    x = {name: rng.normal(size=(n, D)) for name in "qkv"}
    x["q"] /= np.sqrt(D)
    x["k"] /= np.linalg.norm(x["k"], axis=-1, keepdims=True)
    x["alpha"] = rng.uniform(0.9, 1, size=(n, D))
    x["decay"] = rng.uniform(0.9, 1, size=n)
    x["beta"] = rng.uniform(0, 1, size=n)
    m = min(256, n)
    x["E"], x["F"] = rng.normal(size=(2, m, n)) / np.sqrt(n)
    x = {name: value.astype(np.float32) for name, value in x.items()}
    return x | {"gamma": 0.96875}


# -- candidates --------------------------------------------------------------


def ours():
    """Each form of each module of `lintut.reference`."""
    for name, options in OPTIONS.items():
        module = importlib.import_module(f"lintut.reference.{name}")
        for form in FORMS:
            if hasattr(module, form):
                yield _ours(name, form, getattr(module, form), options)


def _ours(name, form, function, options):
    def prepare(x):
        q, k, v = x["q"], x["k"], x["v"]
        if name == "hybrid":
            q, k, v = (np.stack([y, y]) for y in (q, k, v))
        keywords = options(x)
        if form == "recurrent":         # causal by definition
            keywords.pop("causal", None)
        return lambda: function(q, k, v, **keywords)

    return Candidate(f"{name}.{form}", prepare,
                     same_as=None if form == "parallel"
                     else f"{name}.parallel",
                     work="N²" if form == "parallel" and name != "linformer"
                     or name == "softmax" else "N")


def matmuls():
    """The products of `linear.chunkwise`, and nothing else of it."""
    def prepare(x):
        q, k = (np.exp(np.minimum(y, 0)) + np.maximum(y, 0)
                for y in (x["q"], x["k"]))
        v = np.concatenate([x["v"], np.ones_like(x["v"][:, :1])], -1)

        def call():
            S = np.zeros((D, D + 1), np.float32)
            for start in range(0, len(q), 64):
                rows = slice(start, start + 64)
                Q, K, V = q[rows], k[rows], v[rows]
                Q @ S
                (Q @ K.T) @ V
                K.T @ V
        return call
    return Candidate("bare matmuls of linear.chunkwise", prepare, work="N")


def numba_loop():
    """linear.recurrent, feature map included, compiled."""
    import numba

    @numba.njit(fastmath=True)
    def loop(q, k, v):
        n, d = q.shape
        d_v, one = v.shape[1], np.float32(1)
        o = np.zeros((n, d_v), np.float32)
        S = np.zeros((d, d_v), np.float32)
        z = np.zeros(d, np.float32)
        for t in range(n):
            total = np.float32(0)
            for i in range(d):
                a, b = k[t, i], q[t, i]
                a = a + one if a > 0 else math.exp(a)
                b = b + one if b > 0 else math.exp(b)
                z[i] += a
                total += b * z[i]
                for j in range(d_v):
                    S[i, j] += a * v[t, j]
                    o[t, j] += b * S[i, j]
            for j in range(d_v):
                o[t, j] /= total
        return o

    return Candidate("numba token loop (linear)",
                     lambda x: lambda: loop(x["q"], x["k"], x["v"]),
                     "rss", "linear.parallel", "N")


def torch_sdpa():
    """PyTorch's own attention, causal."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    def prepare(x):
        torch.set_num_threads(1)
        q, k, v = (torch.from_numpy(x[name])[None, None] for name in "qkv")
        return lambda: sdpa(q, k, v, is_causal=True)[0, 0].numpy()
    return Candidate("torch SDPA", prepare, "rss", "softmax.parallel", "N²")


def fla():
    """The naive functions of flash-linear-attention; scale 1, as ours."""
    import torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # that there is no GPU
        from fla.ops.delta_rule import naive as delta
        from fla.ops.gated_delta_rule import naive as gated
        from fla.ops.gla import naive as gla
        from fla.ops.linear_attn import naive as linear
        from fla.ops.simple_gla import naive as simple

    scale = D ** 0.5            # undoes the 1/√d of those that take none

    def tensors(x):
        torch.set_num_threads(1)
        q, k, v, alpha, decay, beta = (
            torch.from_numpy(x[name])[None, :, None]
            for name in ("q", "k", "v", "alpha", "decay", "beta"))
        return q, k, v, alpha, decay, beta

    def phi(x):
        return torch.nn.functional.elu(x) + 1

    def gamma(x, q):
        return torch.full(q.shape[:3], math.log(x["gamma"]))

    def flip(x):                # (B, T, H, D) to (B, H, T, D)
        return x.transpose(1, 2)

    def candidate(name, same_as, call, work="N"):
        def prepare(x):
            arguments = tensors(x)

            def run():
                with torch.no_grad():
                    o = call(x, *arguments)
                o = o[0] if isinstance(o, tuple) else o
                return o.reshape(-1, D).numpy()
            return run
        return Candidate(f"fla {name}", prepare, "rss", same_as, work)

    yield candidate(
        "naive_recurrent_linear_attn", "linear.parallel",
        lambda x, q, k, v, *_: linear.naive_recurrent_linear_attn(
            phi(q), phi(k), v, scale=1, normalize=True))
    yield candidate(
        "naive_chunk_linear_attn", "linear.parallel",
        lambda x, q, k, v, *_: linear.naive_chunk_linear_attn(
            phi(q), phi(k), v, scale=1, normalize=True))
    yield candidate(
        "naive_chunk_simple_gla (γ fixed)", "retention.parallel",
        lambda x, q, k, v, *_: simple.naive_chunk_simple_gla(
            q, k, v, gamma(x, q), scale=1))
    yield candidate(
        "naive_recurrent_gla", "gla.parallel",
        lambda x, q, k, v, a, *_: gla.naive_recurrent_gla(
            q * scale, k, v, a.log()))
    yield candidate(
        "delta_rule_recurrence", "delta.parallel",
        lambda x, q, k, v, a, g, b: delta.delta_rule_recurrence(
            *map(flip, (q * scale, k, v, b))))
    yield candidate(
        "delta_rule_chunkwise", "delta.parallel",
        lambda x, q, k, v, a, g, b: delta.delta_rule_chunkwise(
            *map(flip, (q * scale, k, v, b)), chunk_size=64))
    yield candidate(
        "naive_recurrent_gated_delta_rule", "gated_delta.parallel",
        lambda x, q, k, v, a, g, b: gated.naive_recurrent_gated_delta_rule(
            q, k, v, b, g.log(), scale=1))
    yield candidate(
        "naive_chunk_gated_delta_rule", "gated_delta.parallel",
        lambda x, q, k, v, a, g, b: gated.naive_chunk_gated_delta_rule(
            q, k, v, g.log(), b, scale=1))


def candidates():
    """All of them, and {peer: why it is not there}."""
    found, missing = [*ours(), matmuls()], {}
    for peer, make in (("numba token loop", numba_loop),
                       ("torch SDPA", torch_sdpa), ("fla", fla)):
        try:
            made = make()
            found += [made] if isinstance(made, Candidate) else list(made)
        except ImportError as error:
            missing[peer] = f"not installed ({error})"
    return found, missing


# -- measuring ---------------------------------------------------------------


def seconds(call):
    """(processor time, wall-clock time) of one run."""
    wall, start = time.perf_counter(), time.process_time()
    call()
    return time.process_time() - start, time.perf_counter() - wall


def peak_bytes(call, how):
    """Bytes that `call` needs beyond what is there; None if unknown."""
    if how == "tracemalloc":
        tracemalloc.start()
        call()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak
    return _resident(call)


def _resident(call):
    """Growth of the resident size: Linux only, to a page or so."""
    status = Path("/proc/self/status")
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")   # reset the peak
        before = re.search(r"VmRSS:\s+(\d+)", status.read_text())
    except (OSError, AttributeError):
        call()
        return None
    call()
    peak = re.search(r"VmHWM:\s+(\d+)", status.read_text())
    return max(0, int(peak[1]) - int(before[1])) * 1024


def why_not(candidate, n):
    """The reason to leave out length n, judged by the length before."""
    if not candidate.rows:
        return None
    before = max(candidate.rows)
    last, times = candidate.rows[before], n / before
    if last.get("skipped"):
        return last["skipped"]
    grow = times ** 2 if candidate.work == "N²" else times
    if last["seconds"] * grow > SLOWEST:
        return f"would take about {last['seconds'] * grow:.0f} s"
    if (last["peak_bytes"] or 0) * grow > LARGEST:
        return f"would take about {bytes_text(last['peak_bytes'] * grow)}"
    return None


def measure(all_candidates, n, rounds, progress):
    """One row for each candidate at length n, rounds interleaved."""
    x, calls, times, peaks = inputs(n), {}, {}, {}
    gc.collect()
    for c in all_candidates:
        reason = why_not(c, n)
        if reason:
            c.rows[n] = dict(name=c.name, N=n, skipped=reason)
            continue
        calls[c.name], times[c.name] = c.prepare(x), []
        peaks[c.name] = peak_bytes(calls[c.name], c.memory)
    for turn in range(rounds):
        for name, call in calls.items():
            # Three rounds, or two of ten seconds; more below one second.
            spent = sum(cpu for cpu, _ in times[name])
            if spent < (10 if turn < 3 else 1):
                times[name].append(seconds(call))
        progress(f"N = {n:,}: round {turn + 1} of {rounds}")
    for c in all_candidates:
        if c.name in calls:
            cpu, wall = zip(*times[c.name])
            c.rows[n] = dict(
                name=c.name, N=n, seconds=statistics.median(cpu),
                low=min(cpu), high=max(cpu), wall=statistics.median(wall),
                rounds=len(cpu), peak_bytes=peaks[c.name],
                peak_by=c.memory)


def disagreement(all_candidates, n):
    """{name: largest error against `same_as`, relative to its largest}."""
    x = inputs(n)
    outputs = {c.name: c.prepare(x)() for c in all_candidates}
    return {c.name: float(
        np.abs(outputs[c.name] - outputs[c.same_as]).max()
        / np.abs(outputs[c.same_as]).max())
        for c in all_candidates if c.same_as}


def run(quick=False, rounds=None, progress=print):
    """Measure everything; the record as a dict."""
    lengths = QUICK if quick else LENGTHS
    rounds = rounds or (3 if quick else 9)
    load = record.load()
    found, missing = candidates()
    errors = disagreement(found, lengths[0])
    wrong = {name: e for name, e in errors.items() if not e < 1e-3}
    if wrong:
        raise RuntimeError(f"these compute something else: {wrong}")
    for n in lengths:
        measure(found, n, rounds, progress)
    head = record.header("forward pass, CPU", load_before=load,
                         load_after=record.load())
    return head | {
        "settings": dict(threads=1, dtype="float32", d=D, d_v=D,
                         lengths=list(lengths), window=WINDOW, chunk_size=64,
                         time="seconds of processor time, the median of "
                              "interleaved rounds"),
        "missing": missing, "growth": growth(found, lengths),
        "aims": aims(found, lengths),
        "rows": [row for c in found for row in c.rows.values()]}


def growth(found, lengths):
    """{name: time at the longest / (time at N₀ · ratio of lengths)}.

    1 is linear.  N₀ is a sixteenth of the longest, where it was measured.
    """
    last = lengths[-1]
    first = max((n for n in lengths if n * 16 <= last), default=lengths[0])
    return {c.name: c.rows[last]["seconds"] / c.rows[first]["seconds"]
            * first / last for c in found
            if "seconds" in c.rows[first] and "seconds" in c.rows[last]}


def aims(found, lengths):
    """The ratios that the issue asks for, at 16,384 (or the longest)."""
    n = 16_384 if 16_384 in lengths else lengths[-1]
    t = {c.name: c.rows[n].get("seconds") for c in found}
    chunk = "linear.chunkwise"
    pairs = {f"{other} / {chunk}": (other, chunk) for other in (
        "torch SDPA", "softmax.parallel", "numba token loop (linear)")}
    pairs[f"{chunk} / its bare matmuls"] = (
        chunk, "bare matmuls of linear.chunkwise")
    pairs |= {f"{name}.recurrent / {name}.chunkwise":
              (f"{name}.recurrent", f"{name}.chunkwise")
              for name in OPTIONS if f"{name}.chunkwise" in t}
    return {"N": n} | {label: t[a] / t[b] for label, (a, b) in pairs.items()
                       if t.get(a) and t.get(b)}


# -- the table ---------------------------------------------------------------


def show(result):
    """Times, ratios to linear.chunkwise, growth and peak memory."""
    lengths = result["settings"]["lengths"]
    rows = {}
    for row in result["rows"]:
        rows.setdefault(row["name"], {})[row["N"]] = row
    base = rows["linear.chunkwise"]
    hardware, found = result["hardware"], result["versions"]
    print(f"\n{hardware['cpu']}, one thread; NumPy {found['numpy']}, torch "
          f"{found['torch']}; load {hardware['load_before']} before, "
          f"{hardware['load_after']} after")
    print("milliseconds of processor time; in brackets, how many times "
          "linear.chunkwise\n")
    print(f"{'':36}" + "".join(f"{n:>17,}" for n in lengths)
          + "  growth  peak at longest")
    for name, of in rows.items():
        cells = "".join(f"{_cell(of[n], base[n]):>17}" for n in lengths)
        slope = result["growth"].get(name)
        peaks = [of[n]["peak_bytes"] for n in lengths if "seconds" in of[n]]
        longest = max(n for n in lengths if "seconds" in of[n])
        peak = "" if peaks[-1] is None else bytes_text(peaks[-1])
        if longest != lengths[-1]:
            peak += f" ({longest:,})"
        print(f"{name:36}{cells}  {slope and f'{slope:.2f}' or '':>6}  {peak}")
    for name, reason in result["missing"].items():
        print(f"{name}: {reason}")
    print("\ngrowth: time at the longest over the time at a sixteenth of it, "
          "over 16; 1 is linear\n")
    for label, ratio in result["aims"].items():
        print(f"{label:52} {ratio:8.2f}" if label != "N" else
              f"at N = {ratio:,}:")


def _cell(row, base):
    if "skipped" in row:
        return "skipped"
    ratio = row["seconds"] / base["seconds"]
    return f"{1e3 * row['seconds']:.3g} ({ratio:.3g}×)"
