"""The positions of a table's columns in the key and the value of a Kafka record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from kvformat.registry.contract.changelog import ChangelogMode
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.format import Format


@dataclass(frozen=True)
class RecordLayout:
    """The formats of one table's records, and the columns in each part; small, and pickled to Spark's workers.

    `physical` is the ROW of all physical columns. `key_schema` and `value_schema` are the columns that the formats
    decode and encode, without prefixes. `key_indexes` and `value_indexes` say which physical columns these are.
    `row_key` are the columns that identify a row, of an upsert table or of a format whose changes are by key.
    """

    physical: FlinkType
    key_format: Format | None
    value_format: Format
    key_schema: pa.Schema | None
    value_schema: pa.Schema
    key_indexes: tuple[int, ...]
    value_indexes: tuple[int, ...]
    upsert: bool
    row_key: tuple[int, ...] = ()

    @property
    def by_key(self) -> bool:
        """Whether rows are updated by key: in upsert tables, and with a value format that omits `-U` rows."""
        return self.upsert or self.value_format.changelog_mode is ChangelogMode.UPSERT

    @property
    def deletes_by_null(self) -> bool:
        """Whether a null value deletes the row of the record's key: in upsert tables, and if the format says so."""
        in_record = self.key_format is not None and set(self.row_key) <= set(self.key_indexes)
        return self.upsert or (self.by_key and self.value_format.nulls_delete and in_record)

    @property
    def has_kinds(self) -> bool:
        """Whether rows may have a kind other than +I."""
        return self.upsert or self.value_format.changelog_mode is not ChangelogMode.INSERT_ONLY

    @property
    def record_headers(self) -> Mapping[Part, HeaderNames]:
        """The headers of a record that belong to its key or value: part -> name or names."""
        formats: dict[Part, Format | None] = {"key": self.key_format, "value": self.value_format}
        return {
            part: format.record_headers[part]
            for part, format in formats.items()
            if format is not None and part in format.record_headers
        }

    def for_encoding(self) -> RecordLayout:
        """Return the layout that a Spark job sends to its executors for writing."""
        key = self.key_format
        return replace(
            self,
            key_format=None if key is None else key.for_encoding(self.key_schema),
            value_format=self.value_format.for_encoding(self.value_schema),
        )
