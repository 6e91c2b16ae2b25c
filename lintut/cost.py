"""What each mechanism costs: FLOPs, bytes, state, training memory.

    cost.of("softmax", N=32768, d=64).text("state_bytes")        '8 MiB'
    cost.of("linear", "chunkwise", N=4096, d=64, C=64).prefill_flops

Every figure comes from a formula in the tables below: a string, evaluated for
the number and typeset for the page, so that the two cannot disagree.  They
hold for one head of one sequence; `of` multiplies by heads and batch.

FLOPs   `products` are the multiply-adds, 2 each, of matrix products, outer
        products and matrix-vector products.  `other` is everything
        elementwise: 1 for each + − × ÷, max, exp, log or power.  Only the
        attention core is counted: no projections, no MLP.
P       The pairs (i, j) compared.  A causal form counts the pairs it needs,
        N(N+1)/2; code that compares all N² and masks afterwards costs what
        `causal=False` says.  Inside a chunk the whole C×C square counts,
        because one matrix product computes it.
moved   Elements between memory and chip.  Each input is read once, each
        output written once; weights or states that a form keeps in memory
        between its steps are written and read each time.  `blocked` keeps a
        tile of B queries on the chip, and reads k and v again for each tile.
state   Elements that decoding keeps from one token to the next.
saved   Elements kept for the backward pass: inputs, and what the form stored.

The decoding step is that of token N; tokens 1 … N−1 are in the cache.
"""

import math
import re
from dataclasses import dataclass, fields, replace

from lintut.reference._checks import count

DTYPES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}

SYMBOLS = {
    "N": "length", "d": "width of q and k", "d_v": "width of v",
    "r": "feature count", "w": "window", "m": "compressed length",
    "C": "chunk size", "g": "global positions", "b": "block size",
    "n_w": "window blocks", "n_g": "global blocks", "n_r": "random blocks",
    "B": "queries in a tile on the chip", "P": "pairs compared",
    "L": "halvings of a chunk, ⌈log₂ C⌉",
}


@dataclass(frozen=True)
class Form:
    """One way to compute a whole sequence; (not causal, causal) or both."""
    pairs: str | tuple
    products: str
    other: str | tuple
    moved: str | tuple
    saved: str


@dataclass(frozen=True)
class Step:
    """One decoding step, and the state it needs."""
    products: str
    other: str
    moved: str
    state: str


@dataclass(frozen=True)
class Mechanism:
    forms: dict                 # the first is the default
    step: Step | None = None
    note: str = ""


# -- softmax, dense or with fewer pairs --------------------------------------

TRIANGLE = ("N**2", "N*(N+1)//2")
IN_OUT = "2*N*(d+d_v)"                          # q, k, v read; o written


def _weights(pairs, products="2*P*(d+d_v)", moved=IN_OUT,
             saved="N*(2*d+d_v)"):
    """Softmax over P weights that are stored.

    `other`: each query is scaled; each pair takes max, subtract, exp, sum
    and divide.  `moved`: scores written and read, weights written and read.
    """
    return Form(pairs, products, "5*P+N*d", f"{moved}+4*P", f"{saved}+P")


def _cache(n):
    """Decoding from a cache that holds `n` tokens, the new one included."""
    return Step(f"2*{n}*(d+d_v)", f"5*{n}+d", f"({n}+2)*(d+d_v)",
                f"{n}*(d+d_v)")


# A tile of B queries meets the tiles of B keys that are not wholly masked.
# Each pair: max, subtract, exp, sum.  Each meeting, a query: 5 to merge the
# maximum and the sum, 2d_v to merge the output.  At the end: divide.
BLOCKED = Form(
    ("N**2", "B**2*floor(N/B)*(floor(N/B)+1)//2+(N%B)*N"),
    "2*P*(d+d_v)",
    ("4*P+N*(d+d_v)+N*ceil(N/B)*(2*d_v+5)",
     "4*P+N*(d+d_v)+(B*floor(N/B)*(floor(N/B)+1)//2"
     "+(N%B)*ceil(N/B))*(2*d_v+5)"),
    ("N*(d+d_v)+N*ceil(N/B)*(d+d_v)",
     "N*(d+d_v)+N*(ceil(N/B)+1)*(d+d_v)//2"),
    "2*N*(d+d_v)+N")                    # q, k, v, o and log Σ exp, a row

