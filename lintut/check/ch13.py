"""The exercises of chapter 13: hardware."""

import numpy as np

from .core import Case, Function, Mistake, Value
from .kernel import Kernel
from .work import Memory, Operations

# -- online softmax -----------------------------------------------------------


def inputs(n, N, d=4, d_v=3, seed=0, size=1.0, hidden=None):
    """Queries, keys, values; `hidden` first keys, or some, may not be seen."""
    rng = np.random.default_rng([13, n, N, d, d_v, seed])
    visible = rng.random(N) < 0.7
    if hidden is not None:
        visible = np.arange(N) >= hidden
    visible[-1] = True
    return dict(q=size * rng.normal(size=(n, d)), k=rng.normal(size=(N, d)),
                v=rng.normal(size=(N, d_v)), visible=visible)


def tile_cases():
    return [
        Case("1 query, 5 keys, tiles of 2", inputs(1, 5) | {"B": 2}),
        Case("7 queries, 17 keys, tiles of 4", inputs(7, 17, 3, 5) | {"B": 4}),
        Case("9 queries, 6 keys, tiles of 32", inputs(9, 6) | {"B": 32}),
        Case("33 queries, 20 keys, tiles of 8, the first 13 keys hidden",
             inputs(33, 20, hidden=13) | {"B": 8},
             "Here a whole tile is hidden: what are its maximum, and what you "
             "subtract?"),
        Case("20 queries, 65 keys, tiles of 16, scores beyond 1,000",
             inputs(20, 65, size=1500.0) | {"B": 16},
             "Here exp of a score overflows, and of a difference may not."),
        Case("6 queries, 20 keys, tiles of 4, all scores below −1,000",
             far_below() | {"B": 4},
             "Here all scores are far below 0: a maximum that starts at 0, or "
             "at any number, may never be reached.")]


def far_below():
    x = inputs(6, 20)
    return x | dict(q=1e4 * (0.5 + np.abs(x["q"])), k=-0.5 - np.abs(x["k"]))


def softmax(q, k, v, visible, B=None, scale=True, hide=-np.inf, top=True):
    s = q @ k.T / (q.shape[1] ** 0.5 if scale else 1)
    s = np.where(visible, s, hide)
    w = np.exp(s - s.max(-1, keepdims=True) if top else s)
    return w @ v / w.sum(-1, keepdims=True)


def tiles(shrink_total=True, shrink_out=True, own_top=False, divide=True,
          guard=0, rest=True):
    """Online softmax with one of its parts changed; `guard` is subtracted
    where nothing is seen, −∞ if None."""
    def run(q, k, v, visible, B):
        n, N = len(q), len(k) if rest else len(k) // B * B
        top, total = np.full((n, 1), -np.inf), np.zeros((n, 1))
        out = np.zeros((n, v.shape[1]))
        for j in range(0, N, B):
            s = q @ k[j:j + B].T / q.shape[1] ** 0.5
            s = np.where(visible[j:j + B], s, -np.inf)
            new = s.max(-1, keepdims=True)
            new = new if own_top else np.maximum(top, new)
            safe = new if guard is None else np.where(
                np.isfinite(new), new, guard)
            shrink, w = np.exp(top - safe), np.exp(s - safe)
            total = (shrink if shrink_total else 1) * total + w.sum(
                -1, keepdims=True)
            out = (shrink if shrink_out else 1) * out + w @ v[j:j + B]
            top = new
        return out / total if divide else out
    return run


def average_of_tiles(q, k, v, visible, B):
    """Each tile normalised by itself, then their mean."""
    starts = [j for j in range(0, len(k), B) if visible[j:j + B].any()]
    return sum(softmax(q, k[j:j + B], v[j:j + B], visible[j:j + B])
               for j in starts) / len(starts)


def long():
    return inputs(256, 4096, 8, 8) | {"B": 64}


def tall():
    return inputs(8192, 256, 4, 4) | {"B": 64}


def square():
    return inputs(1024, 1024, 8, 8) | {"B": 128}


# -- a kernel -----------------------------------------------------------------

