"""The trained experiments: the model, the tasks, the runner, the figures."""

import copy
import importlib
import json
import re

import numpy as np
import pytest

from lintut.experiments import recorded

torch = pytest.importorskip("torch")

from lintut.experiments import (                            # noqa: E402
    copy_task, distance, figures, model, mqar, overwrite, retrieval,
    training)

MODULES = {"mqar": mqar, "distance": distance, "overwrite": overwrite,
           "copy": copy_task}
ALL = {**MODULES, "retrieval": retrieval}
IGNORE = training.IGNORE


# ---- the model ----

def small(mechanism, **more):
    torch.manual_seed(3)
    return model.Model(mechanism, 11, D=16, d=8, window=5, **more)


@pytest.mark.parametrize("mechanism", model.MECHANISMS)
def test_no_token_sees_a_later_one(mechanism):
    net = small(mechanism, positions=80)
    tokens = torch.randint(11, (2, 80))
    changed = tokens.clone()
    changed[:, 70:] = (changed[:, 70:] + 1 + torch.randint(10, (2, 10))) % 11
    with torch.no_grad():
        before, after = net(tokens), net(changed)
    assert torch.allclose(before[:, :70], after[:, :70], atol=1e-5)
    assert ((before - after)[:, 70:].abs().amax(-1) > 1e-3).all()


@pytest.mark.parametrize("mechanism", model.MECHANISMS)
def test_every_parameter_learns(mechanism):
    net = small(mechanism, positions=12)
    tokens = torch.randint(11, (4, 12))
    before = {name: p.clone() for name, p in net.named_parameters()}
    training.fit(net, lambda source: (tokens, tokens), 0, 1, 0.01)
    for name, p in net.named_parameters():
        assert p.grad.isfinite().all() and p.grad.abs().max() > 0, name
        assert not torch.equal(p, before[name]), name


def test_the_past_is_what_a_rule_lets_through():
    """One mixer, the first token changed: a window ends, a state goes on."""
    x = torch.randn(1, 30, 16)
    changed = x.clone()
    changed[:, 0] += 1
    reached = {}
    for rule in model.RULES:
        torch.manual_seed(0)
        mixer = model.Mixer(rule, 16, heads=2, d=8, window=5, taps=1)
        with torch.no_grad():
            moved = (mixer(x) - mixer(changed)).abs().amax(-1)[0] > 1e-6
        reached[rule] = int(moved.nonzero().max()) + 1
    assert reached.pop("sliding_window") == 5
    assert set(reached.values()) == {30}


def test_the_rules_of_a_hybrid_take_turns():
    assert model.rules("hybrid", 3) == ["linear", "sliding_window", "linear"]
    assert model.rules("hybrid_window_first", 2) == ["sliding_window",
                                                     "linear"]
    assert model.rules("gla", 2) == ["gla", "gla"]
    with pytest.raises(ValueError, match="mechanism must be one of"):
        model.rules("mamba", 2)


def test_gates_are_those_of_the_papers():
    torch.manual_seed(0)
    mixer = model.Mixer("gla", 16, heads=2, d=8, window=5)
    x = 3 * torch.randn(2, 5, 16)
    expected = torch.sigmoid(-mixer.alpha(x)) ** (1 / 16)
    assert torch.allclose(mixer.decay(x), expected, atol=1e-6)
    assert mixer.decay(x).shape == (2, 5, 16)
    assert model.Mixer("gated_delta", 16, 2, 8, 5).decay(x).shape == (2, 5, 2)


@pytest.mark.parametrize("mechanism, numbers", [
    ("softmax", 100 * 16), ("sliding_window", 5 * 16), ("linear", 8 * 8 + 8),
    ("retention", 64), ("gla", 64), ("delta", 64), ("gated_delta", 64),
    ("hybrid", (5 * 16 + 8 * 8 + 8) / 2)])
def test_the_numbers_kept(mechanism, numbers):
    assert model.state_size(mechanism, 100, 8, 5) == numbers


# ---- the tasks: answers by a loop that knows only the tokens ----

