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

from kvformat.codecs._confluent.settings import FORMAT, RegistrySettings
from kvformat.registry.contract.errors import SchemaRegistryError

_LONGEST_TEXT = 1000  # characters


@dataclass(frozen=True, slots=True)
class Refused:
    """A registry's refusal: it does not know an id or refuses a schema, for this reason."""

    reason: str


class SchemaRegistry(abc.ABC):
    """A schema registry. Every method raises `SchemaRegistryError` if there is no usable answer."""

    @abc.abstractmethod
    def schema(self, schema_id: int) -> str | Refused:
        """Return the text of a schema, with its references resolved."""

    @abc.abstractmethod
    def register(self, subject: str, text: str) -> int | Refused:
        """Return the id of a schema under a subject. Registers the schema if it is new."""

    @abc.abstractmethod
    def lookup(self, subject: str, text: str) -> int | Refused:
        """Return the id of a schema that is registered under the subject."""

    @abc.abstractmethod
    def latest(self, subject: str) -> tuple[int, str] | Refused:
        """Return id and text of the subject's latest schema."""

    @abc.abstractmethod
    def version(self, subject: str, version: int) -> tuple[int, str] | Refused:
        """Return id and text of a version of the subject's schema."""


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
    settings: RegistrySettings, why: str, *, schema_id: int | None = None, subject: str | None = None
) -> SchemaRegistryError:
    """Return the error of a registry without a usable answer."""
    reason = shorten(settings.scrubbed(why))
    return SchemaRegistryError(
        f"format '{FORMAT}': the schema registry at {settings.shown_url} gave no usable answer about {reason}. "
        "The messages are not the cause, and none was read or written; try again when the registry is available",
        format=FORMAT,
        reason=reason,
        url=settings.shown_url,
        schema_id=schema_id,
        subject=subject,
    )


class Folder(SchemaRegistry):
    """A folder of `<id>.avsc` files, without subjects."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        path = settings.url.removeprefix("file:")
        self._folder = Path(urllib.parse.unquote(path.removeprefix("//")))

    def schema(self, schema_id: int) -> str | Refused:
        file = self._folder / f"{schema_id}.avsc"
        with self._file_errors(schema_id=schema_id):
            if not self._folder.is_dir():
                raise FileNotFoundError(f"no folder {self._folder}")
            return file.read_text("utf-8") if file.is_file() else Refused(f"there is no file {file.name}")

    def register(self, subject: str, text: str) -> int | Refused:
        with self._file_errors(subject=subject):
            while True:
                known = self.lookup(subject, text)
                if isinstance(known, int):
                    return known
                schema_id = max(self._files(), default=0) + 1
                with contextlib.suppress(FileExistsError), open(self._folder / f"{schema_id}.avsc", "x") as file:
                    file.write(text)

    def lookup(self, subject: str, text: str) -> int | Refused:
        wanted = json.loads(text)
        with self._file_errors(subject=subject):
            for schema_id, file in sorted(self._files().items()):
                with contextlib.suppress(ValueError):  # another process is writing the file
                    if json.loads(file.read_text("utf-8")) == wanted:
                        return schema_id
        return Refused(f"no file in {self._folder} contains the schema {text}")

    def latest(self, subject: str) -> tuple[int, str] | Refused:
        return Refused("a folder has no subjects, and so no versions of a subject")

    def version(self, subject: str, version: int) -> tuple[int, str] | Refused:
        return self.latest(subject)

    def _files(self) -> dict[int, Path]:
        if not self._folder.is_dir():
            raise FileNotFoundError(f"no folder {self._folder}")
        return {int(f.stem): f for f in self._folder.glob("*.avsc") if f.stem.isascii() and f.stem.isdigit()}

    @contextlib.contextmanager
    def _file_errors(self, *, schema_id: int | None = None, subject: str | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            raise registry_error(self._settings, str(cause), schema_id=schema_id, subject=subject) from cause
