"""The folder of a table, as deltalake, Arrow and Spark name it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs as arrow_fs


@dataclass(frozen=True)
class TableStorage:
    """A folder. `uri` is a path of the machine, or a URL such as `s3://bucket/lake/orders`, without a slash at its end.

    options: deltalake's `storage_options`, with credentials. They are in no `repr`.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, path: str | PathLike[str], options: Mapping[str, str] | None = None) -> Self:
        """Return the folder of a path. A URL `file:` becomes the path that it names."""
        text = os.fspath(path)
        if text.startswith("file:"):
            text = unquote(urlsplit(text).path)
        return cls(text.rstrip("/") or "/", dict(options or {}))

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of the machine, or one that is mounted there."""
        return "://" not in self.uri

    def below(self, name: str) -> Self:
        """Return the folder with this name in the folder."""
        return type(self)(f"{self.uri}/{name}", self.options)

    def for_spark(self, name: str) -> str:
        """Return the path of a file for Spark, which would look for a path without a scheme in its own file system."""
        scheme, separator, rest = self.uri.partition("://")
        if not separator:
            return f"file://{os.path.abspath(self.uri)}/{name}"
        return f"{'s3a' if scheme == 's3' else scheme}://{rest}/{name}"

    def files(self) -> pa.fs.FileSystem:
        """Return the folder as a file system of Arrow."""
        if self.is_local:
            return arrow_fs.SubTreeFileSystem(os.path.abspath(self.uri), arrow_fs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return arrow_fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))

    def create(self) -> None:
        """Make the folder. Object stores have none."""
        if self.is_local:
            Path(self.uri).mkdir(parents=True, exist_ok=True)
