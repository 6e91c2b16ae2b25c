"""Faults that users of such code have reported, each as a small input.

One test a report; the numbers are those of the collected list.  Gradients,
half precision and shared memory belong to the kernels' tests.
"""

import numpy as np
import pytest

from lintut.reference import (delta, feature_maps, gated_delta, gla, linear,
                              performer, retention)

from .cases import agree, cut, draw


def mechanisms(n, d=5, d_v=3, dtype=np.float64):
    """name → (module, arguments) on the same q, k, v; keys of unit length."""
    q, k, v = draw(n, d, d_v)
    k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    rng = np.random.default_rng(n)
    alpha = 1e-3 ** rng.random((n, d))
    beta = rng.uniform(0, 2, n)
    arguments = {
        "linear": (linear, ()), "retention": (retention, (.9,)),
        "gla": (gla, (alpha,)), "delta": (delta, (beta,)),
        "gated_delta": (gated_delta, (alpha[:, 0].copy(), beta))}
    return {name: (module, [x.astype(dtype) if isinstance(x, np.ndarray)
                            else x for x in (q, k, v, *gates)])
            for name, (module, gates) in arguments.items()}


NAMES = tuple(mechanisms(1))
NORMALISED = [
    (linear, {}), (linear, {"feature_map": feature_maps.taylor}),
    (performer, dict(n_features=16, seed=0)),
    (performer, dict(n_features=16, seed=0, kind="hyperbolic")),
    (performer, dict(n_features=64, seed=0, kind="trigonometric",
                     scale=.02))]
ALL_FORMS = ("parallel", "recurrent", "chunkwise")


@pytest.mark.parametrize("alpha, token", [(1e-4, 10), (.01, 20), (.1, 39)])
def test_1_small_gates_overflow_a_ratio_of_products(alpha, token):
    """exp(−Σ log α) overflows float32 at this token; nothing here does."""
    sums = np.cumsum(np.full(64, np.log(alpha), np.float32))
    with np.errstate(over="ignore"):
        overflown = np.isinf(np.exp(-sums))
    assert overflown.argmax() + 1 == token
    q, k, v = draw(64, dtype=np.float32)
    gates = np.full(q.shape, alpha, np.float32)
    o = gla.chunkwise(q, k, v, gates)
    exact = gla.recurrent(*(x.astype(float) for x in (q, k, v, gates)))
    assert np.abs(o - exact).max() < 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n, chunk", [
    (1, 64), (15, 64), (17, 64), (63, 64), (65, 64), (100, 64), (257, 64),
    (257, 256)])
def test_2_lengths_that_are_no_multiple_of_the_chunk(name, n, chunk):
    module, arguments = mechanisms(n)[name]
    agree(module.chunkwise(*arguments, chunk_size=chunk, return_state=True),
          module.recurrent(*arguments, return_state=True))


@pytest.mark.parametrize("form", ["recurrent", "chunkwise"])
@pytest.mark.parametrize("name", NAMES)
def test_3_four_pieces_are_one_pass(name, form):
    module, (q, k, v, *gates) = mechanisms(150)[name]
    state, parts = None, []
    for start, stop in ((0, 37), (37, 64), (64, 131), (131, 150)):
        pieces = [g if np.ndim(g) == 0 else g[start:stop] for g in gates]
        o, state = getattr(module, form)(
            *cut((q, k, v), start, stop), *pieces, initial_state=state,
            return_state=True)
        parts.append(o)
    agree((np.concatenate(parts), state),
          module.recurrent(q, k, v, *gates, return_state=True))


@pytest.mark.parametrize("part", ["S", "z"])
def test_3_both_parts_of_a_normalised_state_matter(part):
    q, k, v = draw(80)
    _, (S, z) = linear.recurrent(*cut((q, k, v), 0, 40), return_state=True)
    rest = cut((q, k, v), 40, 80)
    right = linear.chunkwise(*rest, initial_state=(S, z))
    agree(right, linear.recurrent(q, k, v)[40:])
    lost = (0 * S, z) if part == "S" else (S, 0 * z)
    assert np.abs(linear.chunkwise(*rest, initial_state=lost)
                  - right).max() > .1