def test_mqar_answers():
    tokens, wanted = mqar.draw(training.generator(1), 20, 5, 9, 6)
    for row, want in zip(tokens.tolist(), wanted.tolist()):
        held = {row[i]: row[i + 1] for i in range(0, 10, 2)}
        assert want == [IGNORE] * 10 + [held[key] for key in row[10:]]
        assert set(row[10:]) == set(held) and len(held) == 5
        assert all(k < 9 <= v < 15 for k, v in held.items())
    assert (tokens[:, 10:] != tokens[:, :10:2]).any()


def test_distance_answers():
    s = dict(keys=9, values=6, filler=4, facts=3)
    tokens, wanted = distance.draw(training.generator(1), 20, 7, s, 2)
    assert tokens.shape == (20, 19)
    for row, want in zip(tokens.tolist(), wanted.tolist()):
        held = {row[i]: row[i + 1] for i in range(0, 6, 2)}
        assert all(15 <= x < 19 for x in row[6:13])
        assert want == [IGNORE] * 13 + [held[key] for key in row[13:]]
        assert sorted(row[13:]) == sorted(2 * list(held)) and len(held) == 3


def test_overwrite_answers():
    keys, values, n = 12, 5, 4
    reset, nothing = 17, 18
    tokens, wanted = overwrite.draw(training.generator(1), 30, n, keys,
                                    values)
    assert tokens.shape == (30, 14 * n + 3)
    for row, want in zip(tokens.tolist(), wanted.tolist()):
        held, ever, key, answers = {}, {}, None, []
        for i, x in enumerate(row):
            if i >= 3 + 12 * n:
                assert x in ever            # a question
                answers.append(held.get(x, nothing))
            elif x == reset:
                held = {}
            elif x < keys:
                key = x
            else:
                held[key] = x
                ever.setdefault(key, []).append(x)
        assert want == [IGNORE] * (3 + 12 * n) + answers
        assert answers.count(nothing) == n and len(held) == n
        assert row.count(reset) == 3
        assert all(len(said) >= 2 for said in ever.values())


def test_copy_answers():
    tokens, wanted = copy_task.draw(training.generator(1), 6, 5, 10)
    assert tokens.shape == (6, 10)
    for row, want in zip(tokens.tolist(), wanted.tolist()):
        assert row[5] == 10 and row[6:] == row[:4]
        assert want == [IGNORE] * 5 + row[:5]


def test_accuracy_counts_what_is_asked():
    class Echo(torch.nn.Module):
        def forward(self, tokens):
            return torch.nn.functional.one_hot(tokens, 5).float()

    tokens = torch.tensor([[0, 1, 2, 3]]).repeat(100, 1)
    wanted = torch.tensor([[IGNORE, 1, 4, 3]]).repeat(100, 1)
    assert training.accuracy(Echo(), tokens, wanted) == pytest.approx(2 / 3)
    assert training.accuracy(Echo(), tokens, wanted, wanted == 4) == 0


def test_it_learns_and_repeats_itself():
    def losses():
        torch.manual_seed(1)
        net = model.Model("linear", 5, D=32, d=8, positions=6)
        return training.fit(net, lambda source: copy_task.draw(
            source, 16, 3, 4), 2, 100, 0.01)

    first = losses()
    assert first[0] > 1.2 and np.mean(first[-10:]) < 0.5
    assert losses() == first


# ---- the runner ----

@pytest.mark.parametrize("name", ALL)
def test_a_quick_run_and_its_second(name, tmp_path, capsys, monkeypatch):
    module, out = ALL[name], tmp_path / "record.json"
    monkeypatch.setattr("sys.argv", ["x", "--quick"])
    record = module.main(["--quick", "--out", str(out)])
    settings = {**module.DEFAULT, **module.QUICK}
    assert len(record["rows"]) == len(module.points(settings))
    saved = json.loads(out.read_text())
    assert saved["rows"] == record["rows"]
    assert saved["command"].startswith("python -m lintut.experiments.")
    assert saved["versions"]["torch"] and saved["hardware"]["cpu"]

    def never(settings, point):
        raise AssertionError("trained again")

    monkeypatch.setattr(module, "work", never)
    assert module.main(["--quick", "--out", str(out)])["rows"] == (
        record["rows"])
    assert json.loads(out.read_text()) == saved
    with pytest.raises(SystemExit, match="other settings"):
        module.main(["--out", str(out)])
    assert json.loads(out.read_text()) == saved
    total, printed = len(record["rows"]), capsys.readouterr().out
    assert f"[{20 * '#'}] {total}/{total}" in printed
    assert f"{total} of {total} points are there" in printed


