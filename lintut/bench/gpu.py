"""The kernels on a GPU, beside PyTorch's attention and flash-linear-attention.

Three passes: `forward`; `forward+backward`, the gradients of every input
included; `decode`, one token with T of them in the state.  Layout (B, T, H, D)
with d = d_v, H·d = 1024 and B·T = 16,384 or, for longer sequences, B = 1;
bfloat16 where the GPU has it, else float16.

Before anything is timed, each candidate's output and gradients are compared
with those of our torch path in float64 on the CPU; one that computes
something else is not timed, and the table says so.  The candidates of a size
take turns, round after round, and a time is the median of the rounds.

The roofline beside a time is the least time that the work can take by the
formulas of `lintut.cost` and this GPU's own ceilings, measured in the same
run: the FLOP/s of a large matrix product, the bytes/s of a large copy.  Only
matrix products count as FLOPs; each tensor moves once.  With the backward
pass the bytes treble: q, k, v and o, then those and the output's gradient
read, and three gradients written.  The products treble too, but for softmax
they are 3.5 times: the scores are computed again.
"""

import contextlib
import importlib
import math
import statistics
import time
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from lintut import cost
from lintut.bench import record

PASSES = ("forward", "forward+backward", "decode")
WINDOW = 256
QUICK_SECONDS = 200     # after these a quick run starts nothing new
SLOWEST = 3.0           # seconds that one call may take
ROUNDS = 9
TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}


@dataclass(frozen=True)
class Plan:
    """The sizes of a run."""
    lengths: tuple
    widths: tuple
    width: int              # H·d
    tokens: int             # B·T, where T is not more
    matmul: int             # side of the product that gives the ceiling
    copy: int               # bytes of the copy that gives the other
    rounds: int = ROUNDS
    seconds: float = math.inf


PLANS = {
    ("cuda", False): Plan((512, 1024, 2048, 4096, 8192, 16_384, 32_768,
                           65_536), (64, 128), 1024, 16_384, 8192, 2 ** 30),
    ("cuda", True): Plan((512, 4096, 32_768), (64,), 1024, 16_384, 8192,
                         2 ** 30, 5, QUICK_SECONDS),
    ("cpu", False): Plan((64, 256, 1024), (32,), 64, 256, 512, 2 ** 24),
    ("cpu", True): Plan((48, 80), (16,), 32, 96, 128, 2 ** 20, 1),
}

# What each mechanism takes besides q, k and v; gates are (B, T, H[, D]).
KEYWORDS = {
    "softmax": lambda x: dict(causal=True),
    "sliding_window": lambda x: dict(window=WINDOW),
    "linear": lambda x: {},
    "performer": lambda x: dict(n_features=x["q"].shape[-1], seed=0),
    "retention": lambda x: dict(gamma=x["gamma"]),
    "gla": lambda x: dict(alpha=x["alpha"]),
    "delta": lambda x: dict(beta=x["beta"]),
    "gated_delta": lambda x: dict(alpha=x["decay"], beta=x["beta"]),
}
GATES = {"gla": ("alpha",), "delta": ("beta",),
         "gated_delta": ("decay", "beta")}


@dataclass
class Candidate:
    """One way to compute one mechanism.

    run : (x) to o (B, T, H, D_v)
    step : (x of one token, state) to o; None if it cannot decode
    leaves : the inputs whose gradients the backward pass computes
    around : gives the context in which it runs
    """
    name: str
    mechanism: str
    run: object
    step: object
    leaves: tuple
    around: object = contextlib.nullcontext
    rows: dict = field(default_factory=dict)


