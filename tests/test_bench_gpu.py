"""The GPU benchmark's script, tried out on the CPU with tiny sizes."""

import inspect
import json
import math

import pytest

torch = pytest.importorskip("torch")

from lintut.bench import __main__ as command, gpu, record   # noqa: E402
from lintut.kernels import (delta, gated_delta, gla, linear,   # noqa: E402
                            retention)


@pytest.fixture(scope="module")
def result():
    return gpu.run(quick=True, device="cpu", progress=lambda text: None)


def test_every_mechanism_and_pass_is_timed(result):
    timed = {(row["pass"], row["mechanism"]) for row in result["rows"]
             if "seconds" in row}
    assert timed == {(what, mechanism) for what in gpu.PASSES
                     for mechanism in gpu.KEYWORDS}
    names = {row["name"] for row in result["rows"]}
    assert {"lintut torch", "SDPA flash", "SDPA math"} <= names
    assert "SDPA cudnn" in str(result["not_timed"])
    assert "GPU" in result["missing"]["fla"]


def test_rows(result):
    for row in result["rows"]:
        assert 0 < row["low"] <= row["seconds"] <= row["high"]
        assert row["T"] in (48, 80) and row["d"] == 16 and row["H"] == 2
        assert row["B"] == (2 if row["T"] == 48 else 1)
        limits = result["ceilings"]
        assert row["roofline"] == max(row["flops"] / limits["flops"],
                                      row["bytes"] / limits["bytes"])
    assert all(aim["times_as_fast"] > 0 for aim in result["aims"])
    assert {aim["peer"] for aim in result["aims"]} == {"SDPA flash"}


def test_recorded_and_shown(result, tmp_path, capsys):
    record.save(result, tmp_path / "gpu.json")
    saved = json.loads((tmp_path / "gpu.json").read_text())
    assert saved == json.loads(json.dumps(result))
    assert saved["date"] and saved["versions"]["torch"]
    gpu.show(saved)
    shown = capsys.readouterr().out
    for text in ("forward+backward, d = 16", "gated_delta: lintut torch",
                 "TFLOP/s", "as fast", "SDPA cudnn: "):
        assert text in shown


def test_what_computes_something_else_is_not_timed():
    """Wrong in one gradient, not finite, and not at all."""
    def off(x):
        right = linear.chunkwise(x["q"], x["k"], x["v"])
        return right + 1e-2 * (x["v"] - x["v"].detach())

    def nan(x):
        return linear.chunkwise(x["q"], x["k"], x["v"]) * math.nan

    made = [gpu.Candidate(name, "linear", run, None, ("q", "k", "v"))
            for name, run in (("off", off), ("nan", nan), (
                "right", lambda x: linear.chunkwise(x["q"], x["k"], x["v"])))]
    errors = gpu.check(made, "cpu", torch.float32, gpu.PLANS["cpu", True])
    verdict = {name: gpu.wrong(e, torch.float32)
               for name, e in errors.items()}
    assert "v is off by" in verdict["linear: off"]
    assert "wrong" in verdict["linear: nan"]
    assert verdict["linear: right"] is None


def test_work():
    """By hand: causal softmax compares T(T + 1)/2 pairs, 4d FLOPs each."""
    T, d, B, H = 100, 16, 3, 2
    args = (T, d, B, H, torch.float16)
    pairs = T * (T + 1) // 2
    assert gpu.work("softmax", "forward", *args) == (
        4 * d * pairs * B * H, 2 * 4 * T * d * B * H)
    flops, moved = gpu.work("softmax", "forward+backward", *args)
    assert flops == 3.5 * 4 * d * pairs * B * H
    assert moved == 2 * 12 * T * d * B * H
    assert gpu.work("softmax", "decode", *args) == (
        4 * T * d * B * H, 2 * (T + 2) * 2 * d * B * H)
    # All 100 keys are in the window of 256.
    assert gpu.work("sliding_window", "forward", *args) == gpu.work(
        "softmax", "forward", *args)
    flops, moved = gpu.work("retention", "decode", *args)
    assert flops == 4 * d * d * B * H
    assert moved == 4 * (4 * d + 2 * d * d) * B * H


