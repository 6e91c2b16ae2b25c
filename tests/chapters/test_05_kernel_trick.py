"""The limits and special cases that chapter 5 names."""

from fractions import Fraction

import numpy as np
import pytest

from lintut import cost
from lintut.reference import feature_maps as maps
from lintut.reference import linear, performer, softmax

POSITIVE = (maps.elu_plus_one, maps.exp, maps.softmax_feature, maps.taylor)


def data(N, d=5, d_v=3, seed=0):
    rng = np.random.default_rng(seed)
    return (*rng.normal(size=(2, N, d)), rng.normal(size=(N, d_v)))


def column(*numbers):
    return np.array(numbers, float)[:, None]


def test_the_hand_numbers_and_what_may_not_be_moved():
    q, k, v = column(2, 2, 2), column(.5, 1, 1.5), column(10, 20, 30)
    kernel = linear.parallel(q, k, v, maps.identity, causal=False)[0, 0]
    assert kernel == pytest.approx(70 / 3, rel=1e-15)       # 23.333
    assert linear.recurrent(q, k, v, maps.identity, causal=False)[0, 0] == (
        pytest.approx(70 / 3, rel=1e-15))
    assert softmax.parallel(q, k, v, scale=1.)[0, 0] == pytest.approx(
        25.752, abs=5e-4)


@pytest.mark.parametrize("φ", POSITIVE, ids=lambda φ: φ.__name__)
def test_the_order_is_free_for_a_kernel_that_factors(φ):
    q, k, v = data(33)
    f_q, f_k = φ(q), φ(k)
    sums = (f_q @ (f_k.T @ v)) / (f_q @ f_k.sum(0))[:, None]
    for form in (linear.parallel, linear.recurrent, linear.chunkwise):
        assert np.allclose(form(q, k, v, φ, causal=False), sums, rtol=1e-11)
    assert np.abs(sums - softmax.parallel(q, k, v, scale=1.)).max() > .01


def test_a_factor_of_the_query_cancels_and_a_factor_of_the_key_does_not():
    q, k, v = data(20)
    w = np.exp(np.linspace(-1, 1, 20))[:, None]
    plain = linear.parallel(maps.exp(q), maps.exp(k), v, maps.identity, False)
    queries = linear.parallel(w * maps.exp(q), maps.exp(k), v, maps.identity,
                              False)
    keys = linear.parallel(maps.exp(q), w * maps.exp(k), v, maps.identity,
                           False)
    assert np.allclose(queries, plain, rtol=1e-12)
    assert np.abs(keys - plain).max() > .1


@pytest.mark.parametrize("seed", range(4))
def test_the_keys_norm_factor_must_stay(seed):
    """Claim 8: N = 256, d = 16."""
    rng = np.random.default_rng(seed)
    q, k, v = rng.normal(size=(3, 256, 16))
    right = softmax.parallel(q, k, v, scale=1.)
    gauss = np.exp(-((q[:, None] - k) ** 2).sum(-1) / 2)
    factor = np.exp((k ** 2).sum(-1) / 2)

    def error(similarity):
        o = similarity @ v / similarity.sum(-1, keepdims=True)
        return np.abs(o - right).max()

    assert error(gauss * factor) < 1e-13
    assert 2 < error(gauss) < 4
    # keys of one length: the factor is the same for all, and cancels
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    right = softmax.parallel(q, k, v, scale=1.)
    gauss = np.exp(-((q[:, None] - k) ** 2).sum(-1) / 2)
    assert error(gauss) < 1e-13


def test_random_fourier_features_come_near_only_with_the_factor():
    rng = np.random.default_rng(3)
    q, k = .7 * rng.normal(size=(2, 64, 4))
    Ω = performer.projection(4096, 4, seed=0)
    half = np.exp((k ** 2).sum(-1, keepdims=True) / 2)
    f_q = performer.features(q, Ω, "trigonometric", query=True)
    f_k = performer.features(k, Ω, "trigonometric")
    right = softmax.weights(q, k, scale=1.)

    def error(f_k):
        w = f_q @ f_k.T
        return np.abs(w / w.sum(-1, keepdims=True) - right).mean()

    assert error(f_k) < error(f_k / half) / 5


