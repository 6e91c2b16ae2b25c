"""Chromium for the tests: one browser a session, a fresh tab a test.

In a conftest.py:

    from browser import new_tab

and in a test:

    def test_page(new_tab):
        tab = new_tab(width=390, theme="dark")
        tab.page.goto(url)

A tab refuses and records every request that leaves this machine, records
console errors and uncaught exceptions, and the fixture fails the test over
either.  A test that expects some empties `tab.errors` or `tab.refused`.
"""

import contextlib
import functools
import http.server
import os
import shutil
import threading
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]
LOCAL = {"127.0.0.1", "localhost"}


def find():
    """The path of an installed Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome",
             "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


def skip_or_fail(reason):
    """Skip, unless LINTUT_REQUIRE_BROWSER=1 says that this must run."""
    if os.environ.get("LINTUT_REQUIRE_BROWSER") == "1":
        pytest.fail(f"LINTUT_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@functools.cache
def chromium(config):
    """The session's one browser; closed when pytest ends."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        skip_or_fail("playwright is not installed")
    path = find()
    if path is None:
        skip_or_fail("no Chromium or Chrome is installed")
    playwright = sync_playwright().start()
    config.add_cleanup(playwright.stop)
    browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
    config.add_cleanup(browser.close)
    return browser


@dataclass
class Tab:
    """A Playwright page and what went wrong in it."""

    page: object
    errors: list = field(default_factory=list)
    refused: list = field(default_factory=list)

    def _route(self, route):
        address = urlsplit(route.request.url)
        if address.scheme in ("http", "https", "ws", "wss") and (
                address.hostname not in LOCAL):
            self.refused.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    def watch(self):
        self.page.route("**/*", self._route)
        self.page.on("console", lambda m: m.type == "error"
                     and self.errors.append(f"{m.text} ({m.location})"))
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        return self


@pytest.fixture
def new_tab(request):
    """Call it for a Tab: new_tab(width=390, theme="dark", …)."""
    tabs = []

    def open_tab(width=1200, height=900, theme="light", motion=True,
                 javascript=True, **options):
        context = chromium(request.config).new_context(
            viewport={"width": width, "height": height}, color_scheme=theme,
            reduced_motion="no-preference" if motion else "reduce",
            java_script_enabled=javascript, **options)
        context.set_default_timeout(30_000)
        tabs.append(Tab(context.new_page()).watch())
        return tabs[-1]

    yield open_tab
    for tab in tabs:
        tab.page.context.close()
    for tab in tabs:
        assert not tab.errors, f"the page reported errors: {tab.errors}"
        assert not tab.refused, f"the page asked for others: {tab.refused}"


@contextlib.contextmanager
def serve(folder):
    """Serve `folder` on this machine; gives the address."""
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=os.fspath(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
