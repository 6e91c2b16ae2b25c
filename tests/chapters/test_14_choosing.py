"""What chapter 14 and its chooser say of each mechanism, by running it."""

import numpy as np
import pytest

from lintut import cost
from lintut.reference import (bigbird, delta, gated_delta, gla, hybrid,
                              linear, linformer, longformer, performer,
                              retention, sliding_window, softmax)
from lintut.widgets import Chooser, chooser

N = d = 24
E = np.repeat(np.eye(6), 4, axis=1) / 4
ONE = np.ones(N)


def fade(k):
    return np.full(len(k), 0.9)


RUN = {
    "softmax": lambda q, k, v: softmax.parallel(q, k, v, causal=True),
    "flash": lambda q, k, v: softmax.blocked(q, k, v, causal=True,
                                             block_size=7),
    "sliding_window": lambda q, k, v: sliding_window.banded(q, k, v, 5),
    "longformer": lambda q, k, v: longformer.banded(
        q, k, v, 5, [0], causal=True),
    "bigbird": lambda q, k, v: bigbird.blocked(
        q, k, v, 4, n_window=3, n_global=1, n_random=1, seed=0, causal=True),
    "linformer": lambda q, k, v: linformer.parallel(q, k, v, E, E),
    "linear": linear.recurrent,
    "performer": lambda q, k, v: performer.recurrent(
        q, k, v, n_features=64, seed=0),
    "retention": lambda q, k, v: retention.recurrent(q, k, v, 0.9),
    "gla": lambda q, k, v: gla.recurrent(q, k, v, np.full(k.shape, 0.9)),
    "delta": lambda q, k, v: delta.recurrent(q, k, v, ONE[:len(k)]),
    "gated_delta": lambda q, k, v: gated_delta.recurrent(
        q, k, v, fade(k), ONE[:len(k)]),
}


@pytest.fixture
def tokens():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, N, d))
    return q, k / np.linalg.norm(k, axis=1, keepdims=True), v


def verdicts(need, **sizes):
    widget = Chooser(**dict(N=10_000, w=100, n=9) | sizes)
    return {name: widget.verdict(name, need)[0] for name in RUN}


def test_only_two_are_softmax(tokens):
    expected = RUN["softmax"](*tokens)
    same = {name: "yes" if np.allclose(run(*tokens), expected, atol=1e-9)
            else "no" for name, run in RUN.items()}
    assert same == verdicts("same")
    wide = sliding_window.banded(*tokens, N)
    assert np.allclose(wide, expected)
    assert verdicts("same", N=100)["sliding_window"] == "yes"


def test_only_linformer_sees_the_future(tokens):
    q, k, v = tokens
    later_k, later_v = k.copy(), v.copy()
    later_k[12:], later_v[12:] = k[12:][::-1], 1
    for name, run in RUN.items():
        moved = np.abs(run(q, later_k, later_v)[:12] - run(q, k, v)[:12])
        assert (moved.max() > 1e-3) == (
            verdicts("causal")[name] == "no"), name


def test_who_hears_of_the_first_token(tokens):
    q, k, v = tokens
    first = v.copy()
    first[0] += 1
    for name, run in RUN.items():
        heard = np.abs(run(q, k, first)[-1] - run(q, k, v)[-1]).max() > 1e-9
        assert heard == (verdicts("far")[name] != "no"), name


def test_who_overwrites():
    key, v = np.eye(d)[[0, 0]], np.array([[2.], [5.]])
    for name, run in RUN.items():
        if name == "linformer":
            continue
        read = run(key, key, v)[1, 0]
        if name in ("delta", "gated_delta"):
            assert read == pytest.approx(5)
            assert verdicts("overwrite")[name] == "yes"
        elif name in ("retention", "gla"):
            assert read == pytest.approx(6.8)
            assert verdicts("overwrite")[name] == "no"
        else:
            assert read == pytest.approx(3.5)
            assert verdicts("overwrite")[name] in ("part", "no")


