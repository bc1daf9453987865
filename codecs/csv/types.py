"""The types that csv supports: scalars, and one level of ARRAY or ROW of scalars."""

from __future__ import annotations

from kvformat.codecs.csv.scalars import MOST_TIME_DIGITS
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.options import Direction
from kvformat.registry.contract.types import INTEGER_BITS, FlinkType

SCALARS = (
    *("BOOLEAN", *INTEGER_BITS, "FLOAT", "DOUBLE", "DECIMAL", "CHAR", "VARCHAR"),
    *("BINARY", "VARBINARY", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"),
)


def check_types(row: FlinkType, direction: Direction) -> None:
    """Raise `SchemaError` for types that Flink's csv format does not support (its `CsvRowSchemaConverter`)."""
    allowed = ", ".join(SCALARS)
    for field in row.fields:
        inner = [member.type for member in field.type.fields] if field.type.root in ("ARRAY", "ROW") else []
        if field.type.root not in (*SCALARS, "ARRAY", "ROW"):
            raise SchemaError(
                f"Unsupported type '{field.type.summary()}' for field '{field.name}'. csv supports {allowed}, and "
                "ARRAY and ROW of these",
                format="csv",
                field=field.name,
            )
        for t in inner:
            if t.root not in SCALARS:
                raise SchemaError(
                    f"Only simple types are supported in the second level nesting of fields '{field.name}' but was: "
                    f"{t.summary()}. Simple types are {allowed}",
                    format="csv",
                    field=field.name,
                )
        for t in (field.type, *inner):
            if direction == "decode" and t.root == "TIME" and (t.precision or 0) > MOST_TIME_DIGITS:
                raise SchemaError(
                    f"field '{field.name}': Csv does not support TIME type with precision: {t.precision}, it only "
                    f"supports precision 0 ~ {MOST_TIME_DIGITS}.",
                    format="csv",
                    field=field.name,
                )