# One token after another from a cache, which is read anew for each.
DECODED = Form(TRIANGLE[1], "2*P*(d+d_v)", "5*P+N*d",
               f"{IN_OUT}+P*(d+d_v)", "N*(2*d+d_v)+P")

# The query itself; what it sees before, and (not causal) after it.
BEFORE, AFTER = "min(floor(w/2),N-1)", "min(ceil(w/2)-1,N-1)"
BAND = (f"N+{BEFORE}*(2*N-1-{BEFORE})//2+{AFTER}*(2*N-1-{AFTER})//2",
        "min(w,N)*N-min(w,N)*(min(w,N)-1)//2")

SOFTMAX_FAMILY = {
    "softmax": Mechanism(
        {"parallel": _weights(TRIANGLE), "blocked": BLOCKED,
         "recurrent": DECODED}, _cache("N")),
    "sliding_window": Mechanism(
        {"banded": _weights(BAND), "parallel": _weights(TRIANGLE),
         "recurrent": replace(DECODED, pairs=BAND[1])}, _cache("min(w,N)")),
    "longformer": Mechanism(
        {"banded": _weights(("min(N**2,w*N+2*g*N)",
                             "min(N*(N+1)//2,w*N+g*N)")),
         "parallel": _weights(TRIANGLE)},
        _cache("min(N,w+g)"),
        "P is an upper bound: a pair both near and global counts twice; "
        "decoding a global token reads everything and is not counted"),
    "bigbird": Mechanism(
        {"blocked": _weights(("min(N**2,b*(n_w+2*n_g+n_r)*N)",
                             "min(N*(N+1)//2,b*(n_w+n_g+n_r)*N)")),
         "parallel": _weights(TRIANGLE)},
        Step("2*min(N,b*(n_w+n_g+n_r))*(d+d_v)",
             "5*min(N,b*(n_w+n_g+n_r))+d",
             "(min(N,b*(n_w+n_g+n_r))+2)*(d+d_v)", "N*(d+d_v)"),
        "P is an upper bound: blocks may coincide; a later token may ask for "
        "any block, so that the cache keeps all of them"),
    "linformer": Mechanism(
        {"parallel": _weights("N*m", "4*N*m*(d+d_v)",
                              f"{IN_OUT}+2*m*N+2*m*(d+d_v)",
                              "N*(2*d+d_v)+m*(d+d_v)")},
        None, "the projections mix the whole sequence: no causal decoding"),
}

# -- a state instead of a cache ----------------------------------------------

CHUNKS = "floor(N/C)*C**2+(N%C)**2"     # the squares on the diagonal


def _recurrent(state, token, recurrent, chunkwise, parallel, sums=None,
               inputs="N*(2*d+d_v)", note=""):
    """A mechanism that decodes from `state`.

    The others are (products, other) of one token and of each form.  The token
    loop reads and writes the state once a token, the chunkwise form once a
    chunk.
    """
    in_out = f"{inputs}+N*d_v"
    forms = {
        "recurrent": Form("0", *recurrent, f"{in_out}+2*N*({state})",
                          f"{inputs}+N*({state})"),
        "chunkwise": Form(CHUNKS, *chunkwise,
                          f"{in_out}+2*ceil(N/C)*({state})",
                          f"{inputs}+ceil(N/C)*({state})"),
        "parallel": Form(TRIANGLE, *parallel, f"{in_out}+4*P",
                         f"{inputs}+P")}
    if sums:        # not causal: all is written first, then all is read
        forms["sums"] = Form("0", *sums, in_out, f"{inputs}+{state}")
    step_inputs = inputs.removeprefix("N*").strip("()")
    return Mechanism(forms, Step(*token, f"{step_inputs}+d_v+2*({state})",
                                 state), note)


