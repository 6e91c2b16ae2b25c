"""The tests of precision and of gradients."""

import sys

import numpy as np

from .calling import Failed
from .comparing import difference, parts
from .report import Finding


def precision(bench):
    """float32: its dtype kept, and every row near the float64 definition."""
    rule, call = bench.rule, bench.call
    case = bench.case(320 if call.multiple > 1 else 300)
    yield from _single(bench, "float32", case.inputs, 1e-4)
    if call.multiple > 1:
        return
    x = {name: a.copy() for name, a in bench.case(100).inputs.items()}
    if "alpha" in rule.gates:
        x["alpha"][...] = 1e-4
        yield from _single(
            bench, "small gates, float32", x, 1e-4,
            "α = 1e-4: a ratio of two cumulative products overflows; take "
            "sums of logs inside a segment only")
    if rule.state == "KV":
        x["q"] *= 200
        yield from _single(
            bench, "large scores, float32", x, 1e-2,
            "take the row's largest score away before the exponential")


def sixteen_bits(bench):
    """bfloat16, torch alone: a sum of many terms below 1 must pass 256.

    (With terms of many sizes, what is rounded away averages out.)
    """
    if bench.call.library != "torch":
        return
    x = {name: a.copy() for name, a in bench.case(512).inputs.items()}
    if not bench.rule.short_keys:
        rng = np.random.default_rng(0)
        x["q"], x["k"], x["v"] = (rng.uniform(.8, .95, x[name].shape)
                                  for name in "qkv")
        if bench.rule.name == "linear":
            x["k"] -= 1                                 # φ(k) below 1
    if "alpha" in x:
        x["alpha"][...] = 1
    torch = sys.modules["torch"]
    x = {name: torch.tensor(a).bfloat16().double().numpy()
         for name, a in x.items()}
    yield from _single(bench, "bfloat16", x, 3e-2, "sums and states belong "
                       "in float32: in 16 bits they stop growing")


def _single(bench, name, x, tolerance, why=""):
    """One call in the type that `name` ends with, against float64."""
    dtype = name.split(" ")[-1]
    if dtype == "float32":              # bfloat16 comes in rounded
        x = {key: a.astype(np.float32).astype(float) for key, a in x.items()}
    right = bench.rule.define(x, None, bench.options)[0]
    try:
        positional, keywords, arrays = bench.call.arguments(x, dtype=dtype)
        result = bench.call.run(positional, keywords)
        o = bench.call.read(result, x)[0]
    except Failed as failed:
        yield Finding(name, None if dtype == "bfloat16" else False,
                      str(failed))
        return
    result = result[0] if isinstance(result, (tuple, list)) else result
    if result.dtype != arrays["v"].dtype:
        yield Finding(name, False, f"it returns {result.dtype} for {dtype}")
        return
    if not np.isfinite(o).all():
        problem = (f"{(~np.isfinite(o)).any(-1).sum()} rows are not finite"
                   f"\n{why}")
    else:
        problem = difference(o, right, tolerance)
        if problem and dtype == "bfloat16":
            problem += f"\n{why}"
    yield Finding(name, not problem, problem or
                  f"every row within {tolerance:g} of float64")


def gradients(bench):
    """autograd against central differences of the float64 definition.

    One random direction an input, so that no entry can be left out.
    """
    call = bench.call
    if call.library != "torch":
        yield Finding("gradients", None, "a NumPy function has none")
        return
    if call.dtype != "float64":
        yield Finding("gradients", None, "it refuses float64")
        return
    case = bench.case(128 if call.multiple > 1 else 70,
                      begin=call.takes("initial_state"))
    try:
        wrong = list(_wrong_gradients(bench, case))
    except Failed as why:
        wrong = [str(why)]
    yield Finding("gradients", not wrong, "\n".join(wrong) or "those of "
                  + ", ".join(case.inputs) + (" and the state"
                  if case.state is not None else "") + " are right")


def _wrong_gradients(bench, case, step=1e-5):
    torch, call = sys.modules["torch"], bench.call
    rng = np.random.default_rng(0)
    positional, keywords, arrays = call.arguments(case.inputs, case.state)
    for x in arrays.values():
        x.requires_grad_()
    result = call.run(positional, keywords)
    o = result[0] if isinstance(result, (tuple, list)) else result
    if not o.requires_grad:
        yield "the result has no gradient: it was computed outside autograd"
        return
    cotangent = rng.normal(size=case.inputs["v"].shape)
    found = torch.autograd.grad((o * call.sequence(cotangent)).sum(),
                                list(arrays.values()), allow_unused=True)
    ours = case.inputs | {f"initial_state[{i}]": y for i, y in enumerate(
        parts(case.state) if case.state is not None else ())}

    def loss(values):
        x = {name: values[name] for name in case.inputs}
        state = tuple(values[name] for name in values if name not in x)
        state = (None if not state else state if len(bench.rule.state) > 1
                 else state[0])
        return (bench.rule.define(x, state, bench.options)[0]
                * cotangent).sum()

    for (name, array), gradient in zip(arrays.items(), found):
        way = rng.normal(size=ours[name].shape)
        right = (loss(ours | {name: ours[name] + step * way})
                 - loss(ours | {name: ours[name] - step * way})) / (2 * step)
        if gradient is None:
            yield f"{name} has no gradient; along a random way it is " \
                  f"{right:.5g}"
            continue
        along = (call.sequence(way) if name in case.inputs else
                 _state_way(call, case, name, way))
        mine = (gradient * along).sum().item()
        if not abs(mine - right) <= 1e-5 * max(1, abs(right)):
            yield (f"{name}: along a random way {mine:.5g} instead of "
                   f"{right:.5g}")


def _state_way(call, case, name, way):
    """A direction for one part of the state, in the function's form."""
    i = int(name[-2])
    whole = [way if j == i else np.zeros_like(y)
             for j, y in enumerate(parts(case.state))]
    turned = call.states(tuple(whole) if len(whole) > 1 else whole[0])
    return parts(turned)[i]
