"""The interface of schema registries, and a registry in a folder."""

from __future__ import annotations

import abc
import contextlib
import json
import traceback
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvformat.codecs._confluent.settings import RegistrySettings
from kvformat.registry.contract.errors import SchemaRegistryError

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
"""Kinds of schemas, by the names of Confluent's REST interface."""
_NAMES = {AVRO: "an Avro schema", JSON: "a JSON Schema", PROTOBUF: "a Protobuf schema"}
_ENDINGS = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
"""The kind of a schema in a folder, by the ending of its file's name."""
_LONGEST_TEXT = 1000  # characters


@dataclass(frozen=True, slots=True)
class Refused:
    """A registry's refusal: it does not know an id or refuses a schema, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class RegistrySchema:
    """A schema in a registry.

    kind: AVRO, JSON, PROTOBUF, or another word of the registry.
    references: the texts of the schemas that it refers to, directly or through others, each after its name.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()

    def of_kind(self, kind: str, what: str) -> RegistrySchema | Refused:
        """Return the schema, or a refusal if it is of another kind. `what` names the schema in the refusal."""
        return self if self.kind == kind else Refused(f"{what} is not {_NAMES[kind]} but {self.kind}")


class SchemaRegistry(abc.ABC):
    """A schema registry. Every method raises `SchemaRegistryError` if there is no usable answer."""

    @abc.abstractmethod
    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        """Return the schema with an id, a number or the text of a GUID."""

    @abc.abstractmethod
    def register(self, subject: str, schema: RegistrySchema) -> int | Refused:
        """Return the id of a schema under a subject. Registers the schema if it is new."""

    @abc.abstractmethod
    def lookup(self, subject: str, schema: RegistrySchema) -> int | Refused:
        """Return the id of a schema that is registered under the subject."""

    @abc.abstractmethod
    def latest(self, subject: str) -> tuple[int, RegistrySchema] | Refused:
        """Return the subject's latest schema after its id."""

    @abc.abstractmethod
    def version(self, subject: str, version: int) -> tuple[int, RegistrySchema] | Refused:
        """Return a version of the subject's schema after its id."""


def shorten(text: str) -> str:
    """Shorten a server's text, which may be a whole page, for an error message."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[: _LONGEST_TEXT // 2]} ... {text[-_LONGEST_TEXT // 2 :]}"


def cause_without_secrets(settings: RegistrySettings, cause: Exception) -> Exception | None:
    """Return the exception to chain, None if its traceback or a chained exception contains a secret."""
    texts = traceback.format_exception(cause)
    link: BaseException | None = cause
    while link is not None:
        texts.append(repr(vars(link)))
        link = link.__cause__ or link.__context__
    shown = "".join(texts)
    return cause if settings.scrubbed(shown) == shown else None


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


class Folder(SchemaRegistry):
    """A folder of schemas, without subjects: `<id>.avsc`, `<id>.json` and `<id>.proto` for Avro, JSON and Protobuf.

    A schema that messages name by a GUID has the file `<guid>.avsc`, and so on.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        path = settings.url.removeprefix("file:")
        self._folder = Path(urllib.parse.unquote(path.removeprefix("//")))

    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        with self._file_errors(schema_id=schema_id):
            if not self._folder.is_dir():
                raise FileNotFoundError(f"no folder {self._folder}")
            files = [self._folder / f"{schema_id}{ending}" for ending in _ENDINGS]
            found = next((file for file in files if file.is_file()), None)
            return Refused(f"there is no file {files[0].name}") if found is None else self._read(found)

    def register(self, subject: str, schema: RegistrySchema) -> int | Refused:
        with self._file_errors(subject=subject):
            while True:
                known = self.lookup(subject, schema)
                if isinstance(known, int):
                    return known
                schema_id = max(self._files(), default=0) + 1
                ending = next(ending for ending, kind in _ENDINGS.items() if kind == schema.kind)
                with contextlib.suppress(FileExistsError), open(self._folder / f"{schema_id}{ending}", "x") as file:
                    file.write(schema.text)

    def lookup(self, subject: str, schema: RegistrySchema) -> int | Refused:
        wanted = _canonical(schema)
        with self._file_errors(subject=subject):
            for schema_id, file in sorted(self._files().items()):
                with contextlib.suppress(ValueError):  # another process is writing the file
                    if _canonical(self._read(file)) == wanted:
                        return schema_id
        return Refused(f"no file in {self._folder} contains the schema {schema.text}")

    def latest(self, subject: str) -> tuple[int, RegistrySchema] | Refused:
        return Refused("a folder has no subjects, and so no versions of a subject")

    def version(self, subject: str, version: int) -> tuple[int, RegistrySchema] | Refused:
        return self.latest(subject)

    @staticmethod
    def _read(file: Path) -> RegistrySchema:
        return RegistrySchema(_ENDINGS[file.suffix], file.read_text("utf-8"))

    def _files(self) -> dict[int, Path]:
        if not self._folder.is_dir():
            raise FileNotFoundError(f"no folder {self._folder}")
        known = (file for file in self._folder.iterdir() if file.suffix in _ENDINGS)
        return {int(file.stem): file for file in known if file.stem.isascii() and file.stem.isdigit()}

    @contextlib.contextmanager
    def _file_errors(self, *, schema_id: int | str | None = None, subject: str | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            raise registry_error(self._settings, str(cause), schema_id=schema_id, subject=subject) from cause


def _canonical(schema: RegistrySchema) -> tuple[str, object]:
    """Return what equal schemas have in common. Raises `ValueError` for text that is not JSON but should be."""
    return schema.kind, schema.text.strip() if schema.kind == PROTOBUF else json.loads(schema.text)
