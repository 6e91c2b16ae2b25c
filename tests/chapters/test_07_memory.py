"""The limits and special cases that chapter 7 names."""

import numpy as np
import pytest

from lintut.reference import delta, linear, retention
from lintut.reference.feature_maps import dpfp, elu_plus_one, identity


def unit(rng, n, d):
    k = rng.normal(size=(n, d))
    return k / np.linalg.norm(k, axis=1, keepdims=True)


def state(k, v, passes=1):
    again = np.tile(np.arange(len(k)), passes)
    return delta.recurrent(k[again], k[again], v[again], np.ones(len(again)),
                           return_state=True)[1]


def relative(reads, v):
    return ((reads - v) ** 2).sum() / (v ** 2).sum()


def test_two_keys_at_sixty_degrees():
    k, v = np.array([[1, 0], [.5, .75 ** .5]]), np.array([[1.], [2]])
    _, S = retention.recurrent(k, k, v, 1.0, return_state=True)
    assert np.allclose((k @ S)[:, 0], [2, 2.5])
    assert np.allclose(linear.parallel(k, k, v, identity, False)[:, 0],
                       [4 / 3, 5 / 3])
    assert np.allclose((k @ state(k, v))[:, 0], [1.75, 2])


@pytest.mark.parametrize("n, d", [(64, 64), (8, 64), (100, 32)])
def test_random_unit_keys_err_by_n_less_one_over_d(n, d):
    rng, found = np.random.default_rng(1), []
    for _ in range(600):
        k, v = unit(rng, n, d), rng.normal(size=(n, 16))
        found.append(relative(k @ (k.T @ v), v))
    spread = np.std(found) / 600 ** .5
    assert abs(np.mean(found) - (n - 1) / d) < 4 * spread
    assert 4 * spread < 0.14 * (n - 1) / d      # n/d would be seen at n = 8


def test_one_pass_of_delta_at_full_load():
    rng, found = np.random.default_rng(2), []
    for _ in range(60):
        k, v = unit(rng, 64, 64), rng.normal(size=(64, 16))
        found.append(relative(k @ state(k, v), v))
    assert abs(np.mean(found) - 0.598) < 0.015


def test_delta_reads_its_last_write_and_forgets_the_oldest():
    rng, old, new = np.random.default_rng(3), [], []
    for _ in range(200):
        k, v = unit(rng, 33, 16), rng.normal(size=(33, 4))
        reads = k @ state(k, v)
        assert np.allclose(reads[-1], v[-1], atol=1e-12)
        old.append((reads[0] * v[0]).sum() / (v[0] ** 2).sum())
        new.append((reads[-2] * v[-2]).sum() / (v[-2] ** 2).sum())
    assert abs(np.mean(old) - (1 - 1 / 16) ** 32) < 0.1
    assert abs(np.mean(new) - (1 - 1 / 16)) < 0.05


def test_orthogonal_keys_hold_d_records_and_not_one_more():
    rng = np.random.default_rng(4)
    Q = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    v = rng.normal(size=(13, 5))
    assert np.allclose(Q @ (Q.T @ v[:12]), v[:12], atol=1e-12)
    assert np.allclose(Q @ state(Q, v[:12]), v[:12], atol=1e-12)
    k = np.concatenate([Q, unit(rng, 1, 12)])
    best = np.linalg.lstsq(k, v, rcond=None)[0]
    assert relative(k @ best, v) > 1e-3             # no S at all fits 13


def test_many_passes_reach_the_best_state():
    rng = np.random.default_rng(5)
    k, v = unit(rng, 6, 12), rng.normal(size=(6, 3))
    errors = [relative(k @ state(k, v, passes), v) for passes in (1, 5, 200)]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-10


def test_zeros_keep_features_apart_and_positive_ones_cannot():
    x = np.random.default_rng(6).normal(size=(50, 64))
    off = np.triu_indices(50, 1)

    def cosines(f):
        f = f / np.linalg.norm(f, axis=1, keepdims=True)
        return (f @ f.T)[off]

    assert cosines(elu_plus_one(x)).min() > 0.3
    assert cosines(dpfp(x)).mean() < 0.3
    for map_ in (elu_plus_one, dpfp):
        assert (map_(x) >= 0).all()


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    bits = bits + 0x7FFF + ((bits >> 16) & 1)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def test_bf16_is_torchs_and_a_sum_of_ones_sticks_at_256():
    x = np.random.default_rng(7).normal(size=10_000).astype(np.float32)
    x = np.concatenate([x, x * 1e30, [1.00390625, 1.01171875, 0, -2]])
    x = x.astype(np.float32)
    torch = pytest.importorskip("torch")
    assert np.array_equal(bf16(x), torch.tensor(x).bfloat16().float().numpy())
    total = np.float32(0)
    for _ in range(1000):
        total = bf16(total + np.float32(1))
    assert total == 256
    total = np.float16(0)
    for _ in range(3000):
        total += np.float16(1)
    assert total == 2048


