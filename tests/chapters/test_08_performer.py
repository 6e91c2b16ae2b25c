"""The limits and special cases that chapter 8 names."""

import numpy as np
import pytest

from lintut.reference import performer, softmax

KINDS = ("positive", "hyperbolic", "trigonometric")


def estimates(x, y, Ω, draws, kind="positive"):
    """φ(x)·φ(y) from each of `draws` equal parts of Ω."""
    f = performer.features(np.stack([x, y]), Ω, kind)
    each = f[0] * f[1]
    if kind != "positive":
        each = each[:len(Ω)] + each[len(Ω):]
    return draws * each.reshape(draws, -1).sum(-1)


def mse(x, y, m, kind):
    """Lemma 2, for m independent rows (the hyperbolic one from cosh)."""
    s, t = ((x + y) ** 2).sum(), ((x - y) ** 2).sum()
    K = np.exp(x @ y)
    if kind == "trigonometric":
        return np.exp(s) * K**-2 * (1 - np.exp(-t)) ** 2 / (2 * m)
    plus = np.exp(s) * K**2 * (1 - np.exp(-s)) / m
    return plus if kind == "positive" else plus * (1 - np.exp(-s)) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_unbiased_with_the_variance_of_lemma_2(kind):
    rng = np.random.default_rng(0)
    for scale in (0.15, 0.25):
        x, y = scale * rng.normal(size=(2, 8))
        Ω = rng.normal(size=(3 * 60_000, 8))
        found = estimates(x, y, Ω, 60_000, kind)
        want = mse(x, y, 3, kind)
        assert abs(found.mean() - np.exp(x @ y)) < 4 * (want / 60_000) ** 0.5
        assert abs(found.var() / want - 1) < 0.1


def test_where_each_kind_is_exact():
    x = np.array([0.6, -0.3, 0.8])
    Ω = np.random.default_rng(1).normal(size=(5, 3))

    def value(y, kind):
        f = performer.features(np.stack([x, y]), Ω, kind)
        return f[0] @ f[1]

    assert np.isclose(value(x, "trigonometric"), np.exp(x @ x), rtol=1e-14)
    for kind in ("positive", "hyperbolic"):
        assert np.isclose(value(-x, kind), np.exp(-x @ x), rtol=1e-14)
        assert not np.isclose(value(x, kind), np.exp(x @ x), rtol=0.01)
    assert not np.isclose(value(-x, "trigonometric"), np.exp(-x @ x),
                          rtol=0.01)


def test_the_published_comparison_of_unit_vectors():
    for θ, positive, trig in [(np.pi / 2, 6.39, 2.76), (3.0, .0028, 3.56)]:
        x, y = np.array([1, 0]), np.array([np.cos(θ), np.sin(θ)])
        assert np.isclose(mse(x, y, 1, "positive"), positive, rtol=0.01)
        assert np.isclose(mse(x, y, 1, "trigonometric"), trig, rtol=0.01)


def test_signs():
    x = np.random.default_rng(2).normal(size=(50, 6))
    Ω = performer.projection(12, 6, seed=0)
    assert (performer.features(x, Ω) > 0).all()
    assert (performer.features(x, Ω, "hyperbolic") > 0).all()
    assert (performer.features(x, Ω, "trigonometric") < 0).any()


def test_the_keys_norm_must_stay():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 256, 16))
    v = rng.normal(size=(256, 8))
    exact = softmax.parallel(q, k, v, scale=1.0)
    A = np.exp(-((q[:, None] - k[None]) ** 2).sum(-1) / 2)
    dropped = A @ v / A.sum(-1, keepdims=True)
    A = A * np.exp((k ** 2).sum(-1) / 2)
    assert np.abs(A @ v / A.sum(-1, keepdims=True) - exact).max() < 1e-13
    assert 3 < np.abs(dropped - exact).max() < 3.5


def test_orthogonal_rows_need_chi_lengths():
    d, draws = 32, 6000
    Ω = performer.projection(d * draws, d, seed=3)
    gram = Ω[:d] @ Ω[:d].T
    assert np.abs(gram - np.diag(np.diag(gram))).max() < 1e-10
    square = (Ω ** 2).sum(-1)
    assert abs(square.mean() - d) < 0.1 and abs(square.var() / (2 * d) - 1) < (
        0.05)
    x = np.zeros(d)
    x[0] = 1.2
    y = np.zeros(d)
    y[1] = 1.2                                       # kernel 1, s² = 2.88
    unit = Ω / np.linalg.norm(Ω, axis=1, keepdims=True)
    spread = estimates(x, y, Ω, draws).std() / draws ** 0.5
    assert abs(estimates(x, y, Ω, draws).mean() - 1) < 4 * spread
    assert estimates(x, y, d ** 0.5 * unit, draws).mean() < 1 - 4 * spread
    # rows of length 1 see about exp(−(|x|² + |y|²)/2 + s²/2d)
    assert abs(estimates(x, y, unit, draws).mean()
               - np.exp(-1.44 + 2.88 / 64)) < 0.005


def test_orthogonal_rows_err_less():
    x, y = 0.2 * np.random.default_rng(5).normal(size=(2, 16))
    errors = [np.mean((estimates(x, y, performer.projection(
        16 * 12_000, 16, 1, orthogonal), 12_000) - np.exp(x @ y)) ** 2)
        for orthogonal in (False, True)]
    assert errors[1] < 0.92 * errors[0]


