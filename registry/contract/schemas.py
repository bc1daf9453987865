"""Schemas of columns: a `pyarrow.Schema` from DDL text, Spark or Arrow, and the ROW type of a schema.

A schema travels through the library as a `pyarrow.Schema`. Arrow and Spark cannot express some types, such as the
precision of TIME and TIMESTAMP, CHAR(n) and MULTISET. The metadata of the top-level field then holds the text of the
Flink type under the key `kvformat.type`. A text that contradicts the field's real type is ignored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kvformat.registry.contract.cache import cached_by_identity
from kvformat.registry.contract.ddl import parse_schema, parse_type
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import (
    FlinkField,
    FlinkType,
    arrow_type,
    from_arrow,
    from_spark,
    nullable,
    spark_type,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TYPE_KEY = "kvformat.type"
"""Key in a field's metadata: the text of its Flink type."""


@cached_by_identity
def row_type(schema: pa.Schema) -> FlinkType:
    """Return the ROW type of an Arrow schema."""
    fields = tuple((field.name, _column_type(field)) for field in schema)
    return FlinkType("ROW", nullable=False, fields=tuple(FlinkField(name, t) for name, t in fields))


def arrow_schema(row: FlinkType) -> pa.Schema:
    """Return the canonical Arrow schema of a ROW; metadata holds Flink types that Arrow can't express."""
    return pa.schema([arrow_field(field) for field in row.fields])


@cached_by_identity
def result_arrow_type(row: FlinkType) -> pa.DataType:
    """Return the Arrow type of decoded rows: canonical, and nullable at every level."""
    return arrow_type(nullable(row))


def arrow_field(field: FlinkField) -> pa.Field:
    """Return the canonical Arrow field of a column."""
    plain = pa.field(field.name, arrow_type(field.type), field.type.nullable)
    kept = from_arrow(plain.type, plain.nullable, field.name) == field.type
    return plain if kept else plain.with_metadata({TYPE_KEY: str(field.type)})


@cached_by_identity
def resolve_schema(schema: StructType | pa.Schema | str) -> pa.Schema:
    """Return the canonical Arrow schema of a Spark `StructType`, a `pyarrow.Schema` or a DDL text.

    Raises `SchemaError`.
    """
    if isinstance(schema, str):
        return arrow_schema(parse_schema(schema))
    if isinstance(schema, pa.Schema):
        return arrow_schema(_distinct(row_type(schema)))
    if hasattr(schema, "fields") and hasattr(schema, "simpleString"):
        return arrow_schema(_distinct(row_of_spark(schema)))
    raise SchemaError(
        "a schema must be a Spark StructType, a pyarrow.Schema or a DDL text such as 'a INT, b STRING', not "
        f"{schema!r:.100}"
    )


def _distinct(row: FlinkType) -> FlinkType:
    for path, t in row.walk():
        names = [field.name for field in t.fields]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            where = f" in {path}" if path else ""
            raise SchemaError(f"there are two columns named {twice!r}{where}", field=path or twice)
    return row


# --- Spark ---------------------------------------------------------------------------------------------


def spark_schema(row: FlinkType) -> StructType:
    """Return the Spark struct of a ROW; metadata holds Flink types that Spark can't express."""
    from pyspark.sql.types import StructField, StructType

    fields = []
    for field in row.fields:
        stored = spark_type(field.type)
        kept = from_spark(stored, field.type.nullable, field.name) == field.type
        fields.append(
            StructField(field.name, stored, field.type.nullable, None if kept else {TYPE_KEY: str(field.type)})
        )
    return StructType(fields)


def row_of_spark(schema: StructType) -> FlinkType:
    """Return the ROW type of a Spark struct."""
    fields = []
    for field in schema.fields:
        derived = from_spark(field.dataType, field.nullable, field.name)
        text = (field.metadata or {}).get(TYPE_KEY)
        fields.append(FlinkField(field.name, _declared(text, derived, spark_type) if text else derived))
    return FlinkType("ROW", nullable=False, fields=tuple(fields))


def _column_type(field: pa.Field) -> FlinkType:
    text = (field.metadata or {}).get(TYPE_KEY.encode())
    derived = from_arrow(field.type, field.nullable, field.name)
    return _declared(text.decode(), derived, arrow_type) if text else derived


def _declared(text: str, derived: FlinkType, storage: Any) -> FlinkType:
    """Return the Flink type in a field's metadata if it fits the field's type; else the derived type.

    `storage` maps a Flink type to the type that stores it, in Arrow or in Spark.
    """
    try:
        declared = parse_type(text)
    except SchemaError:
        return derived
    # a column may have been cast or renamed after the metadata was written, so compare the storage types
    return replace(declared, nullable=derived.nullable) if storage(declared) == storage(derived) else derived