# ---- the experiment ----

@pytest.fixture
def retrieval():
    pytest.importorskip("torch")
    from lintut.experiments import retrieval
    return retrieval


@pytest.mark.parametrize("update", ["sum", "delta"])
def test_the_weights_are_those_of_the_state(retrieval, update):
    """Built token by token in NumPy, from the model's own parameters."""
    torch = retrieval.torch
    torch.manual_seed(0)
    n, T, B = 5, 9, 3
    model = retrieval.Retrieval(n, "dpfp-3", update)
    keys, values = torch.randint(n, (2, B, T))
    asked = torch.randint(n, (B, 2))
    with torch.no_grad():
        w = model(keys, values, asked).numpy()
        E, Wk, bk, Wq, bq, Wb, bb = (p.double().numpy() for p in (
            model.embedding, model.k.weight, model.k.bias, model.q.weight,
            model.q.bias, model.beta.weight, model.beta.bias))
    for b in range(B):
        V = np.eye(n)[values[b]]
        x = np.concatenate([E[keys[b]], V], 1)
        fk = dpfp(x @ Wk.T + bk, nu=3)
        fq = dpfp(E[asked[b]] @ Wq.T + bq, nu=3)
        if update == "sum":
            o = fq @ fk.T @ V / (fq @ fk.sum(0))[:, None]
        else:
            fk, fq = (f / f.sum(-1, keepdims=True) for f in (fk, fq))
            S = np.zeros((fk.shape[1], n))
            for t in range(T):
                β = 1 / (1 + np.exp(-(x[t] @ Wb[0] + bb[0])))
                S += np.outer(fk[t], β * (V[t] - S.T @ fk[t]))
            o = fq @ S
        assert np.allclose(w[b] @ V, o, atol=1e-5)


def test_the_answer_is_the_last_value_and_zero_costs_a_half(retrieval):
    torch = retrieval.torch
    keys = torch.tensor([[2, 0, 2, 1], [1, 1, 0, 1]])
    places = retrieval.last_places(keys, 3)
    assert places.tolist() == [[1, 3, 2], [2, 3, -1]]
    values = torch.tensor([[0, 1, 2, 1], [2, 0, 0, 1]])
    zero = retrieval.loss_of(torch.zeros(2, 1, 4), values,
                             torch.tensor([[2], [3]]), 3)
    assert zero.tolist() == [[.5], [.5]]
    right = torch.zeros(2, 1, 4)
    right[0, 0, 2] = right[1, 0, 3] = 1
    assert retrieval.loss_of(right, values, torch.tensor([[2], [3]]),
                             3).tolist() == [[0], [0]]
    keys, values = retrieval.draw(7, 7, False, 4)
    assert (keys.sort().values == torch.arange(7)).all()


def trained(retrieval, seed=1, **point):
    from lintut.experiments.training import timed
    settings = retrieval.DEFAULT | {"steps": point.pop("steps")}
    return timed(retrieval.work, settings, dict(
        {"update": "sum", "keys": "unique", "feature_map": "dpfp-1", "S": 4},
        seed=seed, **point))


def test_it_learns_and_repeats_itself(retrieval):
    assert trained(retrieval, steps=60)["loss"] < 0.1
    hard = {"update": "delta", "keys": "repeated", "feature_map": "favor+64"}
    row, again, other = (trained(retrieval, seed, steps=3, **hard)
                         for seed in (1, 1, 2))
    assert row["loss"] == again["loss"] != other["loss"]


def test_the_record_is_complete(retrieval):
    from lintut.experiments import recorded
    record = recorded("retrieval.json")
    assert record["command"].startswith(
        "python -m lintut.experiments.retrieval")
    assert record["date"] and record["hardware"]["threads"] == 1
    points = retrieval.points(retrieval.DEFAULT)
    loss = {}
    for row in record["rows"]:
        point = row["update"], row["keys"], row["feature_map"], row["S"]
        loss.setdefault(point, []).append(row["loss"])
    assert sum(map(len, loss.values())) == len(record["rows"]) == len(points)
    assert set(loss) == {(p["update"], p["keys"], p["feature_map"], p["S"])
                         for p in points}
    loss = {point: sum(found) / len(found) for point, found in loss.items()}
    assert recorded("no-such-file.json") is None
    for φ, S, published in [("elu+1", 20, .0009), ("elu+1", 40, .0008),
                            ("elu+1", 100, .1715), ("elu+1", 200, .3426),
                            ("elu+1", 600, .4517), ("dpfp-1", 60, .0004),
                            ("dpfp-3", 200, .0009)]:
        assert abs(loss["sum", "unique", φ, S] - published) < 0.015
    assert loss["sum", "unique", "elu+1", 100] > 5 * (
        loss["sum", "unique", "dpfp-1", 100])
    for S in (20, 60, 100):
        assert loss["delta", "repeated", "dpfp-1", S] < (
            loss["sum", "repeated", "dpfp-1", S])
