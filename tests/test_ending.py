"""A process that decodes while it ends: it neither hangs nor crashes, and what is decoded late is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_LONGEST = 240
"""Seconds, on a busy machine."""


@pytest.mark.parametrize("how", ["thread", "atexit"])
def test_a_process_decodes_while_it_ends(how: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.ending", how],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "right\n", "")
