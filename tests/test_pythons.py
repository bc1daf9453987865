"""The versions of Python that pyproject.toml names, and `scripts/test --python`."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a version of Python"),
        (["python3.13"], "Name a version of Python"),
        (["3.99"], "There is no python3.99 on this machine, and no Debian suite that has it is known."),
    ],
)
def test_a_version_that_cannot_be_had_is_an_error_with_the_next_step(arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [str(_ROOT / "scripts" / "test"), "--python", *arguments],
        env={name: value for name, value in os.environ.items() if name != "PYTHON"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr
