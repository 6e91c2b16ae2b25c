"""The timing experiments and the Performer's error: runs, records, figures."""

import copy
import json
import re
import time

import numpy as np
import pytest

from lintut import cost
from lintut.experiments import recorded

torch = pytest.importorskip("torch")

from lintut.experiments import (                            # noqa: E402
    decode, performer_error, speedup, timing, timing_figures, training)
from lintut.reference import linformer, softmax             # noqa: E402

MODULES = {"decode": decode, "speedup": speedup,
           "performer_error": performer_error}


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """{name: (file, record)} of a quick run of each."""
    folder, result = tmp_path_factory.mktemp("records"), {}
    for name, module in MODULES.items():
        file = folder / f"{name}.json"
        module.main(["--quick", "--out", str(file)])
        result[name] = file, json.loads(file.read_text())
    return result


# ---- the clock ----

def test_turns_measure_work_and_not_sleep(monkeypatch):
    monkeypatch.setattr(timing, "SHORTEST", 1e-5)       # few repeats
    spin = torch.randn(300, 300)
    calls = {"work": lambda: spin @ spin,
             "ten": lambda: [spin @ spin for _ in range(10)],
             "sleep": lambda: time.sleep(.02), "none": None}
    got = timing.interleaved(calls, 3)
    work, ten, sleep, none = got["median"]
    assert ten > 2 * work and none is None
    assert sleep < got["wall"][2] / 4 and got["wall"][2] > .019
    for low, middle, high in zip(got["low"][:3], got["median"], got["high"]):
        assert low <= middle <= high


def test_short_calls_are_repeated():
    assert timing.repeats(lambda: None) > 100
    assert timing.repeats(lambda: sum(range(10 ** 6))) == 1


# ---- what is measured ----

def test_a_decoding_step_is_the_last_token_of_the_sequence():
    s = decode.DEFAULT | decode.QUICK | {"recomputed_up_to": 99}
    for t in (4, 9):
        every = decode.calls(s, t)
        cached, anew = every["softmax"]()[0], every["recomputed"]()[0]
        assert torch.allclose(cached, anew, atol=1e-5)
        for name, call in every.items():
            o, state = call()
            assert o.shape == (1, 1, s["heads"], s["d"]), name
            assert o.isfinite().all(), name
            expected = cost.of(
                "softmax" if name == "recomputed" else name, N=t, d=s["d"],
                w=s["window"], heads=s["heads"], dtype="float32")
            assert decode.carried(state) == expected.state_bytes, name
    assert decode.calls(decode.DEFAULT | decode.QUICK, 9)[
        "recomputed"] is None


def test_speedup_times_what_the_reference_computes():
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 12, d)) for d in (5, 5, 3))
    E, F = rng.normal(size=(2, 4, 12))
    tensors = [torch.from_numpy(x) for x in (q, k, v, E, F)]
    assert np.allclose(speedup.full(*tensors[:3]), softmax.parallel(q, k, v))
    assert np.allclose(speedup.linformer(*tensors),
                       linformer.parallel(q, k, v, E, F))


def test_errors_shrink_with_features_and_need_small_inputs():
    s = performer_error.DEFAULT | {"N": 256, "features": [16, 1024]}
    rows = [performer_error.work(s, {"sigma": .5, "seed": seed})
            for seed in range(5)]
    few, many = np.median([row["errors"] for row in rows], 0).T
    assert (many < few / 4).all()
    large = performer_error.work(s, {"sigma": 1.0, "seed": 0})
    assert (np.array(large["errors"])[:, 1] > 10 * many).all()
    again = performer_error.work(s, {"sigma": 1.0, "seed": 0})
    assert again == large


@pytest.mark.parametrize("row", [3, 18])
def test_a_row_of_the_record_comes_out_again(row):
    record = recorded("performer_error.json")
    row = record["rows"][row]
    again = performer_error.work(record["settings"], {
        "sigma": row["sigma"], "seed": row["seed"]})
    for name in ("errors", "mean_of_v"):
        np.testing.assert_allclose(again[name], row[name], rtol=1e-3)


def test_the_rows_are_not_the_queries():
    """One seed for both would make the rows of Ω those of q."""
    s = performer_error.DEFAULT | {"N": 256, "features": [256]}
    for seed in range(3):
        q = np.random.default_rng(seed).normal(size=(256, s["d"]))
        omega = performer_error.performer.projection(
            256, s["d"], performer_error.OTHER + seed, orthogonal=False)
        assert np.abs(np.corrcoef(q.ravel(), omega.ravel())[0, 1]) < .1
        row = performer_error.work(s, {"sigma": .5, "seed": seed})
        # positive iid: .3 to .6 of it, and 1.8 to 3.7 with one seed for both
        assert row["errors"][1][0] < row["mean_of_v"]


