"""The hunt's rule is gated_delta's, and its tests see what Python says."""

import numpy as np
import pytest

from lintut.reference import gated_delta
from lintut.widgets import BugHunt
from lintut.widgets.bug_hunt import CHOICES, EASY, HARD, MISTAKES

browser = pytest.mark.browser
LOAD = """async (text) => {
  const blob = new Blob([text], {type: "text/javascript"});
  window.lt = await import(URL.createObjectURL(blob));
}"""

# What takes its need away from the hard test.
LACKS = {"every row by itself": dict(compare="rms", sequences=1024),
         "a ragged length": dict(tokens=24), "varied gates": dict(gate="one"),
         "varied steps": dict(step="one"), "many chunks": dict(tokens=8),
         "an initial state": dict(state="zero")}


@pytest.fixture
def live(open_page):
    def start(widget=None, **options):
        page = open_page(widget or BugHunt(), **options).page
        page.wait_for_selector('.lintut-widget[data-live="yes"]',
                               timeout=30_000)
        page.evaluate(LOAD, BugHunt._esm)
        return page
    return start


def seen(page, **test):
    found = page.evaluate("(test) => lt.hunt(test)", HARD | test)
    assert list(found) == list(MISTAKES)
    return {name for name, result in found.items() if result["seen"]}


@browser
def test_the_rule_is_the_reference(live):
    page, rng = live(), np.random.default_rng(15)
    for N, d_v in ((1, 3), (8, 4), (21, 3), (64, 4)):
        q, k = rng.normal(size=(2, N, 4))
        k /= np.linalg.norm(k, axis=-1, keepdims=True)
        v, S = rng.normal(size=(N, d_v)), rng.normal(size=(4, d_v))
        alpha, beta = rng.uniform(.5, 1, N), rng.uniform(.2, 1, N)
        got = page.evaluate(
            "(x) => { const { o, S } = lt.run(x);"
            " return [o, S].map((m) => m.map((r) => Array.from(r))); }",
            dict(q=q.tolist(), k=k.tolist(), v=v.tolist(), S=S.tolist(),
                 alpha=alpha.tolist(), beta=beta.tolist()))
        want = gated_delta.recurrent(q, k, v, alpha, beta, initial_state=S,
                                     return_state=True)
        for mine, theirs in zip(got, want):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


@browser
def test_two_mistakes_are_what_they_say(live):
    """Written here again, in chunks of 8: no state between, no WY."""
    page, rng = live(), np.random.default_rng(3)
    q, k = rng.normal(size=(2, 21, 4))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    v, S = rng.normal(size=(21, 3)), rng.normal(size=(4, 3))
    alpha, beta = rng.uniform(.5, 1, 21), rng.uniform(.2, 1, 21)

    def run(bug):
        got = page.evaluate(
            "([x, bug]) => lt.run(x, bug).o.map((r) => Array.from(r))",
            [dict(q=q.tolist(), k=k.tolist(), v=v.tolist(), S=S.tolist(),
                  alpha=alpha.tolist(), beta=beta.tolist()), bug])
        return np.array(got)

    alone = [gated_delta.recurrent(
        *(x[i:i + 8] for x in (q, k, v, alpha, beta)),
        initial_state=S if i == 0 else 0 * S) for i in (0, 8, 16)]
    np.testing.assert_allclose(run("chunks"), np.concatenate(alone),
                               atol=1e-12)
    state, o = S, []
    for i in (0, 8, 16):
        r = slice(i, i + 8)
        F = np.cumprod(alpha[r])[:, None]
        D = np.tril(F / F.T)
        E = beta[r, None] * (v[r] - F * (k[r] @ state))
        o.append(F * (q[r] @ state) + (np.tril(q[r] @ k[r].T) * D) @ E)
        state = F[-1] * state + (F[-1] / F * k[r]).T @ E
    np.testing.assert_allclose(run("wy"), np.concatenate(o), atol=1e-12)


@browser
def test_easy_and_hard_tests(live):
    page = live()
    assert seen(page) == set(MISTAKES)
    assert page.evaluate("() => [lt.EASY, lt.HARD]") == [EASY, HARD]
    assert len(seen(page, **EASY)) < 5
    for name, (_, need) in MISTAKES.items():
        assert (need == "nothing") or name not in seen(page, **LACKS[need])
    for kind in ("leak", "carry"):
        few = seen(page, kind=kind)
        assert "error" not in few and "beta" not in few
    assert "future" in seen(page, kind="leak")
    assert {"start", "chunks"} <= seen(page, kind="carry")


@browser
def test_it_asks_first_and_refuses(live):
    page = live(width=390)
    says = page.locator(".lt-says")
    assert says.inner_text().startswith("How many of the 12")
    page.get_by_role("button", name="Run the test").click()
    assert " of 12 mistakes" in says.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="A hard test").click()
    assert says.inner_text().startswith("How many")
    page.get_by_role("button", name="Run the test").click()
    assert says.inner_text() == "This test sees 12 of 12 mistakes."
    for text in ("0", "1", "65", "x", "", "1e9"):
        page.get_by_label("tokens", exact=True).last.fill(text)
        page.keyboard.press("Tab")
        assert "must be a whole number from 2 to 64" in page.locator(
            ".lt-why").inner_text()
    page.get_by_label("gates α").select_option("one")
    assert says.inner_text().startswith("How many")


def test_repr_still_and_arguments():
    assert repr(BugHunt()) == ("BugHunt(kind='definition', compare='rms', "
                               "tokens=8, gate='one', state='zero')")
    assert "many chunks" in BugHunt().still()
    assert set(CHOICES) | {"tokens"} == set(EASY) == set(HARD)
    for bad in (dict(tokens=1), dict(kind="none"), dict(widths=5),
                dict(colour=1)):
        with pytest.raises(ValueError, match=f"^{next(iter(bad))} "):
            BugHunt(**bad)