@pytest.mark.parametrize("name", NAMES[1:])
def test_4_an_asymmetric_state_of_unequal_widths(name):
    """The state alone: o₀ = Sᵀq₀ with S (d, d_v), faded as the rule says."""
    module, (q, k, v, *gates) = mechanisms(130)[name]
    S = np.arange(15.0).reshape(5, 3) - 4
    k, v = 0 * k, 0 * v
    keep = {"retention": lambda: np.full((130, 1), .9),
            "gla": lambda: gates[0], "delta": lambda: np.ones((130, 1)),
            "gated_delta": lambda: gates[0][:, None]}[name]()
    expected = (q * np.cumprod(keep * np.ones((1, 5)), 0)) @ S
    for form in (module.recurrent, module.chunkwise):
        agree(form(q, k, v, *gates, initial_state=S), expected)
        if S.shape[0] != S.shape[1]:
            with pytest.raises(ValueError, match="initial_state"):
                form(q, k, v, *gates, initial_state=S.T)


@pytest.mark.parametrize("form", ALL_FORMS)
def test_5_a_zero_denominator_is_an_error(form):
    q = np.full((4, 2), -60, np.float32)         # e^−60 · e^−60 is 0
    with pytest.raises(ValueError, match="denominator of row 0"):
        getattr(linear, form)(q, q, np.ones((4, 3), np.float32))


@pytest.mark.parametrize("form", ALL_FORMS)
@pytest.mark.parametrize("module, options", NORMALISED)
def test_6_constant_values_come_back(module, options, form):
    q, k, v = draw(100)
    for causal in (True, False):
        agree(getattr(module, form)(q, k, 0 * v - 7, causal=causal, **options),
              np.full(v.shape, -7.0), 1e-12)


@pytest.mark.parametrize("form", ALL_FORMS)
@pytest.mark.parametrize("module, options", NORMALISED[2:])
def test_8_the_same_seed_gives_the_same_features(module, options, form):
    q, k, v = draw(70)
    run = getattr(module, form)
    first = run(q, k, v, **options)
    assert np.array_equal(run(q, k, v, **options), first)
    agree(first, module.parallel(q, k, v, **options))
    for change in ({"seed": 1}, {"scale": .01}):
        other = run(q, k, v, **{**options, **change})
        assert np.abs(other - first).max() > 1e-6
        agree(other, module.parallel(q, k, v, **{**options, **change}))


def test_10_wrong_wy_forms_pass_easy_inputs():
    """The α left out of the overlaps: seen only with α ≠ 1 and many tokens.

    Three chunks, a state, varying α: the right form agrees, the wrong does
    not; with α = 1 even the wrong one agrees.
    """
    q, k, v = draw(24)
    k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    rng = np.random.default_rng(1)
    alpha, beta = rng.uniform(.5, 1, 24), rng.uniform(0, 2, 24)
    S0 = rng.normal(size=(5, 3))

    def without_alpha(alpha):
        S, o = S0, []
        for rows in (slice(0, 8), slice(8, 16), slice(16, 24)):
            Q, K, V, b = q[rows], k[rows], v[rows], beta[rows, None]
            F = np.cumprod(alpha[rows])[:, None]
            D = np.tril(F / F.T)
            T = np.linalg.inv(np.eye(8) + np.tril(b * K @ K.T, -1))
            E = T @ (b * (V - F * (K @ S)))
            o.append(F * (Q @ S) + (np.tril(Q @ K.T) * D) @ E)
            S = F[-1] * S + (F[-1] / F * K).T @ E
        return np.concatenate(o)

    for gates, alike in ((alpha, False), (np.ones(24), True)):
        o = gated_delta.recurrent(q, k, v, gates, beta, initial_state=S0)
        agree(gated_delta.chunkwise(q, k, v, gates, beta, chunk_size=8,
                                    initial_state=S0), o)
        assert (np.abs(without_alpha(gates) - o).max() < 1e-10) == alike


@pytest.mark.parametrize("name", NAMES)
def test_11_every_row_is_right_not_only_most(name):
    """Row by row against float64, on copies of the inputs."""
    module, arguments = mechanisms(2000, dtype=np.float32)[name]
    copies = [np.array(x) if np.ndim(x) else x for x in arguments]
    o = module.chunkwise(*copies)
    exact = module.recurrent(*(x.astype(float) if np.ndim(x) else x
                               for x in arguments))
    for x, y in zip(arguments, copies):
        assert np.array_equal(x, y)
    error = np.abs(o - exact).max(-1)
    terms = np.abs(arguments[0]).sum(-1) * np.abs(exact).max()
    assert (error < 1e-5 * terms).all()
