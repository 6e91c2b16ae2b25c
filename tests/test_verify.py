"""`lintut.verify`: right functions pass, mistakes are named.

The mistaken functions below are written here, a line or two changed in a
plain one; none of them shares code with `lintut.verify`.
"""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from lintut import verify

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def finding(report, test):
    return next(f for f in report.findings if f.test == test)


# -- what is right passes, in every layout and orientation --------------------

FORMS = [(rule, form) for rule, forms in {
    "softmax": ("parallel", "blocked", "recurrent"),
    "sliding_window": ("parallel", "banded", "recurrent"),
    **dict.fromkeys(("linear", "retention", "gla", "delta", "gated_delta"),
                    ("parallel", "recurrent", "chunkwise"))}.items()
    for form in forms]


@pytest.mark.parametrize("rule, form", FORMS)
def test_every_reference_passes(rule, form):
    function = getattr(import_module(f"lintut.reference.{rule}"), form)
    report = verify.check(function, rule, **(
        {"causal": True} if (rule, form) == ("softmax", "recurrent") else {}))
    assert report.ok and not report.mistake, report
    assert "NumPy float64, (B, H, T, D)" in report.called
    done = {f.test for f in report.findings if f.passed}
    assert done >= {"agrees with the definition", "lengths, many chunks",
                    "sequences apart", "inputs untouched",
                    "nothing unwritten", "float32"}
    assert (form == "recurrent") <= ("split and carry" in done)
    assert (form == "chunkwise") <= ("chunk sizes" in done)
    if not (rule == "softmax" and form != "recurrent"):
        assert "no future in the past" in done


@pytest.mark.parametrize("rule", verify.RULES)
def test_every_torch_function_passes_with_its_gradients(rule):
    function = import_module(f"lintut.kernels.{rule}").chunkwise
    for causal in (True, False) if rule == "softmax" else (None,):
        report = verify.check(function, rule, **(
            {} if causal is None else {"causal": causal}))
        assert report.ok, report
        assert "torch float64, (B, T, H, D)" in report.called
        assert finding(report, "gradients").passed
        assert finding(report, "bfloat16").passed
        if causal is not False:
            assert finding(report, "split and carry").passed


def moved(function, layout, turned):
    """A (B, H, T, ·) function in another layout, S transposed if `turned`."""
    def into(x):
        return {"BHT": lambda: x, "BTH": lambda: x.swapaxes(1, 2),
                "BT": lambda: x[:, None], "T": lambda: x[None, None]
                }[layout]()

    def out(x):
        return {"BHT": lambda: x, "BTH": lambda: x.swapaxes(1, 2),
                "BT": lambda: x[:, 0], "T": lambda: x[0, 0]}[layout]()

    def swap(S):
        return S.swapaxes(-1, -2) if turned else S

    def lead(S, back=False):
        if layout in ("BHT", "BTH"):
            return S
        return out(S) if back else into(S)

    def function_of_theirs(q, k, v, *gates, state=None,
                           output_final_state=False):
        assert len(q.shape) == {"BT": 3, "T": 2}.get(layout, 4)
        if state is not None:
            state = (tuple(map(lead, (swap(state[0]), state[1])))
                     if isinstance(state, tuple) else lead(swap(state)))
        gates = [g if isinstance(g, float) else into(g) for g in gates]
        o, S = function(into(q), into(k), into(v), *gates,
                        initial_state=state, return_state=True)
        S = ((swap(lead(S[0], True)), lead(S[1], True))
             if isinstance(S, tuple) else swap(lead(S, True)))
        return (out(o), S) if output_final_state else out(o)
    return function_of_theirs


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("layout", ["BHT", "BTH", "BT", "T"])
@pytest.mark.parametrize("rule", ["linear", "gla", "gated_delta"])
def test_layouts_and_orientations_are_found(rule, layout, turned):
    function = moved(import_module(f"lintut.reference.{rule}").chunkwise,
                     layout, turned)
    report = verify.check(function, rule)
    assert report.ok, report
    assert {"BHT": "(B, H, T, D)", "BTH": "(B, T, H, D)",
            "BT": "(B, T, D)", "T": " (T, D)"}[layout] in report.called
    assert ("S as d_v×d" if turned else "S as d×d_v") in report.called
    assert "initial_state as state" in report.called
    assert finding(report, "split and carry").passed


