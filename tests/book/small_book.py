"""Building the small book, and breaking copies of it."""

import shutil
import subprocess
import sys
from pathlib import Path

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
