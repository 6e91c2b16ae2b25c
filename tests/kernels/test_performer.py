"""Performer and the learned feature map, on torch."""

import doctest

import numpy as np
import pytest
import torch

from lintut.kernels import learned, linear, performer
from lintut.reference import performer as numpy_performer

from . import harness


def draw(*shape, seed=0):
    return tuple(0.5 * harness.random(shape, 3 * seed + n) for n in range(3))


@pytest.mark.parametrize("kind", performer.KINDS)
@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("scale", [None, 0.2])
def test_equals_the_reference(kind, orthogonal, scale):
    q, k, v = draw(2, 70, 3, 8)
    options = dict(n_features=64, kind=kind, orthogonal=orthogonal, seed=3,
                   scale=scale)
    expected = numpy_performer.parallel(
        *(x.transpose(1, 2).numpy() for x in (q, k, v[..., :5])), **options)
    o = performer.chunkwise(q, k, v[..., :5], **options, chunk_size=16)
    np.testing.assert_allclose(o.transpose(1, 2), expected, rtol=1e-9,
                               atol=1e-12)


def test_step_carry_and_packed():
    q, k, v = draw(1, 20, 2, 8)
    options = dict(n_features=32, kind="hyperbolic", seed=1)
    whole, (S, z) = performer.chunkwise(q, k, v, **options,
                                        return_state=True)
    state, parts = None, []
    for t in range(20):
        o, state = performer.step(*(x[:, t:t + 1] for x in (q, k, v)),
                                  **options, initial_state=state)
        parts.append(o)
    assert harness.row_error(torch.cat(parts, 1), whole) < 1e-12
    assert harness.row_error(state[0], S) < 1e-12
    packed = performer.chunkwise(q, k, v, **options,
                                 cu_seqlens=torch.tensor([0, 7, 20]))
    alone = performer.chunkwise(q[:, 7:], k[:, 7:], v[:, 7:], **options)
    assert harness.row_error(packed[:, 7:], alone) < 1e-12


def test_gradcheck():
    x = [a.requires_grad_() for a in draw(1, 5, 1, 3)]
    torch.autograd.gradcheck(
        lambda q, k, v: performer.chunkwise(q, k, v, n_features=8, seed=0,
                                            chunk_size=2), x)


@pytest.mark.parametrize("change, message", [
    (dict(kind="cosine"), "kind must be one of positive, hyperbolic, trig"),
    (dict(kind="trigonometric", n_features=7), "n_features must be even"),
    (dict(n_features=0), "n_features must be at least 1"),
    (dict(seed=-1), "seed must be at least 0"),
    (dict(scale=-1.0), "scale must be a number above 0; it is -1.0"),
])
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        performer.chunkwise(*draw(1, 5, 1, 4),
                            **(dict(n_features=8, seed=0) | change))


def test_learned_docstring():
    assert doctest.testmod(learned).failed == 0


@pytest.mark.parametrize("causal", [True, False])
def test_divergence_is_that_of_the_weights(causal):
    """Against the weights themselves, one row after another, in NumPy."""
    q, k, _ = draw(1, 12, 2, 4)
    φ = learned.LearnedFeatureMap(4, 6).double()
    with torch.no_grad():
        got = learned.divergence(φ, q, k, 0.8, causal).item()
        fq, fk = φ(q).numpy(), φ(k).numpy()
    terms = []
    for h in range(2):
        for t in range(12):
            seen = t + 1 if causal else 12
            scores = 0.8 * k[0, :seen, h].numpy() @ q[0, t, h].numpy()
            p = np.exp(scores) / np.exp(scores).sum()
            w = fk[0, :seen, h] @ fq[0, t, h]
            terms.append((p * np.log(p * w.sum() / w)).sum())
    assert got == pytest.approx(np.mean(terms), rel=1e-9)


def test_learning_beats_fixed_maps_on_inputs_it_has_not_seen():
    torch.manual_seed(0)
    φ = learned.LearnedFeatureMap(8, 16)
    q, k, _ = (2 * x.float() for x in draw(64, 32, 1, 8))
    losses = learned.fit(φ, q, k, steps=120)
    new_q, new_k, _ = (2 * x.float() for x in draw(16, 32, 1, 8, seed=1))
    with torch.no_grad():
        trained = learned.divergence(φ, new_q, new_k).item()
        fixed = learned.divergence(linear.elu_plus_one, new_q, new_k).item()
    assert losses[-1] < losses[0] and trained < 0.75 * fixed


def test_learned_map_refuses_an_odd_width():
    with pytest.raises(ValueError, match="r must be even; it is 5"):
        learned.LearnedFeatureMap(4, 5)
