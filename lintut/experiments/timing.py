"""Times of several calls on one thread, taken in turns.

A time is processor time, user and system: other programs lengthen it little.
All calls take a turn in every round, so that a slow minute meets all of them;
a call too short for the clock is repeated within its turn.
"""

import statistics
import time

SHORTEST = 0.003        # seconds that a turn lasts at least


def repeats(call):
    """How often to repeat a call, so that a turn lasts long enough."""
    call()                                      # the first may be slower
    start = time.process_time()
    call()
    once = time.process_time() - start
    return max(1, min(1000, int(SHORTEST / max(once, 1e-6))))


def turn(call, times):
    """(processor seconds, wall seconds) of one call, the mean of `times`."""
    wall, start = time.perf_counter(), time.process_time()
    for _ in range(times):
        call()
    return ((time.process_time() - start) / times,
            (time.perf_counter() - wall) / times)


def interleaved(calls, rounds):
    """Lists in the order of `calls`: median, low, high and wall, seconds.

    A call that is None stays None.
    """
    there = {name: call for name, call in calls.items() if call}
    times = {name: repeats(call) for name, call in there.items()}
    turns = {name: [] for name in there}
    for _ in range(rounds):
        for name, call in there.items():
            turns[name].append(turn(call, times[name]))

    def of(summary, which=0):
        return [float(f"{summary([x[which] for x in turns[name]]):.4g}")
                if name in there else None for name in calls]
    return {"median": of(statistics.median), "low": of(min),
            "high": of(max), "wall": of(statistics.median, 1)}
