"""`kvformat new-format`: the package is complete and fulfils the contract; existing files are not overwritten."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, version
from pathlib import Path

import pyarrow as pa
import pytest

from kvformat.registry.testing import check_format
from tests.support.cli import run

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "module", "cls"), [("x", "kvformat_x", "XFormat"), ("url-form-2", "kvformat_url_form_2", "UrlForm2Format")]
)
def test_new_format_writes_a_package_with_a_format(
    name: str, module: str, cls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("new-format", name, "--json")
    assert result.exit_code == 0
    folder = tmp_path / f"kvformat-{name}"
    told = {json.loads(line)["file"] for line in result.stdout.splitlines()}
    assert told == {str(path.relative_to(tmp_path)) for path in folder.rglob("*") if path.is_file()}
    assert len(told) == 7
    assert not [path for path in folder.rglob("*") if path.is_file() and "$" in path.read_text(encoding="utf-8")]

    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] == f"kvformat-{name}"
    major, minor, *_ = version("kvformat").split(".")
    assert project["project"]["dependencies"] == [f"kvformat>={major}.{minor}"]
    assert project["project"]["entry-points"]["kvformat.formats"] == {name: f"{module}:{cls}"}
    monkeypatch.syspath_prepend(folder / "src")
    format = EntryPoint(name, f"{module}:{cls}", "kvformat.formats").load()()
    assert format.identifier == name
    rows = [{"id": 7, "name": "ä&="}, {"id": None, "name": ""}]
    report = check_format(format, rows, schema="id BIGINT, name STRING", bad=[b"id"])
    assert sum(report.compared.values()) > 500
    with pytest.raises(ValueError, match=f"format '{name}': column 'd' is DATE"):
        format.decode_batch(pa.array([], pa.binary()), "d DATE")


def test_new_package_passes_the_checks_of_this_project(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    assert run("new-format", "plain", "--folder", folder).exit_code == 0
    config = (
        "--config",
        _ROOT / "pyproject.toml",
        "--config",
        "lint.isort.known-first-party=['kvformat', 'kvformat_plain']",
    )
    for check in (("check",), ("format", "--check")):
        done = subprocess.run([sys.executable, "-m", "ruff", *check, *config, folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["", "Form", "a_b", "-a", "a-", "a--b", "7a", "a.b", "../a", "a/b", "ä", "a\n"])
def test_invalid_format_names_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("new-format", "--", name)
    assert result.exit_code == 2
    assert "letters a to z, digits and hyphens" in " ".join(result.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    file, full, empty = (tmp_path / name for name in ("file", "full", "empty"))
    file.write_text("mine")
    for folder in (full, empty):
        folder.mkdir()
    (full / "README.md").write_text("mine")
    for taken in (file, full):
        result = run("new-format", "plain", "--folder", taken)
        assert result.exit_code == 2
        assert "is there already, and not an empty folder" in " ".join(result.stderr.split())
    assert {path.read_text() for path in (file, *full.iterdir())} == {"mine"}
    assert run("new-format", "plain", "--folder", empty).exit_code == 0


def test_existing_formats_are_refused(tmp_path: Path) -> None:
    result = run("new-format", "json", "--folder", tmp_path / "package")
    assert result.exit_code == 2
    assert "there is a format 'json' already" in " ".join(result.stderr.split())
    assert not (tmp_path / "package").exists()
