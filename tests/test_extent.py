"""The number of random cases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import extent

_ROOT = Path(__file__).parent.parent


def test_each_extent_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent, "EXTENT", "quick")
    assert extent.case_count(quick=3, night=30) == 3
    monkeypatch.setattr(extent, "EXTENT", "night")
    assert extent.case_count(quick=3, night=30) == 30


def test_an_environment_variable_overrides_the_extent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVFORMAT_TRIES", "7")
    assert extent.case_count("KVFORMAT_TRIES", quick=3, night=30) == 7


def test_an_unknown_extent_is_refused() -> None:
    """A typo must not turn a full run into a quick run."""
    environment = {**os.environ, "KVFORMAT_TEST_EXTENT": "nigt"}
    command = [sys.executable, "-c", "import tests.support.extent"]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "KVFORMAT_TEST_EXTENT is 'nigt'; allowed: quick, night" in done.stderr
