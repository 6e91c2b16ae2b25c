"""`lintut.reference.performer` against its features in plain Python."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from lintut.reference import performer, softmax

from .cases import agree, draw, frozen, wild
from .rules import Contract
from .test_linear import sums

KINDS = ("positive", "hyperbolic", "trigonometric")


def features(x, rows, kind):
    """φ(x) with every factor, for one x and Ω as lists."""
    half = math.fsum(a * a for a in x) / 2
    u = [math.fsum(a * b for a, b in zip(row, x)) for row in rows]
    if kind == "trigonometric":
        waves = [math.cos(y) for y in u] + [math.sin(y) for y in u]
        return [w * math.exp(half) / math.sqrt(len(u)) for w in waves]
    if kind == "hyperbolic":
        u = u + [-y for y in u]
    return [math.exp(y - half) / math.sqrt(len(u)) for y in u]


class Performer(Contract):
    module = performer

    def oracle(self, q, k, v, state=None, causal=True):
        r, kind, scale = (self.options[name] for name in
                          ("n_features", "kind", "scale"))
        rows = performer.projection(r if kind == "positive" else r // 2,
                                    q.shape[1], self.options["seed"]).tolist()
        fq, fk = ([features(x, rows, kind) for x in (y * scale ** .5).tolist()]
                  for y in (q, k))
        if state is None:
            state = np.zeros((r, v.shape[1])), np.zeros(r)
        o, final = sums(fq, fk, v.tolist(), state, causal)
        return o, final

    def start(self, rng, lead=(), d=5, d_v=3):
        """A state that a past left: features are not arbitrary numbers."""
        past = self.inputs(9, d, d_v, lead, seed=int(rng.integers(100)))
        return tuple(frozen(x) for x in self.call(
            "recurrent", past, return_state=True)[1])

    def wild_state(self, data, d, d_v, dtype):
        r = self.options["n_features"]
        return data.draw(st.one_of(st.none(), st.tuples(
            wild(r, d_v, dtype=dtype), wild(r, dtype=dtype))))

    @pytest.mark.parametrize("form", ["recurrent", "chunkwise"])
    def test_bad_states_are_named(self, form):
        r = self.options["n_features"]
        S, z = np.ones((r, 3)), np.ones(r)
        for state in ((S,), S, (S.T, z), (S, z[:-1]), (S[:-1], z), (S, None)):
            with pytest.raises(ValueError, match="initial_state"):
                self.call(form, self.inputs(6), initial_state=state)

    def bad_gates(self):
        return [
            (dict(n_features=0), "n_features must be at least 1"),
            (dict(n_features=10 ** 9), "n_features must be at most"),
            (dict(n_features=8.0), "n_features must be a whole number"),
            (dict(n_features=7, kind="trigonometric"),
             "n_features must be even for trigonometric features"),
            (dict(n_features=7, kind="hyperbolic"),
             "n_features must be even for hyperbolic features"),
            (dict(kind="cosine"), 'kind must be "positive"'),
            (dict(kind=None), 'kind must be "positive"'),
            (dict(seed=None), "seed must be a whole number"),
            (dict(seed=-1), "seed must be at least 0"),
            (dict(orthogonal="yes"), "orthogonal must be True or False"),
            (dict(scale=0), "scale must be above 0"),
            (dict(scale=-1.), "scale must be above 0"),
            (dict(scale=np.nan), "scale must be a finite number"),
            (dict(causal=2), "causal must be True or False"),
        ]

    @pytest.mark.parametrize("n", [1, 17, 70])
    def test_without_the_mask(self, n):
        inputs = self.inputs(n)
        expected = self.oracle(*inputs, causal=False)
        options = dict(causal=False, return_state=True)
        agree(self.call("parallel", inputs, causal=False), expected[0])
        agree(self.call("recurrent", inputs, **options), expected)
        agree(self.call("chunkwise", inputs, chunk_size=16, **options),
              expected)

    def test_constant_values_come_back(self):
        q, k, v = self.inputs(100)
        for form in ("parallel", "recurrent", "chunkwise"):
            agree(self.call(form, (q, k, np.full_like(v, 2.5))),
                  np.full(v.shape, 2.5), 1e-13)

    def test_seed_and_scale_reach_every_form(self):
        inputs = self.inputs(70)
        first = self.call("parallel", inputs)
        for change in (dict(seed=8), dict(orthogonal=False),
                       dict(scale=self.options["scale"] / 2)):
            o = self.call("parallel", inputs, **change)
            assert np.abs(o - first).max() > 1e-4
            for form in ("recurrent", "chunkwise"):
                agree(self.call(form, inputs, **change), o)
                agree(self.call(form, inputs), first)


class TestPositive(Performer):
    options = dict(n_features=11, kind="positive", seed=7, scale=1.3)


class TestHyperbolic(Performer):
    options = dict(n_features=12, kind="hyperbolic", seed=7, scale=1.3)


class TestTrigonometric(Performer):
    """Enough features, and small inputs: the weights stay positive."""
    options = dict(n_features=40, kind="trigonometric", seed=7, scale=.05)


X, Y = np.array([.5, -.3, .4, .2]), np.array([.3, .6, .5, -.1])


def estimates(kind, orthogonal, m, draws):
    """`draws` estimates of exp(X·Y), each of m rows of its own."""
    if orthogonal:
        Ω = np.concatenate([performer.projection(m, 4, s)
                            for s in range(draws)])
    else:
        Ω = performer.projection(m * draws, 4, 0, orthogonal=False)
    f = performer.features(np.array([X, Y]), Ω, kind)
    terms = f[0] * f[1] * len(Ω)             # the kernel is their mean
    if kind != "positive":
        terms = terms[:len(Ω)] + terms[len(Ω):]
    return terms.reshape(draws, m).mean(1)


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_is_unbiased(kind, orthogonal):
    """The mean over projections is exp(x·y), within four standard errors."""
    kernel = estimates(kind, orthogonal, 8, 3000)
    error = kernel.std() / np.sqrt(len(kernel))
    assert error < .02
    assert abs(kernel.mean() - np.exp(X @ Y)) < 4 * error


@pytest.mark.parametrize("kind", KINDS)
def test_the_variance_is_that_of_lemma_2(kind):
    """Independent rows, m of them."""
    m, exact = 4, np.exp(X @ Y)
    both, apart = ((X + Y) ** 2).sum(), ((X - Y) ** 2).sum()
    mse = {"positive": np.exp(both) * exact ** 2 * (1 - np.exp(-both)) / m,
           "hyperbolic": np.exp(both) * exact ** 2
           * (1 - np.exp(-both)) ** 2 / (2 * m),
           "trigonometric": np.exp(both) * exact ** -2
           * (1 - np.exp(-apart)) ** 2 / (2 * m)}[kind]
    kernel = estimates(kind, False, m, 100_000)
    assert ((kernel - exact) ** 2).mean() == pytest.approx(mse, rel=.1)


def test_orthogonal_rows_have_less_variance():
    apart = estimates("positive", False, 4, 5000).var()
    assert estimates("positive", True, 4, 5000).var() < .9 * apart


def test_projection():
    Ω = performer.projection(11, 4, seed=3)
    assert Ω.shape == (11, 4)
    for block in (Ω[:4], Ω[4:8], Ω[8:]):
        gram = block @ block.T
        assert np.abs(gram - np.diag(np.diag(gram))).max() < 1e-13
    assert not np.allclose(np.linalg.norm(Ω, axis=1), 2)     # not all √d
    assert np.array_equal(Ω, performer.projection(11, 4, 3))
    assert np.array_equal(Ω[:5], performer.projection(5, 4, 3))
    assert not np.array_equal(Ω, performer.projection(11, 4, 4))


def test_rows_have_the_length_of_a_normal_vector():
    """‖ω‖² is χ² with d degrees: mean d, variance 2d."""
    squares = np.concatenate([
        (performer.projection(8, 8, s) ** 2).sum(1) for s in range(500)])
    assert squares.mean() == pytest.approx(8, rel=.03)
    assert squares.var() == pytest.approx(16, rel=.12)
    # … and no direction is preferred.
    rows = np.concatenate([performer.projection(8, 8, s) for s in range(500)])
    assert np.abs(rows.mean(0)).max() < .08
    assert np.abs(rows.T @ rows / len(rows) - np.eye(8)).max() < .12


def test_positive_features_are_positive():
    """Of both kinds; "positive-and-negative" features is a slip of 000."""
    x, _, _ = draw(50, d=4)
    Ω = performer.projection(8, 4, 0)
    assert performer.features(x, Ω, "positive").min() > 0
    assert performer.features(x, Ω, "hyperbolic").min() > 0
    assert performer.features(x, Ω, "trigonometric").min() < 0


@pytest.mark.parametrize("kind", KINDS)
def test_query_features_differ_by_a_factor_of_each_query(kind):
    x, _, _ = draw(20, d=4)
    Ω = performer.projection(8, 4, 0)
    ratio = (performer.features(x, Ω, kind, query=True)
             / performer.features(x, Ω, kind))
    assert (ratio > 0).all() and np.ptp(ratio / ratio[:, :1]) < 1e-12
    assert np.ptp(ratio[:, 0]) > .1


def test_the_keys_factor_stays():
    """Dropping e^{‖k‖²/2} with the query's is 000's error: N = 256, d = 16."""
    q, k, v = np.random.default_rng(0).normal(size=(3, 256, 16))
    exact = softmax.parallel(q, k, v, scale=1)
    gauss = np.exp(-((q[:, None] - k) ** 2).sum(-1) / 2)
    kept = gauss * np.exp((k ** 2).sum(-1) / 2)
    assert np.abs(kept @ v / kept.sum(1, keepdims=True) - exact).max() < 1e-13
    dropped = gauss @ v / gauss.sum(1, keepdims=True)
    assert np.abs(dropped - exact).max() > 2
    # Performer's waves carry it: small inputs, so that they converge.
    x, y = q / 4, k / 4
    exact = softmax.parallel(x, y, v, scale=1)
    gauss = np.exp(-((x[:, None] - y) ** 2).sum(-1) / 2)
    dropped = gauss @ v / gauss.sum(1, keepdims=True)
    o = performer.parallel(x, y, v, n_features=2 ** 14, seed=0, scale=1.,
                           kind="trigonometric", causal=False)
    assert np.abs(o - exact).max() < .2 * np.abs(dropped - exact).max()


def test_more_features_come_closer_to_softmax():
    q, k, v = (.6 * x for x in draw(100, d=8, d_v=4))
    exact = softmax.parallel(q, k, v, causal=True)
    for kind in KINDS:
        few, many = (np.mean([((performer.parallel(
            q, k, v, n_features=m, kind=kind, seed=s) - exact) ** 2).mean()
            for s in range(5)]) for m in (32, 1024))
        assert many < few / 4


def test_default_scale_is_one_over_root_d():
    q, k, v = draw(40, d=9)
    agree(performer.parallel(q, k, v, n_features=16, seed=0),
          performer.parallel(q, k, v, n_features=16, seed=0, scale=1 / 3))


@pytest.mark.parametrize("size", [1e2, 1e10])
def test_long_queries_are_no_trouble(size):
    """Their factor cancels; e^{‖x‖²/2} alone would overflow."""
    q, k, v = draw(30, d=4, dtype=np.float32)
    q = np.float32(size) * q
    for kind in ("positive", "hyperbolic"):
        o = performer.chunkwise(q, k, v, kind=kind, n_features=32, seed=1)
        assert np.abs(o).max() <= np.abs(v).max() * 1.0001
    Ω = performer.projection(16, 4, 1).astype(np.float32)
    f = performer.features(q, Ω, "trigonometric", query=True)
    assert np.allclose((f ** 2).sum(-1), 1, rtol=1e-5)      # cos² + sin²


@pytest.mark.parametrize("form", ["parallel", "recurrent", "chunkwise"])
@pytest.mark.parametrize("kind, message", [
    ("positive", "denominator of row 0"),
    ("hyperbolic", "denominator of row 0"),
    ("trigonometric", r"feature_map\(k\) must be finite")])
def test_keys_too_long_are_refused(form, kind, message):
    q, k, v = draw(30, d=4, dtype=np.float32)
    with pytest.raises(ValueError, match=message):
        getattr(performer, form)(q, 100 * np.sign(k), v, kind=kind,
                                 n_features=32, seed=1)


@pytest.mark.parametrize("form", ["parallel", "recurrent", "chunkwise"])
def test_waves_that_cancel_are_refused(form):
    q, k, v = draw(64, d=8)
    with pytest.raises(ValueError, match=r"denominator of row \d+ must be "
                                         "positive.*it is -"):
        getattr(performer, form)(2 * q, 2 * k, v, n_features=16, seed=0,
                                 kind="trigonometric")


def test_features_name_what_is_wrong():
    x, Ω = np.ones((3, 4)), np.ones((8, 4))
    for change, message in (
            (dict(x=x[:, :3]), "projection must have shape"),
            (dict(x=x.astype(np.float32)), "projection must have shape"),
            (dict(projection=Ω[0]), "projection must have shape"),
            (dict(x=1e200 * x, kind="trigonometric"), "x is too large"),
            (dict(kind="wave"), "kind must be"),
            (dict(query=1), "query must be True or False")):
        with pytest.raises(ValueError, match=message):
            performer.features(**{"x": x, "projection": Ω, **change})
    for bad in (dict(m=0), dict(d=0), dict(seed=1.5), dict(orthogonal=0)):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
            performer.projection(**{"m": 3, "d": 4, "seed": 0, **bad})