def test_the_harmonic_mean_is_where_the_sums_begin_to_pay():
    for r, d_v in ((2, 2), (3, 6), (64, 64), (273, 16)):
        N = 2 * r * d_v / (r + d_v)
        for n, cheaper in ((int(np.ceil(N)) + 1, True),
                           (int(np.floor(N)) - 1, False)):
            if n < 1:
                continue
            size = dict(N=n, d=r, r=r, d_v=d_v, causal=False)
            left = cost.of("linear", "parallel", **size).prefill_products
            right = cost.of("linear", "sums", **size).prefill_products
            assert (right - 2 * n * r < left) == cheaper


def test_by_operations_linear_is_32_times_cheaper():
    """Claim 10: n = 2048, d = 64, where the source has it dearer."""
    dense = cost.of("softmax", N=2048, d=64, causal=False).prefill_products
    sums = cost.of("linear", "sums", N=2048, d=64, r=64, causal=False)
    assert dense / (sums.prefill_products - 2 * 2048 * 64) == 32


def test_linear_for_any_fixed_r_and_quadratic_if_r_grows():
    """Claim 11."""
    def sums(N, r):
        return cost.of("linear", "sums", N=N, d=64, r=r,
                       causal=False).prefill_products
    for r in (1, 64, 10 ** 6):
        assert sums(2048, r) == 2 * sums(1024, r)
    assert sums(2048, 2048) == 4 * sums(1024, 1024)


def test_the_exponential_has_no_finite_rank():
    """Claim 12: 2^(ij) = exp(i · j ln 2) has rank n, exactly."""
    def rank(A):
        A, found = [[Fraction(x) for x in row] for row in A], 0
        for column_ in range(len(A)):
            rows = [i for i in range(found, len(A)) if A[i][column_]]
            if not rows:
                continue
            A[found], A[rows[0]] = A[rows[0]], A[found]
            for i in range(found + 1, len(A)):
                f = A[i][column_] / A[found][column_]
                A[i] = [x - f * y for x, y in zip(A[i], A[found])]
            found += 1
        return found

    for n in (1, 5, 12):
        grid = np.arange(n)
        A = [[2 ** (i * j) for j in range(n)] for i in range(n)]
        assert np.allclose(np.exp(np.outer(grid, grid * np.log(2))),
                           np.array(A, float))
        assert rank(A) == n
    assert rank([[1, 2, 3], [2, 4, 6], [1, 0, 1]]) == 2


@pytest.mark.parametrize("φ, rank", [
    (maps.elu_plus_one, 4), (maps.squared, 4), (maps.softmax_feature, 4),
    (maps.taylor, 15)], ids=lambda x: getattr(x, "__name__", ""))
def test_the_rank_of_a_feature_maps_kernel(φ, rank):
    q, k, _ = data(64, d=4)
    assert np.linalg.matrix_rank(φ(q) @ φ(k).T, rtol=1e-12) == rank
    A = np.exp(q @ k.T)                     # n tokens: n features are enough
    U, s, Vt = np.linalg.svd(A)
    assert np.abs((U * s) @ Vt - A).max() < 1e-12 * A.max()


def test_elu_plus_one_is_not_the_exponential():
    """Claim 13."""
    assert maps.elu_plus_one(np.array([3.]))[0] == 4
    for d in (1, 16, 64):
        zero = maps.elu_plus_one(np.zeros(d))
        assert zero @ zero == d
    x = np.linspace(0, 4, 20)[:, None]
    ratio = (maps.elu_plus_one(x) @ maps.elu_plus_one(x[-1:]).T)[:, 0]
    assert np.allclose(ratio[1:] - ratio[:-1], ratio[1] - ratio[0])  # a line


def test_a_longer_query_sharpens_softmax_and_not_these():
    rng = np.random.default_rng(1)
    one, k = rng.normal(size=(1, 8)), rng.normal(size=(6, 8))

    def most(weights, c):
        return weights(np.repeat(c * one, 6, 0))[0].max()

    assert most(lambda q: softmax.weights(q, k), 32) > .999
    for φ in (maps.relu, maps.squared):
        assert most(lambda q: linear.weights(q, k, φ, False), 64) == (
            pytest.approx(most(lambda q: linear.weights(q, k, φ, False), 1)))
    assert most(lambda q: linear.weights(q, k, causal=False), 1e6) < .25


