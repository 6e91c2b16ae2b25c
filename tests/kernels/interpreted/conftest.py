"""Collected only in the processes that `harness.interpret` starts."""

import os

if os.environ.get("TRITON_INTERPRET") != "1":
    collect_ignore_glob = ["test_*.py"]
else:
    from .. import harness
    harness.poison()
