"""The compiled kernel in the zip of scripts/zip."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import PAIRS, SHARED
from tests.support.environments import ROOT, Environment, make_zip

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
FOLDER = "kvformat/codecs/_kernel"
LIST = f"{FOLDER}/compiled_modules.json"

DECODE = """
import os, sys
import pyarrow as pa
from kvformat.codecs import KERNEL, _kernel, get_format

def decode():
    return get_format("json").decode_batch(pa.array([b'{"id":1}']), "id INT").rows.to_pylist()

"""
TELL = DECODE + "print(KERNEL, decode(), _kernel.WHY)"
FORK = (
    DECODE
    + """
decode()
child = os.fork()
if not child:
    os._exit(0 if decode() == [[{"id": 1}]] else 1)
print(KERNEL, os.waitpid(child, 0)[1])
"""
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_zip(tmp_path_factory.mktemp("zip") / "first" / "kvformat.zip")


@pytest.fixture
def settings(tmp_path: Path, archive: Path) -> dict[str, str]:
    """Environment variables of a process with the zip, a new home folder and a new folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    return {"PYTHONPATH": str(archive), "TMPDIR": str(tmp_path / "temporary"), "HOME": str(tmp_path / "home")}


def changed(archive: Path, target: Path, files: dict[str, bytes]) -> Path:
    """Copy the zip with other content for some files."""
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, files.get(name, old.read(name)))
    return target


def test_the_zip_lists_its_modules(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        names, listed = opened.namelist(), json.loads(opened.read(LIST))
    assert {name: sorted(digests) for name, digests in listed.items()} == {SUFFIX: sorted([*PAIRS, SHARED])}
    assert {f"{FOLDER}/{name}{SUFFIX}" for name in [*PAIRS, SHARED]} <= set(names)


def test_the_kernel_of_a_zip_is_compiled(bare: Environment, settings: dict[str, str]) -> None:
    assert bare.python("-c", TELL, **settings) == "compiled [[{'id': 1}]] \n"
    folder = Path(settings["TMPDIR"], f"kvformat-{os.geteuid()}")
    assert sorted(file.name.partition("-")[0] for file in folder.iterdir()) == sorted([*PAIRS, SHARED])


def test_the_source_in_a_zip_can_be_requested(bare: Environment, settings: dict[str, str]) -> None:
    assert bare.python("-c", TELL, KVFORMAT_KERNEL="python", **settings) == "python [[{'id': 1}]] \n"
    assert list(Path(settings["TMPDIR"]).iterdir()) == []


def test_processes_may_start_at_the_same_time(bare: Environment, settings: dict[str, str]) -> None:
    command = [bare.executable, "-c", TELL]
    together = [
        subprocess.Popen(command, cwd=bare.folder, env={**os.environ, **settings}, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    assert [process.communicate()[0] for process in together] == [b"compiled [[{'id': 1}]] \n"] * 4
    assert len(list(Path(settings["TMPDIR"]).glob("kvformat-*/*"))) == len(PAIRS) + 1


def test_a_forked_process_decodes(bare: Environment, settings: dict[str, str]) -> None:
    assert bare.python("-c", FORK, **settings) == "compiled 0\n"


def test_a_zip_for_another_python_runs_as_source(
    bare: Environment, archive: Path, settings: dict[str, str], tmp_path: Path
) -> None:
    listed = json.dumps({".cpython-399-x86_64-linux-gnu.so": {}}).encode()
    settings["PYTHONPATH"] = str(changed(archive, tmp_path / "other.zip", {LIST: listed}))
    told = bare.python("-c", TELL, **settings)
    assert told.startswith("python [[{'id': 1}]] the zip has modules for .cpython-399-x86_64-linux-gnu.so, but")
    warn = "from kvformat.codecs._kernel import count_messages\ncount_messages(5001)"
    command = [bare.executable, "-W", "error", "-c", warn]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert "UncompiledKernelWarning: the kernel runs uncompiled, many times slower: the zip has" in done.stderr


def test_wheels_for_several_platforms_make_one_zip(wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            new.writestr(name.replace(SUFFIX, ".cpython-399-x86_64-linux-gnu.so"), old.read(name))
    target = make_zip(tmp_path / "zip" / "kvformat.zip", wheel, other)
    with zipfile.ZipFile(target) as opened:
        listed = json.loads(opened.read(LIST))
    assert sorted(listed) == sorted([SUFFIX, ".cpython-399-x86_64-linux-gnu.so"])
    assert {len(digests) for digests in listed.values()} == {len(PAIRS) + 1}
    of_other_source = changed(wheel, tmp_path / "changed.whl", {f"{FOLDER}/codes.py": b"# changed"})
    command = [sys.executable, ROOT / "scripts" / "zip", tmp_path / "refused.zip", wheel, of_other_source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{FOLDER}/codes.py is not the same in all wheels\n")