def inputs(T, d, plan, device, dtype, B=None, H=None):
    """Random inputs; unit keys, gates as models have, and their logarithms."""
    B = max(1, plan.tokens // T) if B is None else B
    H = max(1, plan.width // d) if H is None else H
    generator = torch.Generator(device).manual_seed(T)

    def draw(*shape, low=None):
        if low is None:
            return torch.randn(shape, generator=generator, device=device)
        return low + (1 - low) * torch.rand(shape, generator=generator,
                                            device=device)

    x = {name: draw(B, T, H, d) for name in ("q", "k", "v", "weights")}
    x["q"] /= d ** 0.5
    x["k"] = F.normalize(x["k"], dim=-1)
    x["alpha"] = draw(B, T, H, d, low=0.9)
    x["decay"] = draw(B, T, H, low=0.9)
    x["beta"] = draw(B, T, H, low=0.0)
    x = {name: value.to(dtype) for name, value in x.items()}
    x["log alpha"], x["log decay"] = (x[name].float().log()
                                      for name in ("alpha", "decay"))
    x["gamma"] = 1 - 2.0 ** -(5.0 + torch.arange(H, device=device))
    return x


def one_token(x):
    """The first token of every input that has tokens."""
    return {name: value if name == "gamma" else value[:, :1].contiguous()
            for name, value in x.items()}


def state(mechanism, x):
    """What decoding carries after the T tokens of x."""
    if mechanism in ("softmax", "sliding_window"):
        start = -WINDOW if mechanism == "sliding_window" else 0
        return x["k"][:, start:], x["v"][:, start:]
    # Its size is the same after any number of tokens.
    short = {name: value if name == "gamma" else value[:, :64]
             for name, value in x.items()}
    module = importlib.import_module(f"lintut.kernels.{mechanism}")
    return module.chunkwise(short["q"], short["k"], short["v"],
                            **KEYWORDS[mechanism](short), return_state=True,
                            backend="torch")[1]


# -- candidates --------------------------------------------------------------


def ours(device):
    """Each module of `lintut.kernels`, by Triton where there is a GPU."""
    for mechanism, keywords in KEYWORDS.items():
        for backend in ("triton", "torch"):
            if backend == "torch" or device == "cuda":
                yield _ours(mechanism, backend, keywords)


def _ours(mechanism, backend, keywords):
    module = importlib.import_module(f"lintut.kernels.{mechanism}")

    def run(x):
        return module.chunkwise(x["q"], x["k"], x["v"], **keywords(x),
                                backend=backend)

    def step(x, state):
        own = keywords(x)
        own.pop("causal", None)
        return module.step(x["q"], x["k"], x["v"], **own,
                           initial_state=state)[0]

    # One step is the same torch code for both.
    return Candidate(f"lintut {backend}", mechanism, run,
                     step if backend == "torch" else None,
                     ("q", "k", "v", *GATES.get(mechanism, ())))


def sdpa():
    """PyTorch's attention, one candidate a backend."""
    def flip(*tensors):             # (B, T, H, D) to (B, H, T, D)
        return [x.transpose(1, 2) for x in tensors]

    def run(x):
        q, k, v = flip(x["q"], x["k"], x["v"])
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=True).transpose(1, 2)

    def step(x, state):             # the cache grows, as ours does
        k = torch.cat([state[0], x["k"]], 1)
        v = torch.cat([state[1], x["v"]], 1)
        return F.scaled_dot_product_attention(
            *flip(x["q"], k, v)).transpose(1, 2)

    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION),
                          ("efficient", SDPBackend.EFFICIENT_ATTENTION),
                          ("cudnn", SDPBackend.CUDNN_ATTENTION),
                          ("math", SDPBackend.MATH)):
        yield Candidate(f"SDPA {name}", "softmax", run, step, ("q", "k", "v"),
                        lambda backend=backend: sdpa_kernel(backend))


def fla():
    """flash-linear-attention, scale 1 as ours; its gates are logarithms."""
    from fla.ops.delta_rule import (chunk_delta_rule,
                                    fused_recurrent_delta_rule)
    from fla.ops.gated_delta_rule import (chunk_gated_delta_rule,
                                          fused_recurrent_gated_delta_rule)
    from fla.ops.gla import chunk_gla, fused_recurrent_gla
    from fla.ops.linear_attn import (chunk_linear_attn,
                                     fused_recurrent_linear_attn)
    from fla.ops.retention import chunk_retention, fused_recurrent_retention

    def phi(x):
        return F.elu(x) + 1

    def make(mechanism, chunk, recurrent, arguments, leaves=(), gate=None):
        def run(x):
            return chunk(*arguments(x), scale=1.0)[0]

        def step(x, state):
            if mechanism == "linear":
                state = state[0], state[1][:, None]
            own = arguments(x)
            named = {} if gate is None else {gate: own.pop(3)}
            return recurrent(*own[:3], **named, **dict(zip(
                ("beta",), own[3:])), scale=1.0, initial_state=state,
                output_final_state=True)[0]

        return Candidate("fla", mechanism, run, step,
                         ("q", "k", "v", *leaves))

    def pick(*names):
        return lambda x: [x[name] for name in ("q", "k", "v", *names)]

    yield make("linear",
               lambda *a, **kw: chunk_linear_attn(*a, normalize=True, **kw),
               lambda *a, **kw: fused_recurrent_linear_attn(
                   *a, normalize=True, **kw),
               lambda x: [phi(x["q"]), phi(x["k"]), x["v"]])
    yield make("retention", chunk_retention, fused_recurrent_retention,
               pick())
    yield make("gla", chunk_gla, fused_recurrent_gla, pick("log alpha"),
               ("log alpha",), "gk")
    yield make("delta", chunk_delta_rule, fused_recurrent_delta_rule,
               pick("beta"), ("beta",))
    yield make("gated_delta", chunk_gated_delta_rule,
               fused_recurrent_gated_delta_rule, pick("log decay", "beta"),
               ("log decay", "beta"), "g")


