"""A process that decodes during interpreter shutdown neither hangs nor crashes, and its results are right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_LONGEST = 240
"""Maximum time in seconds, on a busy machine."""


@pytest.mark.parametrize("how", ["thread", "atexit"])
def test_a_process_can_decode_during_shutdown(how: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.ending", how],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "right\n", "")
