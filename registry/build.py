"""Who a build of the library is: its version, its commit, and a digest of its sources.

    a wheel, a zip of scripts/zip     `build.json` beside this module; setup.py writes it
    an editable install, a checkout   computed when it is asked for, once in a process

The digest decides whether two builds are the same. The commit is its name for people: it is only looked up to be shown.
A folder of sources without git, as in a source distribution, has its commit in `build.json`, too.

    python -P registry/build.py FOLDER    writes the build of this checkout to FOLDER/build.json, for setup.py

This module imports nothing of the library: setup.py has none, and a worker is asked for its build before it imports it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = "build.json"
FOLDERS: Final = ("package", "registry", "codecs", "connectors", "ingestion", "pyspark_kvformat")
"""The folders of sources in a checkout."""
_TOP: Final = ("_kvformat_alias.py", "kernel_build.py", "pyproject.toml", "setup.py")
"""Other files that a build depends on."""
_COMPILED: Final = (".pyc", ".pyo", ".so", ".pyd")
_GIT_TIMEOUT: Final = 30.0


@dataclass(frozen=True)
class Build:
    """A build. `sources` is the digest of its sources, `commit` is empty if it is not known.

    `changed` says that the sources are not those of the commit.
    """

    version: str
    sources: str
    commit: str = ""
    changed: bool = False

    def __str__(self) -> str:
        commit = f"commit {self.commit}{'+changes' if self.changed else ''}, " if self.commit else ""
        return f"{self.version} ({commit}sources {self.sources})"


def build_identity() -> str:
    """Return who this build of kvformat is, such as `0.1.0 (commit 81a1395c9d3f, sources 5b1f0c62a9e4)`.

    Two builds with the same `sources` have the same code. `+changes` after the commit says that the code is not that of
    the commit. In an editable installation, it is that of the sources when this is first called.
    """
    return str(_described())


@functools.cache
def sources_digest() -> str:
    """Return the digest of the sources of this build; git is not asked for it."""
    stored = _stored()
    return _digest(_root()) if stored is None else stored.sources


@functools.cache
def _described() -> Build:
    return _stored() or of_sources(_root())


def _root() -> Path:
    return Path(os.path.realpath(__file__)).parents[1]


@functools.cache
def _stored() -> Build | None:
    """Return what is beside this module in a wheel or a zip; None in a checkout."""
    root = _root()
    if (root / "pyproject.toml").is_file():
        return None
    try:
        loader: Any = globals()["__loader__"]  # that of a zip reads files, too
        return Build(**json.loads(loader.get_data(os.path.join(os.path.dirname(__file__), FILE))))
    except (OSError, ValueError, TypeError):  # somebody copied the folders, or packed them
        packed = next(filter(Path.is_file, (root, *root.parents)), None)
        digest = _digest(root) if packed is None else hashlib.sha256(packed.read_bytes()).hexdigest()[:12]
        return Build("of unknown version", digest)


def of_sources(root: Path) -> Build:
    """Return the build of a folder with sources, whose commit git or its `build.json` tells."""
    digest, version = _digest(root), _version(root)
    if (root / ".git").exists():
        commit = _git(root, "rev-parse", "HEAD")[:12]
        return Build(version, digest, commit, bool(commit and _git(root, "status", "--porcelain", "--", *_parts(root))))
    try:
        stored = Build(**json.loads((root / "registry" / FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return Build(version, digest)
    return Build(version, digest, stored.commit, bool(stored.commit) and (stored.changed or stored.sources != digest))


def _digest(root: Path) -> str:
    """Return the digest of the sources in a folder, with `/` in their names on every platform."""
    files = {path.relative_to(root).as_posix(): path for part in _parts(root) for path in _files(root / part)}
    digest = hashlib.sha256()
    for name in sorted(filter(_is_source, files)):
        content = files[name].read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def _parts(root: Path) -> list[str]:
    return [name for name in (*FOLDERS, *_TOP) if (root / name).exists()]


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def _is_source(name: str) -> bool:
    *folders, file = name.split("/")
    if "__pycache__" in folders or any(part.startswith(".") for part in (*folders, file)):
        return False
    return not file.endswith(_COMPILED) and name != f"registry/{FILE}"


def _version(root: Path) -> str:
    import tomllib

    return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def _git(root: Path, *words: str) -> str:
    """Return what a command of git prints; "" if git can't tell."""
    try:
        run = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=_GIT_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip()


def _write(folder: Path) -> None:
    file = folder / FILE
    file.unlink(missing_ok=True)  # in a folder for a source distribution, it may be a link
    file.write_text(f"{json.dumps(vars(of_sources(_root())), indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