@pytest.mark.parametrize("name", ALL)
def test_a_preset_changes_settings_that_there_are(name):
    module = ALL[name]
    assert set(module.LARGE) | set(module.QUICK) <= set(module.DEFAULT)
    large = {**module.DEFAULT, **module.LARGE}
    assert len({point["seed"] for point in module.points(large)}) >= 3
    assert large["steps"] > module.DEFAULT["steps"]
    assert large.get("pairs", [0])[-1] <= large.get("keys", 0)
    assert 2 * max(np.ravel(large.get("facts", 0))) <= large.get("keys", 0)


def test_only_the_missing_point_is_trained(tmp_path):
    points = [{"mechanism": m, "seed": s} for m in ("a", "b")
              for s in (0, 1)]
    trained = []

    def work(settings, point):
        trained.append(point)
        return {"accuracy": len(trained)}

    def run(seeds=2):
        return training.run("test", "what", {"steps": 1, "seeds": seeds},
                            points, work, tmp_path / "r.json")

    run()
    assert trained == points
    record = json.loads((tmp_path / "r.json").read_text())
    del record["rows"][2]
    (tmp_path / "r.json").write_text(json.dumps(record))
    rows = run()["rows"]
    assert trained[4:] == [points[2]]
    assert [row["accuracy"] for row in rows] == [1, 2, 5, 4]
    points.append({"mechanism": "c", "seed": 0})    # a longer plan
    rows = run(seeds=3)["rows"]
    assert [row["accuracy"] for row in rows] == [1, 2, 5, 4, 6]


