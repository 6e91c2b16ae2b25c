"""`lintut.cost` against operations counted in `lintut.reference`.

`Counted` is an array that adds up what NumPy does to it: multiply-adds of
products (2 each) apart from everything elementwise (1 each).  The checks of
the input are not part of a mechanism, and are switched off.
"""

import importlib
import pkgutil
import re
from types import SimpleNamespace

import numpy as np
import pytest

from lintut import cost, hardware, reference
from lintut.reference import _checks, bigbird, longformer, performer

tally = SimpleNamespace(products=0, other=0)
# What moves, compares or masks numbers is no arithmetic.
FREE = {"isfinite", "greater", "not_equal", "copyto", "where", "swapaxes",
        "moveaxis", "tril", "broadcast_to", "concatenate", "zeros_like",
        "empty_like", "ones_like", "full_like"}
SUMS = {"sum", "max", "min", "cumsum", "cumprod"}


def bare(x):
    if isinstance(x, (list, tuple)):
        return type(x)(map(bare, x))
    return x.view(np.ndarray) if isinstance(x, Counted) else x


def wrapped(x):
    if isinstance(x, tuple):
        return tuple(map(wrapped, x))
    return x.view(Counted) if isinstance(x, np.ndarray) else x


class Counted(np.ndarray):
    """An array whose arithmetic is added to `tally`."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **keywords):
        inputs = bare(inputs)
        if out is not None:
            keywords["out"] = bare(out)
        result = getattr(ufunc, method)(*inputs, **keywords)
        size = np.size(result)
        if ufunc is np.matmul:
            tally.products += 2 * size * inputs[0].shape[-1]
        elif ufunc.__name__ in FREE:
            pass
        elif method in ("__call__", "accumulate"):
            tally.other += size
        elif method == "reduce":
            tally.other += inputs[0].size
        else:
            raise AssertionError(f"not counted: {ufunc.__name__}.{method}")
        if out is not None:
            return out[0]
        return wrapped(np.asarray(result))

    def __array_function__(self, function, types, inputs, keywords):
        name, plain = function.__name__, bare(inputs)
        keywords = {key: bare(value) for key, value in keywords.items()}
        result = function(*plain, **keywords)
        if name in SUMS:
            tally.other += plain[0].size
        elif name not in FREE:
            raise AssertionError(f"not counted: {name}")
        return wrapped(result)


def counting(make):
    """`make`, whose new array is Counted."""
    def made(*arguments, **keywords):
        return make(*arguments, **keywords).view(Counted)
    return made


class CountingNumpy:
    """NumPy, as far as a reference module sees it; new arrays are Counted."""

    def __getattr__(self, name):
        found = getattr(np, name)
        return counting(found) if name in ("empty", "zeros", "full") else found


@pytest.fixture
def counted(monkeypatch):
    """Call a reference function on Counted inputs; get the FLOPs it did."""
    def array(name, x, **_):
        return np.asarray(x).view(Counted)

    for name in pkgutil.iter_modules(reference.__path__):
        module = importlib.import_module(f"lintut.reference.{name.name}")
        if hasattr(module, "np"):
            monkeypatch.setattr(module, "np", CountingNumpy())
    monkeypatch.setattr(_checks, "array", array)
    monkeypatch.setattr(_checks, "state", counting(_checks.state))
    monkeypatch.setattr(_checks, "gate", lambda name, x, like, *_, **__:
                        np.asarray(x, like.dtype).view(Counted))
    monkeypatch.setattr(performer, "projection", lambda m, d, *_: OMEGA)
    monkeypatch.setattr(_checks, "finite", lambda result, **_: result)
    monkeypatch.setattr(_checks, "positive", lambda x, *_, **__: x)

    def run(mechanism, form, n=N, lead=(), **keywords):
        rng = np.random.default_rng(0)
        q, k, v = (rng.normal(size=(*lead, n, width)) / 2
                   for width in (D, D, D_V))
        for name, width in GATES.get(mechanism, {}).items():
            keywords[name] = rng.uniform(.5, 1, size=(n, *width))
        if mechanism == "linformer":
            keywords |= {f"{name}_projection": rng.normal(size=(M, n))
                         for name in ("key", "value")}
        module = importlib.import_module(f"lintut.reference.{mechanism}")
        tally.products = tally.other = 0
        getattr(module, form)(q, k, v, **keywords)
        return SimpleNamespace(products=tally.products,
                               flops=tally.products + tally.other)
    return run


# Sizes that all differ; chunks and tiles that do and do not divide N.
N, D, D_V, R, M, W = 48, 5, 3, 6, 7, 9
GATES = {"gla": {"alpha": (D,)}, "delta": {"beta": ()},
         "gated_delta": {"alpha": (), "beta": ()}}
SIZES = dict(N=N, d=D, d_v=D_V)
GATED = ("retention", "gla", "delta", "gated_delta")
HIDDEN = N * N - N * (N + 1) // 2       # what a causal mask hides

OMEGA = np.random.default_rng(1).normal(size=(R, D))

# What else the code does, in FLOPs: a feature map is tried on one token to
# learn r (for q and k; chunkwise once more for k).
ELU, FAVOR = 4 * D, 2 * D * R + 3 * D + 1 + 3 * R
PERFORMER = dict(n_features=R, seed=0)

# name: (mechanism, form, reference keywords, cost keywords, what else)
CASES = {
    # the products of dense code include the masked pairs: causal=False
    "dense": ("softmax", "parallel", dict(causal=True), dict(causal=False),
              0),
    "tiles": ("softmax", "blocked", dict(block_size=16),
              dict(causal=False, B=16), 0),
    "tiles, ragged": ("softmax", "blocked", dict(block_size=7),
                      dict(causal=False, B=7), 0),
    "tiles, causal": ("softmax", "blocked", dict(causal=True, block_size=16),
                      dict(B=16), 0),
    "tiles, causal, ragged": (
        "softmax", "blocked", dict(causal=True, block_size=7), dict(B=7), 0),
    "one tile": ("softmax", "blocked", dict(causal=True, block_size=64),
                 dict(B=64), 0),
    "KV cache": ("softmax", "recurrent", {}, {}, 0),
    "window": ("sliding_window", "banded", dict(window=W, block_size=1),
               dict(w=W), 0),
    "window > N": ("sliding_window", "banded", dict(window=99, block_size=1),
                   dict(w=99), 0),
    "window, rolling": ("sliding_window", "recurrent", dict(window=W),
                        dict(w=W), 0),
    "window, dense": ("sliding_window", "parallel", dict(window=W),
                      dict(causal=False), 0),
} | {f"window {w}, both sides": (
        "sliding_window", "banded",
        dict(window=w, block_size=1, causal=False),
        dict(w=w, causal=False), 0) for w in (1, 2, 8, 9, 70, 200)} | {
    "linformer": ("linformer", "parallel", {}, dict(m=M), 0),
    "linear, pairs": ("linear", "parallel", {},
                      dict(causal=False), 2 * ELU),
    "linear, loop": ("linear", "recurrent", {}, {}, 2 * ELU),
    "linear, all, then read": ("linear", "recurrent", dict(causal=False),
                               dict(causal=False, form="sums"), 2 * ELU),
    "linear, chunks": ("linear", "chunkwise", dict(chunk_size=16),
                       dict(C=16), 3 * ELU),
    "linear, ragged": ("linear", "chunkwise", dict(chunk_size=13),
                       dict(C=13), 3 * ELU),
    "linear, one chunk": ("linear", "chunkwise", dict(chunk_size=99),
                          dict(C=99), 3 * ELU),
    "performer, pairs": ("performer", "parallel", PERFORMER,
                         dict(r=R, causal=False), 2 * FAVOR + R),
    "performer, loop": ("performer", "recurrent", PERFORMER, dict(r=R),
                        2 * FAVOR + R),
    "performer, chunks": ("performer", "chunkwise",
                          PERFORMER | dict(chunk_size=13), dict(r=R, C=13),
                          3 * FAVOR + R),
    # powers of γ: the column F in `parallel`; the masks of chunks of 13 and 9
    "retention, pairs": ("retention", "parallel", dict(gamma=.9),
                         dict(pairs=N * N), N),
    "retention, loop": ("retention", "recurrent", dict(gamma=.9), {}, 0),
    "retention, chunks": ("retention", "chunkwise",
                          dict(gamma=.9, chunk_size=13), dict(C=13),
                          13 * 14 + 9 * 10),
    # these weigh only the pairs there are, then multiply with v all N×N
    "gla, pairs": ("gla", "parallel", {}, {}, 2 * D_V * HIDDEN),
    "gla, loop": ("gla", "recurrent", {}, {}, 0),
    "gla, chunks": ("gla", "chunkwise", dict(chunk_size=16), dict(C=16), 0),
    "delta, pairs": ("delta", "parallel", {}, {}, 2 * D_V * HIDDEN),
    "delta, loop": ("delta", "recurrent", {}, {}, 0),
    # it shares the gated rule's code, with gates of one
    "delta, chunks": ("delta", "chunkwise", dict(chunk_size=16),
                      dict(C=16), N + N * D),
    "gated, pairs": ("gated_delta", "parallel", {}, {}, 2 * D_V * HIDDEN),
    "gated, loop": ("gated_delta", "recurrent", {}, {}, 0),
    "gated, chunks": ("gated_delta", "chunkwise", dict(chunk_size=16),
                      dict(C=16), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_flops_are_those_counted(counted, case):
    mechanism, form, reference, sizes, else_ = CASES[case]
    predicted = cost.of(mechanism, **SIZES | dict(form=form) | sizes)
    done = counted(mechanism, form, **reference)
    # How often the gated rules pass over a chunk's rows and pairs to fade
    # them is the code's affair, of lower order: one pass more is no error.
    slack = 0
    if mechanism in GATED and form == "chunkwise":
        slack = predicted.pairs + N * (D + D_V)
    assert abs(done.flops - predicted.prefill_flops - else_) <= slack


@pytest.mark.parametrize("case", [
    "dense", "tiles, causal, ragged", "window", "linformer", "linear, pairs",
    "linear, ragged", "retention, pairs", "retention, chunks",
    "delta, chunks", "gated, chunks"])
def test_products_are_those_counted(counted, case):
    """Where the code writes each multiply-add as a matrix product."""
    mechanism, form, reference, sizes, _ = CASES[case]
    predicted = cost.of(mechanism, **SIZES | dict(form=form) | sizes)
    assert counted(mechanism, form, **reference).products == (
        predicted.prefill_products)


def test_sparse_patterns(counted):
    """From the pairs of the mask; the formula for P is an upper bound."""
    pattern = dict(window=W, global_positions=[0])
    pairs = int(longformer.mask(N, **pattern).sum())
    done = counted("longformer", "banded", block_size=1, **pattern)
    # the global row is read once more: itself and the (W-1)/2 after it
    exact = cost.of("longformer", pairs=pairs + 1 + W // 2, causal=False,
                    **SIZES)
    assert done.flops == exact.prefill_flops
    bound = cost.of("longformer", w=W, g=1, causal=False, **SIZES)
    assert pairs <= bound.pairs <= 1.2 * pairs

    pattern = dict(block_size=4, n_window=3, n_global=1, n_random=2, seed=0)
    pairs = int(bigbird.mask(N, **pattern).sum())
    done = counted("bigbird", "blocked", **pattern)
    exact = cost.of("bigbird", pairs=pairs, causal=False, **SIZES)
    assert done.flops == exact.prefill_flops
    bound = cost.of("bigbird", b=4, n_w=3, n_g=1, n_r=2, causal=False,
                    **SIZES)
    assert pairs <= bound.pairs <= 1.2 * pairs
    for name, mask in (("longformer", longformer.mask(
            N, W, [0], causal=True)), ("bigbird", bigbird.mask(
                N, causal=True, **pattern))):
        bound = cost.of(name, w=W, g=1, b=4, n_w=3, n_g=1, n_r=2, **SIZES)
        assert mask.sum() <= bound.pairs < N * N


def test_hybrid_is_the_sum_of_its_heads(counted):
    heads = ("window", "linear", "window")
    done = counted("hybrid", "recurrent", lead=(3,), heads=heads, window=W)
    both = cost.of("hybrid", "recurrent", w=W, heads=3, window_heads=2,
                   **SIZES)
    assert done.flops == both.prefill_flops + 2 * ELU
    near = cost.of("sliding_window", "recurrent", w=W, heads=2, **SIZES)
    far = cost.of("linear", "recurrent", **SIZES)
    for name in ("prefill_products", "bytes_moved", "state_bytes",
                 "decode_other", "saved_elements"):
        assert getattr(both, name) == getattr(near, name) + getattr(far, name)


STEPS = {"softmax": {}, "sliding_window": dict(window=W), "linear": {},
         "performer": PERFORMER, "retention": dict(gamma=.9), "gla": {},
         "delta": {}, "gated_delta": {}}


@pytest.mark.parametrize("mechanism", STEPS)
def test_a_decoding_step_is_one_more_token(counted, mechanism):
    longer, shorter = (counted(mechanism, "recurrent", n=n,
                               **STEPS[mechanism]).flops for n in (N, N - 1))
    predicted = cost.of(mechanism, w=W, r=R if mechanism == "performer"
                        else D, **SIZES)
    assert longer - shorter == predicted.decode_flops


@pytest.mark.parametrize("mechanism", STEPS)
def test_state_elements_are_those_of_the_state(mechanism):
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(N, width)) for width in (D, D, D_V))
    gates = {name: rng.uniform(.5, 1, size=(N, *width))
             for name, width in GATES.get(mechanism, {}).items()}
    module = importlib.import_module(f"lintut.reference.{mechanism}")
    _, state = module.recurrent(q, k, v, return_state=True,
                                **gates, **STEPS[mechanism])
    arrays = state if isinstance(state, tuple) else (state,)
    predicted = cost.of(mechanism, w=W, r=R if mechanism == "performer"
                        else D, dtype="float64", **SIZES)
    assert sum(x.size for x in arrays) == predicted.state_elements
    assert sum(x.nbytes for x in arrays) == predicted.state_bytes


# -- the figures that the book quotes -----------------------------------------


def test_the_example_of_chapter_1():
    """facts 1.1: N = 32,768, d = 64, FP16: 2 GiB, 8 MiB, 8.125 KiB."""
    sizes = dict(N=32_768, d=64, dtype="float16")
    softmax = cost.of("softmax", causal=False, **sizes)
    linear = cost.of("linear", **sizes)
    assert cost.bytes_text(2 * softmax.pairs) == "2 GiB"
    assert softmax.text("state_bytes") == "8 MiB"
    assert linear.text("state_bytes") == "8.125 KiB"
    assert linear.state_bytes == 8320


def test_flop_crossover():
    """facts 1.10: by products alone 32× at n=2048, and the crossing at d."""
    def products(mechanism, causal):
        return lambda n: cost.of(mechanism, N=n, d=64,
                                 causal=causal).prefill_products

    # without the denominator's 2Nr, which the source leaves out
    linear = products("linear", False)(2048) - 2 * 2048 * 64
    assert products("softmax", False)(2048) / linear == 32
    for causal, n in ((False, 64), (True, 128)):
        crossing = cost.crossover(products("softmax", causal),
                                  products("linear", causal))
        assert n < crossing <= n + 2
    assert cost.crossover(lambda n: 1, lambda n: 2) is None
    assert cost.crossover(lambda n: n, lambda n: 40.5) == 41


def test_the_mask_halves_and_does_not_change_the_order():
    whole, half = ([cost.of("softmax", N=n, d=64, causal=causal).prefill_flops
                    for n in (4096, 8192)] for causal in (False, True))
    assert half[0] / whole[0] == pytest.approx(.5, rel=1e-3)
    assert half[1] / half[0] == pytest.approx(4, rel=1e-3)


def test_chunk_size_is_a_dial():
    """FLOPs grow with C, by 2NC(d+d_v); state traffic falls as N/C."""
    costs = {C: cost.of("retention", "chunkwise", N=4096, d=64, C=C)
             for C in (16, 64, 256)}
    loop = cost.of("retention", "recurrent", N=4096, d=64)
    for C, c in costs.items():
        assert c.prefill_products == (loop.prefill_products
                                      + 2 * 4096 * C * (64 + 64))
        traffic = c.bytes_moved // 2 - 4096 * 4 * 64
        assert traffic == 2 * 4096 // C * 64 * 64
    assert loop.bytes_moved > 10 * costs[64].bytes_moved


def test_flash_attention_moves_less():
    """Tile by tile, what is read and written, against the formula."""
    n, d, d_v, B = 96, 8, 4, 16
    for causal in (False, True):
        elements = 0
        for start in range(0, n, B):
            elements += B * d + B * d_v                 # q in, o out
            for keys in range(0, start + B if causal else n, B):
                elements += B * (d + d_v)               # k and v in
        c = cost.of("flash", N=n, d=d, d_v=d_v, B=B, causal=causal,
                    dtype="float32")
        assert c.bytes_moved == 4 * elements
    flash, dense = (cost.of(name, N=8192, d=64) for name in
                    ("flash", "softmax"))
    assert dense.bytes_moved > 8 * flash.bytes_moved
    assert flash.prefill_flops >= dense.prefill_flops
    assert flash.state_bytes == dense.state_bytes       # the cache stays
    small = cost.of("flash", N=8192, d=64, on_chip=16_384)
    assert small.bytes_moved > 5 * flash.bytes_moved


def test_saved_for_backward_as_torch_saves_it():
    torch = pytest.importorskip("torch")
    q, k, v = (torch.randn(N, width, requires_grad=True)
               for width in (D, D, D_V))

    def saved(run):
        seen = {}

        def pack(x):
            seen[x.data_ptr()] = x
            return x
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            run()
        return sum(x.numel() for x in seen.values())

    def loop():
        S = torch.zeros(D, D_V)
        for t in range(N):
            S = .9 * S + k[t][:, None] * v[t][None]
            q[t][None] @ S

    assert saved(lambda: torch.softmax(q @ k.T, -1) @ v) == (
        cost.of("softmax", causal=False, **SIZES).saved_elements)
    assert saved(loop) == (
        cost.of("retention", "recurrent", **SIZES).saved_elements)


# -- words --------------------------------------------------------------------


@pytest.mark.parametrize("formula, text", [
    ("2*N**2*(d+d_v)", "2N²(d + d_v)"),
    ("4*N*r*d_v+2*N*r", "4N·r·d_v + 2N·r"),
    ("N*(N+1)//2", "N(N + 1)/2"),
    ("2*ceil(N/C)*(d*d_v)", "2⌈N/C⌉(d·d_v)"),
    ("floor(N/C)*C**2+(N%C)**2", "⌊N/C⌋C² + (N mod C)²"),
    ("min(w,N)*N-3", "min(w, N)N − 3"),
])
def test_typeset(formula, text):
    assert cost.typeset(formula) == text


def test_formulas_say_what_the_numbers_are():
    """Every formula names only symbols of the table."""
    for mechanism in cost.MECHANISMS:
        for form in cost.forms(mechanism):
            c = cost.of(mechanism, form, N=100, d=8, causal=form != "sums")
            for name, text in c.formulas.items():
                words = set(re.findall(r"[A-Za-z_]+", text)) - {"min", "mod"}
                assert words <= set(cost.SYMBOLS), (mechanism, name, text)
    assert cost.of("softmax", N=9, d=2).formulas["prefill_products"] == (
        "2P(d + d_v)")


@pytest.mark.parametrize("n, text", [
    (0, "0 FLOP"), (999, "999 FLOP"), (999_999, "1 MFLOP"),
    (4.3e9, "4.3 GFLOP"), (2 * 32_768 ** 2 * 128, "275 GFLOP")])
def test_flops_text(n, text):
    assert cost.flops_text(n) == text


@pytest.mark.parametrize("n, text", [
    (0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (8320, "8.125 KiB"),
    (2 ** 31, "2 GiB"), (1536 * 2 ** 20, "1.5 GiB")])
def test_bytes_text(n, text):
    assert cost.bytes_text(n) == text


def test_heads_batch_and_dtype_multiply():
    one = cost.of("gla", N=64, d=8, d_v=4)
    many = cost.of("gla", N=64, d=8, d_v=4, heads=3, batch=2,
                   dtype="float32")
    assert many.prefill_flops == 6 * one.prefill_flops
    assert many.state_elements == 6 * one.state_elements
    assert many.state_bytes == 12 * one.state_bytes
    assert many.bytes_moved == 12 * one.bytes_moved


def test_what_cannot_decode():
    c = cost.of("linformer", N=64, d=8)
    assert c.decode_flops is None and c.state_bytes is None
    assert c.text("state_bytes") == "not defined" and "causal" in c.note


@pytest.mark.parametrize("arguments, message", [
    (dict(mechanism="flsh"), "mechanism must be one of softmax, .*'flsh'"),
    (dict(form="chunky"), "form must be one of recurrent, .*'chunky'"),
    (dict(N=0), "N must be at least 1; it is 0"),
    (dict(d=2.5), "d must be a whole number; it is 2.5"),
    (dict(d_v=0), "d_v must be at least 1"),
    (dict(C=0), "C must be at least 1"),
    (dict(heads=0), "heads must be at least 1"),
    (dict(dtype="int8"), "dtype must be one of float64, .*'int8'"),
    (dict(causal=False, form="chunkwise"), "causal must be True"),
    (dict(mechanism="gla", causal=False), "causal must be True for gla"),
    (dict(form="sums"), "causal must be False"),
    (dict(mechanism="hybrid", heads=1), "heads .*at least 1; it is 0"),
])
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        cost.of(**dict(mechanism="linear", N=64, d=8) | arguments)


# -- hardware -----------------------------------------------------------------


def test_roofline_hits_the_wall_it_must():
    t4 = hardware.device("T4")
    ridge = hardware.ridge("T4")
    assert ridge == pytest.approx(65e12 / 320e9)
    below, above = (hardware.roofline(x * ridge * 1e9, 1e9, "T4")
                    for x in (.5, 2))
    assert (below.wall, above.wall) == ("memory", "products")
    assert below.seconds == pytest.approx(1e9 / t4.bandwidth)
    assert above.seconds == pytest.approx(2 * 1e9 / t4.bandwidth)
    slow = hardware.roofline(1e9, 1e6, "T4", other_flops=1e12)
    assert slow.wall == "elementwise"
    assert slow.seconds == pytest.approx(1e12 / 8.1e12)
    decode = cost.of("softmax", N=8192, d=128)
    step = hardware.roofline(decode.decode_products, decode.decode_bytes,
                             "A100-80")
    assert step.wall == "memory"


def test_the_table_of_devices():
    for name, row in hardware.DEVICES.items():
        assert row.name == name and row.source
        assert row.float32 < row.float16 and row.memory >= 16e9
    # kernels.md: shared memory a block may use
    shared = {row.capability: row.shared for row in
              hardware.DEVICES.values()}
    assert shared == {(7, 5): 65_536, (8, 0): 166_912, (8, 9): 101_376,
                      (9, 0): 232_448}
    with pytest.raises(ValueError, match="T4 .*7.5.* no bfloat16"):
        hardware.peak("T4", "bfloat16")
    with pytest.raises(ValueError, match="device must be one of T4, L4"):
        hardware.device("V100")
    with pytest.raises(ValueError, match="dtype must be"):
        hardware.peak("T4", "int8")
