import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from browser import new_tab, serve  # noqa: E402, F401

ROOT = Path(__file__).resolve().parents[2]
SMALL = Path(__file__).with_name("small")


def build(source):
    """`python -m book build`, as a reader runs it."""
    return subprocess.run(
        [sys.executable, "-m", "book", "build", "--source", source],
        cwd=ROOT, capture_output=True, text=True, timeout=300)


def small_source(folder, repository=""):
    """A copy of the small book, ready to be built or broken."""
    shutil.copytree(SMALL, folder, dirs_exist_ok=True)
    config = (ROOT / "_config.yml").read_text()
    for ours, theirs in (("book.site: .", f"book.site: {ROOT}"),
                         ("book/static", f"{ROOT}/book/static"),
                         ('url: ""', f'url: "{repository}"')):
        assert ours in config
        config = config.replace(ours, theirs)
    (folder / "_config.yml").write_text(config)
    return folder


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
