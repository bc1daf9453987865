"""All commands: how errors end them, the version, and the file for spark-submit."""

from __future__ import annotations

import importlib.util
import json
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

import pyspark_kvformat
from kvformat.connectors.cli import formats, launcher
from kvformat.registry.build import build_identity
from tests.support.cli import run


def _fails_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the result of a command in which this error occurs."""

    def fail() -> Any:
        raise error

    monkeypatch.setattr(formats, "available_formats", fail)
    return run("formats")


@pytest.mark.parametrize("module", ["pyspark", "pyspark.sql.types"])
def test_a_command_without_pyspark_says_what_to_install(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = _fails_with(ModuleNotFoundError("no module", name=module), monkeypatch)
    assert (result.exit_code, "this command needs PySpark 4.1 or newer" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("no module", name="pysparkling"), ModuleNotFoundError("no module"), ValueError("why")]
)
def test_an_error_that_is_not_the_librarys_is_raised(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(type(error)) as raised:
        _fails_with(error, monkeypatch)
    assert raised.value is error


def test_an_interrupt_has_the_status_of_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _fails_with(KeyboardInterrupt(), monkeypatch)
    assert (result.exit_code, result.stderr) == (130, "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-m", "nope"), {"type": "MetadataError", "field": "nope"}),
        (("-o", "charst=x"), {"type": "OptionError", "format": "json", "option": "charst"}),
    ],
)
def test_an_error_as_json_says_where_it_is(arguments: tuple[str, ...], told: dict[str, str]) -> None:
    result = run("decode", "--json", "-f", "json", "-s", "a INT", *arguments)
    found = json.loads(result.stderr)
    assert (result.exit_code, bool(found.pop("error")), found) == (2, True, told)


def test_the_version_is_that_of_the_build() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"kvformat {build_identity()}\n")


def test_the_launcher_is_a_file_that_runs_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(pyspark_kvformat.__file__).with_name("launcher.py")
    assert run("launcher").stdout == f"{file}\n"
    assert json.loads(run("launcher", "--json").stdout) == {"file": str(file)}
    assert "main()" in file.read_text(encoding="utf-8")
    # in a zip the file has no path; spark-submit cannot read it
    inside = ModuleSpec("pyspark_kvformat", None, origin=str(tmp_path / "x.zip" / "pyspark_kvformat" / "__init__.py"))
    for spec in (None, inside):
        monkeypatch.setattr(importlib.util, "find_spec", lambda _, spec=spec: spec)
        result = run("launcher")
        assert (result.exit_code, launcher._TWO_LINES in result.stderr) == (2, True)
