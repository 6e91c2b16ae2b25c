"""The limits and special cases that chapter 12 names."""

from importlib import util
from pathlib import Path

import numpy as np
import pytest

from lintut.reference import delta, gated_delta, gla, retention

FORMS = (gated_delta.parallel, gated_delta.recurrent, gated_delta.chunkwise)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def loop(q, k, v, alpha, beta, S, faded=True):
    """The rule, or the one whose error is not faded; no code of lintut."""
    o = []
    for q_t, k_t, v_t, a, b in zip(q, k, v, alpha, beta):
        held = k_t @ (a * S if faded else S)
        S = a * S + np.outer(k_t, b * (v_t - held))
        o.append(q_t @ S)
    return np.array(o), S


def draw(N=8, d=5, d_v=3, seed=0):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(2, N, d))
    return (q, unit(k), rng.normal(size=(N, d_v)), rng.uniform(.3, 1, N),
            rng.uniform(0.1, 2, N), rng.normal(size=(d, d_v)))


@pytest.fixture
def tokens():
    return draw()


def test_where_the_gate_stands():
    """S = k = β = 1, α = ½, v = 0: 0, and −½ with the error unfaded."""
    one = np.ones((1, 1))
    x = one, one, 0 * one, np.array([.5]), np.ones(1)
    for form in (gated_delta.recurrent, gated_delta.chunkwise):
        assert form(*x, initial_state=one)[0, 0] == 0
    assert loop(*x, one)[0][0, 0] == 0
    assert loop(*x, one, faded=False)[0][0, 0] == -.5


def test_the_hand_example_and_the_steppers():
    from lintut.widgets import RuleStepper
    k = np.array([[1., 0], [0, 1], [1, 0], [0, 0]])
    v = np.array([[1.], [1], [0], [0]])
    alpha, one = np.array([1, 1, .5, .1]), np.ones(4)
    both = np.eye(2)
    for rule, records in (("delta", [0, 1]), ("gated_delta", [0, .05]),
                          ("misplaced", [-.05, .05])):
        stepper = RuleStepper("forget")
        assert rule in stepper.rules
        for key, record in zip(both, records):
            asked = RuleStepper("forget", rules=[rule],
                                queries=[key.astype(int).tolist()] * 4)
            assert asked.outputs(rule)[3] == pytest.approx(record)
    _, S = gated_delta.recurrent(k, k, v, alpha, one, return_state=True)
    assert S[:, 0] == pytest.approx([0, .05])
    _, S = gated_delta.recurrent(k[:3], k[:3], v[:3], alpha[:3], one[:3],
                                 return_state=True)
    assert S[:, 0] == pytest.approx([0, .5])
    assert loop(k, k, v, alpha, one, np.zeros((2, 1)), False)[1][:, 0] == (
        pytest.approx([-.05, .05]))


def test_a_correction_moves_one_record_and_a_gate_both():
    N = 16
    k, v, alpha = np.zeros((N, 2)), np.zeros((N, 1)), np.ones(N)
    k[[0, 7], 0], k[2, 1], alpha[11] = 1, 1, .1
    v[0], v[2], v[7] = 2, 4, 5
    A, B = (gated_delta.parallel(np.tile(key, (N, 1)), k, v, alpha,
                                 np.ones(N))[:, 0] for key in np.eye(2))
    assert A == pytest.approx([2] * 7 + [5] * 4 + [.5] * 5)
    assert B == pytest.approx([0] * 2 + [4] * 9 + [.4] * 5)


def test_with_a_unit_key_and_a_whole_step_the_key_holds_v(tokens):
    q, k, v, alpha, beta, S0 = tokens
    for form in (gated_delta.recurrent, gated_delta.chunkwise):
        o = form(k, k, v, alpha, np.ones(8), initial_state=S0)
        assert np.allclose(o, v, atol=1e-12)


