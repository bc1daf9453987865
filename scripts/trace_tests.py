"""A plugin of pytest: writes which lines of the sources each test runs, and its processor seconds.

`scripts/mutants.py` needs it to run only those tests that a changed line can affect. The environment variables
`TRACE_SOURCES` and `TRACE_OUT` are the folder of the sources and the file to write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import coverage
import pytest


def _processor_seconds() -> float:
    """Return the seconds of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


class _Trace:
    def __init__(self, sources: str, out: str) -> None:
        self._sources, self._out = sources, out
        folders = [f"{sources}/{folder}/*" for folder in ("codecs", "registry", "connectors", "ingestion")]
        self._coverage = coverage.Coverage(data_file=None, include=folders)
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: Any) -> Iterator[None]:
        """Record the lines that a test runs with its fixtures."""
        self._coverage.switch_context(item.nodeid)
        start = _processor_seconds()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = _processor_seconds() - start
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out tests that fail without a mistake, and skipped ones."""
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write the lines by file and test."""
        self._coverage.stop()
        data = self._coverage.get_data()
        passed = {test: seconds for test, seconds in self._seconds.items() if test not in self._failed}
        lines = {}
        for file in data.measured_files():
            found = data.contexts_by_lineno(file).items()
            lines[os.path.relpath(file, self._sources)] = {line: [*passed.keys() & tests] for line, tests in found}
        with open(self._out, "w", encoding="utf-8") as out:
            json.dump({"seconds": passed, "lines": lines}, out)


def pytest_configure(config: pytest.Config) -> None:
    """Start the trace before the sources are imported."""
    config.pluginmanager.register(_Trace(os.environ["TRACE_SOURCES"], os.environ["TRACE_OUT"]))
