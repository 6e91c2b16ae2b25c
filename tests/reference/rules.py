"""What the tests of the recurrent family share: `Contract`, and its parts.

A test class names a module, draws its gates, and brings an oracle in plain
Python; the contract compares every form with it, and checks what all forms
promise.
"""

from math import fsum

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from .cases import (CHUNKS, LENGTHS, agree, draw, frozen, leaves, spoilt,
                    survives, wild)

relaxed = settings(deadline=None, max_examples=50,
                   suppress_health_check=[HealthCheck.differing_executors])


def read(S, x):
    """Sᵀx, for S and x as lists."""
    return [fsum(row[c] * x_i for row, x_i in zip(S, x))
            for c in range(len(S[0]))]


def plus_outer(S, key, value):
    """S + key valueᵀ, for lists."""
    return [[s + k_i * v_c for s, v_c in zip(row, value)]
            for row, k_i in zip(S, key)]


def decades(rng, shape, low=1e-6):
    """Gates in [low, 1], each decade as often; some are 1, some are `low`."""
    kind = rng.random(shape)
    gate = low ** rng.random(shape)
    return np.where(kind < .3, 1.0, np.where(kind < .4, low, gate))


def steps(rng, shape):
    """β in [0, 2], a few of each end."""
    kind = rng.random(shape)
    beta = rng.uniform(0, 2, shape)
    return np.where(kind < .1, 0.0, np.where(kind < .2, 2.0, beta))