def test_the_merged_form_and_the_transposed_state(tokens):
    q, k, v, alpha, beta, ours = tokens
    expected, end = gated_delta.recurrent(q, k, v, alpha, beta,
                                          initial_state=ours,
                                          return_state=True)
    paper = ours.T.copy()
    assert paper.shape == (3, 5)
    for t in range(8):
        P = alpha[t] * (np.eye(5) - beta[t] * np.outer(k[t], k[t]))
        ours = (np.einsum("dc,cv->dv", P, ours)
                + beta[t] * np.einsum("d,v->dv", k[t], v[t]))
        paper = (np.einsum("vc,cd->vd", paper, P)
                 + beta[t] * np.einsum("v,d->vd", v[t], k[t]))
        assert np.allclose(np.einsum("dv,d->v", ours, q[t]), expected[t])
        assert np.allclose(np.einsum("vd,d->v", paper, q[t]), expected[t])
    assert np.allclose(ours, end) and np.allclose(paper.T, end)


# ---- the rules it contains ----

def test_alpha_one_is_delta(tokens):
    q, k, v, _, beta, S0 = tokens
    for form in ("recurrent", "chunkwise"):
        o, S = getattr(gated_delta, form)(
            q, k, v, np.ones(8), beta, initial_state=S0, return_state=True)
        expected, end = getattr(delta, form)(
            q, k, v, beta, initial_state=S0, return_state=True)
        assert np.allclose(o, expected, atol=1e-13)
        assert np.allclose(S, end, atol=1e-13)


@pytest.mark.parametrize("form", FORMS[1:])
def test_beta_zero_only_fades(tokens, form):
    q, k, v, alpha, _, S0 = tokens
    o = form(q, k, v, alpha, np.zeros(8), initial_state=S0)
    assert np.allclose(o, np.cumprod(alpha)[:, None] * (q @ S0), atol=1e-13)
    assert np.abs(np.tril(q @ k.T) @ v).max() > 1       # not the sum
    assert not form(q, k, v, alpha, np.zeros(8)).any()


@pytest.mark.parametrize("form", FORMS)
def test_orthonormal_keys_give_the_sum_retention_and_gla(tokens, form):
    q, _, v, alpha, _, _ = (x[:5] for x in tokens)
    k = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]
    one = np.ones(5)
    near = lambda o, expected: np.allclose(o, expected, atol=1e-12)
    assert near(form(q, k, v, one, one), np.tril(q @ k.T) @ v)
    assert near(form(q, k, v, .9 * one, one),
                retention.parallel(q, k, v, .9))
    assert near(form(q, k, v, alpha, one),
                gla.parallel(q, k, v, np.repeat(alpha[:, None], 5, 1)))


@pytest.mark.parametrize("form", FORMS)
def test_small_steps_approach_the_gated_sum_in_proportion(tokens, form):
    q, k, v, alpha, _, _ = tokens
    for gates in (alpha, np.full(8, .8), np.ones(8)):
        target = gla.parallel(q, k, v, np.repeat(gates[:, None], 5, 1))
        off = [np.abs(form(q, k, v, gates, np.full(8, b)) / b - target).max()
               for b in (1e-3, 5e-4)]
        assert off[0] > 1e-5
        assert off[0] / off[1] == pytest.approx(2, rel=.01)


@pytest.mark.parametrize("form", FORMS)
def test_a_closed_gate_leaves_a_token_alone(tokens, form):
    q, k, v, _, beta, _ = tokens
    alone = beta[:, None] * (q * k).sum(-1, keepdims=True) * v
    assert np.allclose(form(q, k, v, np.full(8, 1e-300), beta), alone,
                       atol=1e-13)


def test_the_weights_are_deltas_times_what_is_left(tokens):
    q, k, _, alpha, beta, _ = tokens
    left = np.array([[np.prod(alpha[j + 1:i + 1]) if j <= i else 0
                      for j in range(8)] for i in range(8)])
    assert np.allclose(gated_delta.weights(q, k, alpha, beta),
                       delta.weights(q, k, beta) * left, atol=1e-13)


