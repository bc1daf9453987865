"""Columns of Spark's Kafka source: key and value as BINARY, and the connector's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import SchemaError, listed
from kvformat.registry.contract.format_hooks import HeaderNames
from kvformat.registry.contract.schemas import resolve_schema, row_type, spark_schema
from kvformat.registry.contract.types import spark_type
from kvformat.registry.table.decode_stage import KAFKA_COLUMNS, has_headers
from kvformat.registry.table.metadata import RAW, READABLE, MetadataColumn

_HEADER_LIST = parse_type(READABLE["header-list"])
_SOURCE_COLUMNS = {"header-list": "headers", "timestamp-type": "timestampType", "leader-epoch": None, **RAW}
"""Metadata keys with another name in Spark's Kafka source: the column there, or None if the source has no column."""
_SURROGATE = "\u00ed[\u00a0-\u00bf][\u0080-\u00bf]?"  # as UTF-8, complete or truncated; each character is a byte
_MALFORMED = "\u00ff"  # a byte that is never part of UTF-8


def column_types(df: DataFrame, input_schema: T.StructType | str | None = None) -> dict[str, T.DataType]:
    """Return the type of each column by its name; `input_schema` tells them without asking Spark.

    Spark is not asked for the columns of its own Kafka source either, as far as a DataFrame of Spark Connect shows that
    it is one: in the functions of a declarative pipeline Spark refuses to be asked.
    """
    if input_schema is not None:
        return {field.name: field.dataType for field in spark_schema(row_type(resolve_schema(input_schema))).fields}
    source = _source(df)
    if source is not None and source is df._plan and getattr(source, "_format", None) == "kafka":
        options = {name.lower(): text for name, text in (getattr(source, "_options", None) or {}).items()}
        with_headers = options.get("includeheaders", "false").lower() == "true"
        return {name: type_ for name, type_ in KAFKA_COLUMNS.items() if name != "headers" or with_headers}
    return {field.name: field.dataType for field in df.schema.fields}


def is_streaming(df: DataFrame) -> bool:
    """Return whether a DataFrame is a stream, if possible without asking Spark."""
    source = _source(df)
    told = getattr(source, "_is_streaming", None)
    return bool(df.isStreaming if told is None else told)


def _source(df: DataFrame) -> Any:
    """Return the plan of the only source that a DataFrame of Spark Connect reads; None if there is not just one."""
    plan = getattr(df, "_plan", None)
    while plan is not None and not hasattr(plan, "_is_streaming"):
        plan = None if hasattr(plan, "right") else getattr(plan, "_child", None)
    return plan


def binary_column(types: Mapping[str, T.DataType], name: str) -> Column:
    """Return a BINARY or STRING column as BINARY; raises `SchemaError` for any other type."""
    type_ = types[name]
    if isinstance(type_, T.BinaryType):
        return F.col(name)
    if isinstance(type_, T.StringType | T.NullType):
        return F.col(name).cast("binary")
    raise SchemaError(f"column '{name}' must be BINARY (or STRING), not {type_.simpleString().upper()}", field=name)


def metadata_column(column: MetadataColumn, types: Mapping[str, T.DataType]) -> Column:
    """Return the value of a connector's metadata key.

    `types` are the columns of the DataFrame. Raises `SchemaError` if the column that the key needs is missing.
    """
    source_name = _SOURCE_COLUMNS.get(column.key, column.key)
    wire = spark_type(column.key_type, wire=True)
    if source_name is None:
        return F.lit(None).cast(wire)
    if source_name not in types:
        hint = "; Spark's Kafka source has it with option('includeHeaders', 'true')" if source_name == "headers" else ""
        raise SchemaError(
            f"metadata column '{column.name}' needs the column '{source_name}'{hint}; "
            f"the DataFrame has {listed(types)}",
            field=column.name,
        )
    if column.key in RAW:
        data = binary_column(types, source_name)
        return _text(data) if column.key_type.root == "VARCHAR" else data
    source = F.col(source_name)
    if column.key == "timestamp-type":
        names = {0: "CreateTime", 1: "LogAppendTime"}
        cases = F.when(source == 0, names[0]).when(source == 1, names[1])
        return F.when(source.isNotNull(), cases.otherwise("NoTimestampType"))
    if column.key in ("headers", "header-list"):
        _check_headers(types, column)
        entries = F.coalesce(source, F.array().cast(spark_type(_HEADER_LIST, wire=True)))
        return entries if column.key == "header-list" else _last_by_key(entries).cast(wire)
    return source.cast(wire)


def _text(data: Column) -> Column:
    """Return bytes as text in UTF-8; U+FFFD replaces each malformed part.

    Java replaces a surrogate that is encoded as UTF-8 once, and Spark each of its bytes.
    """
    text = data.cast("string")
    bytes_as_text = F.regexp_replace(F.decode(data, "ISO-8859-1"), _SURROGATE, _MALFORMED)
    replaced = F.make_valid_utf8(F.encode(bytes_as_text, "ISO-8859-1").cast("string"))
    return F.when(F.is_valid_utf8(text), text).otherwise(replaced)


def header_column(names: HeaderNames) -> Column:
    """Return the bytes of each record's last header with a name, NULL if the record does not have it.

    For several names, it is a struct of them, NULL if the record has none.
    """
    if isinstance(names, str):
        return _last_header(names)
    headers = [_last_header(name) for name in names]
    fields = (column.alias(f"h{number}") for number, column in enumerate(headers))
    return F.when(F.coalesce(*headers).isNotNull(), F.struct(*fields))


def _last_header(name: str) -> Column:
    named = F.filter("headers", lambda header: (header["key"] == name) & header["value"].isNotNull())
    return F.try_element_at(named, F.lit(-1))["value"]


def _check_headers(types: Mapping[str, T.DataType], column: MetadataColumn) -> None:
    """Raise `SchemaError` if the column `headers` does not have the type that Spark's Kafka source gives it."""
    if not has_headers(types):
        headers_type = types["headers"].simpleString().upper()
        raise SchemaError(
            f"metadata column '{column.name}' is read from the column 'headers', which must be "
            f"ARRAY<STRUCT<key: STRING, value: BINARY>> as in Spark's Kafka source, not {headers_type}: cast it first, "
            "or drop it and read with option('includeHeaders', 'true')",
            field=column.name,
        )


def _last_by_key(entries: Column) -> Column:
    """Return headers as a map; of equal keys the last counts.

    Sorts the headers by key and index, so that each has to be compared with the next one only.
    """
    numbered = F.transform(
        entries, lambda header, i: F.struct(header["key"].alias("key"), i.alias("i"), header["value"])
    )
    ordered = F.array(F.array_sort(numbered))  # in an array of one element, so that it is computed once
    last = F.transform(
        ordered,
        lambda headers: F.filter(
            headers, lambda header, i: F.coalesce(F.get(headers, i + 1)["key"] != header["key"], F.lit(True))
        ),
    )
    pairs = F.transform(F.flatten(last), lambda header: F.struct(header["key"], header["value"]))
    return F.map_from_entries(pairs)