def test_slow_and_large_ones_sit_out():
    plan = gpu.PLANS["cpu", True]
    c = gpu.Candidate("x", "softmax", None, None, ())
    assert gpu.why_not(c, "forward", 16, 48) is None
    c.rows["forward", 16, 48] = dict(seconds=gpu.SLOWEST / 3)
    assert gpu.why_not(c, "forward", 16, 80) is None
    assert "would take" in gpu.why_not(c, "forward", 16, 96)
    c.rows["forward", 16, 96] = dict(skipped="would take about 4 s")
    assert "would take" in gpu.why_not(c, "forward", 16, 192)
    assert gpu.why_not(c, "decode", 16, 192) is None
    c = gpu._ours("softmax", "torch", gpu.KEYWORDS["softmax"])
    gpu.measure([c], "forward", 48, 16, plan, "cpu", torch.float32, over=0.0)
    assert "time was over" in c.rows["forward", 16, 48]["skipped"]


def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench", "gpu", "--device", "cpu"])
    monkeypatch.setattr(gpu, "KEYWORDS", {"linear": lambda x: {}})
    monkeypatch.setattr(gpu, "sdpa", lambda: [])
    command.main(["gpu", "--quick", "--device", "cpu", "--out",
                  str(tmp_path / "x.json")])
    assert "linear: lintut torch" in capsys.readouterr().out
    assert json.loads((tmp_path / "x.json").read_text())["rows"]
    if not torch.cuda.is_available():
        with pytest.raises(SystemExit, match="no GPU here"):
            gpu.run()


def test_fla_is_called_with_what_it_takes(monkeypatch):
    """Its kernels replaced by ours, behind their own signatures."""
    pytest.importorskip("fla")
    import fla.ops.delta_rule
    import fla.ops.gated_delta_rule
    import fla.ops.gla
    import fla.ops.linear_attn
    import fla.ops.retention

    def stand_in(package, name, compute):
        signature = inspect.signature(getattr(package, name))

        def call(*args, **keywords):
            a = signature.bind(*args, **keywords).arguments
            assert a["scale"] == 1.0
            return compute(a)
        monkeypatch.setattr(package, name, call)

    def decay(a):
        return 1 - 2.0 ** -(5 + torch.arange(a["q"].shape[2]))

    def same(phi):
        return phi

    for package, names, module, keywords in (
            (fla.ops.linear_attn, "linear_attn", linear,
             lambda a: dict(feature_map=same) | dict(
                 initial_state=(a["initial_state"][0],
                                a["initial_state"][1][:, 0]))
             if "initial_state" in a else dict(feature_map=same)),
            (fla.ops.retention, "retention", retention,
             lambda a: dict(gamma=decay(a))),
            (fla.ops.gla, "gla", gla,
             lambda a: dict(alpha=a.get("g", a.get("gk")).exp())),
            (fla.ops.delta_rule, "delta_rule", delta,
             lambda a: dict(beta=a["beta"])),
            (fla.ops.gated_delta_rule, "gated_delta_rule", gated_delta,
             lambda a: dict(alpha=a["g"].exp(), beta=a["beta"]))):
        for prefix in ("chunk", "fused_recurrent"):
            stand_in(package, f"{prefix}_{names}", lambda a, m=module,
                     k=keywords: m.chunkwise(a["q"], a["k"], a["v"], **dict(
                         initial_state=a.get("initial_state"),
                         return_state=True) | k(a)))
    made = list(gpu.fla())
    assert [c.mechanism for c in made] == [
        "linear", "retention", "gla", "delta", "gated_delta"]
    plan = gpu.PLANS["cpu", True]
    errors = gpu.check(made, "cpu", torch.float32, plan)
    for name, error in errors.items():
        assert gpu.wrong(error, torch.float32) is None, (name, error)
    x = gpu.inputs(80, 16, plan, "cpu", torch.float32)
    for c in made:
        mine = gpu._ours(c.mechanism, "torch", gpu.KEYWORDS[c.mechanism])
        theirs = gpu.prepare(c, "decode", x)()
        assert torch.allclose(gpu.prepare(mine, "decode", x)(), theirs,
                              atol=1e-5), c.mechanism