def test_a_dip_turns_a_rectangle_pale_its_own_row_included():
    from lintut.widgets import WeightsViewer
    options = dict(alpha=1, beta=0.5, queries="own", similarity=0.4)
    plain = WeightsViewer("gated_delta", **options).weights()
    W = WeightsViewer("gated_delta", dip=9, dip_alpha=0.1, **options).weights()
    expected = plain.copy()
    expected[8:, :8] *= 0.1
    assert np.allclose(W, expected, atol=1e-12)
    assert np.abs(plain[8, 7]) > 1e-3


# ---- questions that formulas leave open ----

def one_chunk(q, k, v, alpha, beta, S, error=0, mask="D", U="D", W="D"):
    """As in the chapter: one chunk under a reading of the formulas."""
    N = len(v)
    D = np.array([[np.prod(alpha[j + 1:i + 1]) if j <= i else 0.
                   for j in range(N)] for i in range(N)])
    F = np.cumprod(alpha)[:, None]
    D0, F0 = D, F
    if error:
        D0 = np.vstack([0 * D[:1], D[:-1]])
        F0 = np.vstack([np.ones((1, 1)), F[:-1]])

    def solve(D0, right):
        L = np.tril(beta[:, None] * D0 * (k @ k.T), -1)
        return np.linalg.solve(np.eye(N) + L, beta[:, None] * right)

    ones = np.ones_like(D)
    u = solve(D0 if U == "D" else ones, v)
    w = solve(D0, F0 * k) if W == "D" else F0 * solve(ones, k)
    pairs = np.tril(q @ k.T) * (D if mask == "D" else ones)
    return F * q @ S + pairs @ (u - w @ S)


@pytest.mark.parametrize("reading, right", [
    ({}, True), ({"W": "plain"}, True), ({"error": 1}, False),
    ({"mask": "M"}, False), ({"U": "plain"}, False)])
