"""The processes of a cluster leave nothing behind."""

from __future__ import annotations

import subprocess
import sys

import psutil

from tests.support.cluster import wait
from tests.support.environments import ROOT

SCRIPT = """
import os
from pathlib import Path
from tests.support.cluster import Program

program = Program(["sleep", "600"], Path(os.devnull), os.environ)
print(program.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_process_ends_with_the_one_that_started_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    pid = int(done.stdout)
    wait(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, f"{pid} runs")
