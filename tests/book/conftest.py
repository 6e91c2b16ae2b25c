import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from browser import new_tab, serve  # noqa: E402, F401
from small_book import ROOT, build, small_source  # noqa: E402


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """The pages of the small book, which has one of each thing."""
    source = small_source(tmp_path_factory.mktemp("small"))
    done = build(source)
    assert done.returncode == 0, done.stderr
    return source / "_build" / "html"


@pytest.fixture(scope="session")
def book():
    """The pages of the book; `make test` has built them."""
    if not (ROOT / "_build" / "built").exists():
        done = build(ROOT)
        assert done.returncode == 0, done.stderr
    return ROOT / "_build" / "html"


@pytest.fixture(params=["book", "small"])
def site(request):
    """Each of the two in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def below_a_path(tmp_path):
    """Serve a site at some path below a host's root; gives its address."""
    servers = []

    def start(html):
        (tmp_path / "some").mkdir(exist_ok=True)
        (tmp_path / "some" / "where").symlink_to(html)
        servers.append(serve(tmp_path))
        return servers[-1].__enter__() + "/some/where"

    yield start
    for server in servers:
        server.__exit__(None, None, None)