RECURRENT_FAMILY = {
    # φ: 4 a feature, for q and k.  Write S 2rd_v and z r; read 2rd_v and 2r;
    # divide d_v.  By chunks, z is one more column of S.
    "linear": _recurrent(
        "r*d_v+r",
        token=("4*r*d_v+2*r", "9*r+d_v"),
        recurrent=("4*N*r*d_v+2*N*r", "9*N*r+N*d_v"),
        chunkwise=("4*N*r*(d_v+1)+2*P*(r+d_v+1)",
                   "8*N*r+N*(2*d_v+1)+ceil(N/C)*r*(d_v+1)"),
        parallel=("2*P*(r+d_v)", "8*N*r+2*P"),
        sums=("4*N*r*d_v+2*N*r", "9*N*r+N*d_v"),
        note="the feature map is ELU + 1"),
    # As linear, with another φ: the projection 2dr each for q and k; for both
    # together 6d + 2 for scaling and squared norm, 7r for the exponentials.
    "performer": _recurrent(
        "r*d_v+r",
        token=("4*d*r+4*r*d_v+2*r", "6*d+2+8*r+d_v"),
        recurrent=("4*N*d*r+4*N*r*d_v+2*N*r", "N*(6*d+2)+8*N*r+N*d_v"),
        chunkwise=("4*N*d*r+4*N*r*(d_v+1)+2*P*(r+d_v+1)",
                   "N*(6*d+2)+7*N*r+N*(2*d_v+1)+ceil(N/C)*r*(d_v+1)"),
        parallel=("4*N*d*r+2*P*(r+d_v)", "N*(6*d+2)+7*N*r+2*P"),
        sums=("4*N*d*r+4*N*r*d_v+2*N*r", "N*(6*d+2)+8*N*r+N*d_v"),
        note="positive random features"),
    # Fade S dd_v, write it 2dd_v, read it 2dd_v.  The powers of γ in the decay
    # mask are the same for all chunks, and not counted by chunks.
    "retention": _recurrent(
        "d*d_v",
        token=("4*d*d_v", "d*d_v"),
        recurrent=("4*N*d*d_v", "N*d*d_v"),
        chunkwise=("4*N*d*d_v+2*P*(d+d_v)",
                   "P+N*(2*d+d_v)+2*ceil(N/C)*d*d_v"),
        parallel=("2*P*(d+d_v)", "2*P")),
    # The gates differ by channel: a chunk's pairs at or below the diagonal,
    # (P+N)/2 of them, come from L halvings; each fades q and k once more.
    "gla": _recurrent(
        "d*d_v",
        token=("4*d*d_v", "d*d_v"),
        recurrent=("4*N*d*d_v", "N*d*d_v"),
        chunkwise=("4*N*d*d_v+(P+N)*d+2*P*d_v",
                   "N*d*(L+2)-ceil(N/C)*d+N*d_v+2*ceil(N/C)*d*d_v"),
        parallel=("2*P*(d+d_v)", "P*d"),
        inputs="N*(3*d+d_v)"),
    # Read the old value 2dd_v, write the error 2dd_v, read 2dd_v.  By chunks
    # (C divides N): the keys' overlaps 2Pd; their inverse, row after row,
    # N(C−1)(2C−1)/3; T V and T K 2P(d_v+d); scores and output 2P(d+d_v).
    "delta": _recurrent(
        "d*d_v",
        token=("6*d*d_v", "2*d_v"),
        recurrent=("6*N*d*d_v", "2*N*d_v"),
        chunkwise=("6*N*d*d_v+P*(6*d+4*d_v)+N*(C-1)*(2*C-1)//3",
                   "2*P+(P-N)//2+2*N*d_v+ceil(N/C)*d*d_v"),
        parallel=("2*P*(2*d+d_v)", "P"),
        inputs="N*(2*d+d_v+1)"),
    "gated_delta": _recurrent(
        "d*d_v",
        token=("6*d*d_v", "d*d_v+2*d_v"),
        recurrent=("6*N*d*d_v", "N*d*d_v+2*N*d_v"),
        chunkwise=("6*N*d*d_v+P*(6*d+4*d_v)+N*(C-1)*(2*C-1)//3",
                   "5*P+N*(3*d+2*d_v)+2*ceil(N/C)*d*d_v"),
        parallel=("2*P*(2*d+d_v)", "P+P*d"),
        inputs="N*(2*d+d_v+2)"),
}

MECHANISMS = SOFTMAX_FAMILY | RECURRENT_FAMILY

# -- from formula to number and to text --------------------------------------


