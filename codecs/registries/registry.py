"""A registry in a folder, and the errors of registries."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import traceback
import urllib.parse
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kvformat.codecs._json_documents import BYTE_ORDER_MARK
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.errors import SchemaRegistryError
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings, SchemaRegistry

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
"""Kinds of schemas, by the names of Confluent's REST interface."""
_ENDINGS = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
"""The kind of a schema in a folder, by the ending of its file's name."""
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LONGEST_TEXT = 1000  # characters


def shorten(text: str) -> str:
    """Shorten a server's text, which may be a whole page, for an error message."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[: _LONGEST_TEXT // 2]} ... {text[-_LONGEST_TEXT // 2 :]}"


def cause_without_secrets(
    settings: RegistrySettings, cause: Exception, secrets: Iterable[str] = ()
) -> Exception | None:
    """Return the exception to chain, None if its traceback or a chained exception contains a secret."""
    texts = traceback.format_exception(cause)
    link: BaseException | None = cause
    while link is not None:
        texts.append(repr(vars(link)))
        link = link.__cause__ or link.__context__
    shown = "".join(texts)
    return cause if settings.scrubbed(shown, secrets) == shown else None


def registry_error(
    settings: RegistrySettings, why: str, *, schema_id: int | str | None = None, subject: str | None = None
) -> SchemaRegistryError:
    """Return the error of a registry without a usable answer."""
    reason = shorten(settings.scrubbed(why))
    return SchemaRegistryError(
        f"format '{settings.format}': the schema registry at {settings.shown_url} gave no usable answer about "
        f"{reason}. The messages are not the cause, and none was read or written; try again when the registry is "
        "available",
        format=settings.format,
        reason=reason,
        url=settings.shown_url,
        schema_id=schema_id,
        subject=subject,
    )


def unknown_schema(settings: RegistrySettings, schema_id: int | str, why: str) -> Reason:
    """Return the error of messages whose schema the registry does not have."""
    place = f"the schema registry at {settings.shown_url}"
    return Reason(ErrorCode.UNKNOWN_SCHEMA, f"Could not find schema with id {schema_id} in {place}: {why}")


def unreadable_schema(settings: RegistrySettings, schema_id: int | str, why: str) -> Reason:
    """Return the error of messages whose schema is not valid, or has types that can't be read."""
    return Reason(
        ErrorCode.UNKNOWN_SCHEMA,
        f"the schema with id {schema_id} in the schema registry at {settings.shown_url} can't be read: "
        f"{settings.scrubbed(why)}",
    )


class Folder(SchemaRegistry):
    """A folder of schemas, without subjects: `<id>.avsc`, `<id>.json` and `<id>.proto` for Avro, JSON and Protobuf.

    A schema that messages name by a GUID has the file `<guid>.avsc`, and so on.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        path = settings.url.removeprefix("file:")
        self._folder = Path(urllib.parse.unquote(path.removeprefix("//")))

    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        self._check()
        files = [self._folder / f"{schema_id}{ending}" for ending in _ENDINGS]
        schema_file = next((file for file in files if file.is_file()), None)
        try:
            return Refused(f"there is no file {files[0].name}") if schema_file is None else self._read(schema_file)
        except UnicodeDecodeError as bad:
            assert schema_file is not None
            return Refused(
                f"the file {schema_file.name} is not text in {bad.encoding}: {bad.reason}. Store it in UTF-8"
            )

    def register(self, subject: str, schema: RegistrySchema) -> int | str | Refused:
        while True:
            known = self.lookup(subject, schema)
            if not isinstance(known, Refused):
                return known
            schema_id = _guid_of(schema) if self._settings.guids else max(self._numbers(), default=0) + 1
            ending = next(ending for ending, kind in _ENDINGS.items() if kind == schema.kind)
            new = self._folder / f"{schema_id}{ending}"
            with contextlib.suppress(FileExistsError), open(new, "x", encoding="utf-8") as file:
                file.write(schema.text)

    def lookup(self, subject: str, schema: RegistrySchema) -> int | str | Refused:
        wanted = _canonical(schema)
        files: Mapping[Any, Path] = self._guids() if self._settings.guids else self._numbers()
        for schema_id, file in sorted(files.items()):
            with contextlib.suppress(ValueError):  # another process is writing the file
                if _canonical(self._read(file)) == wanted:
                    return schema_id  # type: ignore[no-any-return]  # an int or a str
        return Refused(f"no file in {self._folder} contains the schema {schema.text}")

    def is_transient(self, error: Exception) -> bool:
        return False

    def latest(self, subject: str) -> tuple[int | str, RegistrySchema] | Refused:
        return Refused("a folder has no subjects, and so no versions of a subject")

    def version(self, subject: str, version: int) -> tuple[int | str, RegistrySchema] | Refused:
        return self.latest(subject)

    @staticmethod
    def _read(file: Path) -> RegistrySchema:
        """Read a file. Raises `ValueError` if it is not text; its encoding is that of its first bytes, as in JSON."""
        data = file.read_bytes()
        return RegistrySchema(_ENDINGS[file.suffix], data.decode(json.detect_encoding(data)))

    def _numbers(self) -> dict[int, Path]:
        return {int(file.stem): file for file in self._files() if file.stem.isascii() and file.stem.isdigit()}

    def _guids(self) -> dict[str, Path]:
        return {file.stem: file for file in self._files() if _GUID.fullmatch(file.stem)}

    def _files(self) -> list[Path]:
        self._check()
        return [file for file in self._folder.iterdir() if file.suffix in _ENDINGS]

    def _check(self) -> None:
        if not self._folder.is_dir():
            raise FileNotFoundError(f"no folder {self._folder}")


def _guid_of(schema: RegistrySchema) -> str:
    """Return a GUID for a schema, always the same one."""
    return str(uuid.UUID(bytes=hashlib.sha256(f"{schema.kind} {schema.text}".encode()).digest()[:16], version=4))


def _canonical(schema: RegistrySchema) -> tuple[str, object]:
    """Return what equal schemas have in common. Raises `ValueError` for text that is not JSON but should be."""
    return schema.kind, schema.text.strip() if schema.kind == PROTOBUF else json.loads(
        schema.text.removeprefix(BYTE_ORDER_MARK)
    )
