"""Mistakes that a rule with a state shares with every other.

A rule is `rule(q=…, k=…, v=…, S=…, its gates)`; it returns (o, S).
"""

from .core import Mistake


def carried(rule):
    """What people do wrong with the state they are given, and with q."""
    def changed(change):
        return lambda S, **x: change(S, *rule(S=S, **x),
                                     *rule(S=0 * S, **x), x["q"])

    return (
        Mistake("the tokens are right; the state to start from does not fade.",
                changed(lambda S, o, end, o0, end0, q: (o0 + q @ S,
                                                        end0 + S))),
        Mistake("it starts from zero, whatever state it is given.",
                changed(lambda S, o, end, o0, end0, q: (o0, end0))),
        Mistake("the outputs are right; the returned state holds the new "
                "tokens alone.",
                changed(lambda S, o, end, o0, end0, q: (o, end0))),
        Mistake("the outputs are right; the returned state is the one that "
                "was given.",
                changed(lambda S, o, end, o0, end0, q: (o, S.copy()))),
        Mistake("the queries are divided by √d: this rule takes q and k as "
                "they are.",
                lambda q, **x: rule(q=q / q.shape[1] ** 0.5, **x)),
    )
