"""The schema store of a checkpoint in a folder of this machine, without Spark: `kvformat schemas` needs no session.

It lists and reads the files as Spark does, which leaves out names that begin with `_` or `.`: those of jobs that have
not ended, and checksums. What it writes, Spark reads.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kvformat.ingestion.store import SchemaStore, file_text

_HIDDEN = ("_", ".")


class LocalSchemaStore(SchemaStore):
    """A store that reads and writes plain files, and uses no session."""

    def __init__(self, checkpoint: str | Path) -> None:
        super().__init__(None, str(checkpoint))

    @classmethod
    def at(cls, checkpoint: str) -> LocalSchemaStore | None:
        """Return the store of a checkpoint if it is in a folder of this machine."""
        path = unquote(urlsplit(checkpoint).path) if checkpoint.startswith("file:") else checkpoint
        return cls(path) if "://" not in path and Path(path, "kvformat").is_dir() else None

    def _listed(self, folder: str) -> list[str]:
        paths = []
        for parent, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
            paths += [f"{parent}/{name}" for name in names if not name.startswith(_HIDDEN)]
        return sorted(paths)

    def _texts(self, paths: list[str]) -> dict[str, str]:
        texts = {}
        for path in paths:
            try:
                texts[path] = Path(path).read_bytes().decode(errors="replace")
            except FileNotFoundError:  # a query replaces it now
                continue
        return texts

    def _notes(self, folder: str) -> list[str]:
        return [text.rstrip("\n") for text in self._read(folder).values()]

    def _write(self, name: str, entries: Iterable[Mapping[str, Any]], **head: Any) -> None:
        folder = Path(self.folder, name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / ".part-0").write_text(file_text(entries, **head) + "\n", encoding="utf-8")
        (folder / ".part-0").rename(folder / "part-0")