def candidates(device):
    """All of them, and {peer: why it is not there}."""
    found, missing = [*ours(device), *sdpa()], {}
    if device == "cpu":
        missing["fla"] = "its kernels need a GPU"
        return found, missing
    try:
        found += fla()
    except ImportError as error:
        missing["fla"] = f"not installed ({error})"
    return found, missing


# -- calls -------------------------------------------------------------------


def prepare(candidate, what, x):
    """The call to time, without arguments."""
    if what == "decode":
        token, carried = one_token(x), state(candidate.mechanism, x)

        def call():
            with torch.no_grad():
                return candidate.step(token, carried)
    elif what == "forward":
        def call():
            with torch.no_grad():
                return candidate.run(x)
    else:
        own = with_leaves(candidate, x)

        def call():
            return gradients(candidate, own)
    return call


def with_leaves(candidate, x):
    """The inputs, those that the candidate differentiates as leaves."""
    return {name: value.detach().requires_grad_(name in candidate.leaves)
            for name, value in x.items()}


def gradients(candidate, own):
    """(o, {name: gradient of Σ weights·o}) with respect to the leaves."""
    o = candidate.run(own)
    found = torch.autograd.grad(o, [own[name] for name in candidate.leaves],
                                own["weights"])
    return o.detach(), dict(zip(candidate.leaves, found))


def check(found, device, dtype, plan):
    """{name: {output or input: largest error, relative to its largest}}.

    A candidate that fails has a sentence instead.  T = 200 is a multiple of
    no tile.
    """
    x = inputs(200, plan.widths[0], plan, device, dtype, B=2, H=2)
    exact = {name: value.cpu().double() for name, value in x.items()}
    exact |= {f"log {name}": exact[name].log() for name in ("alpha", "decay")}
    oracles, errors = {}, {}
    for c in found:
        if c.mechanism not in oracles:
            oracle = _ours(c.mechanism, "torch", KEYWORDS[c.mechanism])
            oracles[c.mechanism] = gradients(
                oracle, with_leaves(oracle, exact))
        try:
            with c.around():
                o, own = gradients(c, with_leaves(c, x))
        except Exception as error:      # whatever a GPU or a peer refuses
            errors[label(c)] = _sentence(error)
            continue
        want, wanted = oracles[c.mechanism]
        pairs = {"o": (o, want)}
        for name, gradient in own.items():
            if name.startswith("log "):     # dα = d(log α) / α
                name = name.removeprefix("log ")
                gradient = gradient.double() / x[name]
            pairs[name] = gradient, wanted[name]
        errors[label(c)] = {
            name: ((a.cpu().double() - b).abs().max() / b.abs().max()).item()
            for name, (a, b) in pairs.items()}
    return errors


def label(candidate):
    return f"{candidate.mechanism}: {candidate.name}"


def _sentence(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}" \
        if str(error).strip() else type(error).__name__


def wrong(error, dtype):
    """Why a candidate is not timed, or None."""
    if isinstance(error, str):
        return error
    worst = max(error, key=lambda name: error[name] if error[name] ==
                error[name] else math.inf)
    if error[worst] <= TOLERANCE[dtype]:
        return None
    return f"wrong: {worst} is off by {error[worst]:.2g} of its largest"


# -- measuring ---------------------------------------------------------------


def seconds(call, device, repeats=1):
    """Seconds a call, over `repeats` of them."""
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - start) / repeats
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats


