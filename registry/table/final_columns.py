"""The columns of a decoder with the final types of a table, in Arrow, as Spark's Python data sources take them.

`decode_frame.py` leaves the same casts to Spark. Spark needs exactly the types of its own `to_arrow_schema`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import INTEGER_BITS, nullable
from kvformat.registry.expressions.local_times import instants_of_locals, locals_of_instants
from kvformat.registry.spark.decoded_columns import ERROR, ROW_INDEX, ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import types as T

    from kvformat.registry.table.decode_stage import DecodeStage
    from kvformat.registry.table.record_decoding import DecodedColumn

_NUMBERS = (*INTEGER_BITS, "FLOAT", "DOUBLE", "DECIMAL")
_TEXTS, _INSTANTS = ("CHAR", "VARCHAR"), ("TIMESTAMP", "TIMESTAMP_LTZ")


@dataclass(frozen=True)
class FinalColumns:
    """Gives the columns of a decoder their final types and order; pickled to Spark's workers.

    places: the index of each column of the result among those of the decoder. types: the result as Spark's type.
    """

    places: tuple[int, ...]
    types: T.StructType

    @classmethod
    def of(cls, stage: DecodeStage) -> FinalColumns:
        """Return the columns of a stage's result. Raises `SchemaError` for a column that Python can't give Spark."""
        from pyspark.sql import types as T

        names = stage.wire.names
        for column in stage.columns:
            _check_type(column, stage.plan.table.name)
            check_cast(column, stage.plan.table.name)
        fields = [T.StructField(column.name, column.final) for column in stage.columns]
        places = [names.index(column.wire_name) for column in stage.columns]
        more = range(len(names) - len(stage.last), len(names))
        return cls((*places, *more), T.StructType([*fields, *stage.last_fields()]))

    @classmethod
    def of_wire(cls, stage: DecodeStage) -> FinalColumns:
        """Return the columns of a stage's decoder as they are."""
        return cls(tuple(range(len(stage.wire))), stage.wire)

    def chosen(self, names: Sequence[str] | None) -> FinalColumns:
        """Return only these columns of the table, and all columns after them; None returns all.

        Columns that reading adds, such as `row_kind`, stay: a change is nothing without its kind.
        """
        if names is None:
            return self
        from pyspark.sql import types as T

        kept = [i for i, field in enumerate(self.types.fields) if field.name in (*names, ROW_KIND, ROW_INDEX, ERROR)]
        types = T.StructType([self.types.fields[i] for i in kept])
        return FinalColumns(tuple(self.places[i] for i in kept), types)

    def casts(self) -> Callable[[pa.RecordBatch, str], pa.RecordBatch]:
        """Return the function that casts a batch of the decoder, for a session of the given time zone."""
        schema = spark_arrow_schema(self.types)

        def cast(batch: pa.RecordBatch, zone: str) -> pa.RecordBatch:
            columns = batch.columns
            arrays = [
                final_array(columns[place], type_, zone) for place, type_ in zip(self.places, schema.types, strict=True)
            ]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)

        return cast


def spark_arrow_schema(types: T.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark wants for a type. PySpark 4.1 has no time zone among its arguments."""
    from pyspark.sql.pandas.types import to_arrow_schema

    more: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    schema: pa.Schema = to_arrow_schema(types, **more)
    return schema


def _check_type(column: DecodedColumn, table: str) -> None:
    """Raise `SchemaError` for a type that PySpark can't convert."""
    months = next((path for path, t in column.declared.walk(column.name) if t.root == "INTERVAL YEAR TO MONTH"), None)
    if months is not None:
        raise SchemaError(
            f"column '{months}' of table '{table}' is INTERVAL YEAR TO MONTH, which Spark does not take from a data "
            "source in Python: read the table with KafkaTable.from_ddl(...).read(spark), or declare INT",
            field=column.name,
        )


def check_cast(column: DecodedColumn, table: str) -> None:
    """Raise `SchemaError` for a column with a cast that only Spark does."""
    source, declared = column.decoded, column.declared
    same = source.root == declared.root and (not source.fields or nullable(source) == nullable(declared))
    same = same or {source.root, declared.root} <= {*_TEXTS}
    numbers = source.root in _NUMBERS and declared.root in _NUMBERS
    text = source.root in INTEGER_BITS and declared.root in _TEXTS
    instants = source.root in _INSTANTS and declared.root in _INSTANTS
    if same or numbers or text or instants or {source.root, declared.root} <= {"BINARY", "VARBINARY"}:
        return
    raise SchemaError(
        f"column '{column.name}' of table '{table}' is declared as {declared}, but its metadata key gives {source}: "
        f"only Spark casts that. Declare {source} and cast the column in the query, or read the table with "
        "KafkaTable.from_ddl(...).read(spark)",
        field=column.name,
    )


def final_array(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    """Return an array with the type that Spark wants; `zone` is the session's time zone, for local timestamps.

    Values do not change, except that numbers and timestamps of metadata are cast as Spark casts them.
    """
    if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(wanted) and bool(array.type.tz) != bool(wanted.tz):
        micros = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64())
        numbers = np.asarray(pc.fill_null(micros, 0))
        moved = locals_of_instants(zone, numbers) if array.type.tz else instants_of_locals(zone, numbers)
        mask = np.asarray(array.is_null()) if array.null_count else None
        return pa.array(moved, pa.int64(), mask=mask).view(wanted)
    return array if array.type == wanted else array.cast(wanted)