def test_whose_gates_clear_the_state():
    """One token's gate at 0.001: what is left of what was before it."""
    key, v = np.eye(d)[:3], np.array([[1.], [0.], [0.]])
    gate = np.array([1, 1e-3, 1])
    asked = np.repeat(key[:1], 3, 0)
    left = {
        "linear": linear.recurrent(asked, key, v)[2, 0],
        "gla": gla.recurrent(asked, key, v, np.repeat(gate[:, None], d, 1)
                             )[2, 0],
        "delta": delta.recurrent(asked, key, v, ONE[:3])[2, 0],
        "gated_delta": gated_delta.recurrent(asked, key, v, gate, ONE[:3]
                                             )[2, 0]}
    for name, x in left.items():
        assert (x < .01) == (verdicts("drop")[name] == "yes"), name


def test_n_facts_need_n_directions():
    """n ≤ d orthonormal keys come back exactly, d + 1 facts cannot."""
    rng = np.random.default_rng(1)
    k = np.linalg.qr(rng.normal(size=(d, d)))[0]
    v = rng.normal(size=(d, 3))
    for _, S in (delta.recurrent(k, k, v, ONE, return_state=True),
                 retention.recurrent(k, k, v, 1.0, return_state=True)):
        assert np.allclose(k @ S, v)
    more, values = np.vstack([k, k[:1] + k[1:2]]), np.vstack([v, v[:1]])
    best = np.linalg.lstsq(more, values, rcond=None)[0]
    assert np.abs(more @ best - values).max() > .1      # whatever the rule
    for name in ("linear", "retention", "gla", "delta", "gated_delta"):
        assert verdicts("recall", d=24, n=24)[name] == "part"
        assert verdicts("recall", d=24, n=25)[name] == "no"
    assert verdicts("recall", n=10_000)["softmax"] == "yes"


def test_a_mixed_stack_keeps_what_its_full_layers_keep():
    """By hand: 8 MiB and 3 times 8 KiB."""
    full = cost.of("softmax", N=32_768, d=64).state_bytes
    state = cost.of("gated_delta", N=32_768, d=64).state_bytes
    assert (full, state) == (8 * 2 ** 20, 8 * 2 ** 10)
    assert Chooser(N=32_768, heads=1, layers=4).costs("mixed_full")[
        "state_bytes"] == full + 3 * state
    far = [Chooser(N=N, heads=1, layers=4).costs("mixed_full")["state_bytes"]
           / (4 * cost.of("softmax", N=N, d=64).state_bytes)
           for N in (10 ** 3, 10 ** 6)]
    assert far[0] > far[1] > .25 and far[1] == pytest.approx(.25, rel=1e-3)


def test_the_choosers_example():
    """The prediction: at 800 MiB one candidate is left, at 700 none."""
    fits = {limit: [name for name, (_, broken, _) in
                    Chooser(memory=limit).assess().items() if not broken]
            for limit in (800, 700)}
    assert fits == {800: ["mixed_full"], 700: []}
    softmax_all = Chooser().costs("softmax")["state_bytes"]
    assert softmax_all == 3 * 2 ** 30


def test_a_window_and_a_state_find_more_than_either():
    from lintut.reference.feature_maps import dpfp
    rng = np.random.default_rng(2)
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
    k, v = unit(rng.normal(size=(2, 128, 32)))
    phi = lambda x: dpfp(x, 3)
    _, ((K, V), (S, z)) = hybrid.recurrent(
        np.stack([k, k]), np.stack([k, k]), np.stack([v, v]), window=32,
        heads=("window", "linear"), feature_map=phi, return_state=True)
    assert np.array_equal(K[0], k[-32:]) and S.shape == (1, 192, 32)
    truth = np.arange(128)
    near = np.argmax(softmax.attend(40 * k, K[0], V[0]) @ v.T, 1) == truth
    far = np.argmax(phi(k) @ S[0] / (phi(k) @ z[0])[:, None] @ v.T,
                    1) == truth
    assert near[-32:].all() and not near[:-32].any()
    assert .3 < far.mean() < 1 and (near | far).mean() > max(
        near.mean(), far.mean())


def test_chapter_14s_facts_cover_every_candidate():
    assert set(RUN) <= set(chooser.FACTS)
