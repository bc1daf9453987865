"""Metadata of Kafka records as columns: the keys to read and to write, and the types of their columns.

Keys that begin with `value.` belong to the value's format (`value.source.table`).
Rules: Flink's "Kafka" page, `KafkaDynamicSource.ReadableMetadata`, `KafkaDynamicSink.WritableMetadata`,
`DynamicSourceUtils`, `LogicalTypeCasts`. `__raw_key__` and `__raw_value__` are those of Ververica's Kafka connector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import MetadataError, SchemaError, did_you_mean
from kvformat.registry.contract.format_hooks import Part
from kvformat.registry.contract.types import INTEGER_BITS, FlinkType
from kvformat.registry.format import Format
from kvformat.registry.sql.table_definition import TableColumn
from kvformat.registry.table.record_layout import RecordLayout

MetadataKeys = Sequence[str] | Mapping[str, str]
"""Keys of metadata, or the key of each column by the column's name."""
VALUE_PREFIX = "value."
READABLE: Mapping[str, str] = {
    "topic": "STRING NOT NULL",
    "partition": "INT NOT NULL",
    "headers": "MAP<STRING, BYTES> NOT NULL",
    "header-list": "ARRAY<ROW<key STRING NOT NULL, value BYTES>> NOT NULL",
    "leader-epoch": "INT",
    "offset": "BIGINT NOT NULL",
    "timestamp": "TIMESTAMP_LTZ(3) NOT NULL",
    "timestamp-type": "STRING NOT NULL",
    "__raw_key__": "STRING",
    "__raw_value__": "STRING",
}
"""The type of each metadata key of the connector."""
RAW: Mapping[str, Part] = {"__raw_key__": "key", "__raw_value__": "value"}
"""The metadata keys for the bytes of a record as they are, and the part that each has; see `connector_type`."""
_WRITABLE = ("headers", "header-list", "timestamp", *RAW)
_NUMBERS = (*INTEGER_BITS, "FLOAT", "DOUBLE", "DECIMAL")
_TEXTS, _BYTES = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")
_INSTANTS = ("TIMESTAMP", "TIMESTAMP_LTZ")
_CASTS = {  # target root -> other roots that can be cast to it
    "BOOLEAN": (*_TEXTS, *INTEGER_BITS),
    **dict.fromkeys(_NUMBERS, (*_NUMBERS, *_TEXTS, "BOOLEAN")),
    **dict.fromkeys(_BYTES, (*_BYTES, *_TEXTS)),
    "DATE": (*_TEXTS, *_INSTANTS),
    "TIME": (*_TEXTS, *_INSTANTS),
    **dict.fromkeys(_INSTANTS, (*_INSTANTS, *_TEXTS, "DATE")),
}


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A column for a metadata key, with the types of the key and of the column."""

    name: str
    key: str
    key_type: FlinkType
    declared: FlinkType

    @property
    def of_value(self) -> str | None:
        """The key without the prefix `value.`; None for a key of the connector."""
        return self.key.removeprefix(VALUE_PREFIX) if self.key.startswith(VALUE_PREFIX) else None

    @property
    def raw_part(self) -> Part | None:
        """The part of the record whose bytes the column has as they are; None for other metadata."""
        return RAW.get(self.key)


def connector_type(key: str, declared: FlinkType | None = None) -> FlinkType:
    """Return the type of a metadata key of the connector, for a column that is declared with a type.

    A raw key or value is a STRING, in which U+FFFD replaces bytes that are not UTF-8, or BYTES for a column of bytes.
    """
    is_bytes = key in RAW and declared is not None and declared.root in _BYTES
    return parse_type("BYTES" if is_bytes else READABLE[key])


def readable(table: str, columns: Sequence[TableColumn], value_format: Format) -> tuple[MetadataColumn, ...]:
    """Return the metadata columns to read, with their types.

    Raises `MetadataError` for an unknown key and `SchemaError` for a type that does not fit, with Flink's messages.
    """
    known = {f"{VALUE_PREFIX}{key}": text for key, text in value_format.metadata_types.items()} | dict(READABLE)
    return tuple(_resolve(table, column, known, "reading") for column in columns)


def own_columns(value_format: Format) -> tuple[MetadataColumn, ...]:
    """Return the columns that the value's format adds to its rows."""
    types = {name: parse_type(text) for name, text in value_format.own_columns.items()}
    return tuple(MetadataColumn(name, f"{VALUE_PREFIX}{name}", t, t) for name, t in types.items())


