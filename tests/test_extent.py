"""The number of random cases in scripts/test and in scripts/test --all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import extent

_ROOT = Path(__file__).parent.parent


def test_each_extent_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent, "EXTENT", "quick")
    assert extent.case_count(quick=3, all=30) == 3
    monkeypatch.setattr(extent, "EXTENT", "all")
    assert extent.case_count(quick=3, all=30) == 30


def test_an_environment_variable_overrides_the_extent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVFORMAT_TRIES", "7")
    assert extent.case_count("KVFORMAT_TRIES", quick=3, all=30) == 7


def test_an_unknown_extent_is_refused() -> None:
    """A typo must not turn a full run into a quick run."""
    environment = {**os.environ, "KVFORMAT_TEST_EXTENT": "al"}
    command = [sys.executable, "-c", "import tests.support.extent"]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "KVFORMAT_TEST_EXTENT is 'al'; allowed: quick, all" in done.stderr


def test_only_the_quick_run_skips_tests() -> None:
    """Continuous integration calls the script with --all, and --all does not skip tests marked slow."""
    assert "${@:---all}" in (_ROOT / ".ci" / "run").read_text(encoding="utf-8")
    script = (_ROOT / "scripts" / "test").read_text(encoding="utf-8")
    runs = re.search(r'^if \[ -z "\$all" \]; then\n(.*?)^else\n(.*?)^fi\n', script, re.DOTALL | re.MULTILINE)
    assert runs is not None
    quick, everything = (re.findall(r"^ *part \"pytest.*", run, re.MULTILINE) for run in runs.groups())
    assert len(quick) > 2
    assert len(everything) > len(quick)
    assert ["not slow" in part for part in quick] == [True] * len(quick)
    assert ["slow" in part for part in everything] == [False] * len(everything)
    assert "export KVFORMAT_TEST_EXTENT=all\n" in runs[2]
    for part in quick:  # the long run selects everything that the quick run selects, and the slow tests
        selected = part.partition("tests -m ")[2].replace(" and not slow", "").replace('"spark"', "spark")
        assert any(other.endswith(selected) for other in everything), part
