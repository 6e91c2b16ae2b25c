"""One training loop, and one way to run and record, for trained experiments.

A *task* draws sequences: tokens (B, T) and the symbol wanted at each place
(B, T), `IGNORE` where nothing is asked.  A *point* is one model to train, a
dict such as {"mechanism": "delta", "d": 16, "seed": 0}; a *row* is a point
and what came of it.  An experiment's module has

    WHAT        what it measures, in words
    DEFAULT     its settings; LARGE and QUICK say what they change
    points(settings)            the points, in the order to run them
    work(settings, point)       trains one; the row

and ends in `training.command("name", …)`.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from functools import partial
from pathlib import Path

from lintut._optional import require
from lintut.bench import record

torch = require("torch", "kernels", "lintut.experiments.training")
F = torch.nn.functional

IGNORE = -100
WARM_UP = 50            # steps

# Settings that say which points there are, and change none of them.
PLAN = ("mechanisms", "widths", "seeds", "points")


def device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def generator(seed):
    return torch.Generator().manual_seed(seed)


def loss_of(model, tokens, wanted):
    """Cross-entropy (nats) at the places where something is asked."""
    scores = model(tokens.to(device()))                 # (B, T, symbols)
    return F.cross_entropy(scores.flatten(0, 1),
                           wanted.to(device()).flatten(),
                           ignore_index=IGNORE)


def fit(model, draw, seed, steps, learning_rate, weight_decay=0.1):
    """Train on `draw(generator)`; the loss of every step.

    AdamW; the rate rises for `WARM_UP` steps and falls as a cosine to 0.
    """
    source, losses = generator(seed), []
    optimiser = torch.optim.AdamW(model.to(device()).parameters(),
                                  learning_rate, weight_decay=weight_decay,
                                  fused=True)
    for step in range(steps):
        rate = (min(1, (step + 1) / WARM_UP)
                * (1 + math.cos(math.pi * step / steps)) / 2)
        optimiser.param_groups[0]["lr"] = rate * learning_rate
        loss = loss_of(model, *draw(source))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def accuracy(model, tokens, wanted, where=None):
    """The share of right answers, of the places `where` (default: all asked).
    """
    where = wanted != IGNORE if where is None else where
    best = torch.cat([model(part.to(device())).argmax(-1).cpu()
                      for part in tokens.split(64)])
    return (best == wanted)[where].double().mean().item()


def timed(work, settings, point):
    """The row of one point, with its seconds; one thread a process."""
    torch.set_num_threads(1)
    torch.manual_seed(point.get("seed", 0))
    began, busy = time.perf_counter(), time.process_time()
    row = {**point, **work(settings, point)}
    return {**row, "seconds": round(time.perf_counter() - began, 1),
            "cpu_seconds": round(time.process_time() - busy, 1)}


def done(out, settings):
    """The rows that a file already has; none without a file.

    A file made with other settings is never overwritten; `PLAN` may change.
    """
    if not out or not Path(out).exists():
        return []
    found = json.loads(Path(out).read_text(encoding="utf-8"))
    theirs, ours = ({name: value for name, value in s.items()
                     if name not in PLAN}
                    for s in (found["settings"],
                              json.loads(json.dumps(settings))))
    if theirs != ours:
        sys.exit(f"{out} was made with other settings; give another --out, "
                 "or move it away")
    return found["rows"]


def run(name, what, settings, points, work, out=None, jobs=1, gpu=True):
    """Train every point that `out` lacks; the record, saved at each row.

    `gpu`: whether `work` uses one where there is one.
    """
    rows = done(out, settings)
    key = partial(_same, points[0])
    have = {key(row): row for row in rows}
    missing = [point for point in points if key(point) not in have]
    result = record.header(what, threads=1, processes=jobs, gpu=(
        torch.cuda.get_device_name() if gpu and device() == "cuda" else None),
        load=record.load())
    result["command"] = " ".join(
        [f"python -m lintut.experiments.{name}", *sys.argv[1:]])
    result["timing"] = ("seconds: wall clock of one process among whatever "
                        "else ran (hardware: load); cpu_seconds: its own "
                        "processor time")
    result["settings"] = settings
    count, began = len(points) - len(missing), time.perf_counter()
    print(f"{count} of {len(points)} points are there already", flush=True)
    for row in _each(partial(timed, work, settings), missing, jobs):
        have[key(row)], count = row, count + 1
        print(_line(row, count, len(points), began), flush=True)
        result["rows"] = [have[key(p)] for p in points if key(p) in have]
        if out:
            record.save(result, out)
    result["rows"] = [have[key(p)] for p in points if key(p) in have]
    return result


def _same(names, row):
    """What identifies a row: the entries that make up its point."""
    return tuple(row[name] for name in names)


def _each(function, points, jobs):
    if jobs == 1:
        yield from map(function, points)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(function, points)


def _line(row, count, total, began):
    bar = "#" * (20 * count // total)
    return (f"[{bar:20}] {count}/{total}  {time.perf_counter() - began:5.0f}"
            " s   " + "  ".join(f"{name} {value}"
                                for name, value in row.items()
                                if not isinstance(value, list)))


def command(name, what, points, work, default, large, quick, arguments=None,
            jobs=None, gpu=True):
    """The command line of an experiment.

    `jobs` is its number of processes, `gpu` whether it uses a GPU.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m lintut.experiments.{name}", description=what)
    parser.add_argument("--out", metavar="FILE", help="write it as JSON; "
                        "a run that was interrupted goes on from there")
    preset = parser.add_mutually_exclusive_group()
    preset.add_argument("--large", action="store_true",
                        help="wider, longer: for a GPU" if gpu else
                        "longer; it stays on the CPU")
    preset.add_argument("--quick", action="store_true",
                        help="a few steps: does it run?")
    parser.add_argument("--jobs", type=int, help="processes (default: one a "
                        f"core, at most 2{'; 1 on a GPU' * gpu})")
    chosen = parser.parse_args(arguments)
    settings = {**default, **(large if chosen.large else
                              quick if chosen.quick else {})}
    jobs = chosen.jobs or jobs or (
        1 if chosen.quick or gpu and device() == "cuda"
        else min(2, os.cpu_count()))
    return run(name, what, settings, points(settings), work, chosen.out, jobs,
               gpu)