def writable(table: str, columns: Sequence[TableColumn], topics: Sequence[str] | None) -> tuple[MetadataColumn, ...]:
    """Return the metadata columns to write, without the virtual ones.

    `topics` are the table's; with a single topic the key `topic` is not writable. Raises as `readable` does.
    """
    keys = _WRITABLE if topics is not None and len(topics) == 1 else ("topic", *_WRITABLE)
    known = {key: READABLE[key] for key in keys}
    resolved = tuple(_resolve(table, column, known, "writing") for column in columns if not column.virtual)
    if {"headers", "header-list"} <= {column.key for column in resolved}:
        raise MetadataError(
            "The writable metadata is ambiguous. Please use either metadata key 'headers' or 'header-list'.",
            field="header-list",
        )
    return resolved


def _resolve(table: str, column: TableColumn, known: Mapping[str, str], purpose: str) -> MetadataColumn:
    if column.key not in known:
        raise MetadataError(
            f"Invalid metadata key '{column.key}' in column '{column.name}' of table '{table}'."
            f"{did_you_mean(column.key, known)} The following metadata keys are supported for {purpose}: "
            f"{', '.join(known)}",
            field=column.name,
        )
    key_type = connector_type(column.key, column.type) if column.key in READABLE else parse_type(known[column.key])
    declared = column.type if column.type is not None else key_type
    if column.key in RAW and declared.root not in (*_TEXTS, *_BYTES):
        raise SchemaError(
            f"Invalid data type for metadata column '{column.name}' with metadata key '{column.key}' of table "
            f"'{table}'. The column has the {RAW[column.key]} of each record as it is, so it must be STRING or BYTES, "
            f"not '{declared}'. A format reads other types",
            field=column.name,
        )
    source, target = (key_type, declared) if purpose == "reading" else (declared, key_type)
    if not castable(source, target):
        raise SchemaError(
            f"Invalid data type for metadata column '{column.name}' with metadata key '{column.key}' of table "
            f"'{table}'. The column cannot be declared as '{declared}' because the type must be castable "
            f"{'from' if purpose == 'reading' else 'to'} metadata type '{key_type}'.",
            field=column.name,
        )
    return MetadataColumn(column.name, column.key, key_type, declared)


def check_raw(table: str, columns: Sequence[MetadataColumn], layout: RecordLayout) -> None:
    """Check that nothing else determines a key or a value that a metadata column writes as it is.

    `columns` are the metadata columns to write. Raises `MetadataError`, because something would not be written.
    """
    for key, part in RAW.items():
        raw = [column.name for column in columns if column.key == key]
        if len(raw) > 1:
            raise MetadataError(
                f"columns {', '.join(map(repr, raw))} are written as the same metadata key '{key}': leave one out",
                field=raw[1],
            )
        rival = _rival(part, layout) if raw else ""
        if rival:
            raise MetadataError(
                f"table '{table}': column '{raw[0]}' can't be written as '{key}', the {part} of each record as it is, "
                f"because {rival}. Declare the column VIRTUAL, so that it is only read, or write it to another table",
                field=raw[0],
            )


def _rival(part: Part, layout: RecordLayout) -> str:
    """Return what else determines the key or the value of a record, "" if nothing does."""
    if layout.upsert:
        return "an 'upsert-kafka' table writes its PRIMARY KEY as the key, and NULL as the value of deleted rows"
    if part == "key":
        return "" if layout.key_format is None else "'key.format' writes 'key.fields' as the key"
    if layout.has_kinds:
        return f"format '{layout.value_format.identifier}' writes the kind of each row into the value"
    names = [layout.physical.fields[i].name for i in layout.value_indexes]
    return f"the other columns of the value would not be written: {', '.join(names)}" if names else ""


def castable(source: FlinkType, target: FlinkType) -> bool:
    """Return whether Flink can cast one type to another."""
    if target.root in _TEXTS:
        return True
    if source.fields or target.fields:
        same = source.root == target.root and len(source.fields) == len(target.fields)
        return same and all(castable(a.type, b.type) for a, b in zip(source.fields, target.fields, strict=True))
    return source.root == target.root or source.root in _CASTS.get(target.root, ())


def requested_metadata(metadata: MetadataKeys | None) -> list[TableColumn]:
    """Return the metadata that a caller asks for, as columns of a table; raises `MetadataError` for a string."""
    if metadata is None:
        return []
    if isinstance(metadata, str):
        raise MetadataError(f"metadata must be a list of keys, or a mapping of column name to key, not {metadata!r}")
    pairs = metadata.items() if isinstance(metadata, Mapping) else [(key, key) for key in metadata]
    return [TableColumn(name, "metadata", None, key) for name, key in pairs]
