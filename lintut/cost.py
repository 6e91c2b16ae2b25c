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
from dataclasses import dataclass

from lintut.reference._checks import count

DTYPES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}

SYMBOLS = {
    "N": "length", "d": "width of q and k", "d_v": "width of v",
    "r": "feature count", "w": "window", "m": "compressed length",
    "C": "chunk size", "g": "global positions", "b": "block size",
    "n_w": "window blocks", "n_g": "global blocks", "n_r": "random blocks",
    "B": "queries in a tile on the chip", "P": "pairs compared",
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
# maximum and the sum, 2d_v to merge the output.  At the end: divide by the sum.
BLOCKED = Form(
    ("N**2", "B**2*floor(N/B)*(floor(N/B)+1)//2+(N%B)*N"),
    "2*P*(d+d_v)",
    ("4*P+N*(d+d_v)+N*ceil(N/B)*(2*d_v+5)",
     "4*P+N*(d+d_v)+(B*floor(N/B)*(floor(N/B)+1)//2"
     "+(N%B)*ceil(N/B))*(2*d_v+5)"),
    ("N*(d+d_v)+N*ceil(N/B)*(d+d_v)",
     "N*(d+d_v)+N*(ceil(N/B)+1)*(d+d_v)//2"),
    "2*N*(d+d_v)+N")                    # q, k, v, o and log Σ exp, a row

# The query; what it sees before, and (not causal) after it.
BEFORE, AFTER = "min(floor(w/2),N-1)", "min(ceil(w/2)-1,N-1)"
BAND = (f"N+{BEFORE}*(2*N-1-{BEFORE})//2+{AFTER}*(2*N-1-{AFTER})//2",
        "min(w,N)*N-min(w,N)*(min(w,N)-1)//2")
BIGBIRD_KEYS = "min(N,b*(n_w+n_g+n_r))"


SOFTMAX_FAMILY = {
    "softmax": Mechanism(
        {"parallel": _weights(TRIANGLE), "blocked": BLOCKED}, _cache("N")),
    "sliding_window": Mechanism(
        {"banded": _weights(BAND), "parallel": _weights(TRIANGLE)},
        _cache("min(w,N)")),
    "longformer": Mechanism(
        {"banded": _weights(("min(N**2,w*N+2*g*N)",
                             "min(N*(N+1)//2,w*N+g*N)")),
         "parallel": _weights(TRIANGLE)},
        _cache("min(N,w+g)"),
        "P is an upper bound: a pair both near and global counts twice; "
        "decoding a global token reads everything and is not counted"),
    "bigbird": Mechanism(
        {"banded": _weights(("min(N**2,b*(n_w+2*n_g+n_r)*N)",
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
    # φ: 4 a feature, for q and k.  Write S: 2rd_v, z: r; read: 2rd_v, 2r, d_v
    "linear": _recurrent(
        "r*d_v+r",
        token=("4*r*d_v+2*r", "9*r+d_v"),
        recurrent=("4*N*r*d_v+2*N*r", "9*N*r+N*d_v"),
        chunkwise=("4*N*r*d_v+2*N*r+2*P*(r+d_v)",
                   "9*N*r+2*N*d_v+P+ceil(N/C)*r*d_v"),
        parallel=("2*P*(r+d_v)", "8*N*r+2*P"),
        sums=("4*N*r*d_v+2*N*r", "9*N*r+N*d_v"),
        note="the feature map is ELU + 1, so that r = d"),
    # as linear; φ: projections 4dr, squared norms and scaling
    "performer": _recurrent(
        "r*d_v+r",
        token=("4*d*r+4*r*d_v+2*r", "6*d+7*r+d_v"),
        recurrent=("4*N*d*r+4*N*r*d_v+2*N*r", "6*N*d+7*N*r+N*d_v"),
        chunkwise=("4*N*d*r+4*N*r*d_v+2*N*r+2*P*(r+d_v)",
                   "6*N*d+7*N*r+2*N*d_v+P+ceil(N/C)*r*d_v"),
        parallel=("4*N*d*r+2*P*(r+d_v)", "6*N*d+6*N*r+2*P"),
        sums=("4*N*d*r+4*N*r*d_v+2*N*r", "6*N*d+7*N*r+N*d_v"),
        note="positive random features"),
    # fade S: dd_v
    "retention": _recurrent(
        "d*d_v",
        token=("4*d*d_v", "d*d_v"),
        recurrent=("4*N*d*d_v", "N*d*d_v"),
        chunkwise=("4*N*d*d_v+2*P*(d+d_v)",
                   "P+N*(2*d+d_v)+2*ceil(N/C)*d*d_v"),
        parallel=("2*P*(d+d_v)", "P")),
    "gla": _recurrent(
        "d*d_v",
        token=("4*d*d_v", "d*d_v"),
        recurrent=("4*N*d*d_v", "N*d*d_v"),
        chunkwise=("4*N*d*d_v+2*P*(d+d_v)",
                   "3*P*d+N*(4*d+d_v)+2*ceil(N/C)*d*d_v"),
        parallel=("2*P*(d+d_v)", "3*P*d"),
        inputs="N*(3*d+d_v)"),
    # read the old value 2dd_v, write the error 2dd_v, read 2dd_v
    "delta": _recurrent(
        "d*d_v",
        token=("6*d*d_v", "2*d_v"),
        recurrent=("6*N*d*d_v", "2*N*d_v"),
        chunkwise=("6*N*d*d_v+P*(5*d+3*d_v)", "2*P"),
        parallel=("4*P*d+2*P*d_v", "P"),
        inputs="N*(2*d+d_v+1)"),
    "gated_delta": _recurrent(
        "d*d_v",
        token=("6*d*d_v", "d*d_v+2*d_v"),
        recurrent=("6*N*d*d_v", "N*d*d_v+2*N*d_v"),
        chunkwise=("6*N*d*d_v+P*(5*d+3*d_v)", "4*P+2*ceil(N/C)*d*d_v"),
        parallel=("4*P*d+2*P*d_v", "2*P"),
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
    return re.sub(r"([+-])", r" \1 ", formula).replace(",", ", ")


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


# -- the answer ----------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What `of` returns.  The decode and state fields are None where the
    mechanism has no causal step; `formulas` holds the text of each field,
    for one head of one sequence, in elements where the field is in bytes.
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
        """FLOPs a byte, over the whole sequence."""
        return self.prefill_flops / self.bytes_moved

    def text(self, name):
        """A field in words: "4.29 GFLOP", "8.125 KiB", "not defined"."""
        value = getattr(self, name)
        if value is None:
            return "not defined"
        if "bytes" in name:
            return bytes_text(value)
        if name.endswith(("flops", "products", "other")):
            return flops_text(value)
        return f"{value:,}"


def of(mechanism, form=None, *, N, d, d_v=None, r=None, w=256, m=256, C=64,
       g=1, b=64, n_w=3, n_g=2, n_r=3, heads=1, batch=1, dtype="float16",
       causal=True, B=None, on_chip=166_912, pairs=None):
    """The cost of one mechanism in one form.

    Parameters
    ----------
    mechanism : a module of `lintut.reference`, or "flash" (softmax, blocked)
    form : one of `forms(mechanism)`; None takes the first that fits `causal`
    N, d, d_v, r, w, m, C, g, b, n_w, n_g, n_r : the sizes, as in `SYMBOLS`;
        d_v and r are d unless given
    heads, batch : multiply everything
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
    if mechanism == "flash":
        mechanism, form = "softmax", "blocked"
    if mechanism == "hybrid":
        raise ValueError("mechanism hybrid is a sum: add the costs of its "
                         "window heads and its linear heads")
    known = _choose("mechanism", mechanism, MECHANISMS)
    form = form or _default(mechanism, causal)
    how = _choose("form", form, known.forms)
    if not causal and mechanism in CAUSAL_ONLY or (
            not causal and form in ("recurrent", "chunkwise")):
        raise ValueError(f"causal must be True for {mechanism} {form}")
    if causal and form == "sums":
        raise ValueError("causal must be False for the form sums")
    sizes = dict(N=N, d=d, d_v=d if d_v is None else d_v,
                 r=d if r is None else r, w=w, m=m, C=C, g=g, b=b, n_w=n_w,
                 n_g=n_g, n_r=n_r)
    sizes = {name: count(name, size, 0 if name in ("g", "n_g", "n_r") else 1)
             for name, size in sizes.items()}
    size = _choose("dtype", dtype, DTYPES)
    row = 2 * (sizes["d"] + sizes["d_v"]) * size
    sizes["B"] = min(sizes["N"], count(
        "B", max(1, on_chip // row) if B is None else B))
    return _cost(mechanism, form, how, known, sizes, causal, pairs, size,
                 count("heads", heads) * count("batch", batch))


def forms(mechanism):
    """The names of a mechanism's forms."""
    return tuple(_choose("mechanism", mechanism, MECHANISMS).forms)


CAUSAL_ONLY = ("retention", "gla", "delta", "gated_delta")


def _default(mechanism, causal):
    names = forms(mechanism)
    return "sums" if not causal and "sums" in names else names[0]


def _choose(name, key, table):
    if key not in table:
        raise ValueError(f"{name} must be one of {', '.join(table)}; "
                         f"it is {key!r}")
    return table[key]


def _cost(mechanism, form, how, known, sizes, causal, pairs, size, times):
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
    symbols = sizes | {"P": count("pairs", P, 0)}
    value = {name: evaluate(text, symbols) * times
             * (size if "bytes" in name else 1)
             for name, text in texts.items()}
    value["saved_bytes"] = value["saved_elements"] * size
    for name in ("decode_products", "decode_other", "decode_bytes",
                 "state_elements"):
        value.setdefault(name, None)
    value["state_bytes"] = (value["state_elements"] * size
                            if known.step else None)
    return Cost(mechanism, form, **value, note=known.note,
                formulas={k: typeset(text) for k, text in texts.items()})


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