def test_a_record_is_saved_whole_or_not_at_all(tmp_path, monkeypatch):
    from lintut.bench import record

    path, write = tmp_path / "r.json", type(tmp_path).write_text
    record.save({"rows": [{"seed": 0}]}, path)
    before = path.read_text()

    def stopped(self, text, *more, **named):
        write(self, text[:len(text) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(type(tmp_path), "write_text", stopped)
    with pytest.raises(KeyboardInterrupt):
        record.save({"rows": [{"seed": 0}, {"seed": 1}]}, path)
    assert path.read_text() == before


def test_an_interrupted_run_keeps_its_rows_and_goes_on(tmp_path):
    points, stop = [{"seed": seed} for seed in range(5)], [3]

    def work(settings, point):
        if point["seed"] in stop:
            raise KeyboardInterrupt
        return {"accuracy": point["seed"]}

    def run():
        return training.run("test", "what", {"steps": 1}, points, work,
                            tmp_path / "r.json")

    with pytest.raises(KeyboardInterrupt):
        run()
    kept = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [row["seed"] for row in kept] == [0, 1, 2]
    stop.clear()
    assert run()["rows"][:3] == kept
    after = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [row["seed"] for row in after] == [0, 1, 2, 3, 4]


# ---- the figures ----

FILES = {"mqar": "mqar.json", "distance": "distance.json",
         "overwrite": "overwrite.json", "copy": "copy.json"}
FIELDS = {"mqar_pairs": "accuracy", "mqar_state": "accuracy",
          "distance": "accuracy", "overwrite": "now", "forget": "dropped",
          "copy": "loss"}


def invented(name):
    """A record of the shape that the experiment makes, with set numbers."""
    module = MODULES[name]
    s = {**module.DEFAULT, **module.QUICK, "seeds": [0, 1, 2]}
    if name == "mqar":
        s["widths"] = [8, 16]
    size = {"copy": s["steps"] // s.get("stretch", 1)}.get(name, 2)
    rows = [{**point, "pairs": s.get("pairs"), "state": 8.0 * point.get(
                 "d", 0) + len(point["mechanism"]),
             "accuracy": .5 if name == "copy" else [.25] * size,
             "now": [.25] * size, "dropped": [.25] * size,
             "loss": [.25] * size, "cpu_seconds": 60}
            for point in module.points(s)]
    return {"settings": s, "rows": rows, "date": "2026-01-01",
            "versions": {"torch": "9"}, "command": "python -m x",
            "hardware": {"gpu": None, "cpu": "a processor"}}


@pytest.mark.parametrize("figure", figures.FIGURES)
def test_words_and_lines_come_from_the_record(figure):
    draw, file = figures.FIGURES[figure]
    record = invented(next(n for n in FILES if FILES[n] == file))
    changed = copy.deepcopy(record)
    for row, up in zip((r for r in changed["rows"]
                        if r["mechanism"] == "delta"), (.1, .2, .6) * 2):
        row[FIELDS[figure]][-1] += up           # their mean: .55
    (fig, *words), (fig2, *words2) = draw(record), draw(changed)
    for before, after in zip(words, words2):
        old = re.search(r"(?<!gated )delta ([\d.]+)", before).group(1)
        assert float(old) in (25, .25)
        assert not re.search(r"(?<!gated )delta (55|0\.55)", before)
        assert re.search(r"(?<!gated )delta [^,;]*(55|0\.550)", after)
        assert "seeds" in words2[1] and "3 seeds" in words2[1]
    line, = (t for t in fig2.data if t.name == "delta")
    assert line.y[-1] == pytest.approx(.55)
    assert line.y[-1] + line.error_y.array[-1] == pytest.approx(.85)
    assert line.y[-1] - line.error_y.arrayminus[-1] == pytest.approx(.35)


def test_seeds_that_learned_nothing_are_named():
    record = invented("distance")
    for row in record["rows"]:
        row["accuracy"] = [.9, .1]
    assert "had not learned" not in figures.distance(record)[2]
    record["rows"][0]["accuracy"] = [.1, .1]
    name = figures.NAMES[record["rows"][0]["mechanism"]]
    assert f"at the shortest): {name} 1. " in figures.distance(record)[2]


def test_without_a_record_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(figures, "recorded", lambda file: None)
    figures.show("copy")
    assert "results/copy.json is not here" in capsys.readouterr().out


# ---- the records that the book shows ----

@pytest.mark.parametrize("name", ALL)
def test_a_record_is_whole(name):
    module = ALL[name]
    record = recorded(FILES.get(name, f"{name}.json"))
    settings = json.loads(json.dumps(module.DEFAULT))
    assert record["settings"] == settings
    points = module.points(settings)
    assert [{k: row[k] for k in points[0]} for row in record["rows"]] == (
        points)
    assert len({point["seed"] for point in points}) >= 3
    module_name = module.__name__.rsplit(".", 1)[1]
    assert record["command"].startswith(
        f"python -m lintut.experiments.{module_name} --out results/")
    assert record["date"] and record["versions"]["torch"]
    assert record["hardware"]["cpu"] and record["hardware"]["threads"] == 1
    assert importlib.import_module(module.__name__).WHAT == record["what"]


RECORDS = [*FILES.values(), "retrieval.json", "decode.json", "speedup.json",
           "performer_error.json"]


@pytest.mark.parametrize("file", RECORDS)
def test_the_default_takes_ten_minutes_on_two_cores(file):
    """By the processor time of its models, which run side by side.

    The wall clock of these runs says what else the machine had to do.
    """
    record = recorded(file)
    busy = [row["cpu_seconds"] for row in record["rows"]]
    processes = record["hardware"]["processes"]
    assert processes <= 2 and record["hardware"]["gpu"] is None
    assert sum(busy) / processes < 600


def test_two_processes_are_the_default(monkeypatch):
    seen = []
    monkeypatch.setattr(training, "run", lambda *args: seen.append(args[6]))
    monkeypatch.setattr(training.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(training, "device", lambda: "cpu")
    for module in ALL.values():
        module.main([])
    assert seen == [2] * len(ALL)


def test_the_retrieval_runs_where_the_record_says(monkeypatch):
    monkeypatch.setattr(training, "device", lambda: "meta")
    monkeypatch.setattr(retrieval, "train",
                        lambda *args: torch.randn(2).device.type)
    assert retrieval.work({}, {}) == "meta"
    assert torch.randn(2).device.type == "cpu"


def test_two_processes_train_what_one_does():
    runs = [copy_task.main(["--quick", "--jobs", jobs])["rows"]
            for jobs in "12"]
    for a, b in zip(*runs):
        assert {k: v for k, v in a.items() if "seconds" not in k} == {
            k: v for k, v in b.items() if "seconds" not in k}
