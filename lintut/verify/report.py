"""What was found, for people (`str`) and for programs (`to_dict`)."""

from dataclasses import dataclass, field
from textwrap import wrap

MARKS = {True: "✔", False: "✘", None: "–"}


@dataclass
class Finding:
    """One test: passed, failed or (None) not done, and what it says."""
    test: str
    passed: object
    says: str


@dataclass
class Report:
    """Of a function and the rule it claims; `ok` if no test failed.

    `mistake` is what the function looks like, or "".  `known` says whether
    it was looked for among the known ones: where results are wrong.
    """
    function: str
    rule: str
    called: str = ""
    findings: list = field(default_factory=list)
    mistake: str = ""
    known: bool = False

    @property
    def ok(self):
        return all(finding.passed is not False for finding in self.findings)

    def to_dict(self):
        """The same, of dicts, lists, texts and booleans: ready for JSON."""
        return {"function": self.function, "rule": self.rule, "ok": self.ok,
                "called": self.called, "mistake": self.mistake,
                "findings": [dict(vars(f)) for f in self.findings]}

    def __str__(self):
        lines = [f"{self.function}, which claims to be {self.rule}: "
                 + ("no test failed" if self.ok else "WRONG")]
        if self.called:
            lines += _wrapped("  called with ", self.called, 14)
        width = max((len(f.test) for f in self.findings), default=0)
        for f in self.findings:
            lines += _wrapped(f"  {MARKS[f.passed]} {f.test:{width}}  ",
                              f.says, width + 6)
        if self.mistake:
            lines += _wrapped("  It looks like this: ", self.mistake, 4)
        elif self.known:
            lines.append("  It resembles none of the mistakes known here.")
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(head, text, indent):
    """The text behind its head, in lines of at most 79."""
    first, *rest = text.split("\n")
    lines = wrap(head + first, 79, subsequent_indent=" " * indent,
                 drop_whitespace=True)
    for line in rest:
        lines += wrap(line.strip(), 79, initial_indent=" " * indent,
                      subsequent_indent=" " * indent)
    return lines
