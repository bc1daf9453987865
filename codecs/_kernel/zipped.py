"""Loads the compiled kernel from a zip, as for `--py-files`.

Python can't load extension modules from a zip, so they are copied to files in a folder that only this user can write
to. The zip has them for one or more platforms and Pythons. `MODULES`, a file in this package, lists them with the
SHA-256 of each:

    {".cpython-311-x86_64-linux-gnu.so": {"reader": "5f2a...", ...}}

File names contain the hash, so different versions do not conflict. The content of each file is checked before it is
loaded. A file appears by a rename, so it is complete as soon as other processes see it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES

__all__ = ["MODULES", "unpack"]

MODULES = "compiled_modules.json"
_PACKAGE = __name__.rpartition(".")[0]


def unpack(read: Callable[[str], bytes]) -> tuple[dict[str, str], str]:
    """Copy the compiled modules for this Python to files. Return the files by module, or an empty dict and the reason.

    read: returns the content of a file of this package in the zip, and raises OSError if there is no such file.
    """
    try:
        platforms = json.loads(read(MODULES))
    except OSError:
        return {}, "the zip was made without a C compiler"
    suffix = next((suffix for suffix in EXTENSION_SUFFIXES if suffix in platforms), None)
    if suffix is None:
        return {}, f"the zip has modules for {' and '.join(platforms)}, but this Python needs {EXTENSION_SUFFIXES[0]}"
    if sys.platform == "win32":
        return {}, "on Windows it can't be loaded from a zip"
    reasons = []
    for find in (_temporary, _of_user):
        try:
            folder = find()
            _make_private(folder)
            files = {name: _copy(read, folder, name, suffix, digest) for name, digest in platforms[suffix].items()}
            for name, file in files.items():
                _check_loads(name, file)
        except (OSError, ImportError) as error:  # no permission, a full disk, a mount with noexec, an older C library
            reasons.append(str(error))
        else:
            return files, ""
    return {}, f"its modules can't be copied from the zip and loaded ({'; '.join(reasons)})"


def _temporary() -> str:
    folder = tempfile.gettempdir()
    if folder == os.getcwd():  # Python's last resort, but nobody expects these files there
        raise FileNotFoundError("there is no folder for temporary files")
    return os.path.join(folder, f"kvformat-{os.geteuid()}")


def _of_user() -> str:
    return os.path.expanduser("~/.cache/kvformat")


def _make_private(folder: str) -> None:
    """Create the folder if needed. Raise PermissionError if other users can change or replace it."""
    os.makedirs(folder, 0o700, exist_ok=True)
    status, parent = os.lstat(folder), os.stat(os.path.dirname(folder))
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"other users have access to {folder}")
    if parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX:
        raise PermissionError(f"other users can replace {folder}")


def _copy(read: Callable[[str], bytes], folder: str, name: str, suffix: str, digest: str) -> str:
    """Write a module to the folder, unless its file is already there with the right content. Return its path."""
    path = os.path.join(folder, f"{name}-{digest[:16]}{suffix}")
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if hashlib.sha256(file.read()).hexdigest() == digest:
            return path
    content = read(f"{name}{suffix}")
    if hashlib.sha256(content).hexdigest() != digest:
        raise OSError(f"{name}{suffix} in the zip is damaged")
    number, partial = tempfile.mkstemp(dir=folder)  # with mode 0600
    try:
        with open(number, "wb") as file:
            file.write(content)
        os.replace(partial, path)
    except OSError:
        os.unlink(partial)
        raise
    return path


def _check_loads(name: str, file: str) -> None:
    """Raise ImportError if Python can't load the file. This does not run the module."""
    spec = importlib.util.spec_from_file_location(f"{_PACKAGE}.{name}", file)
    assert spec is not None
    importlib.util.module_from_spec(spec)
