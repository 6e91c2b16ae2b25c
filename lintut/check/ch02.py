"""The exercises of chapter 2: a map of the routes."""

from .core import Mistake, Value, entry

ROUTES = [
    [1, 0, 0, 0, 0],            # BigBird
    [0, 1, 0, 0, 0],            # Linformer
    [0, 0, 1, 0, 0],            # Performer
    [0, 0, 0, 1, 0],            # Gated DeltaNet
    [0, 0, 0, 0, 1],            # FlashAttention
    [1, 0, 0, 0, 1],            # a window, computed by FlashAttention
    [1, 0, 0, 1, 0],            # layers: a window here, RetNet there
]
GROWTH = [[1024, 32], [32, 1], [32, 1]]


def row(i, says):
    return Mistake(says, lambda g: g[i] != ROUTES[i])


EXERCISES = (
    Value("routes", ROUTES, (
        Mistake("Methods go down and routes go across; yours is turned.",
                [list(column) for column in zip(*ROUTES)]),
        Mistake("Write 1 where the method takes the route and 0 where it "
                "does not; yours is the other way round.",
                [[1 - x for x in r] for r in ROUTES]),
        Mistake("Its entries should be 0 or 1.",
                lambda g: not all(x in (0, 1) for r in g for x in r)),
        Mistake("FlashAttention leaves no pair out: it computes the same "
                "result in another order.",
                lambda g: g[4][0] or g[4][1]),
        row(0, "BigBird: it chooses which keys are seen, before any text is "
            "known. Does it do anything to those keys, or to the softmax?"),
        row(1, "Linformer: no pair is left out. Every slot holds a mixture "
            "of all positions, and a softmax over the slots follows."),
        row(2, "Performer: it estimates something of softmax, by random "
            "features. What, and is an estimate exact?"),
        row(3, "Gated DeltaNet: it has two rules, and both are about the "
            "same thing."),
        row(4, "FlashAttention: look for the route on which no result "
            "changes."),
        row(5, "The window, computed by FlashAttention: a combination takes "
            "the route of each part."),
        row(6, "Window layers between layers of RetNet: a combination takes "
            "the route of each part."))),
    Value("combines", [1, 0, 1, 0, 0, 1], (
        Mistake("Write 1 where they combine and 0 where they do not; yours "
                "is the other way round.", [0, 1, 0, 1, 1, 0]),
        entry("The first: one of the two says who sees whom, the other how "
              "it is computed.", 0, is_not=1),
        entry("The second: φ(k) is written into the state, φ(q) reads it. "
              "Can it be two different φ?", 1, is_not=0),
        entry("The third: one rule may fade the state, and the other correct "
              "it.", 2, is_not=1),
        entry("The fourth: what must be known before the first slot can be "
              "filled?", 3, is_not=0),
        entry("The fifth: the algorithm, not its idea. What of softmax does "
              "it carry from tile to tile, and is that there?", 4, is_not=0),
        entry("The sixth: heads do not share their pairs, nor their memory.",
              5, is_not=1))),
    Value("who_hears", [4, 7, 7, 16], (
        entry("The window: it holds the query itself, so that token 10 "
              "hears of its own change.", 0, among=(3,)),
        entry("The window: an output can be too far after token 10 to see "
              "it.", 0, among=(7, 6)),
        entry("The window: it looks back, so only outputs from token 10 on "
              "can see token 10.", 0, is_not=4),
        entry("A causal output hears of its own token: it is written before "
              "it is read.", 1, among=(6,)),
        entry("Linear attention is causal here: outputs before token 10 "
              "cannot hear of it.", 1, among=(16,)),
        entry("Linear attention: the state keeps something of every token, "
              "until the end.", 1, is_not=7),
        entry("FlashAttention computes what causal softmax computes: which "
              "outputs see token 10 there?", 2, is_not=7),
        entry("Linformer's slots mix all positions before the first query "
              "reads: earlier outputs hear of token 10 as well.", 3,
              among=(7, 6)),
        entry("Linformer: outputs are counted, not slots; every output reads "
              "every slot.", 3, is_not=16))),
    Value("growth", GROWTH, (
        Mistake("Methods go down; work and memory go across. Yours is "
                "turned.", [list(column) for column in zip(*GROWTH)]),
        entry("FlashAttention saves traffic and memory on the chip. The "
              "FLOPs stay those of softmax.", 0, 0, among=(32, 1)),
        entry("The mask halves the pairs at both lengths; it does not change "
              "how they grow.", 0, 0, among=(512,)),
        entry("The first row's work: twice the length is four times the "
              "pairs.", 0, 0, is_not=1024),
        entry("FlashAttention changes how a softmax is computed, not what "
              "decoding must keep: the keys and values of all tokens.",
              0, 1, among=(1,)),
        entry("The first row's memory: decoding keeps N keys and values, not "
              "the N×N weights.", 0, 1, is_not=32),
        entry("A fixed cost a token is what the last two have in common. "
              "There are 32 times as many tokens.", 1, 0, among=(1,)),
        entry("The window's work: each query sees w keys, at any length.",
              1, 0, is_not=32),
        entry("The window's memory: no later query asks for a key that is "
              "out of its window.", 1, 1, is_not=1),
        entry("A fixed cost a token is what the last two have in common. "
              "There are 32 times as many tokens.", 2, 0, among=(1,)),
        entry("Linear attention's work: no query is compared with a key; "
              "every token writes once and reads once.", 2, 0, is_not=32),
        entry("Linear attention's memory: what are the sizes of S and z? Is "
              "N among them?", 2, 1, is_not=1))),
)
