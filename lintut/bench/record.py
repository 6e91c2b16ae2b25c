"""What a recorded measurement must say besides its numbers."""

import datetime
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path

PACKAGES = ("lintut", "numpy", "torch", "triton", "numba",
            "flash-linear-attention")


def cpu_name():
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found = dict(line.split(":", 1) for line in lines if ":" in line)
        found = {key.strip(): value.strip() for key, value in found.items()}
        return (f"{found['model name']} (family {found['cpu family']}, "
                f"model {found['model']})")
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def versions():
    """{package: version} of what is installed, Python included."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def load():
    """Processes that want to run, over the last minute; None if unknown."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def header(what, **hardware):
    """The part of a record that says what, where, when and how."""
    return {
        "what": what,
        "command": " ".join(["python -m lintut.bench", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "hardware": {"cpu": cpu_name(), "cores": os.cpu_count(),
                     "system": platform.system(), **hardware},
        "versions": versions(),
    }


def save(result, path):
    """Write a record as JSON, one row of measurements a line."""
    rows = result.get("rows", [])
    head = json.dumps({**result, "rows": []}, indent=1, ensure_ascii=False)
    body = ",\n".join("  " + json.dumps(row, ensure_ascii=False)
                      for row in rows)
    text = head.replace('"rows": []', f'"rows": [\n{body}\n ]')
    json.loads(text)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text + "\n")
    part.replace(path)              # whole or not at all
