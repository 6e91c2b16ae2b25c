"""Calling a function whose library, layout and orientation are its own.

Inside `lintut.verify` everything is (B, H, T, ·), NumPy, float64.  A `Caller`
turns that into what the function takes, and its result back.
"""

import inspect
import sys

import numpy as np

# The axes of q before its width, in the order that the function has them.
LAYOUTS = {"BHT": "(B, H, T, D)", "BTH": "(B, T, H, D)", "BT": "(B, T, D)",
           "T": "(T, D)"}
OTHER_NAMES = {"initial_state": ("state", "state0", "h0"),
               "return_state": ("output_final_state",),
               "gamma": ("decay", "γ"), "alpha": ("α",), "beta": ("β",)}


class Failed(Exception):
    """The function raised, or returned what is no result; the text says."""


class Caller:
    """A function and how to call it.

    `layout` is a key of `LAYOUTS`, `library` "NumPy" or "torch"; `turned`
    says that the function holds S as d_v×d.
    """

    def __init__(self, function, rule, names, options, library, layout,
                 dtype="float64"):
        self.function, self.rule, self.options = function, rule, options
        self.library, self.layout, self.dtype = library, layout, dtype
        self.turned = self.square = False
        self.multiple = 1
        parameters = _parameters(function)
        # A feature map is the function's own: only the definition needs ours.
        self.theirs = {name: _theirs(name, names, parameters) for name in (
            *rule.gates, *options, "initial_state", "return_state",
            "chunk_size") if name != "feature_map"}

    def takes(self, name):
        return self.theirs.get(name) is not None

    @property
    def lead(self):
        """How many (batch entries, heads) the layout has room for."""
        return {"BT": (2, 1), "T": (1, 1)}.get(self.layout, (2, 3))

    # -- there --

    def array(self, x, dtype=None):
        """A fresh array of the function's library."""
        dtype = dtype or self.dtype
        if self.library == "NumPy":
            return np.array(x, dtype, order="C")
        torch = sys.modules["torch"]
        return torch.tensor(x, dtype=getattr(torch, dtype))

    def sequence(self, x, dtype=None):
        """(B, H, T, …) in the function's layout."""
        return self.array({"BHT": x, "BTH": np.swapaxes(x, 1, 2),
                           "BT": x[:, 0], "T": x[0, 0]}[self.layout], dtype)

    def states(self, state, dtype=None):
        """The function's form of a state: an array, or a tuple of them."""
        if self.rule.state == "KV":
            return tuple(self.sequence(x, dtype) for x in state)
        S, *z = state if self.rule.state == "Sz" else (state,)
        parts = [np.swapaxes(S, -1, -2) if self.turned else S, *z]
        parts = [self.array({"BT": x[:, 0], "T": x[0, 0]}.get(
            self.layout, x), dtype) for x in parts]
        return tuple(parts) if z else parts[0]

    def arguments(self, x, state=None, want=False, dtype=None, **more):
        """(positional, keywords, the arrays by our names)."""
        arrays = {name: self.sequence(x[name], dtype) for name in x}
        positional = [arrays[name] for name in "qkv"]
        keywords = {self.theirs[name]: value for name, value in
                    (self.options | more).items()
                    if self.takes(name)}
        for gate in self.rule.gates:
            if self.takes(gate):
                keywords[self.theirs[gate]] = arrays[gate]
            else:
                positional.append(arrays[gate])
        if state is not None:
            given = self.states(state, dtype)
            into = self.theirs["initial_state"]
            if isinstance(into, tuple):             # each part by itself
                keywords |= dict(zip(into, given))
            else:
                keywords[into] = given
            parts = given if isinstance(given, tuple) else (given,)
            arrays |= {f"initial_state[{i}]": y for i, y in enumerate(parts)}
        if want and self.takes("return_state"):
            keywords[self.theirs["return_state"]] = True
        return positional, keywords, arrays

    def run(self, positional, keywords):
        """What the function returns, or `Failed`."""
        try:
            with np.errstate(all="ignore"):
                return self.function(*positional, **keywords)
        except Exception as error:
            raise Failed(f"it raised {type(error).__name__}: "
                         f"{str(error).split(chr(10))[0]}") from error

    # -- and back --

    def __call__(self, x, state=None, want=False, dtype=None, **more):
        """(o, state or None) as float64 arrays (B, H, T, ·)."""
        positional, keywords, _ = self.arguments(x, state, want, dtype, **more)
        return self.read(self.run(positional, keywords), x)

    def read(self, result, x):
        o, state = split(result)
        shape = np.broadcast_shapes(x["v"].shape[:3], x["q"].shape[:3])
        return (self._sequence(o, (*shape, x["v"].shape[-1])),
                None if state is None else self._states(state))

    def _sequence(self, y, shape=None):
        y = numbers(y)
        if shape is not None:
            expected = self.sequence(np.empty(shape)).shape
            if y.shape != tuple(expected):
                raise Failed(f"the result should have v's shape "
                             f"{tuple(expected)}; it has {y.shape}")
        return {"BHT": lambda: y, "BTH": lambda: np.swapaxes(y, 1, 2),
                "BT": lambda: y[:, None], "T": lambda: y[None, None]
                }[self.layout]()

    def _states(self, state):
        parts = state if isinstance(state, tuple) else (state,)
        count = len(self.rule.state)
        if len(parts) != count:
            raise Failed(f"its state should have {count} part"
                         f"{'s' if count > 1 else ''} ({self.rule.state}); "
                         f"it has {len(parts)}")
        if self.rule.state == "KV":
            return tuple(self._sequence(y) for y in parts)
        parts = [{"BT": lambda: y[:, None], "T": lambda: y[None, None]}.get(
            self.layout, lambda: y)() for y in map(numbers, parts)]
        if self.turned:
            parts[0] = np.swapaxes(parts[0], -1, -2)
        return tuple(parts) if count > 1 else parts[0]


def split(result):
    """o and the state of what a function returned."""
    if not isinstance(result, (tuple, list)):
        return result, None
    o, *state = result
    state = state[0] if len(state) == 1 else tuple(state)
    return o, (tuple(state) if isinstance(state, list) else state)


def numbers(y):
    """An array or tensor as float64, or `Failed`."""
    if hasattr(y, "detach"):
        y = y.detach().cpu().double().numpy()
    try:
        if y is None:
            raise TypeError
        return np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise Failed("it should return an array; it returned "
                     f"{type(y).__name__}") from None


def _parameters(function):
    """The names of a function's parameters, or of a torch module's forward.
    """
    function = getattr(function, "forward", function)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (
        p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))


def _theirs(name, names, parameters):
    """The function's own name for one of ours, or None."""
    if name in names:
        return names[name]
    return next((known for known in (name, *OTHER_NAMES.get(name, ()))
                 if known in parameters), None)
