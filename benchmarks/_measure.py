"""Code that the benchmarks share: CPU seconds of a process tree, rounds, stored results, the command line.

    benchmark              parts                       stored as
    json_orders.py   ->    decode, encode, ...   ->    `document`: per_cpu_second, ratios, records, environment
    json_nested.py   ->    kernel, decode        ->    `grid`: the same tasks for several inputs

A speed is a number of records per CPU-second of the JVM and Python together. Threads that wait do not count, so results
can be compared between machines with different numbers of cores. Garbage collection, the JVM's compilers and Python
workers that have ended count too.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gc
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # its types are in a separate package
import pyarrow as pa

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("kvformat", "pyspark", "pyarrow", "numpy", "orjson", "fastavro")
Task = Callable[[], object]
Part = Callable[[int, int], dict[str, Any]]  # (records, rounds) -> document(...)


def run(
    name: str, about: str, parts: Mapping[str, Part], facts: Mapping[str, Any], *, records: int = 2_000_000
) -> None:
    """Run a benchmark from the command line: measure the chosen parts and store their documents with the facts."""
    commands = parser(about, parts, records)
    arguments = commands.parse_args()
    run_parts(name, chosen(commands, arguments, parts), parts, facts, arguments)


def parser(about: str, parts: Iterable[str], records: int) -> argparse.ArgumentParser:
    """Return the command line options of all benchmarks. A benchmark can add its own."""
    commands = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands.add_argument("--records", type=int, default=records, help="default: %(default)s")
    commands.add_argument("--rounds", type=int, default=3)
    commands.add_argument("--only", default=",".join(parts), help="parts to measure, separated by commas")
    commands.add_argument("--no-store", action="store_true", help="print the figures, but do not store them")
    return commands


def chosen(
    commands: argparse.ArgumentParser, arguments: argparse.Namespace, parts: Mapping[str, Part]
) -> dict[str, Part]:
    """Return the parts that the option --only names. Ends the program if there is an unknown name."""
    names = arguments.only.split(",")
    if unknown := set(names) - set(parts):
        commands.error(f"unknown parts {sorted(unknown)}; allowed: {', '.join(parts)}")
    return {name: part for name, part in parts.items() if name in names}


def run_parts(
    name: str,
    selected: Mapping[str, Part],
    parts: Iterable[str],
    facts: Mapping[str, Any],
    arguments: argparse.Namespace,
) -> None:
    """Measure the parts in `selected` and store their documents with the facts.

    parts: the names of all parts. The stored documents of parts that are not measured stay unchanged.
    """
    pa.set_cpu_count(1)
    documents = {part: measure_part(arguments.records, arguments.rounds) for part, measure_part in selected.items()}
    if not arguments.no_store:
        print(f"\nstored in {store(name, parts, {**facts, **documents})}")


def document(speeds: Mapping[str, Speed], pairs: Iterable[tuple[str, str]], records: int) -> dict[str, Any]:
    """Return the stored form of a part. It has its own environment, because a file can have parts of several runs.

    pairs: for each ratio, a task of ours and the task it is compared with.
    """
    return {
        "per_cpu_second": {name: speed.stored() for name, speed in speeds.items()},
        "ratios": ratios(speeds, pairs),
        "records": records,
        "environment": environment(*PACKAGES),
    }


def grid(
    rows: str,
    speeds: Mapping[str, Mapping[str, Speed]],
    compared: Callable[[str, str], tuple[str, str, str] | None],
    facts: Mapping[str, Mapping[str, Any]],
    *,
    unit: str = "Records",
) -> dict[str, Any]:
    """Return the stored form of a part that measures the same tasks for several inputs or settings.

    rows: the word for the inputs or settings, which are the rows of the grid. The tasks are its columns.
    compared: a function of a row and a column. It returns the row and the column to divide by and their name, or None.
    facts: more facts about each row, such as the size of its messages.
    """
    found: dict[str, Any] = {}
    for row, tasks in speeds.items():
        ratio = {}
        for column, speed in tasks.items():
            yardstick = compared(row, column)
            if yardstick is not None:
                by = speeds[yardstick[0]][yardstick[1]]
                ratio[column] = {
                    "of": yardstick[2],
                    "best": round(speed.best / by.best, 3),
                    "median": round(speed.median / by.median, 3),
                }
        stored = {column: speed.stored() for column, speed in tasks.items()}
        found[row] = {**facts.get(row, {}), "per_cpu_second": stored, "ratios": ratio}
    return {"rows": rows, "unit": unit, "grid": found, "environment": environment(*PACKAGES)}


def grid_table(title: str, part: Mapping[str, Any]) -> str:
    """Format a `grid` as text, with median speeds and their ratios to the yardstick."""
    columns = list(dict.fromkeys(column for row in part["grid"].values() for column in row["per_cpu_second"]))
    lines = [f"\n{title}", f"  {'':40}" + "".join(f"{column[:26]:>28}" for column in columns)]
    for name, row in part["grid"].items():
        cells = []
        for column in columns:
            speed, ratio = row["per_cpu_second"].get(column), row["ratios"].get(column)
            cells.append(f"{speed['median']:,}" + (f" ({ratio['median']:.2f} x)" if ratio else "") if speed else "")
        lines.append(f"  {name[:40]:40}" + "".join(f"{cell:>28}" for cell in cells))
    return "\n".join(lines)


def tree_cpu_seconds() -> float:
    """Return the CPU seconds used so far by this process and all its children, also by children that have ended.

    When a parent waits for a child that has ended, it takes over the child's time. The daemon of PySpark's workers does
    this, so the sum over the running processes never decreases.
    """
    this = psutil.Process()
    total = 0.0
    for process in [this, *this.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:  # it has ended, and its time now belongs to its parent
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


@dataclass(frozen=True)
class Speed:
    """Records per CPU-second, with a number for each round."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        return max(self.rounds)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def divided(self, by: float) -> Speed:
        """Convert to a larger unit."""
        return Speed(tuple(speed / by for speed in self.rounds))

    def stored(self) -> dict[str, Any]:
        """Return plain data, rounded to whole records."""
        return {"best": round(self.best), "median": round(self.median), "rounds": [round(r) for r in self.rounds]}


