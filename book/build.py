"""`python -m book build`: the pages, in _build/html/."""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from book import packages, weights

HERE = Path(__file__).parent


def _fingerprint(source):
    """What every page depends on and Sphinx does not watch."""
    files = [*sorted(HERE.glob("*.py")), *sorted(HERE.glob("templates/**/*")),
             HERE / "package-lock.json", HERE / "requirements.txt",
             HERE.parent / "lintut" / "palette.py",
             source / "_config.yml", source / "_toc.yml"]
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def build(source=Path(".")):
    """Build the book in `source`; returns the exit status.

    The fingerprint is there only after a build that went well, and names what
    it was made from.  Without it everything is made again: a build that was
    interrupted may have left half a page, and Sphinx gives a warning only
    once, so building a broken book twice would pass.
    """
    packages.fetch()
    output = source / "_build"
    fingerprint = output / "built"
    wanted = _fingerprint(source)
    if not (fingerprint.exists() and fingerprint.read_text() == wanted):
        for made in ("html", ".doctrees", "jupyter_execute"):
            shutil.rmtree(output / made, ignore_errors=True)
    fingerprint.unlink(missing_ok=True)
    complaints = _jupyter_book(source)
    if complaints is not None:
        print("\nThe book did not build:\n\n" + "\n".join(complaints),
              file=sys.stderr)
        return 1
    print()
    if not weights.report(output / "html"):
        return 1
    fingerprint.write_text(wanted)
    index = output / "html" / "index.html"
    print(f"\nThe book is built.  Open {index}\n"
          f"in a browser, or {index.resolve().as_uri()}")
    return 0


def _jupyter_book(source):
    """Run Jupyter Book; None when all went well, or what it complained of."""
    process = subprocess.Popen(
        [Path(sys.executable).with_name("jupyter-book"), "build",
         "-W", "-n", "--keep-going", source],
        stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        print(line, end="", file=sys.stderr)
        lines.append(re.sub(r"\x1b\[[\d;]*m", "", line.rstrip()))
    if process.wait() == 0:
        return None
    complaints = [line for line in lines
                  if re.search("WARNING|ERROR|CRITICAL", line)]
    return list(dict.fromkeys(complaints or lines))