def ceilings(plan, device, dtype):
    """FLOP/s of a large product and bytes/s of a large copy: the best."""
    a = torch.randn(plan.matmul, plan.matmul, device=device).to(dtype)
    b, source = a.mT.contiguous(), torch.zeros(plan.copy, dtype=torch.uint8,
                                               device=device)
    target = torch.empty_like(source)
    best = {}
    for name, call in (("product", lambda: a @ b),
                       ("copy", lambda: target.copy_(source))):
        call()
        best[name] = min(seconds(call, device, 3) for _ in range(5))
    return {"flops": 2 * plan.matmul ** 3 / best["product"],
            "bytes": 2 * plan.copy / best["copy"]}


def work(mechanism, what, T, d, B, H, dtype):
    """(FLOPs of products, bytes) that this pass cannot do without."""
    size = dict(N=T, d=d, heads=H, batch=B,
                dtype=str(dtype).removeprefix("torch."))
    if mechanism in ("softmax", "sliding_window"):
        pairs = cost.of(mechanism, "parallel" if mechanism == "softmax"
                        else "banded", w=WINDOW, N=T, d=d).pairs
        least = cost.of("softmax", "blocked", B=T, pairs=pairs, **size)
        if what == "decode":
            least = cost.of(mechanism, w=WINDOW, **size)
    else:
        if what == "decode":
            size["dtype"] = "float32"           # as the states are
        least = cost.of(mechanism, "chunkwise", **size)
    if what == "decode":
        return least.decode_products, least.decode_bytes
    flops, moved = least.prefill_products, least.bytes_moved
    if what == "forward":
        return flops, moved
    return flops * (3.5 if mechanism in ("softmax", "sliding_window")
                    else 3), 3 * moved


def why_not(candidate, what, d, T):
    """The reason to leave out length T, judged by the length before."""
    before = [t for w, width, t in candidate.rows if (w, width) == (what, d)]
    if not before:
        return None
    last = candidate.rows[what, d, max(before)]
    if "seconds" not in last:
        return last["skipped"] if "memory" in last["skipped"] or \
            "would take" in last["skipped"] else None
    expected = last["seconds"] * (T / max(before)) ** (
        2 if candidate.mechanism == "softmax" and what != "decode" else 1)
    return f"would take about {expected:.0f} s" if expected > SLOWEST else None


def measure(found, what, T, d, plan, device, dtype, over):
    """One row for each candidate, rounds interleaved."""
    x = inputs(T, d, plan, device, dtype)
    B, H = x["q"].shape[0], x["q"].shape[2]
    calls, repeats, times = {}, {}, {}
    for c in found:
        if what == "decode" and c.step is None:
            continue
        reason = why_not(c, what, d, T)
        own = c.rows[what, d, T] = {"pass": what} | dict(
            mechanism=c.mechanism, name=c.name, T=T, d=d, B=B, H=H)
        if reason is None and time.monotonic() > over:
            reason = "the quick run's time was over"
        try:
            if reason is None:
                call = prepare(c, what, x)
                with c.around():
                    call()                      # compiles
                    once = seconds(call, device)
                calls[label(c)] = c, call
                # Two milliseconds at a time, so that the clock is fine enough.
                repeats[label(c)] = min(20, math.ceil(2e-3 / once))
                times[label(c)] = []
        except Exception as error:              # memory, or a peer's refusal
            reason = _sentence(error)
            if device == "cuda":
                torch.cuda.empty_cache()
        if reason:
            own["skipped"] = reason
    for _ in range(plan.rounds):
        for name, (c, call) in calls.items():
            if sum(times[name]) * repeats[name] < 2 * SLOWEST:
                with c.around():
                    times[name].append(seconds(call, device, repeats[name]))
    for name, (c, _) in calls.items():
        flops, moved = work(c.mechanism, what, T, d, B, H, dtype)
        c.rows[what, d, T] |= dict(
            seconds=statistics.median(times[name]), low=min(times[name]),
            high=max(times[name]), rounds=len(times[name]), flops=flops,
            bytes=moved)