def evaluate(formula, symbols):
    """The value of a formula; whole numbers stay whole."""
    return eval(formula, {"__builtins__": {}, "min": min, "ceil": math.ceil,
                          "floor": math.floor}, symbols)


def typeset(formula):
    """A formula as text: "2*N**2*(d+d_v)" becomes "2N²(d + d_v)"."""
    for name, left, right in (("ceil", "⌈", "⌉"), ("floor", "⌊", "⌋")):
        formula = re.sub(rf"{name}\(([^()]*)\)", rf"{left}\1{right}", formula)
    formula = formula.replace("**2", "²").replace("//", "/")
    formula = re.sub(r"(?<!\w)(\d+)\*", r"\1", formula)         # 2*N: 2N
    formula = re.sub(r"\*(?=[(⌈⌊])|(?<=[)⌉⌋²])\*", "", formula)
    formula = formula.replace("*", "·").replace("%", " mod ")
    formula = formula.replace("-", "−")
    return re.sub(r"([+−])", r" \1 ", formula).replace(",", ", ")


def flops_text(n):
    """4294967296 → "4.29 GFLOP"."""
    return _scaled(n, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP",
                             "PFLOP", "EFLOP"), 3)


def bytes_text(n):
    """8320 → "8.125 KiB"."""
    return _scaled(n, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"),
                   4)


def _scaled(n, base, units, digits):
    power = 0
    while power < len(units) - 1 and float(f"{n:.{digits}g}") >= base:
        n, power = n / base, power + 1
    return f"{n:.{digits}g} {units[power]}"


