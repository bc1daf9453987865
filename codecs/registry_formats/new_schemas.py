"""Schemas of writers with fields or types that a table does not show: the option `on-new-schema`.

    table a INT            schema a long, b string            b: STRING; a: BIGINT instead of INT

A schema is compared once for each id, table and process, when its first message is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.codecs.avro.reading import AvroReading
from kvformat.codecs.registries.cache import compared_once, schemas_of_kind
from kvformat.codecs.registries.confluent_frames import read_frames
from kvformat.codecs.registries.framing import Reasons, distinct_ids
from kvformat.codecs.registries.options import FAIL, WARN
from kvformat.codecs.registries.registry import JSON
from kvformat.codecs.registry_formats.record_types import names_of_schema
from kvformat.registry.contract.common_types import holds, merge_types
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.errors import NewSchemaWarning, SchemaError
from kvformat.registry.contract.samples import columns_text
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings
from kvformat.registry.contract.types import FlinkField, FlinkType, nullable

Columns = Iterable[FlinkField]
_MOST_NAMED = 20  # fields that a text names, which may be that of an error of many messages
_ANY_LENGTH = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


@dataclass(frozen=True, slots=True)
class NewSchemas:
    """The policy of a table for new schemas of its messages.

    policy: the value of the option. row: the table's columns in the message. widths: whether wider types count.
    of_changes: whether the schemas are those of envelopes, whose rows are in `after` and `before`.
    record: the full name of the rows' type, whose branch of a union counts. None for all branches.
    """

    policy: str
    settings: RegistrySettings
    format: str
    row: FlinkType
    widths: bool = True
    of_changes: bool = False
    record: str | None = None

    def error(
        self, schema: int | str, columns: Callable[[], Columns], reading: AvroReading | None = None
    ) -> Reason | None:
        """Return the error of the messages of a schema id or GUID; None if the table shows all of it.

        `columns` returns the columns of the schema, `reading` says what is read of an Avro schema. With the policy
        `warn`, warns and returns None.
        """

        def compare() -> str:
            try:
                new, written = _Difference(self.widths), self._rows(columns())
                whole = new.merged(self.row, FlinkType("ROW", fields=written), "")
            except SchemaError:
                return ""  # no table has columns for it, so there is nothing to show
            option = ""
            if reading is not None:
                new.change(written, reading.changed(whole))
                fields = (new.columns.get(column.name, column) for column in whole.fields)
                option = reading.option(replace(whole, fields=tuple(fields)))
            text = ". ".join(filter(None, (new.text(self.row), option)))
            return f"format '{self.format}': schema {schema} has {text}" if new.names or option else ""

        text, first = compared_once((self, schema, reading is not None and reading.plain), compare)
        if text and first and self.policy == WARN:
            warnings.warn(text, NewSchemaWarning, stacklevel=2)
        return Reason(ErrorCode.UNEXPECTED_FIELD, text) if text and self.policy == FAIL else None

    def refused_json(
        self, framed: pa.BinaryArray, messages: pa.BinaryArray, errors: Reasons | None
    ) -> tuple[pa.BinaryArray, Reasons | None]:
        """Return messages of JSON, null where their schema is an error, and the errors with those of the schemas.

        `framed` are the messages with their frames. Messages whose schema the registry does not know are read.
        """
        frames = read_frames(framed, np.asarray(framed.is_valid()))
        distinct, which = distinct_ids(frames.ids[frames.good])
        refused: list[Reason | None] = []
        for key, known in schemas_of_kind(self.settings, frames.schemas(distinct.tolist()), JSON).items():
            if isinstance(known, Refused):
                refused.append(None)
            else:
                refused.append(self.error(key, partial(_json_columns, known, self.record)))
        if not any(refused):
            return messages, errors
        reasons = frames.errors()
        reasons[frames.good] = np.array(refused, object)[which]
        kept = pc.if_else(pa.array([reason is None for reason in reasons]), messages, pa.scalar(None, pa.binary()))
        return kept, reasons

    def _rows(self, columns: Columns) -> tuple[FlinkField, ...]:
        if not self.of_changes:
            return tuple(columns)
        images = {column.name: column.type for column in columns if column.type.root == "ROW"}
        image = images.get("after", images.get("before"))
        return () if image is None else image.fields


def _json_columns(schema: RegistrySchema, record: str | None) -> Iterator[FlinkField]:
    """Yield the columns of a JSON Schema; if it is a union, those of the branch with a name, or of all branches."""
    from kvformat.codecs.discovery.column_types import Notes
    from kvformat.codecs.json.schema_columns import columns_of_json_schema

    names = names_of_schema(schema)
    for name in (record,) if record in names else names:
        yield from columns_of_json_schema(schema, Notes(), name)


@dataclass
class _Difference:
    """Collects what the type of a schema has that the type of a table does not have."""

    widths: bool
    names: list[str] = field(default_factory=list)
    columns: dict[str, FlinkField] = field(default_factory=dict)

    def merged(self, known: FlinkType, written: FlinkType, path: str) -> FlinkType:
        """Return the table's type with the fields and the width of the written one, and note them."""
        if known.root == written.root == "ROW":
            fields = {column.name: column for column in known.fields}
            for column in written.fields:
                place = f"{path}.{column.name}" if path else column.name
                if column.name not in fields:
                    self.names.append(place)
                    fields[column.name] = replace(column, type=nullable(column.type))
                else:
                    t = self.merged(fields[column.name].type, column.type, place)
                    fields[column.name] = replace(column, type=t)
                if not path and fields[column.name] not in known.fields:
                    self.columns[column.name] = fields[column.name]
            return replace(known, fields=tuple(fields.values()))
        if known.fields and known.root == written.root and len(known.fields) == len(written.fields):
            parts = (
                replace(a, type=self.merged(a.type, b.type, path))
                for a, b in zip(known.fields, written.fields, strict=True)
            )
            return replace(known, fields=tuple(parts))
        wider = _wider(known, written) if self.widths else None
        if wider is None:
            return known
        self.names.append(f"{path} as {written.summary()}")
        return replace(wider, nullable=known.nullable)

    def change(self, written: Columns, names: Iterable[str]) -> None:
        """Note columns that do not read what is written, and change them to its types."""
        for column in written:
            if column.name in names:
                self.names.append(f"{column.name} as {column.type.summary()}")
                self.columns[column.name] = replace(column, type=nullable(column.type))

    def text(self, row: FlinkType) -> str:
        """Return the difference in words, and the columns that take it in."""
        names = ", ".join(self.names[:_MOST_NAMED])
        more = f" and {len(self.names) - _MOST_NAMED} more" if len(self.names) > _MOST_NAMED else ""
        known = {column.name for column in row.fields}
        new = tuple(column for name, column in self.columns.items() if name not in known)
        changed = tuple(column for name, column in self.columns.items() if name in known)
        if not self.names:
            return "types that the table does not read"
        ddl = "; ".join(
            f"{word} ({columns_text(columns[:_MOST_NAMED])})"
            for word, columns in (("ADD", new), ("MODIFY", changed))
            if columns
        )
        return (
            f"fields or types that the table does not show: {names}{more}. Columns that show them, as changes of "
            f"the table: {ddl}"
        )


def _wider(known: FlinkType, written: FlinkType) -> FlinkType | None:
    """Return the type for a column with values that the known type does not have, None if it has all values."""
    if known.root == written.root == "DECIMAL":
        merged = merge_types(known, written)
        return None if merged == replace(known, nullable=merged.nullable) or merged.root != "DECIMAL" else merged
    return written if _is_wider(known, written) else None


def _is_wider(known: FlinkType, written: FlinkType) -> bool:
    """Return whether the written type has all values of the known one and more. Lengths of texts do not count."""
    if known.root in _ANY_LENGTH or written.root in _ANY_LENGTH:
        return False
    if known.root != written.root and (known.root in _TIMES or written.root in _TIMES):
        return False
    return not holds(known, written) and holds(written, known)