def measure(
    tasks: Mapping[str, Task], *, records: int, rounds: int, clock: Callable[[], float] = tree_cpu_seconds
) -> dict[str, Speed]:
    """Return the speed of each task.

    The tasks take turns, so that other load on the machine affects all of them. The first round is a warm-up.
    """
    gc.collect()
    gc.freeze()  # the garbage collector of a task must not search the input, which may have millions of objects
    speeds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            start, wall = clock(), time.monotonic()
            task()
            used, wall = clock() - start, time.monotonic() - wall
            note = "warm-up" if number == 0 else f"round {number}"
            print(f"  {note:8} {name:44} {used:7.2f} CPU s {wall:7.2f} s", flush=True)
            if number:
                speeds[name].append(records / max(used, 1e-9))
    return {name: Speed(tuple(values)) for name, values in speeds.items()}


def ratios(speeds: Mapping[str, Speed], pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, float]]:
    """Return the ratio of each pair's speeds, first to second, for the best and for the median rounds."""
    return {
        f"{a} / {b}": {
            "best": round(speeds[a].best / speeds[b].best, 3),
            "median": round(speeds[a].median / speeds[b].median, 3),
        }
        for a, b in pairs
        if a in speeds and b in speeds
    }


@functools.cache
def environment(*packages: str) -> dict[str, Any]:
    """Return versions, processor and date, which are stored with the figures."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "java": _java_version(),
        "cpus": os.cpu_count(),
        "processor": _processor(),
        **{name: _version(name) for name in packages},
    }


def store(name: str, parts: Iterable[str], measured: Mapping[str, Any]) -> Path:
    """Write `results/<name>.json` and return its path. Parts that were not measured stay unchanged."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept = {part: old[part] for part in parts if part in old}
    path.write_text(json.dumps({**kept, **measured}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def table(title: str, speeds: Mapping[str, Speed], base: str) -> str:
    """Format the speeds as text, each also as a share of the speed of `base`."""
    lines = [f"\n{title}", f"  {'':44} {'best':>10} {'median':>10}   of '{base}'"]
    for name, speed in speeds.items():
        share = speed.median / speeds[base].median
        lines.append(f"  {name:44} {speed.best / 1e6:8.3f} M {speed.median / 1e6:8.3f} M   {share:6.2f}")
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        return "unknown"
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # it is on stderr
    return (version.stderr or version.stdout).partition("\n")[0]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
