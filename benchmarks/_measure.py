"""CPU seconds of a whole process tree, and rounds of competing jobs in one run.

Wall-clock time flatters whoever uses more cores, so jobs are compared by the CPU time of the driver, the JVM and all
Python workers together. Processes that ended count too: the kernel adds their time to the parent that reaped them.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path(__file__).parent / "results"


def tree_cpu_seconds() -> float:
    """User and system time of this process and all below it, ended children included."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:  # ended since it was listed: its parent has its time by now
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def rates(jobs: Mapping[str, Callable[[], object]], records: int, rounds: int) -> dict[str, dict[str, float]]:
    """Records per CPU second of each job: best and median of some rounds, after one round to warm up.

    The jobs take turns, so that a machine that slows down slows them all.
    """
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(rounds + 1):
        for name, job in jobs.items():
            before = tree_cpu_seconds()
            job()
            spent = tree_cpu_seconds() - before
            if turn:
                found[name].append(records / spent)
            print(f"  round {turn or 'warm-up'}: {name:34s} {records / spent / 1e6:6.3f} M/CPU-s", flush=True)
    return {name: {"best": max(values), "median": statistics.median(values)} for name, values in found.items()}


def store(name: str, results: Mapping[str, Any]) -> None:
    """Write the results beside the script, with what they were measured on."""
    java = subprocess.run(
        [str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java", "-version"],
        capture_output=True,
        text=True,
    ).stderr.splitlines()[0]
    packages = ("pyspark", "pyarrow", "numpy", "orjson")
    about = {
        "date": dt.date.today().isoformat(),
        "python": platform.python_version(),
        "java": java,
        "cores": os.cpu_count(),
        **{package: getattr(__import__(package), "__version__", "?") for package in packages},
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"about": about, **results}, indent=1) + "\n", encoding="utf-8")
    print(f"stored {path}")