@pytest.mark.parametrize("turned", [False, True])
def test_torch_the_other_way_round(turned):
    """Heads before tokens, S as d_v×d."""
    from lintut.kernels import gated_delta

    def heads_first(q, k, v, alpha, beta, initial_state=None,
                    return_state=False):
        q, k, v, alpha, beta = (x.transpose(1, 2) for x in
                                (q, k, v, alpha, beta))
        S = initial_state
        S = S.mT if turned and S is not None else S
        o, S = gated_delta.chunkwise(q, k, v, alpha, beta, initial_state=S,
                                     return_state=True)
        o, S = o.transpose(1, 2), S.mT if turned else S
        return (o, S) if return_state else o

    report = verify.check(heads_first, "gated_delta")
    assert report.ok, report
    assert "torch float64, (B, H, T, D)" in report.called
    assert ("d_v×d" if turned else "d×d_v") in report.called


def test_a_performer_is_linear_with_its_feature_map():
    from lintut.reference import performer

    def mine(q, k, v, seed=0):
        return performer.chunkwise(q, k, v, n_features=16, seed=seed)

    def features(x):
        x = x * x.shape[-1] ** -.25         # scale 1/√d, half to each
        return performer.features(x, performer.projection(
            16, x.shape[-1], seed=0).astype(x.dtype))

    report = verify.check(mine, "linear", feature_map=features)
    assert report.ok, report
    assert not verify.check(lambda q, k, v: mine(q, k, v, seed=1), "linear",
                            feature_map=features).ok


def test_names_can_be_mapped():
    def mine(Q, K, V, step, g, S=None, z=None):
        from lintut.reference import gated_delta
        return gated_delta.recurrent(Q, K, V, g, step, initial_state=S,
                                     return_state=True)

    report = verify.check(mine, "gated_delta", names={
        "alpha": "g", "beta": "step", "initial_state": "S"})
    assert report.ok and finding(report, "split and carry").passed, report
    assert "alpha as g" in report.called
    assert not verify.check(mine, "gated_delta").ok     # α and β in order


def test_a_state_in_two_arguments_and_two_results():
    report = verify.check(linear(), "linear",
                          names={"initial_state": ("S", "z")})
    assert report.ok and finding(report, "split and carry").passed, report


def test_a_torch_module_is_asked_for_the_names_of_its_forward():
    class Mine(torch.nn.Module):
        def forward(self, q, k, v, beta, initial_state=None,
                    return_state=False):
            from lintut.kernels import delta
            return delta.chunkwise(q, k, v, beta, initial_state=initial_state,
                                   return_state=return_state)

    report = verify.check(Mine(), "delta")
    assert report.ok and finding(report, "split and carry").passed, report
    assert str(report).startswith("Mine, which claims to be delta")


def test_a_hard_wired_window_is_not_passed():
    def mine(q, k, v):
        from lintut.reference import sliding_window
        return sliding_window.banded(q, k, v, 5)

    assert verify.check(mine, "sliding_window", window=5).ok
    assert "6" not in verify.check(mine, "sliding_window", window=5).mistake
    assert "5 keys instead of 6" in verify.check(
        mine, "sliding_window", window=6).mistake


# -- plain functions of one sequence, (T, D), and ways to spoil them ----------