def features(H, N, R, V):
    rng = np.random.default_rng([13, H, N, R, V])
    return dict(q=rng.uniform(0.1, 1, (H, N, R)).astype(np.float32),
                k=rng.uniform(0.1, 1, (H, N, R)).astype(np.float32),
                v=rng.normal(size=(H, N, V)).astype(np.float32))


def kernel_cases():
    return [Case(f"{H} head{'s' if H > 1 else ''}, N={N}, r={R}, d_v={V}",
                 features(H, N, R, V))
            for H, N, R, V in ((1, 1, 16, 32), (2, 32, 32, 16),
                               (3, 45, 16, 32), (1, 55, 32, 16))]


def launch(q, k, v, C=16):
    """The grid, and the arguments of q, k, v, o, N, R, V, C."""
    H, N, R = q.shape
    return (H,), (q, k, v, v.shape, N, R, v.shape[2], C)


def weights(q, k, lead=0, state=True, C=16):
    """Who reads whom, (H, N, N); without `state` only in its own chunk."""
    a = np.tril(q.astype(float) @ k.astype(float).transpose(0, 2, 1), lead)
    i = np.arange(a.shape[1]) // C
    return a if state else a * (i[:, None] == i)


def attention(q, k, v, a=None):
    a = weights(q, k) if a is None else a
    return (a @ v / a.sum(-1, keepdims=True)).astype(np.float32)


def undivided(q, k, v):
    return (weights(q, k) @ v).astype(np.float32)


def without_mask(q, k, v, C=16):
    """Inside its chunk a query sees later keys."""
    i = np.arange(q.shape[1]) // C
    a = weights(q, k, lead=q.shape[1]) * (i[:, None] >= i)
    return attention(q, k, v, a)


def sees_all(q, k, v):
    return attention(q, k, v, weights(q, k, lead=q.shape[1]))


def written_first(q, k, v):
    """The chunk joins S and z before it is read, and counts twice."""
    full = weights(q, k, lead=q.shape[1])
    i = np.arange(q.shape[1]) // 16
    a = full * (i[:, None] >= i) + weights(q, k, state=False)
    return attention(q, k, v, a)


def last_chunk_only(q, k, v):
    """S = … in the place of S += …: the chunk before is all there is."""
    i = np.arange(q.shape[1]) // 16
    return attention(q, k, v, weights(q, k) * (i[:, None] - i <= 1))


def own_total(q, k, v):
    """z is not read: the sum is that of the square alone."""
    a, inside = weights(q, k), weights(q, k, state=False)
    return (a @ v / inside.sum(-1, keepdims=True)).astype(np.float32)


