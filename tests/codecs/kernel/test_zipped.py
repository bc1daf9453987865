"""Copying compiled modules from a zip to files. tests/packaging/test_zip.py imports real zips."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from kvformat.codecs import KERNEL
from kvformat.codecs._kernel import tree, zipped
from kvformat.codecs._kernel.zipped import MODULES, unpack

pytestmark = [
    pytest.mark.skipif(KERNEL != "compiled", reason="the tests copy a compiled module"),
    pytest.mark.skipif(sys.platform == "win32", reason="modules are not loaded from a zip on Windows"),
]
SUFFIX = EXTENSION_SUFFIXES[0]
NAME = f"tree{SUFFIX}"


def reader(files: dict[str, bytes]) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        if name not in files:
            raise FileNotFoundError(name)
        return files[name]

    return read


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The files of a zip with one module."""
    content = Path(tree.__file__).read_bytes()
    listed = {SUFFIX: {"tree": hashlib.sha256(content).hexdigest()}}
    return {NAME: content, MODULES: json.dumps(listed).encode()}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The private folder below a new folder for temporary files. The home folder is new too."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "temporary" / f"kvformat-{os.geteuid()}"


def test_modules_are_copied_to_a_private_folder(files: dict[str, bytes], temporary: Path) -> None:
    found, why = unpack(reader(files))
    assert why == ""
    assert Path(found["tree"]).parent == temporary
    assert Path(found["tree"]).read_bytes() == files[NAME]
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o700
    written = os.stat(found["tree"])
    assert unpack(reader(files))[0] == found
    assert os.stat(found["tree"]) == written, "a file with the right content is used again"


def replace(file: Path) -> None:
    file.unlink()  # this process has loaded it: writing into it would be a bus error
    file.write_bytes(b"changed")


@pytest.mark.parametrize("change", [replace, Path.unlink])
def test_a_changed_or_removed_file_is_written_again(
    change: Callable[[Path], object], files: dict[str, bytes], temporary: Path
) -> None:
    found, _ = unpack(reader(files))
    change(Path(found["tree"]))
    assert unpack(reader(files))[0] == found
    assert Path(found["tree"]).read_bytes() == files[NAME]


def test_many_may_copy_at_the_same_time(files: dict[str, bytes], temporary: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: unpack(reader(files)), range(40)))
    assert {why for _, why in found} == {""}
    assert [file.name for file in temporary.iterdir()] == [Path(found[0][0]["tree"]).name]


def make_open(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)


def make_link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(0o700)
    folder.symlink_to("elsewhere")


def make_replaceable(folder: Path) -> None:
    folder.parent.chmod(0o777)


@pytest.mark.parametrize("prepare", [make_open, make_link, make_replaceable, Path.touch])
def test_a_folder_that_others_may_change_is_not_used(
    prepare: Callable[[Path], None], files: dict[str, bytes], temporary: Path, tmp_path: Path
) -> None:
    prepare(temporary)
    found, _ = unpack(reader(files))
    assert Path(found["tree"]).parent == tmp_path / "home" / ".cache" / "kvformat"


def test_a_folder_of_another_user_is_not_used(
    files: dict[str, bytes], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.geteuid() + 1
    monkeypatch.setattr(zipped.os, "geteuid", lambda: user)
    found, why = unpack(reader(files))
    assert found == {}
    assert f"other users have access to {temporary.parent}/kvformat-{user}; " in why


def test_the_working_folder_is_no_folder_for_temporary_files(
    files: dict[str, bytes], temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(temporary.parent)
    found, _ = unpack(reader(files))
    assert Path(found["tree"]).parent == tmp_path / "home" / ".cache" / "kvformat"
    assert not temporary.exists()


def test_without_a_folder_the_reasons_are_named(
    files: dict[str, bytes], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_open(temporary)
    monkeypatch.setenv("HOME", "/dev/null")
    found, why = unpack(reader(files))
    assert found == {}
    assert f"other users have access to {temporary}; " in why
    assert "/dev/null" in why


def test_a_file_that_cannot_be_written_leaves_nothing(
    files: dict[str, bytes], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipped.os, "replace", fail)
    found, why = unpack(reader(files))
    assert found == {}
    assert "No space left on device" in why
    assert list(temporary.iterdir()) == []


def test_a_damaged_zip_runs_as_source(files: dict[str, bytes], temporary: Path) -> None:
    found, why = unpack(reader({**files, NAME: files[NAME] + b"more"}))
    assert found == {}
    assert f"{NAME} in the zip is damaged" in why


def test_a_file_that_python_cannot_load_runs_as_source(files: dict[str, bytes], temporary: Path) -> None:
    content = b"not a library"
    listed = {SUFFIX: {"tree": hashlib.sha256(content).hexdigest()}}
    found, why = unpack(reader({NAME: content, MODULES: json.dumps(listed).encode()}))
    assert found == {}
    assert "tree-" in why


def test_modules_for_another_python_are_not_loaded(files: dict[str, bytes], temporary: Path) -> None:
    other = json.dumps({".cpython-399-x86_64-linux-gnu.so": {"tree": "0" * 64}}).encode()
    found, why = unpack(reader({**files, MODULES: other}))
    assert found == {}
    assert why == f"the zip has modules for .cpython-399-x86_64-linux-gnu.so, but this Python needs {SUFFIX}"
    assert not temporary.exists()


def test_a_zip_without_compiled_modules_runs_as_source(temporary: Path) -> None:
    assert unpack(reader({})) == ({}, "the zip was made without a C compiler")
