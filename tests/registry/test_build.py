"""Who a build is: its digest depends on the sources and on nothing else, and git or a stored file names the commit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kvformat.registry import build
from kvformat.registry.build import Build, of_sources

ROOT = Path(__file__).resolve().parents[2]


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    run = subprocess.run(["git", *who, "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return run.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout, without git."""
    folder = tmp_path / "checkout"
    (folder / "registry").mkdir(parents=True)
    (folder / "codecs" / "_kernel").mkdir(parents=True)
    (folder / "docs").mkdir()
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (folder / "codecs" / "_kernel" / "reader.pxd").write_text("cdef class Reader\n")
    (folder / "docs" / "page.md").write_text("a page\n")
    shutil.copy(ROOT / "registry" / "build.py", folder / "registry")
    return folder


@pytest.fixture
def committed(checkout: Path) -> Path:
    (checkout / ".gitignore").write_text("__pycache__/\n*.so\n")
    git(checkout, "init", "-q")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "first")
    return checkout


def test_a_clean_checkout_is_its_commit(committed: Path) -> None:
    found = of_sources(committed)
    assert (found.version, found.commit, found.changed) == ("1.2.3", git(committed, "rev-parse", "HEAD")[:12], False)
    assert str(found) == f"1.2.3 (commit {found.commit}, sources {found.sources})"
    (committed / "docs" / "page.md").write_text("another page\n")
    assert of_sources(committed) == found


@pytest.mark.parametrize("name", ["registry/build.py", "codecs/_kernel/reader.pxd", "codecs/new.py", "pyproject.toml"])
def test_changes_of_sources_have_a_digest_of_their_own(committed: Path, name: str) -> None:
    clean = of_sources(committed)
    with open(committed / name, "a", encoding="utf-8") as file:
        file.write("# changed\n")
    changed = of_sources(committed)
    assert (changed.commit, changed.changed) == (clean.commit, True)
    assert f"commit {clean.commit}+changes, sources " in str(changed)
    with open(committed / name, "a", encoding="utf-8") as file:
        file.write("# again\n")
    assert len({clean.sources, changed.sources, of_sources(committed).sources}) == 3


def test_a_renamed_file_changes_the_digest(checkout: Path) -> None:
    before = of_sources(checkout)
    (checkout / "codecs" / "_kernel" / "reader.pxd").rename(checkout / "codecs" / "_kernel" / "writer.pxd")
    assert of_sources(checkout).sources != before.sources


@pytest.mark.parametrize(
    "name", ["codecs/__pycache__/a.pyc", "codecs/_kernel/reader.so", "registry/.cache/a.py", "registry/build.json"]
)
def test_files_that_are_no_sources_do_not_count(checkout: Path, name: str) -> None:
    before = of_sources(checkout)
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("{}")
    assert of_sources(checkout) == before


def test_without_git_a_stored_file_names_the_commit(checkout: Path) -> None:
    without = of_sources(checkout)
    assert str(without) == f"1.2.3 (sources {without.sources})"
    stored = Build("1.2.3", without.sources, "0123456789ab")
    (checkout / "registry" / build.FILE).write_text(json.dumps(vars(stored)))
    assert of_sources(checkout) == stored
    (checkout / "codecs" / "new.py").write_text("")
    changed = of_sources(checkout)
    assert (changed.commit, changed.changed, changed.sources != stored.sources) == ("0123456789ab", True, True)


def test_the_script_writes_the_build_of_its_checkout(committed: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-P", committed / "registry" / "build.py", tmp_path], check=True)
    assert Build(**json.loads((tmp_path / build.FILE).read_text())) == of_sources(committed)


@pytest.fixture
def identity_in(tmp_path: Path) -> Callable[[Path], str]:
    """Return what `build_identity` says in a process that imports a package `parent/registry`."""

    def identity(parent: Path) -> str:
        code = "from registry.build import build_identity, sources_digest; print(build_identity(), sources_digest())"
        run = subprocess.run(
            [sys.executable, "-S", "-c", code],
            cwd=tmp_path,
            env={"PYTHONPATH": str(parent)},
            check=True,
            capture_output=True,
            text=True,
        )
        return run.stdout.strip()

    return identity


def test_an_installed_build_is_the_stored_one(tmp_path: Path, identity_in: Callable[[Path], str]) -> None:
    stored = Build("4.5.6", "fedcba987654", "0123456789ab")
    folder = tmp_path / "installed" / "registry"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    shutil.copy(ROOT / "registry" / "build.py", folder)
    (folder / build.FILE).write_text(json.dumps(vars(stored)))
    assert identity_in(folder.parent) == f"{stored} fedcba987654"
    packed = tmp_path / "packed.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"registry/{file.name}")
    assert identity_in(packed) == f"{stored} fedcba987654"


def test_folders_that_were_copied_by_hand_have_a_digest(tmp_path: Path, identity_in: Callable[[Path], str]) -> None:
    told = []
    for name in ("one", "other"):
        folder = tmp_path / name / "registry"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(f"# {name}")
        shutil.copy(ROOT / "registry" / "build.py", folder)
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            for file in folder.iterdir():
                archive.write(file, f"registry/{file.name}")
        told += [identity_in(folder.parent), identity_in(tmp_path / f"{name}.zip")]
    assert len(set(told)) == 4
    assert all(text.startswith("of unknown version (sources ") for text in told)