def beyond_the_end(q, k, v):
    """What the last head's last chunk gives when it reads past the end."""
    o = attention(q, k, v)
    if q.shape[1] % 16:
        o[-1, q.shape[1] // 16 * 16:] = np.nan
    return o


# -- numbers ------------------------------------------------------------------

def best(wait, r=16, d_v=15, z=1, two=2, adding=True):
    return ((adding * r * (d_v + z) + wait) / (two * (r + d_v + z))) ** 0.5


WAITS = (0, 2048, 36 * 2048)        # operations that fit into one wait


def chunk_sizes(**changed):
    return [best(wait, **changed) for wait in WAITS]


def moved(N=2048, d=32, B=256, width=2, scores=4, tiles=None, MiB=2**20):
    """[MiB of the standard form, of tiles, FLOPs a byte of each]."""
    standard = width * (4 * N * d + scores * N * N)
    tiles = width * (2 * N * d + (N / B if tiles is None else tiles)
                     * 2 * N * d)
    return [standard / MiB, tiles / MiB, 4 * N * N * d / standard,
            4 * N * N * d / tiles]


EXERCISES = (
    Value("best_chunk", [2, 6, 34], (
        Mistake("You left out the adding of each chunk's sums to S, which "
                "shrinks with C like the waiting.", chunk_sizes(adding=0)),
        Mistake("The squares cost 2(r + d_v + 1) a token and C: you lost the "
                "2.", chunk_sizes(two=1)),
        Mistake("You left out z, the column beside S's.", chunk_sizes(z=0)),
        Mistake("Take the root.", [4, 36, 1156]),
        Mistake("Watch the units: 2.048 GFLOP/s times 1 µs are 2,048 "
                "operations.", [best(x / 1000) for x in WAITS]),
        Mistake("The waiting alone decides in that: chunks also save adding "
                "to S when waiting is free.", [0, 6, 34]))),
    Function("online_softmax", softmax, tile_cases, (
        Mistake("nothing is subtracted before exp, which overflows beyond "
                "709.", lambda **x: softmax(**x, top=False)),
        Mistake("a tile of which nothing may be seen has the maximum −∞, and "
                "−∞ less −∞ is not a number: subtract something finite "
                "there.", tiles(guard=None)),
        Mistake("when a higher maximum comes, the old total must shrink.",
                tiles(shrink_total=False)),
        Mistake("when a higher maximum comes, the old output must shrink.",
                tiles(shrink_out=False)),
        Mistake("when a higher maximum comes, the old sums must shrink.",
                tiles(shrink_total=False, shrink_out=False)),
        *(Mistake("the maximum must never fall: compare the tile's with the "
                  "one so far.", tiles(own_top=True, guard=guard))
          for guard in (0, None, -1e300)),
        Mistake("nothing divides the output by the total.",
                tiles(divide=False)),
        Mistake("the last tile, shorter than B, is left out.",
                tiles(rest=False)),
        Mistake("each tile is normalised by itself: its weight against the "
                "others is lost.", average_of_tiles),
        Mistake("scores are not divided by √d.",
                lambda **x: softmax(**x, scale=False)),
        Mistake("a hidden key gets the score 0, which still has weight; it "
                "needs −∞.", lambda **x: softmax(**x, hide=0.0)),
        Mistake("hidden keys are seen.",
                lambda q, k, v, visible, B: softmax(
                    q, k, v, np.full(len(k), True)))), (
        Memory(2**20, long, "At most B×B scores may exist at once, not "
               "rows of N: walk over tiles of queries and, inside, over "
               "tiles of keys."),
        Memory(2**21, tall, "Your tiles hold B keys, but all queries at "
               "once: take B of those too."),
        Operations(square, "Handle a tile of B queries together, not one "
                   "query at a time.", calls=64 * 40))),
    Value("bytes_and_intensity", moved(), (
        Mistake("In float16 a number has two bytes, not four.",
                moved(width=4)),
        Mistake("You counted elements, not bytes.", moved(width=1)),
        Mistake("Scores and weights are each written and read: 4N² elements, "
                "not 2N².", moved(scores=2)),
        Mistake("Scores and weights are each written and read: 4N² elements, "
                "not N².", moved(scores=1)),
        Mistake("With tiles k and v pass by once for each tile of queries, "
                "N/B times, not once.", moved(tiles=1)),
        Mistake("There are N/B tiles of queries, not B.", moved(tiles=256)),
        Mistake("Those are MB of 10⁶ bytes; a MiB has 2²⁰.",
                moved(MiB=10**6)),
        Mistake("Give the intensities too: FLOPs of both products, a byte.",
                moved()[:2]))),
    Kernel("linear_kernel", attention, kernel_cases, (
        Mistake("nothing divides the sums by the weights' total.", undivided),
        Mistake("inside its chunk a query sees later keys: the square needs "
                "its mask.", without_mask),
        Mistake("all keys are seen, later ones too.", sees_all),
        Mistake("the chunk is added to S and z before its queries read them, "
                "and counts twice.", written_first),
        Mistake("S and z are not kept: each chunk reads itself alone.",
                lambda q, k, v: attention(q, k, v, weights(q, k,
                                                           state=False))),
        Mistake("S and z hold the chunk before and nothing older: add to "
                "them.", last_chunk_only),
        Mistake("z is not read: the total lacks the weight of earlier "
                "chunks.", own_total),
        Mistake("it reads beyond the end: loads need a mask where the last "
                "chunk is short.", beyond_the_end)),
        seconds=20, call=launch),
)