def run(quick=False, device=None, progress=print):
    """Measure everything; the record as a dict."""
    device = device or "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU here: --device cpu runs the same script on "
                         "the CPU, with tiny sizes, as a test of it")
    start, plan = time.monotonic(), PLANS[device, quick]
    dtype, hardware = _hardware(device)
    found, missing = candidates(device)
    progress("checking that all compute the same")
    errors = check(found, device, dtype, plan)
    refused = {name: wrong(error, dtype) for name, error in errors.items()}
    for name, reason in refused.items():
        if reason:
            progress(f"not timed, {name}: {reason}")
    timed = [c for c in found if refused[label(c)] is None]
    limits = ceilings(plan, device, dtype)
    for d in plan.widths:
        for T in plan.lengths:
            for what in PASSES:
                progress(f"d = {d}, T = {T:,}: {what}")
                measure(timed, what, T, d, plan, device, dtype,
                        start + plan.seconds)
    rows = [row for c in timed for row in c.rows.values()]
    for row in rows:
        if "seconds" in row:
            row["roofline"] = max(row["flops"] / limits["flops"],
                                  row["bytes"] / limits["bytes"])
    head = record.header("kernels: forward, forward+backward, decode",
                         **hardware)
    return head | {
        "settings": dict(
            dtype=str(dtype).removeprefix("torch."), window=WINDOW,
            lengths=list(plan.lengths), widths=list(plan.widths),
            rounds=plan.rounds, time="seconds a call, the median of "
            "interleaved rounds; roofline: the least, by the ceilings"),
        "ceilings": limits, "missing": missing, "errors": errors,
        "not_timed": {n: r for n, r in refused.items() if r},
        "aims": aims(rows), "rows": rows}


def _hardware(device):
    """The dtype to measure in, and what the record says of the device."""
    if device == "cpu":
        return torch.float32, dict(gpu=None)
    properties = torch.cuda.get_device_properties(0)
    at = properties.major, properties.minor
    return (torch.bfloat16 if at >= (8, 0) else torch.float16), dict(
        gpu=properties.name, capability="{}.{}".format(*at),
        memory=properties.total_memory, cuda=torch.version.cuda)


def aims(rows):
    """How many times as fast as a peer we are, at each size.

    Ours is the faster of the Triton and torch paths.
    """
    times = {}
    for row in rows:
        if "seconds" in row:
            size = (row["pass"], row["mechanism"], row["d"], row["T"])
            times.setdefault(size, {})[row["name"]] = row["seconds"]
    result = []
    for (what, mechanism, d, T), own in times.items():
        mine = [t for name, t in own.items() if name.startswith("lintut")]
        for peer in ("fla", "SDPA flash"):
            if mine and peer in own:
                result.append(dict(
                    {"pass": what}, mechanism=mechanism, peer=peer, d=d, T=T,
                    times_as_fast=own[peer] / min(mine)))
    return result


# -- the table ---------------------------------------------------------------


def show(result):
    """Milliseconds; the roofline's share of them; and the aims."""
    hardware, found = result["hardware"], result["versions"]
    limits, settings = result["ceilings"], result["settings"]
    print(f"\n{hardware['gpu'] or hardware['cpu']}; torch {found['torch']}, "
          f"triton {found['triton']}; {settings['dtype']}")
    print(f"ceilings measured here: {limits['flops'] / 1e12:.3g} TFLOP/s, "
          f"{limits['bytes'] / 1e9:.4g} GB/s")
    for what in PASSES:
        for d in settings["widths"]:
            _table(result["rows"], what, d, settings["lengths"])
    for name, reason in (result["missing"] | result["not_timed"]).items():
        print(f"{name}: {reason}")
    print("\nhow many times as fast as a peer the faster of our two paths is")
    for aim in result["aims"]:
        print("{pass:17} {mechanism:15} d={d:<4} T={T:<7,} {peer:11} "
              "{times_as_fast:7.2f}×".format(**aim))


def _table(rows, what, d, lengths):
    print(f"\n{what}, d = {d}: milliseconds (share of the roofline)\n")
    print(f"{'':32}" + "".join(f"{T:>16,}" for T in lengths))
    lines, reasons = {}, []
    for row in rows:
        if (row["pass"], row["d"]) == (what, d):
            name = f"{row['mechanism']}: {row['name']}"
            lines.setdefault(name, {})[row["T"]] = row
    for name, of in lines.items():
        cells = []
        for T in lengths:
            row = of[T]
            if "skipped" in row:
                reasons.append(f"{name}, T = {T:,}: {row['skipped']}")
            cells.append("skipped" if "skipped" in row else
                         f"{1e3 * row['seconds']:.3g} "
                         f"({row['roofline'] / row['seconds']:.1%})")
        print(f"{name:32}" + "".join(f"{cell:>16}" for cell in cells))
    for reason in reasons:
        print(f"  {reason}")
