"""The CPU benchmark runs, compares like with like, and records all it must.
"""

import datetime
import json
import re
import subprocess
import sys

import pytest

from lintut.bench import __main__ as command, record

pytest.importorskip("torch")
pytest.importorskip("numba")
from lintut.bench import cpu    # noqa: E402


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    made = cpu.run(quick=True, rounds=1, progress=lambda text: None)
    path = tmp_path_factory.mktemp("bench") / "deep" / "cpu.json"
    record.save(made, path)
    assert json.loads(path.read_text()) == json.loads(json.dumps(made))
    return made


def test_says_what_where_when_and_how(result):
    assert result["what"] and result["command"].startswith("python -m lintut")
    datetime.date.fromisoformat(result["date"])
    assert result["hardware"]["cpu"] and result["hardware"]["cores"] >= 1
    assert {"load_before", "load_after"} <= set(result["hardware"])
    assert re.match(r"\d+\.", result["versions"]["numpy"])
    assert {"python", "torch", "numba", "flash-linear-attention"} <= set(
        result["versions"])
    assert result["settings"]["threads"] == 1
    assert result["settings"]["dtype"] == "float32"


def test_every_form_of_every_mechanism_is_there(result):
    names = {row["name"] for row in result["rows"]}
    for mechanism, forms in {
            "softmax": "parallel blocked recurrent",
            "sliding_window": "parallel banded recurrent",
            "longformer": "parallel banded", "bigbird": "parallel blocked",
            "linformer": "parallel",
            **dict.fromkeys(("linear", "performer", "retention", "gla",
                             "delta", "gated_delta", "hybrid"),
                            "parallel recurrent chunkwise")}.items():
        assert {f"{mechanism}.{form}" for form in forms.split()} <= names
    for peer in ("torch SDPA", "numba token loop (linear)",
                 "bare matmuls of linear.chunkwise"):
        assert peer in names
    assert ("fla" in result["missing"]) != any(
        name.startswith("fla ") for name in names)


def test_rows(result):
    for row in result["rows"]:
        assert 0 < row["low"] <= row["seconds"] <= row["high"]
        assert row["wall"] > 0 and row["rounds"] == 1
        assert row["peak_by"] in ("tracemalloc", "rss")
        if row["peak_by"] == "tracemalloc" and "bare" not in row["name"]:
            assert row["peak_bytes"] >= 4 * row["N"] * cpu.D    # its output
    assert {row["N"] for row in result["rows"]} == set(cpu.QUICK)


def test_aims_are_ratios_of_the_rows(result):
    t = {row["name"]: row["seconds"] for row in result["rows"]
         if row["N"] == result["aims"]["N"]}
    assert result["aims"]["torch SDPA / linear.chunkwise"] == (
        t["torch SDPA"] / t["linear.chunkwise"])
    assert result["aims"]["delta.recurrent / delta.chunkwise"] == (
        t["delta.recurrent"] / t["delta.chunkwise"])


def test_the_table(result, capsys):
    cpu.show(result)
    text = capsys.readouterr().out
    for row in result["rows"]:
        assert row["name"] in text
    assert "linear.chunkwise / its bare matmuls" in text
    assert result["hardware"]["cpu"] in text


def candidate(**row):
    return cpu.Candidate("x", None, work=row.pop("work", "N"),
                         rows={1024: dict(peak_bytes=1) | row})


def test_what_is_too_large_sits_out():
    assert cpu.why_not(candidate(seconds=1), 4096) is None
    assert cpu.why_not(candidate(seconds=2, work="N²"), 4096) == (
        "would take about 32 s")
    assert cpu.why_not(candidate(seconds=2), 4096) is None
    assert cpu.why_not(candidate(seconds=.1, work="N²",
                                 peak_bytes=2 ** 30), 4096) == (
        "would take about 16 GiB")
    assert cpu.why_not(candidate(skipped="too long"), 4096) == "too long"


def test_a_peer_that_computes_something_else_is_refused(monkeypatch):
    def twice():
        return cpu.Candidate("twice", lambda x: lambda: 2 * x["v"],
                             same_as="once")

    once = cpu.Candidate("once", lambda x: lambda: x["v"])
    monkeypatch.setattr(cpu, "candidates", lambda: ([once, twice()], {}))
    with pytest.raises(RuntimeError, match="something else.*twice"):
        cpu.run(quick=True)


def test_missing_peers_are_named(monkeypatch):
    def missing():
        raise ImportError("No module named 'fla'")

    monkeypatch.setattr(cpu, "ours", list)
    monkeypatch.setattr(cpu, "numba_loop", missing)
    monkeypatch.setattr(cpu, "torch_sdpa", missing)
    monkeypatch.setattr(cpu, "fla", missing)
    found, gone = cpu.candidates()
    assert [c.name for c in found] == ["bare matmuls of linear.chunkwise"]
    assert set(gone) == {"numba token loop", "torch SDPA", "fla"}
    assert "not installed" in gone["fla"]


def test_peak_memory_is_seen():
    import numpy as np

    for how in ("tracemalloc", "rss"):
        peak = cpu.peak_bytes(lambda: np.ones(2 ** 22), how)     # 32 MiB
        assert peak is None or .95 < peak / 2 ** 25 < 1.2


def test_the_command_runs_on_one_thread_and_asks_for_help_kindly(capsys):
    with pytest.raises(SystemExit):
        command.main(["tpu"])
    assert "invalid choice" in capsys.readouterr().err
    code = ("import lintut.bench.__main__ as m, sys\n"
            "assert 'numpy' not in sys.modules, 'too late for the threads'\n")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_recorded_results_are_of_this_kind(result):
    path = record.Path(__file__).parent.parent / "results" / "cpu.json"
    if not path.exists():
        pytest.skip("results/cpu.json has not been recorded yet")
    recorded = json.loads(path.read_text())
    assert set(recorded) == set(result)
    assert set(recorded["hardware"]) == set(result["hardware"])
    assert {row["N"] for row in recorded["rows"]} == set(cpu.LENGTHS)
    names, recorded_names = (
        {row["name"] for row in what["rows"]
         if not row["name"].startswith("fla ")}     # where it is installed
        for what in (result, recorded))
    assert recorded_names == names
