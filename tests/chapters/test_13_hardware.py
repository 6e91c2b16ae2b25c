"""What chapter 13 states, checked by means other than its own."""

import math
from fractions import Fraction

import numpy as np
import pytest

import lintut
from lintut import cost, hardware
from lintut.reference import linear, softmax


def chunk_work(C, N, r, d_v):
    """Equation eq-13-work, its constant left out."""
    return (4 * N * r * (d_v + 1) + 2 * N * C * (r + d_v + 1)
            + N / C * r * (d_v + 1))


@pytest.mark.parametrize("r, d_v", [(64, 64), (16, 40), (5, 3)])
def test_the_work_of_chunks_is_the_equation_and_a_constant(r, d_v):
    N = 4096
    rest = {cost.of("linear", "chunkwise", N=N, d=r, d_v=d_v,
                    C=C).prefill_flops - chunk_work(C, N, r, d_v)
            for C in (1, 8, 64, 512, N)}
    assert len(rest) == 1


def test_work_counts_what_the_code_multiplies():
    """Counted on the shapes of linear.chunkwise's products, chunk by chunk."""
    N, r, d_v, C = 150, 6, 10, 64
    total = 0
    for n in (64, 64, 22):
        total += 2 * (n * r * (d_v + 1)         # read the state
                      + n * r * n               # the square
                      + n * n * (d_v + 1)       # the square times V
                      + r * n * (d_v + 1))      # write the state
    assert total == cost.of("linear", "chunkwise", N=N, d=r, d_v=d_v,
                            C=C).prefill_products


@pytest.mark.parametrize("wait", [0, 4e4, 4e5, 2e6])
def test_the_best_chunk(wait):
    r = d_v = 64
    formula = math.sqrt((r * (d_v + 1) + wait) / (2 * (r + d_v + 1)))

    def total(C, N=8192):
        return (cost.of("linear", "chunkwise", N=N, d=r, C=C).prefill_flops
                + -(-N // C) * wait)
    divisors = [2 ** e for e in range(14)]
    best = min(divisors, key=total)
    assert best / 2 < formula < best * 2
    for worse in (best / 4, best * 4):
        if 1 <= worse <= 8192:
            assert total(int(worse)) > total(best)


def test_online_softmax_after_every_tile_is_its_definition():
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(3, 11)) * 5, rng.normal(size=(11, 4))
    state = (np.full((3, 1), -np.inf), np.zeros((3, 1)), np.zeros((3, 4)))
    for start in range(0, 11, 4):
        part = slice(start, start + 4)
        state = softmax.absorb(*state, s[:, part], v[part])
        seen = s[:, :start + 4]
        m = seen.max(-1, keepdims=True)
        e = np.exp(seen - m)
        for got, expected in zip(state, (
                m, e.sum(-1, keepdims=True), e @ v[:start + 4])):
            np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_the_hand_example():
    e = [Fraction(2) ** s for s in (1, 2, 3, 0)]
    assert sum(e) == 15
    assert sum(a * b for a, b in zip(e, (3, 6, 9, 12))) / 15 == (
        Fraction(38, 5))
    # tile by tile, in NumPy, with scores times ln 2
    s = np.log(2) * np.array([[1.0, 2, 3, 0]])
    v = np.array([[3.0], [6], [9], [12]])
    state = (np.full((1, 1), -np.inf), np.zeros((1, 1)), np.zeros((1, 1)))
    for part in (slice(0, 2), slice(2, 4)):
        state = softmax.absorb(*state, s[:, part], v[part])
    top, total, out = (x.item() for x in state)
    assert top == pytest.approx(3 * math.log(2))
    assert total == pytest.approx(15 / 8) and out == pytest.approx(114 / 8)


def test_large_scores_do_not_overflow():
    q = np.full((5, 1), 40.0)
    k = np.array([[20.0], [-20], [10], [20], [0]])
    v = np.arange(10.0).reshape(5, 2)
    o = softmax.blocked(q, k, v, block_size=2, scale=1.0)
    np.testing.assert_allclose(o, np.broadcast_to((v[0] + v[3]) / 2, (5, 2)))


def test_tiles_move_what_the_model_says():
    """A tile of queries is read once; all keys and values pass by it."""
    N, d, d_v, B = 1000, 16, 24, 96
    moved = 0
    for start in range(0, N, B):
        rows = min(B, N - start)
        moved += rows * (d + d_v) + N * (d + d_v)
    c = cost.of("softmax", "blocked", N=N, d=d, d_v=d_v, B=B, causal=False)
    assert c.bytes_moved == 2 * moved


def test_tiles_over_standard_tends_to_the_ratio():
    room = hardware.device("A100-80").shared // 2
    a, b = (cost.of("softmax", form, N=2 ** 18, d=64, causal=False,
                    on_chip=2 * room).bytes_moved
            for form in ("blocked", "parallel"))
    assert a / b == pytest.approx(128 ** 2 / (2 * room), rel=0.01)


def test_crossovers_by_operations():
    def meet(form, causal):
        return cost.crossover(
            lambda N: cost.of("softmax", "parallel", N=N, d=64,
                              causal=causal).prefill_products,
            lambda N: cost.of("linear", form, N=N, d=64,
                              causal=causal).prefill_products)
    # 4N²d > 4Nd² + 2Nd, and N(N + 1)·2d > 4Nd² + 2Nd
    assert meet("sums", False) == 65
    assert meet("recurrent", True) == 129


def test_the_triangle_outgrows_the_states():
    def elements(form, N):
        return cost.of("linear", form, N=N, d=64).saved_elements
    N = cost.crossover(lambda N: elements("parallel", N),
                       lambda N: elements("recurrent", N))
    assert (N + 1) / 2 > 64 * 65 >= N / 2


def test_flash_operations_are_not_the_published_ones():
    product = 2 * 64 * 16 * 1024 ** 2 * 64
    assert round(6 * product / 1e9, 1) == 824.6
    assert round(7 * product / 1e9, 1) == 962.1


def test_exact_is_not_bitwise():
    big, one = np.float32(2 ** 25), np.float32(1)
    assert (big + one) - big == 0 and (big - big) + one == 1


def test_part_of_a_source_is_shown_without_importing_it():
    whole = lintut.source("lintut.kernels.linear_triton.attend")
    assert whole.path == "lintut/kernels/linear_triton.py"
    assert whole.text.startswith("@triton.jit\ndef attend(")
    part = lintut.source("lintut.kernels.linear_triton.attend",
                         first="-- scores --", last="input_precision")
    assert part.text.splitlines()[0] == "# -- scores --"
    assert len(part.text.splitlines()) == 3
    assert lintut.source(linear.chunkwise).text == lintut.source(
        "lintut.reference.linear.chunkwise").text
    for bad in ("lintut.nothing.here", "lintut.cost.nothing", "json.dumps"):
        with pytest.raises(ValueError, match="^thing must"):
            lintut.source(bad)
    with pytest.raises(ValueError, match="^last must"):
        lintut.source(cost.of, last="not in there")