# -- the answer ---------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What `of` returns: whole numbers, and the formulas they come from.

    `products`, `other` and `flops` count operations, `bytes` bytes, the rest
    elements.  Decode and state are None where there is no causal step.
    `formulas` holds the text of a field's formula, for one head of one
    sequence; those of bytes are in elements.
    """
    mechanism: str
    form: str
    pairs: int
    prefill_products: int
    prefill_other: int
    bytes_moved: int
    saved_elements: int
    saved_bytes: int
    decode_products: int | None
    decode_other: int | None
    decode_bytes: int | None
    state_elements: int | None
    state_bytes: int | None
    formulas: dict
    note: str

    @property
    def prefill_flops(self):
        return self.prefill_products + self.prefill_other

    @property
    def decode_flops(self):
        return (None if self.decode_products is None
                else self.decode_products + self.decode_other)

    @property
    def intensity(self):
        """FLOPs for each byte moved, over the whole sequence."""
        return self.prefill_flops / self.bytes_moved

    def text(self, name):
        """A field in words: "4.29 GFLOP", "8.125 KiB", "not defined"."""
        value = getattr(self, name)
        if value is None:
            return "not defined"
        if name.endswith(("flops", "products", "other")):
            return flops_text(value)
        return bytes_text(value) if "bytes" in name else f"{value:,}"


def of(mechanism, form=None, *, N, d, d_v=None, r=None, w=256, m=256, C=64,
       g=1, b=64, n_w=3, n_g=2, n_r=3, heads=1, batch=1, window_heads=1,
       dtype="float16", causal=True, B=None, on_chip=166_912, pairs=None):
    """The cost of one mechanism in one form.

    Parameters
    ----------
    mechanism : a module of `lintut.reference`, or "flash" (softmax, blocked)
    form : one of `forms(mechanism)`; None takes the first that fits `causal`
    N, d, d_v, r, w, m, C, g, b, n_w, n_g, n_r : the sizes, as in `SYMBOLS`;
        d_v and r are d unless given
    heads, batch : multiply everything
    window_heads : of a hybrid's heads; the others are linear
    dtype : of every element ("float16", "bfloat16", "float32", "float64")
    B : rows of a tile in the blocked form; unless given, as many as fit into
        `on_chip` bytes (an A100's shared memory for one block) with their
        q, k, v and o
    pairs : P itself, where it is known better, counted from a mask for one

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        names the argument, what it got and what it should be.
    """
    sizes = dict(N=N, d=d, d_v=d if d_v is None else d_v,
                 r=d if r is None else r, w=w, m=m, C=C, b=b, n_w=n_w)
    sizes = {name: count(name, size) for name, size in sizes.items()} | {
        name: count(name, size, low=0)
        for name, size in dict(g=g, n_g=n_g, n_r=n_r).items()}
    size = _choose("dtype", dtype, DTYPES)
    fits = max(1, on_chip // (2 * (sizes["d"] + sizes["d_v"]) * size))
    sizes |= {"C": min(C, N), "B": min(N, count("B", B or fits)),
              "L": (min(C, N) - 1).bit_length()}
    times = count("heads", heads) * count("batch", batch)
    if mechanism == "flash":
        mechanism, form = "softmax", "blocked"
    if mechanism != "hybrid":
        return _cost(mechanism, form, sizes, causal, pairs, size, times)
    near = count("window_heads", window_heads)
    far = count("heads", heads - near)
    form = form or "chunkwise"
    how = _choose("form", form, HYBRID)
    return _sum(
        form, near, far,
        _cost("sliding_window", how[0], sizes, True, None, size, near * batch),
        _cost("linear", how[1], sizes, True, None, size, far * batch))


# What the window heads and the linear heads of a hybrid do.
HYBRID = {"chunkwise": ("banded", "chunkwise"),
          "recurrent": ("recurrent", "recurrent"),
          "parallel": ("parallel", "parallel")}
CAUSAL = ("retention", "gla", "delta", "gated_delta")


def forms(mechanism):
    """The names of a mechanism's forms."""
    if mechanism == "hybrid":
        return tuple(HYBRID)
    return tuple(_choose("mechanism", mechanism, MECHANISMS).forms)


def _choose(name, key, table):
    if key not in table:
        raise ValueError(f"{name} must be one of {', '.join(table)}; "
                         f"it is {key!r}")
    return table[key]


def _cost(mechanism, form, sizes, causal, pairs, size, times):
    known = _choose("mechanism", mechanism, MECHANISMS)
    if form is None:
        form = "sums" if not causal and "sums" in known.forms else (
            next(iter(known.forms)))
    how = _choose("form", form, known.forms)
    if not causal and (mechanism in CAUSAL
                       or form in ("recurrent", "chunkwise")):
        raise ValueError(f"causal must be True for {mechanism}, {form}")
    if causal and form == "sums":
        raise ValueError("causal must be False for the form sums")

    def pick(formula):
        return formula if isinstance(formula, str) else formula[causal]

    texts = {"pairs": pick(how.pairs), "prefill_products": how.products,
             "prefill_other": pick(how.other), "bytes_moved": pick(how.moved),
             "saved_elements": how.saved}
    if known.step:
        texts |= {"decode_products": known.step.products,
                  "decode_other": known.step.other,
                  "decode_bytes": known.step.moved,
                  "state_elements": known.step.state}
    P = evaluate(texts["pairs"], sizes) if pairs is None else pairs
    symbols = sizes | {"P": count("pairs", P, low=0)}
    value = dict.fromkeys(field.name for field in fields(Cost))
    value |= {name: evaluate(text, symbols) * times
              * (size if "bytes" in name else 1)
              for name, text in texts.items()}
    value["saved_bytes"] = value["saved_elements"] * size
    if known.step:
        value["state_bytes"] = value["state_elements"] * size
    return Cost(**value | dict(
        mechanism=mechanism, form=form, note=known.note,
        formulas={name: typeset(text) for name, text in texts.items()}))


def _sum(form, near, far, window, linear):
    """A hybrid's cost: its window heads' and its linear heads'."""
    value = {field.name: getattr(window, field.name)
             + getattr(linear, field.name)
             for field in fields(Cost) if field.name not in
             ("mechanism", "form", "formulas", "note")}
    formulas = {name: f"{near}({text}) + {far}({linear.formulas[name]})"
                for name, text in window.formulas.items()}
    return Cost(**value, mechanism="hybrid", form=form, formulas=formulas,
                note=f"{near} window heads and {far} linear heads, together")


def crossover(first, second, low=1, high=2 ** 24):
    """The least N in [low, high] at which first(N) exceeds second(N).

    `first` and `second` map N to a number, and first/second grows with N:
    `lambda N: of("softmax", N=N, d=64).prefill_flops`.  None if it never
    does.
    """
    if first(high) <= second(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if first(middle) > second(middle):
            high = middle
        else:
            low = middle + 1
    return low