def φ(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def attention(scale=lambda d, d_v: d ** -.5, hide=lambda i, j: j > i,
              late=False, over=1, swap=False, hidden=-np.inf, safe=True):
    def mine(q, k, v):
        if swap:
            q, k = k, q
        n = len(q)
        s = q @ k.T * q.dtype.type(scale(q.shape[1], v.shape[1]))
        i, j = np.arange(n)[:, None], np.arange(n)
        if not late:
            s = np.where(hide(i, j), hidden, s).astype(q.dtype)
        p = np.exp(s - s.max(over, keepdims=True)) if safe else np.exp(s)
        p = p / p.sum(over, keepdims=True)
        return (np.where(hide(i, j), 0, p) if late else p).astype(
            q.dtype) @ v
    return mine


def linear(carry_z=True, divide="z", early=False, features=φ, chunk=None,
           z_chunk=None):
    def mine(q, k, v, S=None, z=None):
        fq, fk = features(q), features(k)
        S = np.zeros((k.shape[1], v.shape[1]), v.dtype) if S is None else S
        z = np.zeros(k.shape[1], v.dtype) if z is None or not carry_z else z
        z_end, o = z + fk.sum(0), np.empty_like(v)
        for t in range(len(v)):
            if chunk and t % chunk == 0:
                S, z = 0 * S, 0 * z
            if z_chunk and t % z_chunk == 0:
                z = 0 * z
            if early:
                o[t] = fq[t] @ S / (fq[t] @ z)
            S = S + fk[t][:, None] * v[t]
            z = z + fk[t]
            if not early:
                o[t] = fq[t] @ S / {"z": fq[t] @ z, "": 1, "t": t + 1,
                                    "all": fq[t] @ z_end}[divide]
        return o, S, z
    return mine


def decayed(fade="before", read="after", shift=0, chunk=None):
    def mine(q, k, v, alpha, initial_state=None, return_state=False):
        S = (np.zeros((k.shape[1], v.shape[1]), v.dtype)
             if initial_state is None else initial_state.copy())
        o = np.empty_like(v)
        for t in range(len(v)):
            if chunk and t % chunk == 0:
                S = 0 * S
            a = alpha[min(max(t + shift, 0), len(v) - 1)][:, None]
            w = k[t][:, None] * v[t]
            if fade == "mean":
                w = (1 - a) * w
            old, S = S, (a * (S + w) if fade == "after" else a * S + w)
            o[t] = q[t] @ {"after": S, "early": old, "unfaded": old + w}[read]
        return (o, S) if return_state else o
    return mine


def handed_on(old=True, new=True, C=32):
    """Gated attention in chunks, with the fading of what goes on, (T, D)."""
    def mine(q, k, v, alpha):
        S, o = np.zeros((k.shape[1], v.shape[1]), v.dtype), np.empty_like(v)
        for s in range(0, len(v), C):
            logs = np.cumsum(np.log(alpha[s:s + C]), 0)
            K, V = k[s:s + C], v[s:s + C]
            for i in range(len(V)):
                w = q[s + i] * np.exp(logs[i] - logs[:i + 1]) * K[:i + 1]
                o[s + i] = (q[s + i] * np.exp(logs[i])) @ S + w.sum(1) @ V[
                    :i + 1]
            S = ((np.exp(logs[-1])[:, None] * S if old else S)
                 + (K * np.exp(logs[-1] - logs) if new else K).T @ V)
        return o
    return mine


def of_length_1(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def without_the_last(q, k, v, alpha, initial_state=None, return_state=False):
    """(T, D); the state is handed on before the last token."""
    o = decayed()(q, k, v, alpha, initial_state)
    before = (x[:-1] for x in (q, k, v, alpha))
    S = decayed()(*before, initial_state, True)[1]
    return (o, S) if return_state else o


def carried_unfaded(q, k, v, gamma, C=16, late=False):
    """Retention in chunks; the state is read as it came in, (T, D).

    Or, `late`, faded up to the token before the one that reads it.
    """
    S, o = np.zeros((k.shape[1], v.shape[1]), v.dtype), np.empty_like(v)
    for s in range(0, len(v), C):
        r = slice(s, s + C)
        i = np.arange(len(q[r]))
        D = np.tril(gamma ** np.maximum(i[:, None] - i, 0)).astype(v.dtype)
        since = (gamma ** (i if late else 0 * i))[:, None].astype(v.dtype)
        o[r] = (q[r] @ k[r].T * D) @ v[r] + since * (q[r] @ S)
        S = (gamma ** len(i) * S + (D[-1][:, None] * k[r]).T @ v[r]).astype(
            v.dtype)
    return o


def corrected(error="faded", strength="both", sign=-1, order="fade first",
              transposed=False):
    def mine(q, k, v, alpha, beta, initial_state=None, return_state=False):
        S = (np.zeros((k.shape[1], v.shape[1]), v.dtype)
             if initial_state is None else initial_state)
        o = np.empty_like(v)
        for t in range(len(v)):
            a, b = alpha[t], beta[t]
            faded = a * S if order == "fade first" else S
            old = (q if error == "by query" else k)[t] @ (
                S if error == "unfaded" else faded)
            old = {"none": 0, "twice": a}.get(error, 1) * old
            e = {"both": b * (v[t] + sign * old), "value": b * v[t] - old,
                 "old": v[t] - b * old, "none": v[t] - old,
                 "twice": b * b * (v[t] - old)}[strength]
            if error == "cleared":
                faded, e = (1 - b) * faded, b * v[t]
            if error == "turned":
                e = -e
            S = faded + k[t][:, None] * e
            S = S if order == "fade first" else a * S
            o[t] = S @ q[t] if transposed else q[t] @ S
        return (o, S) if return_state else o
    return mine


def test_the_plain_functions_are_right():
    assert verify.check(attention(), "softmax", causal=True).ok
    assert verify.check(decayed(), "gla").ok
    assert verify.check(handed_on(), "gla").ok
    assert verify.check(corrected(), "gated_delta").ok


def chunked_delta(alpha_in_overlaps=True, wy=True, C=16, ragged=True):
    """The gated delta rule in chunks, (B, H, T, ·)."""
    def mine(q, k, v, alpha, beta, initial_state=None, return_state=False):
        S = (np.zeros((*q.shape[:2], q.shape[3], v.shape[3]), v.dtype)
             if initial_state is None else initial_state)
        o = np.zeros_like(v)
        for s in range(0, q.shape[2] if ragged else q.shape[2] // C * C, C):
            r = slice(s, s + C)
            Q, K, V, b = (x[:, :, r] for x in (q, k, v, beta[..., None]))
            F = np.cumprod(alpha[:, :, r], -1)[..., None]
            D = np.tril(F / np.swapaxes(F, -1, -2))
            L = np.tril(b * K @ np.swapaxes(K, -1, -2), -1)
            L = L * D if alpha_in_overlaps else L
            E = b * (V - F * (K @ S))
            E = np.linalg.solve(np.eye(Q.shape[2], dtype=v.dtype) + L,
                                E) if wy else E
            P = np.tril(Q @ np.swapaxes(K, -1, -2)) * D
            o[:, :, r] = F * (Q @ S) + P @ E
            left = F[:, :, -1:] / F * K
            S = F[:, :, -1:] * S + np.swapaxes(left, -1, -2) @ E
        return (o, S) if return_state else o
    return mine


def batch_mixed(q, k, v, gamma):
    """Every entry reads what entry 0 wrote."""
    i = np.arange(q.shape[2])
    D = np.tril(gamma ** np.maximum(i[:, None] - i, 0)).astype(q.dtype)
    k, v = np.stack([k[0]] * len(k)), np.stack([v[0]] * len(v))
    return (q @ np.swapaxes(k, -1, -2) * D) @ v


def retention_torch(power=0, causal=True, swap=False):
    def mine(q, k, v, gamma):                       # (B, T, H, D)
        i = torch.arange(q.shape[1])
        D = gamma ** (i[:, None] - i + power).clamp(min=0)
        D = D.tril().to(q.dtype) if causal else torch.ones_like(D).to(q.dtype)
        q, k = (k, q) if swap else (q, k)
        return torch.einsum("bihd,bjhd,ij,bjhe->bihe", q, k, D, v)
    return mine


SEPARATE = {"initial_state": ("S", "z")}
MISTAKES = {
    "scale missing": (attention(lambda d, d_v: 1), "softmax",
                      dict(causal=True), "the scale is missing"),
    "scale twice": (attention(lambda d, d_v: 1 / d), "softmax",
                    dict(causal=True), "the scale is applied twice"),
    "scale of d_v": (attention(lambda d, d_v: d_v ** -.5), "softmax",
                     dict(causal=True), "1/√d_v"),
    "not causal": (attention(hide=lambda i, j: False & (i == j)), "softmax",
                   dict(causal=True), "it is not causal"),
    "causal unasked": (attention(), "softmax", {}, "it is causal"),
    "mask late": (attention(late=True), "softmax", dict(causal=True),
                  "the mask comes after the softmax"),
    "mask of 0": (attention(hidden=0), "softmax", dict(causal=True),
                  "exp(0) = 1"),
    "over queries": (attention(over=0), "softmax", dict(causal=True),
                     "over the queries"),
    "q and k": (attention(swap=True), "softmax", dict(causal=True),
                "q and k are exchanged"),
    "window + 1": (attention(hide=lambda i, j: (j > i) | (j < i - 8)),
                   "sliding_window", {}, "9 keys instead of 8"),
    "window − 1": (attention(hide=lambda i, j: (j > i) | (j < i - 6)),
                   "sliding_window", {}, "7 keys instead of 8"),
    "no window": (attention(), "sliding_window", {}, "window is ignored"),
    "window ahead": (attention(hide=lambda i, j: abs(i - j) > 7),
                     "sliding_window", {}, "ahead"),
    "blocks": (attention(hide=lambda i, j: (j > i) | (i // 64 != j // 64)),
               "softmax", dict(causal=True), "own block of 64"),
    "z left behind": (linear(carry_z=False), "linear",
                      dict(names=SEPARATE), "z of the initial state"),
    "undivided": (linear(divide=""), "linear", dict(names=SEPARATE),
                  "nothing is divided"),
    "read first": (linear(early=True), "linear", dict(names=SEPARATE),
                   "read before the token is written"),
    "no φ": (linear(features=lambda x: x), "linear", dict(names=SEPARATE),
             "feature map is left out"),
    "exp": (linear(features=np.exp), "linear", dict(names=SEPARATE),
            "feature map is exp"),
    "by count": (linear(divide="t"), "linear", dict(names=SEPARATE),
                 "divided by the number of tokens"),
    "z of all": (linear(divide="all"), "linear", dict(names=SEPARATE),
                 "z is the sum over all tokens"),
    "relu": (linear(features=lambda x: np.maximum(x, 0)), "linear",
             dict(names=SEPARATE), "feature map is ReLU"),
    "z alone": (linear(z_chunk=32), "linear", dict(names=SEPARATE),
                "z is not carried between chunks of 32"),
    "chunks alone": (linear(chunk=64), "linear", dict(names=SEPARATE),
                     "chunk of 64 starts from nothing"),
    "gla, read first": (decayed(read="early"), "gla", {},
                        "read before the token is written"),
    "gla, fades itself": (decayed(fade="after"), "gla", {},
                          "applied after the write"),
    "gla, unfaded": (decayed(read="unfaded"), "gla", {},
                     "before this step's gate"),
    "gla, gate late": (decayed(shift=-1), "gla", {}, "gate of token t−1"),
    "gla, gate early": (decayed(shift=1), "gla", {}, "gate of token t+1"),
    "gla, chunks": (decayed(chunk=32), "gla", {},
                    "chunk of 32 starts from nothing"),
    "gla, twice": (lambda q, k, v, alpha: decayed()(q, k, v, alpha ** 2),
                   "gla", {}, "gate is applied twice"),
    "gla, logs": (lambda q, k, v, alpha: decayed()(q, k, v, np.exp(alpha)),
                  "gla", {}, "taken for a logarithm"),
    "gla, mean": (decayed(fade="mean"), "gla", {}, "a running mean"),
    "gla, old handed on": (handed_on(old=False), "gla", {},
                           "chunk of 32 starts with is handed"),
    "gla, new handed on": (handed_on(new=False), "gla", {},
                           "what a chunk of 32 writes is handed"),
    "one ahead": (attention(hide=lambda i, j: j > i + 1), "softmax",
                  dict(causal=True), "the key after its own"),
    "upside down": (attention(hide=lambda i, j: j < i), "softmax",
                    dict(causal=True), "upside down"),
    "old by query": (corrected(error="by query"), "gated_delta", {},
                     "read with q, not with k"),
    "old faded twice": (corrected(error="twice"), "gated_delta", {},
                        "α is applied twice to what is read"),
    "turned error": (corrected(error="turned"), "gated_delta", {},
                     "wrong sign"),
    "all cleared": (corrected(error="cleared"), "gated_delta", {},
                    "whole state is multiplied by 1 − β"),
    "error unfaded": (corrected(error="unfaded"), "gated_delta", {},
                      "α is left out of the error"),
    "no error": (corrected(error="none"), "gated_delta", {},
                 "the value is written, not the error"),
    "β on the value": (corrected(strength="value"), "gated_delta", {},
                       "β multiplies the value alone"),
    "β on the old": (corrected(strength="old"), "gated_delta", {},
                     "β multiplies the old value alone"),
    "no β": (corrected(strength="none"), "gated_delta", {},
             "β is left out"),
    "β twice": (corrected(strength="twice"), "gated_delta", {},
                "β is applied twice"),
    "added": (corrected(sign=1), "gated_delta", {}, "old value is added"),
    "fades last": (corrected(order="fade last"), "gated_delta", {},
                   "applied after the write"),
    "transposed": (corrected(transposed=True), "gated_delta", {},
                   "S is read as S q"),
    "WY without α": (chunked_delta(alpha_in_overlaps=False), "gated_delta",
                     {}, "overlaps inside a chunk of 16"),
    "no WY": (chunked_delta(wy=False), "gated_delta", {},
              "errors of a chunk of 16"),
    "the rest": (chunked_delta(ragged=False), "gated_delta", {},
                 "after the last whole chunk of 16"),
    "carried unfaded": (carried_unfaded, "retention", {},
                        "without the fading inside the chunk"),
    "no gate": (lambda q, k, v, alpha: decayed()(q, k, v, alpha ** 0), "gla",
                {}, "nothing fades"),
    "α and β": (lambda q, k, v, alpha, beta: corrected()(q, k, v, beta,
                                                         alpha),
                "gated_delta", {}, "α and β are exchanged"),
    "scaled": (lambda q, k, v, alpha: decayed()(
        (q * q.shape[1] ** -.5).astype(q.dtype), k, v, alpha), "gla", {},
        "q is scaled by 1/√d"),
    "batch mixed": (batch_mixed, "retention", {}, "what entry 0 wrote"),
    "ELU": (linear(features=lambda x: φ(x) - 1), "linear",
            dict(names=SEPARATE), "ELU; it should be ELU + 1"),
    "φ(k)": (lambda q, k, v: linear(features=lambda x: x)(q, φ(k), v)[0],
             "linear", {}, "applied to k and left out for q"),
    "φ(q)": (lambda q, k, v: linear(features=lambda x: x)(φ(q), k, v)[0],
             "linear", {}, "applied to q and left out for k"),
    "sigmoid": (lambda q, k, v, alpha, beta: corrected()(
        q, k, v, alpha, 1 / (1 + np.exp(-beta))), "gated_delta", {},
        "β goes through a sigmoid"),
    "k of length 1": (lambda q, k, v, alpha, beta: corrected()(
        q, of_length_1(k), v, alpha, beta), "gated_delta", {},
        "k is brought to length 1"),
    "q and k of length 1": (lambda q, k, v, alpha, beta: corrected()(
        of_length_1(q), of_length_1(k), v, alpha, beta), "gated_delta", {},
        "q and k are brought to length 1"),
    "carried late": (lambda q, k, v, gamma: carried_unfaded(
        q, k, v, gamma, late=True), "retention", {}, "one gate too few"),
    "last token lost": (without_the_last, "gla", {},
                        "lacks the last token"),
    "γ off by one": (retention_torch(power=1), "retention", {},
                     "one power too many"),
    "retention, not causal": (retention_torch(causal=False), "retention",
                              dict(gamma=1.0), "the past hears"),
    "retention, swapped": (retention_torch(swap=True), "retention", {},
                           "q and k are exchanged"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_is_named(name):
    function, rule, options, words = MISTAKES[name]
    report = verify.check(function, rule, **options)
    assert not report.ok and words in report.mistake, report


def test_single_precision_inside_is_said_and_no_mistake():
    report = verify.check(retention_torch(), "retention")
    assert "float32's precision only" in finding(report, "float64").says
    assert report.ok and not report.mistake, report


def test_a_leak_and_a_mix_fail_their_own_tests():
    report = verify.check(attention(hide=lambda i, j: i < 0), "softmax",
                          causal=True)
    assert finding(report, "no future in the past").passed is False
    late = attention(hide=lambda i, j: (j > i) & ((i < 60) | (j > i + 3)))
    assert finding(verify.check(late, "softmax", causal=True),
                   "no future in the past").passed is False
    report = verify.check(batch_mixed, "retention")
    assert finding(report, "sequences apart").passed is False
    report = verify.check(corrected(transposed=True), "gated_delta")
    assert finding(report, "d ≠ d_v").passed is False


# -- what no comparison of results would show ---------------------------------

def test_states_that_are_lost_by_halves():
    """What only a state shows: outputs from zero are right."""
    def mine(q, k, v, gamma, initial_state=None, return_state=False, how=""):
        from lintut.reference import retention
        start = None if how == "ignored" else initial_state
        o, S = retention.chunkwise(q, k, v, gamma, initial_state=start,
                                   return_state=True)
        if how == "new only" and initial_state is not None:
            S = S - gamma ** q.shape[-2] * initial_state
        if how == "old":
            S = 0 * S if initial_state is None else initial_state.copy()
        return (o, S) if return_state else o

    from functools import partial
    for how, words in (("ignored", "initial state is ignored"),
                       ("old", "the one that it was given"),
                       ("new only", "holds the new tokens only")):
        report = verify.check(partial(mine, how=how), "retention")
        assert finding(report, "lengths, many chunks").passed
        assert finding(report, "state").passed is False
        if how != "old":
            assert finding(report, "split and carry").passed is False
        assert words in report.mistake, report


def test_a_state_only_taken_and_a_state_only_returned():
    """Half of the two is tested too."""
    from lintut.reference import delta

    def takes(q, k, v, beta, initial_state=None):
        return delta.recurrent(q, k, v, beta, initial_state=initial_state)

    def ignores(q, k, v, beta, initial_state=None):
        return delta.recurrent(q, k, v, beta)

    def gives(q, k, v, beta, more=0):
        o, S = delta.recurrent(q, k, v, beta, return_state=True)
        return o, S + more * np.ones_like(S)

    assert "none is returned" in finding(
        verify.check(takes, "delta"), "state").says
    assert "none is taken" in finding(
        verify.check(gives, "delta"), "state").says
    report = verify.check(ignores, "delta")
    assert finding(report, "state").passed is False
    assert "initial state is ignored" in report.mistake
    report = verify.check(
        lambda q, k, v, beta: gives(q, k, v, beta, .1), "delta")
    assert [f.test for f in report.findings if f.passed is False] == ["state"]


def test_a_constant_that_is_built_in_is_said():
    from lintut.reference import retention
    report = verify.check(lambda q, k, v: retention.recurrent(
        q, k, v, .95), "retention")
    assert not report.ok
    assert "it should have gamma=0.9 built in" in report.called
    assert "built in" not in verify.check(retention.recurrent,
                                          "retention").called


def test_one_row_of_many_is_seen():
    def mine(q, k, v, gamma):
        from lintut.reference import retention
        o = retention.chunkwise(q, k, v, gamma)
        if o.shape[-2] > 200:
            o[1, 2, 217] = 0
        return o

    report = verify.check(mine, "retention")
    problem = finding(report, "lengths, many chunks")
    assert problem.passed is False
    assert "1 of 1800 rows differ, the first at position 217" in problem.says


def spoilt(how):
    def mine(q, k, v, gamma):
        from lintut.reference import retention
        o = retention.recurrent(q, k, v, gamma)
        return how(q, k, v, o)
    return mine


def writes(q, k, v, o):
    k *= 2
    return o


def leaves_a_row(q, k, v, o):
    new = np.empty_like(o)
    new[..., :-1, :] = o[..., :-1, :]
    return new


@pytest.mark.parametrize("how, test, words", [
    (writes, "inputs untouched", "it changes k"),
    (lambda q, k, v, o: v.__setitem__(..., o) or v, "inputs untouched",
     "changes v; its result is a view of v"),
    (leaves_a_row, "nothing unwritten", "rows differ"),
    (lambda q, k, v, o: o.astype(np.float64), "float32",
     "returns float64 for float32"),
    (lambda q, k, v, o: o.astype(np.float16).astype(o.dtype), "float32",
     "rows differ"),
    (lambda q, k, v, o: o * np.where(np.arange(o.shape[-2]) == 70, np.nan,
                                     1)[:, None], "lengths, many chunks",
     "nan"),
])
def test_bad_manners_are_seen(how, test, words):
    report = verify.check(spoilt(how), "retention")
    assert finding(report, test).passed is False, report
    assert words in finding(report, test).says, report


def test_small_gates_and_large_scores():
    def ratio(q, k, v, alpha):                          # (T, D)
        b = np.exp(np.cumsum(np.log(alpha), 0))
        return np.tril((q * b) @ (k / b).T) @ v

    report = verify.check(ratio, "gla")
    assert "segment" in finding(report, "small gates, float32").says
    report = verify.check(attention(safe=False), "softmax", causal=True)
    assert "largest score" in finding(report, "large scores, float32").says


@pytest.mark.parametrize("rule", ["retention", "linear"])
def test_a_state_in_sixteen_bits(rule):
    def mine(q, k, v, gamma=1.0):                       # (B, T, H, D)
        if rule == "linear":
            q, k = (torch.where(x > 0, x + 1, x.clamp(max=0).exp())
                    for x in (q, k))
        S = (gamma * 0 * k[:, 0, :, :, None]) * v[:, 0, :, None, :]
        z, o = 0 * k[:, 0], []
        for t in range(q.shape[1]):
            S = gamma * S + k[:, t, :, :, None] * v[:, t, :, None, :]
            z = z + k[:, t]
            read = (q[:, t, :, None] @ S)[..., 0, :]
            total = (q[:, t] * z).sum(-1, keepdim=True)
            o.append(read / total if rule == "linear" else read)
        return torch.stack(o, 1)

    report = verify.check(mine, rule, **(
        {} if rule == "linear" else {"gamma": 1.0}))
    assert [f.test for f in report.findings if f.passed is False] == [
        "bfloat16"], report
    assert "stop growing" in finding(report, "bfloat16").says


@pytest.mark.parametrize("spoil, words", [
    (lambda x, name: x.detach() if name == "k" else x, "k"),
    (lambda x, name: x * 1.01 - x.detach() * .01 if name == "v" else x, "v:"),
])
def test_wrong_gradients_are_seen(spoil, words):
    def mine(q, k, v, beta):
        from lintut.kernels import delta
        return delta.chunkwise(spoil(q, "q"), spoil(k, "k"), spoil(v, "v"),
                               beta)

    report = verify.check(mine, "delta")
    assert [f.test for f in report.findings if f.passed is False] == [
        "gradients"], report
    assert finding(report, "gradients").says.startswith(words)


def test_no_gradient_at_all():
    def mine(q, k, v, beta):
        from lintut.kernels import delta
        with torch.no_grad():
            return delta.chunkwise(q, k, v, beta)

    assert "no gradient" in finding(verify.check(mine, "delta"),
                                    "gradients").says


def test_a_second_call_that_differs_is_told_from_memory_unwritten():
    left = {}

    def remembers(q, k, v, gamma):
        from lintut.reference import retention
        o, S = retention.recurrent(
            q, k, v, gamma, initial_state=left.get((q.shape, q.dtype)),
            return_state=True)
        left[q.shape, q.dtype] = S
        return o

    def chance(q, k, v):
        return attention()(q, k, v) * np.random.default_rng().choice([0, 1.1])

    for function, rule, options in ((remembers, "retention", {}),
                                    (chance, "softmax", {"causal": True})):
        said = [finding(verify.check(function, rule, **options),
                        "nothing unwritten") for _ in range(5)]
        assert any(f.passed is False and "another result" in f.says
                   for f in said), said


def test_a_state_taken_one_way_and_returned_the_other():
    def mine(q, k, v, alpha, initial_state=None, return_state=False):
        from lintut.reference import gla
        o, S = gla.recurrent(q, k, v, alpha, initial_state=initial_state,
                             return_state=True)
        return (o, S.mT) if return_state else o

    report = verify.check(mine, "gla")
    assert finding(report, "state").says == (
        "it takes S as d×d_v, and returns it as d_v×d")
    assert not any(f.test == "split and carry" for f in report.findings)


def test_what_answers_in_another_shape_is_not_called_with_all_sizes():
    """np.outer of (2, 64, 128, 4) would need gigabytes."""
    sizes = []

    def mine(q, k, v, gamma):                           # (T, D)
        sizes.append(np.prod(q.shape) * np.prod(v.shape))
        if q.ndim > 2:
            raise ValueError("one sequence, please")
        return v.T

    report = verify.check(mine, "retention")
    assert "it has (3, 7)" in " ".join(str(report).split())
    assert max(sizes) <= 2 ** 22


# -- functions that do not work -----------------------------------------------

def test_a_function_that_raises():
    def mine(q, k, v, beta):
        raise RuntimeError("out of luck")

    report = verify.check(mine, "delta")
    assert not report.ok
    assert "RuntimeError: out of luck" in str(report)


def test_a_function_that_returns_nan_nothing_or_another_shape():
    report = verify.check(lambda q, k, v: np.full_like(v, np.nan), "linear")
    assert "nan" in finding(report, "agrees with the definition").says
    report = verify.check(lambda q, k, v: None, "linear")
    assert not report.ok and "should return an array" in str(report)
    report = verify.check(lambda q, k, v: v[..., :1], "linear")
    assert not report.ok and "should have v's shape" in str(report)
    report = verify.check(lambda q, k, v: 0 * v, "linear")
    assert "does not look at them" in str(report)


def test_only_whole_chunks_and_only_float32():
    def mine(q, k, v, beta):
        from lintut.kernels import delta
        if q.shape[1] % 64 or q.dtype != torch.float32:
            raise ValueError("no")
        return delta.chunkwise(q, k, v, beta)

    report = verify.check(mine, "delta")
    assert [f.test for f in report.findings if f.passed is False] == [
        "ragged lengths"], report
    assert "float32" in report.called


# -- what is asked of it ------------------------------------------------------

def test_bad_questions_are_refused():
    f = attention()
    with pytest.raises(ValueError, match="rule must be one of softmax"):
        verify.check(f, "mamba")
    with pytest.raises(ValueError, match="delta has no option gamma"):
        verify.check(f, "delta", gamma=.9)
    with pytest.raises(ValueError, match="gamma must be one number"):
        verify.check(f, "retention", gamma=np.array([.9, .95]))
    with pytest.raises(ValueError, match="layout must be one of BHT"):
        verify.check(f, "softmax", layout="TBH")
    with pytest.raises(ValueError, match="function must be callable"):
        verify.check(3, "softmax")


def test_a_report_for_programs_and_for_people():
    report = verify.check(corrected(error="unfaded"), "gated_delta")
    again = json.loads(json.dumps(report.to_dict()))
    assert again["ok"] is False and "α is left out" in again["mistake"]
    assert {f["passed"] for f in again["findings"]} == {True, False, None}
    text = str(report)
    assert text.startswith("mine, which claims to be gated_delta: WRONG")
    assert max(map(len, text.splitlines())) <= 79
    assert repr(report) == text


def test_numpy_is_enough():
    done = subprocess.run([sys.executable, "-c", """
import sys
from lintut import verify
from lintut.reference import delta
assert verify.check(delta.chunkwise, "delta").ok
assert not {"torch", "triton", "plotly"} & set(sys.modules)
"""], capture_output=True, text=True, timeout=60,
        cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