def test_one_chunk_decides(tokens, reading, right):
    *x, S0 = tokens
    off = np.abs(one_chunk(*tokens, **reading) - loop(*tokens)[0]).max()
    assert off < 1e-12 if right else off > 1e-2
    got = gated_delta.chunkwise(*x, initial_state=S0)
    assert np.allclose(got, loop(*tokens)[0], atol=1e-12)
    if "error" in reading:              # it is the rule it claims to be
        expected, _ = loop(*tokens, faded=False)
        assert np.allclose(one_chunk(*tokens, **reading), expected)
    # With every gate at 1 all of them pass.
    x = (*x[:3], np.ones(8), x[4], S0)
    assert np.allclose(one_chunk(*x, **reading), loop(*x)[0], atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_token_reads_after_it_writes(tokens, form):
    q, k, v, alpha, beta, _ = tokens
    first = beta[0] * (q[0] @ k[0]) * v[0]
    assert np.abs(first).max() > 1e-2
    assert np.allclose(form(q, k, v, alpha, beta)[0], first)


@pytest.mark.parametrize("form", FORMS)
def test_q_is_used_as_given(tokens, form):
    q, k, v, alpha, beta, _ = tokens
    o = form(q, k, v, alpha, beta)
    assert np.allclose(form(q / 5 ** .5, k, v, alpha, beta), o / 5 ** .5)
    assert np.allclose(o, loop(q, k, v, alpha, beta, np.zeros((5, 3)))[0])


def test_the_readings_are_flas(tokens):
    """The fla library's own plain loop: faded, read last, q / √d."""
    torch = pytest.importorskip("torch")
    fla = util.find_spec("fla") or pytest.skip("fla is not installed")
    # This one file: the whole of fla takes half a minute to import.
    spec = util.spec_from_file_location("naive", Path(
        fla.origin).with_name("ops") / "gated_delta_rule" / "naive.py")
    naive = util.module_from_spec(spec)
    spec.loader.exec_module(naive)
    q, k, v, alpha, beta, S0 = (torch.tensor(x) for x in tokens)
    o, S = naive.naive_recurrent_gated_delta_rule(
        q[None, :, None], k[None, :, None], v[None, :, None],
        beta[None, :, None], alpha.log()[None, :, None],
        initial_state=S0[None, None], output_final_state=True)
    expected, end = loop(*tokens)
    q0 = tokens[0] / 5 ** .5
    ours = gated_delta.recurrent(q0, *tokens[1:5], initial_state=tokens[5])
    assert np.allclose(o[0, :, 0].numpy(), ours, atol=1e-5)
    assert np.allclose(S[0, 0].numpy(), end, atol=1e-5)
    assert np.allclose(ours * 5 ** .5, expected)


def test_decays_are_products_not_ratios():
    gates = np.full((64, 1), 0.01, np.float32)
    D, _ = gated_delta.decay(gates)
    assert np.allclose(np.diag(D, -1), 0.01, rtol=1e-6)
    f = np.cumprod(gates[:, 0])
    with np.errstate(all="ignore"):
        assert not np.isfinite(f[1:] / f[:-1]).all()
    q, k, v, _, _, _ = draw(200)
    alpha, beta = np.full(200, 1e-4), np.ones(200)
    assert np.allclose(
        gated_delta.chunkwise(q, k, v, alpha, beta),
        loop(q, k, v, alpha, beta, np.zeros((5, 3)))[0], atol=1e-12)


# ---- the toys ----

def test_known_filler_is_not_written():
    """A needle, then eight records again and again."""
    d, errors = 64, {}
    for G in (256, 2048):
        rng = np.random.default_rng(0)
        k, v = unit(rng.normal(size=(9, d))), rng.normal(size=(9, 8))
        order = np.r_[0, 1 + np.arange(G) % 8]
        x, one = (k[order], k[order], v[order]), np.ones(G + 1)

        def of(S):
            return ((k[0] @ S - v[0]) ** 2).sum() / (v[0] ** 2).sum()

        errors[G] = [of(S) for _, S in (
            delta.chunkwise(*x, one, return_state=True),
            gated_delta.chunkwise(*x, .99 * one, one, return_state=True),
            retention.chunkwise(*x, .99, return_state=True),
            retention.chunkwise(*x, 1, return_state=True))]
    assert errors[256][0] == pytest.approx(errors[2048][0], rel=1e-6)
    for at in errors.values():
        assert at[0] < .5 < at[1] < at[2] < at[3]
    assert errors[2048][3] > 30 * errors[256][3]


def test_overwrite_needs_delta_and_forget_needs_the_gate():
    n, d, now, dropped = 4, 64, np.zeros(4), np.zeros(4)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        book = unit(rng.normal(size=(8 * n, d)))
        used = np.concatenate([rng.permutation(n) + n * s for s in range(8)
                               for _ in range(2)])
        v, gate = rng.normal(size=(len(used), 8)), np.ones((8, 2 * n))
        gate[:, 0] = 1e-3
        gate, one, k = gate.ravel(), np.ones(len(used)), book[used]
        gates = np.repeat(gate[:, None], d, 1)
        for i, (_, S) in enumerate((
                retention.chunkwise(k, k, v, 1, return_state=True),
                gla.chunkwise(k, k, v, gates, return_state=True),
                delta.chunkwise(k, k, v, one, return_state=True),
                gated_delta.chunkwise(k, k, v, gate, one,
                                      return_state=True))):
            reads = book @ S
            now[i] += ((reads[used[-n:]] - v[-n:]) ** 2).mean() / 5
            dropped[i] += (reads[:-n] ** 2).mean() / 5
    assert now[3] < .15 and now[2] < .15 and now[0] > .8 and now[1] > .8
    assert dropped[3] < .15 < dropped[2] and dropped[0] > 1
    assert dropped[3] == pytest.approx(n / d, rel=.5)


@pytest.mark.parametrize("alpha, beta, records", [(.1, 1., [8, .4]),
                                                 (1., .5, [5.5, 4])])
def test_one_gate_for_all_and_one_step_for_both(alpha, beta, records):
    key, value = np.array([[1., 0]]), np.array([[8.]])
    _, S = gated_delta.recurrent(
        key, key, value, np.array([alpha]), np.array([beta]),
        initial_state=np.array([[3.], [4.]]), return_state=True)
    assert S[:, 0] == pytest.approx(records)