def test_only_the_product_is_seen_by_exp_and_taylor():
    rng = np.random.default_rng(4)
    q, k = rng.normal(size=(2, 20, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for φ, moves in ((maps.taylor, False), (maps.elu_plus_one, True),
                     (maps.relu, True), (maps.squared, True),
                     (maps.dpfp, True), (maps.softmax_feature, True)):
        change = np.abs(φ(q @ turn) @ φ(k @ turn).T - φ(q) @ φ(k).T).max()
        assert (change > 1e-3) == moves, φ.__name__
    t = q @ k.T
    assert np.allclose(maps.taylor(q) @ maps.taylor(k).T, 1 + t + t * t / 2)


def test_no_mean_without_positive_weights():
    v = column(10, 30, 20)
    q = np.array([[-1., -2]] * 3)
    k = np.array([[1., 0], [0, 1], [1, 1]])
    with pytest.raises(ValueError, match="denominator of row 0 .* it is 0"):
        linear.parallel(q, k, v, maps.relu, causal=False)
    one = column(1, 1, 1)
    with pytest.raises(ValueError, match="positive .* it is -0.5"):
        linear.parallel(one, column(1, -2, .5), v, maps.identity, False)
    o = linear.parallel(one, column(1, -2, 1.01), v, maps.identity, False)
    assert o[0, 0] == pytest.approx(-2980)      # no mean of 10, 30 and 20


@pytest.mark.parametrize("φ", POSITIVE, ids=lambda φ: φ.__name__)
def test_positive_features_give_a_mean(φ):
    q, k, v = data(40)
    o = linear.parallel(2 * q, 2 * k, v, φ, causal=False)
    assert (v.min(0) - 1e-12 <= o).all() and (o <= v.max(0) + 1e-12).all()
    constant = np.full_like(v, 7)
    assert np.allclose(linear.parallel(q, k, constant, φ, False), 7)


def test_the_variance_of_positive_features():
    """Claim 14: (e^‖x+y‖² − 1)/m, whatever d: it is the norm that costs."""
    for d, s in ((2, .5), (8, 1.), (8, 1.5)):
        rng = np.random.default_rng(d)
        x = np.full((1, d), s / 2 / d ** .5)
        errors = []
        for _ in range(1500):
            φ = performer.features(x, rng.normal(size=(64, d)))
            errors.append((φ @ φ.T).item() / np.exp(s * s / 4) - 1)
        expected = np.sqrt((np.exp(s * s) - 1) / 64)
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(
            expected, rel=.15)
        assert abs(np.mean(errors)) < 5 * expected / np.sqrt(1500)


def test_linear_in_values_only():
    q, k, v = data(10)
    o = linear.parallel(q, k, v, causal=False)
    assert np.allclose(linear.parallel(q, k, 2 * v, causal=False), 2 * o)
    for args in ((2 * q, k, v), (q, 2 * k, v)):
        assert np.abs(linear.parallel(*args, causal=False) - 2 * o).max() > .01


def test_a_learned_map_beats_fixed_ones_on_held_out_inputs():
    torch = pytest.importorskip("torch")
    from lintut.kernels import learned

    def draw(n, seed):
        g = torch.Generator().manual_seed(seed)
        return (torch.randn(2, n, 32, 1, 8, generator=g)
                * 2 * .7 ** torch.arange(8))

    torch.manual_seed(0)
    φ = learned.LearnedFeatureMap(d=8, r=16)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)                # the matrices are small
    try:
        learned.fit(φ, *draw(32, 1), causal=False, steps=120,
                    learning_rate=.03)
    finally:
        torch.set_num_threads(threads)
    q, k = draw(16, 2)

    def divergence(φ):
        with torch.no_grad():
            return learned.divergence(φ, q, k, causal=False).item()

    def fixed(f):
        return lambda x: torch.tensor(f(x.numpy()))

    best = min(divergence(fixed(f)) for f in POSITIVE[:3])
    equal = divergence(torch.ones_like)
    assert divergence(φ) < .4 * min(best, equal)
