"""A schema store that writes and reads plain files, without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kvformat.ingestion.store import SchemaStore, file_text


class FileStore(SchemaStore):
    """A store that uses files and no session."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(None, str(folder))  # type: ignore[arg-type]

    def _listed(self, folder: str) -> list[str]:
        return [f"file:{path}" for path in sorted(Path(folder).rglob("part-*"))]

    def _texts(self, paths: list[str]) -> dict[str, str]:
        found = {path: Path(path.removeprefix("file:")) for path in paths}
        return {path: file.read_bytes().decode(errors="replace") for path, file in found.items() if file.exists()}

    def _notes(self, folder: str) -> list[str]:
        return [text.rstrip("\n") for text in self._read(folder).values()]

    def _write(self, name: str, entries: Iterable[Mapping[str, Any]], **head: Any) -> None:
        folder = Path(self.folder, name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "part-0").write_text(file_text(entries, **head) + "\n", encoding="utf-8")