class Contract:
    """To be inherited; a class says what is under test."""

    module = None
    options = {}                    # keywords of every call
    names = ()                      # the gates' names, in order
    causal_bits = ("parallel", "recurrent", "chunkwise")

    def gates(self, rng, n, d, lead=()):
        return ()

    def oracle(self, q, k, v, *gates, state=None):
        """(o, state) of one sequence."""
        raise AssertionError("every class brings its oracle")

    def start(self, rng, lead=(), d=5, d_v=3):
        """A state that is neither zero nor symmetric."""
        return frozen(rng.normal(size=(*lead, d, d_v)))

    # -- inputs and calls --

    def inputs(self, n, d=5, d_v=3, lead=(), seed=0, dtype=np.float64):
        """q, k of unit length, v, gates: read-only."""
        q, k, v = draw(n, d, d_v, lead, seed)
        k = k / np.linalg.norm(k, axis=-1, keepdims=True)
        rng = np.random.default_rng([seed, n, 1])
        return tuple(frozen(np.asarray(x, dtype)) for x in
                     (q, k, v, *self.gates(rng, n, d, lead)))

    def call(self, form, inputs, **options):
        return getattr(self.module, form)(*inputs, **{**self.options,
                                                      **options})

    def tokens(self, inputs, rows):
        """Those rows of q, k, v and of each gate that has a token axis."""
        return tuple(x[..., rows, :] if i < 3 else self.gate_rows(x, rows)
                     for i, x in enumerate(inputs))

    def gate_rows(self, gate, rows):
        return gate[..., rows]

    # -- what is promised --

    @pytest.mark.parametrize("begin", [False, True])
    @pytest.mark.parametrize("n", LENGTHS)
    def test_every_form_is_the_rule(self, n, begin):
        inputs = self.inputs(n)
        state = self.start(np.random.default_rng(n)) if begin else None
        o, final = self.oracle(*inputs, state=state)
        with_state = dict(initial_state=state, return_state=True)
        if not begin:
            agree(self.call("parallel", inputs), o)
        agree(self.call("recurrent", inputs, **with_state), (o, final))
        for size in CHUNKS:
            agree(self.call("chunkwise", inputs, chunk_size=size,
                            **with_state), (o, final))

    @pytest.mark.parametrize("form", ["parallel", "recurrent", "chunkwise"])
    def test_leading_axes_broadcast(self, form):
        """Each argument brings axes of its own."""
        n, leads = 70, [(2, 1), (3,), (), (2, 1, 1)]
        q, k, v, *gates = (
            self.inputs(n, lead=lead, seed=i)[i if i < 3 else slice(3, None)]
            for i, lead in enumerate(leads))
        gates = gates[0]
        o = self.call(form, (q, k, v, *gates))
        lead = (2, 2, 3) if gates else (2, 3)
        assert o.shape == (*lead, n, 3)
        for at in np.ndindex(lead):
            one = (q[at[-2], 0], k[at[-1]], v, *(g[at[0], 0, 0]
                                                 for g in gates))
            agree(o[at], self.oracle(*one)[0])

    @pytest.mark.parametrize("form", ["recurrent", "chunkwise"])
    def test_states_have_leading_axes(self, form):
        inputs = self.inputs(70, lead=(2, 3))
        state = self.start(np.random.default_rng(0), lead=(2, 3))
        one = self.start(np.random.default_rng(1))
        for begin, pick in ((state, lambda x, at: x[at]),
                            (one, lambda x, at: x)):
            o, final = self.call(form, inputs, initial_state=begin,
                                 return_state=True)
            for at in np.ndindex(2, 3):
                alone = tuple(x[at] for x in inputs)
                first = (tuple(pick(x, at) for x in begin)
                         if isinstance(begin, tuple) else pick(begin, at))
                expected = self.oracle(*alone, state=first)
                got = (tuple(x[at] for x in final)
                       if isinstance(final, tuple) else final[at])
                agree((o[at], got), expected)

    @given(st.integers(2, 150), st.data())
    @relaxed
    def test_split_and_carry_is_one_pass(self, n, data):
        inputs = self.inputs(n, lead=(2,), seed=1)
        ends = sorted(data.draw(st.sets(st.integers(1, n - 1), max_size=4)))
        state = data.draw(st.sampled_from(
            [None, self.start(np.random.default_rng(n), lead=(2,))]))
        whole = self.call("recurrent", inputs, initial_state=state,
                          return_state=True)
        parts = []
        for rows in map(slice, [0, *ends], [*ends, n]):
            form, sizes = data.draw(st.sampled_from(
                [("recurrent", {}), ("chunkwise", {}),
                 ("chunkwise", {"chunk_size": 7})]))
            o, state = self.call(form, self.tokens(inputs, rows), **sizes,
                                 initial_state=state, return_state=True)
            parts.append(o)
        agree((np.concatenate(parts, -2), state), whole)

    @pytest.mark.parametrize("form", ["parallel", "recurrent", "chunkwise"])
    def test_the_future_changes_no_bit(self, form):
        """Other tokens after t, and none at all."""
        n = 150
        inputs, other = self.inputs(n, seed=2), self.inputs(n, seed=3)
        o = self.call(form, inputs)
        for t in (1, 63, 64, 65, 100, 149):
            changed = []
            for i, (x, y) in enumerate(zip(inputs, other)):
                now = np.array(x)
                later = (..., slice(t, None)) + ((slice(None),) if i < 3 else
                                                 self.gate_tail)
                if now.ndim:
                    now[later] = y[later] * (1e3 if i == 2 else 1)
                changed.append(now)
            assert np.array_equal(self.call(form, changed)[:t], o[:t])
            agree(self.call(form, self.tokens(inputs, slice(t))), o[:t],
                  1e-11)

    gate_tail = ()                  # what follows a gate's token axis

    @pytest.mark.parametrize("form", ["parallel", "recurrent", "chunkwise"])
    def test_results_are_new_and_inputs_as_they_were(self, form):
        """A write on a read-only input would raise."""
        inputs = self.inputs(20)
        options = {}
        if form != "parallel":
            options = dict(initial_state=self.start(np.random.default_rng(0)),
                           return_state=True)
        result = leaves(self.call(form, inputs, **options))
        given_ = [*inputs, *leaves(options.get("initial_state"))]
        for x in result:
            assert x.flags.writeable and x.dtype == np.float64
            assert not any(np.shares_memory(x, y) for y in given_)
        for x, y in zip(result, result[1:]):
            assert not np.shares_memory(x, y)

    @pytest.mark.parametrize("form", ["parallel", "recurrent", "chunkwise"])
    def test_dtype_is_kept(self, form):
        inputs = self.inputs(70, dtype=np.float32)
        double = tuple(x.astype(float) for x in inputs)
        o, exact = self.call(form, inputs), self.call(form, double)
        assert o.dtype == np.float32
        agree(o, exact, 1e-3)       # each row; the sharp bounds are below
        assert np.abs(o - exact).max() < 1e-5 * np.abs(exact).max()

    def check_float32(self, inputs, tolerance):
        """float32 chunks against the float64 recurrence."""
        o, state = self.call("chunkwise", inputs, return_state=True)
        exact = self.call("recurrent", [x.astype(float) for x in inputs],
                          return_state=True)
        for x, y in zip(leaves((o, state)), leaves(exact)):
            assert x.dtype == np.float32
            assert np.abs(x - y).max() < tolerance * np.abs(y).max()

    def test_float32_at_4096(self):
        for seed in range(2):
            self.check_float32(self.inputs(4096, d=16, d_v=8, seed=seed,
                                           dtype=np.float32), 1e-5)

    def test_float32_at_65536(self):
        self.check_float32(self.inputs(65536, d=6, d_v=4,
                                       dtype=np.float32), 1e-4)

    # -- what is refused --

    def bad(self):
        """(arguments to replace, the message)."""
        q, k, v, *_ = self.inputs(6)
        return [
            (dict(q=q[:, :4]), "k must have q's width d=4"),
            (dict(v=v[:5]), "v must have k's length N=6"),
            (dict(q=q[:5]), "k must have q's length N=5"),
            (dict(q=q[0]), "q must have shape"),
            (dict(k=k.astype(int)), "k must be float32 or float64"),
            (dict(v=v.astype(complex)), "v must be float32 or float64"),
            (dict(v=v.astype(np.float32)), "must share one dtype"),
            (dict(q=q[:0], k=k[:0], v=v[:0]), "q is empty"),
            (dict(k=np.where(k == k[2, 1], np.nan, k)),
             r"k must be finite; k\[2, 1\] is nan"),
            (dict(q=np.stack([q, q]), k=np.stack([k] * 3)),
             "leading axes of q, k and v"),
            *self.bad_gates(),
        ]

    def bad_gates(self):
        return []

    @pytest.mark.parametrize("form", ["parallel", "recurrent", "chunkwise"])
    def test_bad_input_is_named(self, form):
        good = dict(zip(("q", "k", "v", *self.names), self.inputs(6)))
        for change, message in self.bad():
            with pytest.raises(ValueError, match=message):
                getattr(self.module, form)(**{**self.options, **good,
                                              **change})

    @pytest.mark.parametrize("form", ["recurrent", "chunkwise"])
    def test_bad_states_are_named(self, form):
        S = np.ones((5, 3))
        for state in (S.T, S[0], S[None, :, :, None], S.astype(np.float32),
                      S * np.inf, "text", 3, np.ones((4, 5, 3))):
            with pytest.raises(ValueError, match="initial_state"):
                self.call(form, self.inputs(6), initial_state=state)
        with pytest.raises(ValueError, match="return_state"):
            self.call(form, self.inputs(6), return_state="yes")

    def test_bad_chunk_sizes_are_named(self):
        for size in (0, -3, 2.0, "8", None, True):
            with pytest.raises(ValueError, match="chunk_size must be"):
                self.call("chunkwise", self.inputs(6), chunk_size=size)

    def wild_gates(self, data, n, d, dtype):
        return {}

    @given(st.data())
    @relaxed
    def test_any_input_is_finite_or_refused(self, data):
        n, d, d_v = (data.draw(st.integers(1, 6)) for _ in range(3))
        dtype = data.draw(st.sampled_from([np.float32, np.float64]))
        base = {**self.options,
                "q": data.draw(wild(n, d, dtype=dtype)),
                "k": data.draw(wild(n, d, dtype=dtype)),
                "v": data.draw(wild(n, d_v, dtype=dtype)),
                **self.wild_gates(data, n, d, dtype)}
        state = {"initial_state": self.wild_state(data, d, d_v, dtype),
                 "return_state": True}
        chunk = {"chunk_size": data.draw(st.integers(1, 7))}
        for form, extra in (("parallel", {}), ("recurrent", state),
                            ("chunkwise", {**state, **chunk})):
            arguments = data.draw(spoilt({**base, **extra}))
            survives(lambda: getattr(self.module, form)(**arguments),
                     arguments)

    def wild_state(self, data, d, d_v, dtype):
        return data.draw(st.one_of(st.none(), wild(d, d_v, dtype=dtype)))
