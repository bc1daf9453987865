"""The versions of Python that pyproject.toml names."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_STORED = json.loads((_ROOT / "tests" / "pythons.json").read_text(encoding="utf-8"))


def test_the_classifiers_name_the_tested_versions() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    assert named == ["3.11", *_STORED]  # scripts/test --all runs with 3.11
    assert project["requires-python"] == f">={named[0]}"


def test_a_stored_run_has_a_minimum_of_tests() -> None:
    for version, run in _STORED.items():
        assert run["Python"].startswith(f"{version}.")
        assert run["tests without Spark"] >= 5_000
        assert run["tests with Spark"] >= 100