def test_an_unbiased_kernel_gives_a_biased_weight():
    rng = np.random.default_rng(3)
    q, keys = rng.normal(size=4), rng.normal(size=(3, 4))
    x, y = q / 4 ** 0.25, keys / 4 ** 0.25
    kernel = np.exp(y @ x)
    true, found = (kernel / kernel.sum())[2], []
    for m in (1, 8, 64):
        Ω = rng.normal(size=(20_000 * m, 4))
        f = performer.features(np.concatenate([x[None], y]), Ω)
        A = 20_000 * (f[0] * f[1:]).reshape(3, 20_000, m).sum(-1)
        noise = A.std(1) / 20_000 ** 0.5
        assert (np.abs(A.mean(1) - kernel) < 5 * noise).all()
        weight = A[2] / A.sum(0)
        found.append(weight.mean())
        assert true - found[-1] > 5 * weight.std() / 20_000 ** 0.5
    assert found[0] < found[1] < found[2] < true


def test_the_mean_of_v_wins_when_inputs_are_long():
    def errors(σ):
        rng = np.random.default_rng(1)
        q, k = σ * rng.normal(size=(2, 256, 16))
        v = rng.normal(size=(256, 8))
        exact = softmax.parallel(q, k, v)
        o = [performer.parallel(q, k, v, n_features=256, seed=seed,
                                causal=False) for seed in range(5)]
        return (np.median([((x - exact) ** 2).mean() for x in o]),
                ((v.mean(0) - exact) ** 2).mean())

    ours, mean = errors(0.5)
    assert ours < mean / 2
    ours, mean = errors(1.5)
    assert ours > mean


@pytest.mark.parametrize("kind", KINDS)
def test_for_given_features_the_order_is_free(kind):
    rng = np.random.default_rng(4)
    q, k, v = (*rng.normal(size=(2, 70, 8)), rng.normal(size=(70, 5)))
    options = dict(n_features=256, kind=kind, seed=0, scale=0.2)
    whole = performer.parallel(q, k, v, **options)
    for form in (performer.recurrent, performer.chunkwise):
        assert np.allclose(form(q, k, v, **options), whole, atol=1e-10)
    assert np.abs(whole - softmax.parallel(q, k, v, causal=True,
                                           scale=0.2)).max() > 0.01


def test_n_tokens_have_an_exact_map_of_n_features():
    x = np.random.default_rng(6).normal(size=(30, 16)) / 2
    K = np.exp(x @ x.T)
    L = np.linalg.cholesky(K)                        # φ(x_i) = row i of L
    assert np.linalg.matrix_rank(K) == 30
    assert np.allclose(L @ L.T, K, atol=1e-12)


# ---- stabilisers ----

def exponents(x, y, Ω):
    half = [(a ** 2).sum(-1, keepdims=True) / 2 for a in (x, y)]
    return x @ Ω.T - half[0], y @ Ω.T - half[1]


def causal(fq, fk, v):
    A = np.tril(fq @ fk.T)
    return A @ v / A.sum(-1, keepdims=True)


def with_global_maximum(x, y, v, Ω, ε):
    eq, ek = exponents(x, y, Ω)
    return causal(np.exp(eq - eq.max(-1, keepdims=True)) + ε,
                  np.exp(ek - ek.max()) + ε, v)


def with_running_maximum(x, y, v, Ω):
    fq, (_, e) = performer.features(x, Ω, query=True), exponents(x, y, Ω)
    S, z, c, o = 0.0, 0.0, -np.inf, []
    for t in range(len(y)):
        new = max(c, e[t].max())
        S, z, c = S * np.exp(c - new), z * np.exp(c - new), new
        f = np.exp(e[t] - c)
        S, z = S + np.outer(f, v[t]), z + f
        o.append(fq[t] @ S / (fq[t] @ z))
    return np.array(o)


@pytest.fixture
def long_key():
    rng = np.random.default_rng(0)
    x, y = 0.5 * rng.normal(size=(2, 32, 16))
    Ω = performer.projection(32, 16, seed=0)
    later = y.copy()
    later[-1] = max(Ω, key=np.linalg.norm)
    return x, y, later, rng.normal(size=(32, 3)), Ω


def test_a_global_maximum_with_epsilon_leaks_the_future(long_key):
    x, y, later, v, Ω = long_key
    for ε, leaks in ((0.0, False), (1e-4, True)):
        moved = np.abs(with_global_maximum(x, later, v, Ω, ε)
                       - with_global_maximum(x, y, v, Ω, ε))[:31].max()
        assert moved > 0.1 if leaks else moved < 1e-9


def test_a_running_maximum_does_not_and_survives_long_keys(long_key):
    x, y, later, v, Ω = long_key
    first, second = (with_running_maximum(x, k, v, Ω) for k in (y, later))
    assert np.array_equal(first[:31], second[:31])
    assert not np.allclose(first[31], second[31])
    plain = performer.parallel(2 * x, 2 * y, v, n_features=32, seed=0)
    assert np.allclose(first, plain, atol=1e-11)    # x = q / 16^¼
    far = with_running_maximum(x, 200 * y, v, Ω)
    assert np.isfinite(far).all()
    with pytest.raises(ValueError, match="denominator of row 0"):
        performer.recurrent(x, 200 * y, v, n_features=16, seed=0)


def test_a_state_is_read_with_the_rows_that_wrote_it():
    rng = np.random.default_rng(9)
    q, k = 0.5 * rng.normal(size=(2, 256, 16))
    v = rng.normal(size=(256, 8))
    exact = softmax.parallel(q, k, v)

    def error(write, read):
        fq = performer.features(q / 2, performer.projection(64, 16, read))
        fk = performer.features(k / 2, performer.projection(64, 16, write))
        o = fq @ (fk.T @ v) / (fq @ fk.sum(0))[:, None]
        return ((o - exact) ** 2).mean()

    assert error(0, 0) < ((v.mean(0) - exact) ** 2).mean() < error(1, 0)
