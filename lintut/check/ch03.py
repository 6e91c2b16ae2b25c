"""The exercises of chapter 3: sparse attention."""

import numpy as np

from .core import Case, Counterexample, Function, Mistake, Value, entry
from .work import Memory, Operations


def inputs(N, d, d_v, w):
    rng = np.random.default_rng([3, N, d, d_v, w])
    return dict(q=rng.normal(size=(N, d)), k=rng.normal(size=(N, d)),
                v=rng.normal(size=(N, d_v)), w=w)


def window_cases():
    return [Case(f"N={N}, d={d}, d_v={d_v}, w={w}", inputs(N, d, d_v, w))
            for N, d, d_v, w in (
                (1, 2, 3, 1), (5, 2, 2, 1), (7, 3, 2, 3), (17, 4, 3, 4),
                (33, 3, 5, 8), (6, 2, 3, 20), (40, 4, 3, 16))]


# -- the window, and mistakes that people make --------------------------------

def attention(q, k, v, visible, scale=None, hidden=-np.inf, last=False):
    """Softmax over what is visible; `last`: hidden after the division."""
    every = q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale)
    scores = every if last else np.where(visible, every, hidden)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    return (np.where(visible, weights, 0) if last else weights) @ v


def distances(N):
    """How far key j (column) lies ahead of query i (row)."""
    return np.arange(N) - np.arange(N)[:, None]


def near(N, before, after=0):
    ahead = distances(N)
    return (-before <= ahead) & (ahead <= after)


def window(q, k, v, w, **options):
    return attention(q, k, v, near(len(q), w - 1), **options)


def seeing(before, after=lambda w: 0):
    """Attention with other ends of the window, as functions of w."""
    return lambda q, k, v, w: attention(
        q, k, v, near(len(q), before(w), after(w)))


def unseen_is_zero(wrong):
    """The same; a query that sees nothing has the output 0."""
    return lambda **x: np.nan_to_num(wrong(**x))


def in_blocks(q, k, v, w):
    block = np.arange(len(q)) // w
    return attention(q, k, v, np.tril(block[:, None] == block))


def padded(q, k, v, w):
    """w - 1 zeros before the text, seen as if they were tokens."""
    q, k, v = (np.vstack([np.zeros((w - 1, x.shape[1])), x])
               for x in (q, k, v))
    return window(q, k, v, w)[w - 1:]


def around(q, k, v, w):
    """Position -1 is the last one, as Python has it."""
    j = (np.arange(len(q))[:, None] - np.arange(w)) % len(q)
    e = np.exp((q[:, None] * k[j]).sum(-1) / np.sqrt(q.shape[1]))
    return (e[..., None] * v[j]).sum(1) / e.sum(-1, keepdims=True)


def unless_one(q, k, v, w):
    """K[-(w - 1):] keeps everything when w is 1."""
    return window(q, k, v, len(q) if w == 1 else w)


def oldest(q, k, v, w):
    return attention(q, k, v, near(len(q), len(q)) & (np.arange(len(q)) < w))


def mean(q, k, v, w):
    return window(0 * q, k, v, w)


BEFORE_ITSELF = seeing(lambda w: w, lambda w: -1)
SHORT = seeing(lambda w: w - 1, lambda w: -1)

