"""Measures the memory of a running query."""

from __future__ import annotations

import statistics
import threading

import psutil  # type: ignore[import-untyped]  # its types are in a separate package

_PERIOD = 0.5  # seconds between two measurements
_MB = 2**20
_WORKERS = "Python's workers"  # with pages that several of them share, which count for each
_LARGEST = "the largest of them"


class MemoryMonitor:
    """Measures the memory of this process and its children until the block ends, without that of one process."""

    def __init__(self, without: psutil.Process | None = None) -> None:
        self._without = without
        self._samples: list[dict[str, int]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> MemoryMonitor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(_PERIOD):
            self._samples.append(self._measure())

    def _measure(self) -> dict[str, int]:
        this = psutil.Process()
        found = {"JVM": 0, _WORKERS: 0, _LARGEST: 0, "driver": this.memory_info().rss}
        for process in this.children(recursive=True):
            try:
                if process != self._without:
                    size = process.memory_info().rss
                    found["JVM" if process.name() == "java" else _WORKERS] += size
                    if process.name() != "java":
                        found[_LARGEST] = max(found[_LARGEST], size)
            except psutil.NoSuchProcess:
                continue
        return found

    def thirds(self) -> dict[str, dict[str, int]]:
        """Return the memory in MB: the medians of the first and of the last third of the time, and the maximum."""
        third = max(len(self._samples) // 3, 1)
        parts = {"first third": self._samples[:third], "last third": self._samples[-third:]}
        return {
            name: {
                **{part: round(statistics.median(s[name] for s in samples) / _MB) for part, samples in parts.items()},
                "most": round(max(sample[name] for sample in self._samples) / _MB),
            }
            for name in self._samples[0]
        }
