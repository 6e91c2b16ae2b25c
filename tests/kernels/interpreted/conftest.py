"""Collected only in the processes that `harness.interpret` starts."""

import os
import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

if os.environ.get("TRITON_INTERPRET") != "1":
    collect_ignore_glob = ["test_*.py"]
else:
    import harness
    harness.poison()