WINDOW = (
    Mistake("a query sees w + 1 keys: w before it, and its own. The query's "
            "own key is one of the w.", seeing(lambda w: w)),
    Mistake("a query sees w − 1 keys: one is missing at the far end.",
            seeing(lambda w: w - 2)),
    Mistake("a query sees w − 1 keys: one is missing at the far end.",
            unseen_is_zero(seeing(lambda w: w - 2))),
    Mistake("the w keys lie before the query: it does not see itself.",
            BEFORE_ITSELF),
    Mistake("the w keys lie before the query: it does not see itself.",
            unseen_is_zero(BEFORE_ITSELF)),
    Mistake("a query sees the w − 1 keys before it and not itself.", SHORT),
    Mistake("a query sees the w − 1 keys before it and not itself.",
            unseen_is_zero(SHORT)),
    Mistake("the window lies on both sides of the query, and so looks into "
            "the future.", seeing(lambda w: w // 2, lambda w: (w - 1) // 2)),
    Mistake("the window reaches as far ahead as it does back.",
            seeing(lambda w: w - 1, lambda w: w - 1)),
    Mistake("the window looks ahead instead of back.",
            seeing(lambda w: 0, lambda w: w - 1)),
    Mistake("a query sees everything before it: there is no window.",
            seeing(lambda w: 10**6)),
    Mistake("the text is cut into blocks of w, and a query sees its own "
            "block alone. The window moves with the query.", in_blocks),
    Mistake("near the beginning, zeros that stand before the text are seen "
            "as keys: a score of 0 has the weight e⁰.", padded),
    Mistake("near the beginning, the window runs on at the end of the text: "
            "index −1 is the last token.", around),
    Mistake("the scores are not divided by √d.",
            lambda **x: window(**x, scale=1)),
    Mistake("hidden scores are 0, and a score of 0 has the weight e⁰, not 0.",
            lambda **x: window(**x, hidden=0)),
    Mistake("weights are hidden after the division: the rows no longer sum "
            "to one.", lambda **x: window(**x, last=True)),
    Mistake("all keys in the window weigh the same: the scores play no part.",
            mean),
)
CACHE = (
    Mistake("with w = 1 nothing is dropped: a slice that begins at −0 begins "
            "at 0.", unless_one),
    Mistake("the cache keeps the oldest tokens and drops the new ones.",
            oldest),
)


# -- Longformer's mask --------------------------------------------------------

def added(mask):
    return Mistake("0 and −∞ are what a mask adds to the scores. Here it is "
                   "True where a query may look.",
                   lambda **x: np.where(mask(**x), 0, -np.inf))


def sides(w, causal):
    return (w - 1, 0) if causal else (w // 2, (w - 1) // 2)


def longformer(N, w, G, causal, reach=sides, own=True, rows=True,
               columns=True, cut=np.tril):
    """(N, N) boolean; each option leaves the right path at one place."""
    visible = near(N, *reach(w, causal))
    if not own:
        np.fill_diagonal(visible, False)
    if rows:
        visible[G] = True
    if columns:
        visible[:, G] = True
    return cut(visible) if causal else visible


def keep(visible):
    return visible


def corner(N, w, G, causal):
    visible = longformer(N, w, [], causal)
    visible[np.ix_(G, G)] = True
    return np.tril(visible) if causal else visible


def cut_but(rows):
    """Causal, but the global rows (or columns) look ahead."""
    def wrong(N, w, G, causal):
        visible = longformer(N, w, G, causal)
        (visible if rows else visible.T)[G] = True
        return visible
    return wrong


def longformer_with(**options):
    return lambda **x: longformer(**x, **options)


def longformer_cases():
    return [Case(f"N={N}, w={w}, G={G}, causal={causal}",
                 dict(N=N, w=w, G=G, causal=causal))
            for N, w, G, causal in (
                (1, 1, [0], False), (8, 3, [], False), (9, 3, [0], False),
                (12, 4, [5, 8], False), (8, 3, [], True), (11, 4, [2], True),
                (12, 5, [6, 11], True), (6, 20, [3], False),
                (6, 20, [3], True))]


LONGFORMER = (
    Mistake("the global tokens see all, but are not seen by all.",
            longformer_with(columns=False)),
    Mistake("all tokens see the global ones, but those do not see all.",
            longformer_with(rows=False)),
    Mistake("global tokens see each other alone.", corner),
    Mistake("with causal=True the window is causal, and the global rows and "
            "columns still reach into the future: that is the leak.",
            longformer_with(cut=keep)),
    Mistake("with causal=True the global rows still look ahead.",
            cut_but(True)),
    Mistake("with causal=True others still see a global token that lies "
            "ahead of them.", cut_but(False)),
    Mistake("with causal=True half of the window is lost: it is the one for "
            "both ways, cut. Causal, all w keys lie at or before the query.",
            longformer_with(reach=lambda w, causal: sides(w, False))),
    Mistake("causal plays no part.",
            lambda N, w, G, causal: longformer(N, w, G, False)),
    Mistake("an even window has as many keys after the query as before it: "
            "w + 1 with the query, as in Longformer's paper. Here w counts "
            "the query.", longformer_with(
                reach=lambda w, causal: (w - 1, 0) if causal
                else (w // 2, w // 2))),
    Mistake("an even window has its one key more after the query; it should "
            "be before it.", longformer_with(
                reach=lambda w, causal: sides(w, causal) if causal
                else sides(w, causal)[::-1])),
    Mistake("the window has w keys on each side.", longformer_with(
        reach=lambda w, causal: (w, 0 if causal else w))),
    Mistake("the window has w − 1 keys on each side.", longformer_with(
        reach=lambda w, causal: (w - 1, 0 if causal else w - 1))),
    Mistake("a causal window has w + 1 keys; the query's own is one of the "
            "w.", longformer_with(reach=lambda w, causal: (w, 0) if causal
                                  else sides(w, causal))),
    Mistake("a token does not see itself.", lambda **x: longformer(**x)
            & ~np.eye(x["N"], dtype=bool)),
    Mistake("the window leaves out the query's own key.",
            longformer_with(own=False)),
    added(longformer),
    Mistake("True and False are exchanged: True is where a query may look.",
            lambda **x: ~longformer(**x)),
    Mistake("the first tokens are global, as many as G has; it should be "
            "those at the positions in G.", lambda N, w, G, causal:
            longformer(N, w, list(range(len(G))), causal)),
    Mistake("there is no window.", longformer_with(
        reach=lambda w, causal: (-1, 0))),
)


# -- BigBird's mask -----------------------------------------------------------

def expand(blocks, b, N):
    """A mask of blocks to one of tokens."""
    return np.repeat(np.repeat(blocks, b, 0), b, 1)[:N, :N]


def bigbird(N, b, n_w, n_g, random, causal, reach=sides, rows=True,
            columns=True, links="rows", cut=np.tril):
    n = -(-N // b)
    blocks = near(n, *reach(n_w, causal))
    if rows:
        blocks[:n_g] = True
    if columns:
        blocks[:, :n_g] = True
    for query, keys in enumerate(random):
        if links in ("rows", "both"):
            blocks[query, keys] = True
        if links in ("columns", "both"):
            blocks[keys, query] = True
    visible = expand(blocks, b, N)
    return cut(visible) if causal else visible


def bigbird_with(**options):
    return lambda **x: bigbird(**x, **options)


def whole_blocks_alone(b, **x):
    """The last, shorter block is left out."""
    visible = bigbird(b=b, **x)
    whole = x["N"] // b * b
    visible[whole:] = visible[:, whole:] = False
    return visible


def cut_by_blocks(N, b, causal, **x):
    visible = bigbird(N=N, b=b, causal=causal, cut=keep, **x)
    n = -(-N // b)
    return visible & expand(np.tri(n, dtype=bool), b, N) if causal else (
        visible)


def n_g_tokens(n_g, causal, **x):
    visible = bigbird(n_g=0, causal=causal, cut=keep, **x)
    visible[:n_g] = visible[:, :n_g] = True
    return np.tril(visible) if causal else visible


def random_tokens(N, b, random, causal, **x):
    visible = bigbird(N=N, b=b, random=[], causal=causal, **x)
    for query, keys in enumerate(random):
        visible[query * b:(query + 1) * b, keys] = True
    return np.tril(visible) if causal else visible


def window_of_tokens(N, b, n_w, causal, **x):
    """The window moves with each token, not from block to block."""
    before, after = sides(n_w, causal)
    visible = near(N, before * b, after * b) | bigbird(
        N=N, b=b, n_w=n_w, causal=causal, reach=lambda *_: (-1, 0), **x)
    return np.tril(visible) if causal else visible


def bigbird_cases():
    rng = np.random.default_rng(33)
    result = []
    for N, b, n_w, n_g, n_r, causal in (
            (1, 1, 1, 0, 0, False), (12, 3, 1, 0, 0, False),
            (15, 3, 1, 0, 1, False), (20, 4, 3, 1, 0, False),
            (26, 3, 3, 2, 1, False), (15, 3, 1, 0, 1, True),
            (23, 4, 3, 1, 1, True), (19, 2, 5, 2, 2, True)):
        n = -(-N // b)
        random = [sorted(rng.choice(n, n_r, replace=False).tolist())
                  for _ in range(n)]
        result.append(Case(
            f"N={N}, b={b}, n_w={n_w}, n_g={n_g}, random={random}, "
            f"causal={causal}", dict(N=N, b=b, n_w=n_w, n_g=n_g,
                                     random=random, causal=causal)))
    return result


BIGBIRD = (
    Mistake("the random blocks are missing.", bigbird_with(links="none")),
    Mistake("random links go both ways: block c sees the blocks in "
            "random[c], which need not see it.", bigbird_with(links="both")),
    Mistake("random links are turned: random[c] are the blocks that block c "
            "sees, not those that see it.", bigbird_with(links="columns")),
    Mistake("random holds numbers of blocks; here they are used as those of "
            "tokens.", random_tokens),
    Mistake("the global blocks see all, but are not seen by all.",
            bigbird_with(columns=False)),
    Mistake("all see the global blocks, but those do not see all.",
            bigbird_with(rows=False)),
    Mistake("n_g counts blocks; here it counts tokens.", n_g_tokens),
    Mistake("the future is cut by whole blocks: inside its own block a token "
            "still sees later ones.", cut_by_blocks),
    Mistake("with causal=True nothing is cut but the window: random and "
            "global blocks reach into the future, and so do tokens inside "
            "a block.", bigbird_with(cut=keep)),
    Mistake("causal plays no part.", lambda causal, **x: bigbird(
        causal=False, **x)),
    Mistake("with causal=True half of the window is lost: it is the one for "
            "both ways, cut. Causal, all n_w blocks lie at or before the "
            "query's own.", bigbird_with(
                reach=lambda w, causal: sides(w, False))),
    Mistake("the window has n_w blocks on each side.", bigbird_with(
        reach=lambda w, causal: (w, 0 if causal else w))),
    Mistake("a causal window has n_w + 1 blocks; the query's own is one of "
            "the n_w.", bigbird_with(reach=lambda w, causal: (
                (w, 0) if causal else sides(w, causal)))),
    Mistake("the window moves with every token. Blocks see blocks: all "
            "tokens of a block see the same.", window_of_tokens),
    Mistake("the last block, shorter than b, is left out.",
            whole_blocks_alone),
    added(bigbird),
    Mistake("True and False are exchanged: True is where a query may look.",
            lambda **x: ~bigbird(**x)),
)


# -- an input that exposes the leak -------------------------------------------

def moved(answer, half_repaired):
    """How far output i moves when input j changes."""
    x, layers, i, j = answer
    visible = longformer(len(x), 3, [0], True)
    if half_repaired:
        visible[0] = True
    after = np.array(x, float)
    after[j] += 1
    both = []
    for y in (x, after):
        for _ in range(layers):
            y = (y + attention(y, y, y, visible)) / 2
        both.append(y[i])
    return both[0] - both[1]


def invalid(answer):
    x, layers, i, j = answer
    if not isinstance(x, np.ndarray) or x.ndim != 2 or not x.size or (
            not np.isfinite(x).all()):
        return "x must be a finite array with two axes, and not empty."
    if not all(isinstance(n, (int, np.integer)) for n in (layers, i, j)):
        return "layers, i and j must be whole numbers."
    if len(x) > 50:
        return f"x may have at most 50 rows; it has {len(x)}."
    if layers not in range(1, 5):
        return f"layers must be 1, 2, 3 or 4; it is {layers!r}."
    if not 1 <= i < j < len(x):
        return (f"1 ≤ i < j < {len(x)} must hold: an output other than the "
                f"global token's, and a later input; i is {i}, j is {j}.")
    return ""


def long(N):
    return lambda: inputs(N, 4, 2, 4)


EXERCISES = (
    Value("shares_by_hand", ["5/18", "7/18", "2/9", "1/9"], (
        Mistake("Those are the weights after one layer.",
                [0, "1/3", "1/3", "1/3"]),
        Mistake("They sum to 8/9. Token 1 sees two tokens only, so that each "
                "of them has a half.", ["2/9", "3/9", "2/9", "1/9"]),
        Mistake("It hears from four tokens, but not from all of them by as "
                "many paths.", ["1/4"] * 4),
        Mistake("The order is turned: the first number belongs to input 0.",
                ["1/9", "2/9", "7/18", "5/18"]),
        Mistake("A window of 3 holds the token's own and two before it; "
                "yours holds three before it.",
                ["25/48", "13/48", "7/48", "3/48"]),
        Mistake("That is output 2, the third: positions count from 0.",
                ["11/18", "5/18", "1/9", 0]),
        Mistake("Weights of one output sum to one.",
                lambda g: abs(sum(g) - 1) > 1e-6))),
    Function("window_attention", window, window_cases, WINDOW, (
        Memory(2**20, long(1024), "Out of each query's reach nothing "
               "need be computed, and no N×N array, not even of True and "
               "False, need exist."),
        Operations(long(512), "A query needs w scores, or a few more in a "
                   "block of queries, not one for every key.",
                   flops=1_000_000))),
    Function("longformer_mask", longformer, longformer_cases, LONGFORMER),
    Function("bigbird_mask", bigbird, bigbird_cases, BIGBIRD),
    Value("hears", [13, 25, 2, 13], (
        entry("The first: a layer goes w − 1 back, not w; the token itself "
              "is there already.", 0, among=(15, 16)),
        entry("The first: the token has heard itself, too.", 0, among=(12,)),
        entry("The first: that is one layer's window.", 0, among=(5,)),
        entry("The first: what do three layers add to a token's own "
              "position?", 0, is_not=13),
        entry("The second: after that many layers one token is still "
              "missing.", 1, among=(24,)),
        entry("The second: a layer goes w − 1 back, not w.", 1,
              among=(19, 20)),
        entry("The second: how many steps of w − 1 lead from 99 to 0?", 1,
              is_not=25),
        entry("The third: in one layer only the global token has heard all. "
              "How does it reach the others?", 2, among=(1,)),
        entry("The third: through the global token there is a shorter way.",
              2, is_not=2),
        entry("The fourth: token 0 sees only itself now. It hands on nothing "
              "that it could have heard from token 50.", 3, among=(1, 2)),
        entry("The fourth: after that many layers it is not there yet.", 3,
              among=(12,)),
        entry("The fourth: a layer goes w − 1 back, not w.", 3,
              among=(9, 10)),
        entry("The fourth: what ways lead from 99 to 50, if none goes "
              "forward?", 3, is_not=13))),
    Counterexample(
        "exposes_leak", lambda a: moved(a, False), lambda a: moved(a, True),
        invalid, (
            (lambda a: a[1] == 1,
             "After one layer only token 0 has heard of what lies ahead. "
             "When do others read what it has heard?"),
            (lambda a: True, "There are layers enough. Look at the scores: "
             "if one is much larger than the rest, the other weights are 0 "
             "and hand on nothing."))),
    Function("mended", window, window_cases, WINDOW + CACHE, (
        Operations(long(512), "The cache holds w tokens: a step needs w "
                   "scores, however long the text is.",
                   flops=3 * 2 * 512 * 4 * 6, entries=200_000),)),
)