def test_the_mean_of_v_is_what_no_features_would_give():
    s = performer_error.DEFAULT | {"N": 64, "d": 4, "features": [16]}
    row = performer_error.work(s, {"sigma": 0.0, "seed": 3})
    assert row["mean_of_v"] < 1e-25                 # all weights are equal
    assert np.max(row["errors"]) < 1e-25


# ---- records ----

@pytest.mark.parametrize("name", MODULES)
def test_a_gpu_beside_it_is_not_said_to_have_measured(name, monkeypatch):
    monkeypatch.setattr(training, "device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    record = MODULES[name].main(["--quick", "--jobs", "1"])
    assert record["hardware"]["gpu"] is None


@pytest.mark.parametrize("name", MODULES)
def test_a_record_says_what_where_and_when(quick, name):
    _, record = quick[name]
    assert f"lintut.experiments.{name}" in record["command"]
    assert record["what"] == MODULES[name].WHAT
    assert record["hardware"]["cpu"] and "load" in record["hardware"]
    assert record["versions"]["torch"] and re.match(r"\d{4}-", record["date"])
    if name != "performer_error":
        assert record["hardware"]["processes"] == 1
        assert all("load" in row for row in record["rows"])


@pytest.mark.parametrize("name", MODULES)
def test_the_record_that_the_book_shows_is_whole(name):
    """Made by the default settings, every point in its place."""
    record, module = recorded(f"{name}.json"), MODULES[name]
    settings = json.loads(json.dumps(module.DEFAULT))
    assert record["settings"] == settings and record["what"] == module.WHAT
    points = module.points(settings)
    assert [{k: row[k] for k in points[0]} for row in record["rows"]] == (
        points)
    assert record["command"] == (f"python -m lintut.experiments.{name} "
                                 f"--jobs 1 --out results/{name}.json")
    assert record["hardware"]["threads"] == 1
    assert record["hardware"]["gpu"] is None


@pytest.mark.parametrize("name", MODULES)
def test_an_interrupted_run_goes_on(quick, name, monkeypatch):
    file, record = quick[name]
    kept = record["rows"][0]
    file.write_text(json.dumps(record | {"rows": [kept]}))
    done = []
    module = MODULES[name]
    real = module.work
    monkeypatch.setattr(module, "work", lambda s, point: (
        done.append(point), real(s, point))[1])
    module.main(["--quick", "--out", str(file)])
    after = json.loads(file.read_text())["rows"]
    assert after[0] == kept and len(done) == len(record["rows"]) - 1
    assert len(after) == len(record["rows"])
    with pytest.raises(SystemExit, match="other settings"):
        module.main(["--out", str(file)])


# ---- figures ----

def drawn(figure):
    return {trace.name: (np.array(trace.x), np.array(trace.y, float))
            for trace in figure.data}


@pytest.mark.parametrize("figure", timing_figures.FIGURES)
def test_figures_draw_the_records_numbers(quick, figure):
    draw, file = timing_figures.FIGURES[figure]
    for record in (quick[file[:-5]][1], recorded(file)):
        if record is None:
            continue
        fig, alt, caption = draw(record)
        assert alt and caption and timing_figures.provenance(record)
        changed = copy.deepcopy(record)
        for row in changed["rows"]:
            for field in ("median", "low", "high"):
                if field in row:
                    row[field][0] *= 3              # softmax
            if "errors" in row:
                row["errors"] = (3 * np.array(row["errors"])).tolist()
        other, other_alt, other_caption = draw(changed)
        before, after = drawn(fig), drawn(other)
        for name, (x, y) in before.items():
            there = np.isfinite(y)
            ratio = after[name][1][there] / y[there]
            assert there.any()
            moves = (name in ("KV cache", "m = 64", "m = 128", "m = 256",
                              "m = 2", "m = 4")
                     or "orth." in name or "iid" in name)
            assert np.allclose(ratio, 3 if moves else 1), name
        assert other_caption != caption and other_alt != alt


def test_decode_ratios_are_the_records(quick):
    _, record = quick["decode"]
    names = record["settings"]["names"]
    row = record["rows"][0]
    anew, cached = timing_figures.decode_ratios(record)[row["position"]]
    linear = row["median"][names.index("linear")]
    assert cached == row["median"][0] / linear
    assert anew == row["median"][names.index("recomputed")] / linear
