"""Formats as Spark Columns, and the policy for bad records.

    Column -> Arrow UDF -> Format.decode_batch -> error policy -> struct -> Column

The UDFs are marked as not deterministic. Spark copies a deterministic UDF into every filter on its result, so `decode`
followed by `where` would run it twice. The module uses only public PySpark functions, so it works with classic Spark
and Spark Connect. It changes no Spark setting, and no result depends on a time zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.error_codes import ErrorCode
from kvformat.registry.contract.errors import ConfigurationError, DecodeError, EncodeError, needs_extra
from kvformat.registry.contract.schemas import arrow_schema, row_type
from kvformat.registry.contract.types import (
    BYTES,
    STRING,
    FlinkField,
    FlinkType,
    arrow_type,
    nullable,
    spark_type,
    with_time_digits,
)
from kvformat.registry.spark.settings import check_time
from kvformat.registry.spark.workers import check_workers, for_workers

with needs_extra("Columns need PySpark 4.1 or newer", extra="spark"):
    from pyspark.sql import functions as F
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # PySpark's stubs leave it out
    from pyspark.sql.types import BinaryType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kvformat.registry.contract.batches import DecodedBatch
    from kvformat.registry.format import Engine, Errors, Format

_COLUMN = re.compile("^Column<'(.*)'>$", re.DOTALL)
_HEAD = 100  # bytes of a bad message that an error quotes
_ERROR = FlinkType(
    "ROW", fields=(FlinkField("reason", STRING), FlinkField("message", BYTES), FlinkField("code", STRING))
)


def decode(
    format: Format, message: Column | str, schema: Any, metadata: tuple[str, ...], errors: Errors, engine: Engine
) -> Column:
    """Return the Column of `Format.decode`."""
    resolved, row = _check_arguments(format, schema, metadata, errors, engine)
    if engine != "arrow" and errors == "raise":
        native = format.native_decode(_column(message), row_type(resolved), metadata)
        if native is not None:
            return native
    if engine == "native":
        raise _no_native(format, "decode")

    def one_row(messages: pa.Array) -> pa.Array:
        batch = format.decode_batch(messages, resolved, metadata=metadata)
        return _apply_error_policy(format, errors, messages, *_single_rows(batch))

    return _decode_column(format, one_row, message, row, "row", errors)


def decode_rows(
    format: Format, message: Column | str, schema: Any, metadata: tuple[str, ...], errors: Errors, engine: Engine
) -> Column:
    """Return the Column of `Format.decode_rows`."""
    resolved, row = _check_arguments(format, schema, metadata, errors, engine)
    if engine == "native":
        raise _no_native(format, "decode_rows")
    with_kind = FlinkType("ROW", fields=(FlinkField("row_kind", STRING), *row.fields))

    def all_rows(messages: pa.Array) -> pa.Array:
        batch = format.decode_batch(messages, resolved, metadata=metadata)
        return _apply_error_policy(format, errors, messages, _with_kinds(batch, with_kind), batch.errors, batch.codes)

    lists = FlinkType("ARRAY", fields=(FlinkField("element", with_kind),))
    return _decode_column(format, all_rows, message, lists, "rows", errors)


def encode(format: Format, row: Column | str, schema: Any, row_kind: Column | str | None, engine: Engine) -> Column:
    """Return the Column of `Format.encode`."""
    if engine not in ("auto", "arrow", "native"):
        raise ConfigurationError(f"engine must be 'auto', 'arrow' or 'native', not {engine!r}")
    struct = _column(row)
    kinds = [] if row_kind is None else [_column(row_kind)]
    if schema is None:
        if engine == "native":
            raise ConfigurationError("the native engine needs the declared types: encode(row, schema)")
        return _encode_function(format, None)(struct, *kinds)
    resolved = format.prepare("encode", schema)
    format.encode_batch(pa.array([], pa.struct(list(resolved))), resolved)  # raises for unsupported types
    check_time(row_type(resolved).fields)
    format = format.for_encoding(resolved)
    declared = row_type(resolved)
    by_arrow = _encode_function(format, resolved)(_to_wire(struct, declared), *kinds)
    if engine == "arrow":
        return by_arrow
    native = format.native_encode(struct, declared, kinds[0] if kinds else None)
    if native is None:
        if engine == "native":
            raise _no_native(format, "encode")
        return by_arrow
    # Only Spark knows the type of a Column. Spark evaluates this comparison during analysis.
    fits = _type_name(struct) == _type_name(F.lit(None).cast(spark_type(declared)))
    misfit = F.concat(F.lit("the row does not have the declared types; it is "), F.typeof(struct))
    return F.when(fits, native).otherwise(by_arrow if engine == "auto" else F.raise_error(misfit))


def _type_name(value: Column) -> Column:
    """Return the name of a Column's type, without the default collation, which only Spark Connect shows."""
    return F.replace(F.typeof(value), F.lit(" collate UTF8_BINARY"), F.lit(""))


def _check_arguments(
    format: Format, schema: Any, metadata: tuple[str, ...], errors: Errors, engine: Engine
) -> tuple[pa.Schema, FlinkType]:
    """Check the arguments of a call before a job starts; return the canonical schema and the type of a row."""
    if errors not in ("raise", "capture"):
        raise ConfigurationError(f"errors must be 'raise' or 'capture', not {errors!r}")
    if engine not in ("auto", "arrow", "native"):
        raise ConfigurationError(f"engine must be 'auto', 'arrow' or 'native', not {engine!r}")
    resolved = format.prepare("decode", schema, metadata)
    format.decode_batch(pa.array([], pa.binary()), resolved, metadata=metadata)
    row = nullable(format.result_type(resolved, metadata))
    check_time(row.fields)
    return resolved, row


def _column(value: Column | str) -> Column:
    return F.col(value) if isinstance(value, str) else value


def _set_name(function: Callable[..., pa.Array], format: Format, what: str) -> None:
    """Set the name that plans and Spark's UI show for the UDF, such as `json_decode`."""
    function.__name__ = f"{format.identifier.replace('-', '_')}_{what}"


def _no_native(format: Format, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"format '{format.identifier}' has no native {what} for this schema and these options; use engine='auto'",
        format=format.identifier,
    )


# --- decoding --------------------------------------------------------------------------------------------


def _decode_column(
    format: Format,
    kernel: Callable[[pa.Array], pa.Array],
    message: Column | str,
    result: FlinkType,
    name: str,
    errors: Errors,
) -> Column:
    if errors == "capture":
        result = FlinkType("ROW", fields=(FlinkField(name, result), FlinkField("error", _ERROR)))

    check_workers()
    decode = for_workers(kernel)

    def udf(messages: pa.Array) -> pa.Array:
        return decode(messages)

    _set_name(udf, format, "decode")
    wire, plain = spark_type(result, wire=True), spark_type(nullable(with_time_digits(result, format.time_digits)))
    decoded: Column = arrow_udf(udf, wire).asNondeterministic()(_checked_message(format, _column(message)))
    text = message if isinstance(message, str) else _COLUMN.sub(r"\1", str(message))
    return (decoded if wire == plain else decoded.cast(plain)).alias(f"{udf.__name__}({text})")


def _checked_message(format: Format, message: Column) -> Column:
    """Return the message as an expression that Spark's analysis rejects if it is neither BINARY nor STRING.

    The first branch never runs, and Spark removes it. It only restricts the type, and its text appears in the error.
    """
    never = F.lit(f"format '{format.identifier}' decodes a column of BINARY or STRING").isNull()
    return F.when(never, F.lit(b"")).otherwise(message)


def _single_rows(batch: DecodedBatch) -> tuple[pa.StructArray, pa.StringArray | None, pa.StringArray | None]:
    """Return the row of each message, or null, and errors and codes; a message with several rows gets an error."""
    rows = batch.rows
    if len(rows) == len(rows.values) and not rows.null_count and (np.diff(np.asarray(rows.offsets)) == 1).all():
        return rows.values, batch.errors, batch.codes
    counts = pc.fill_null(pc.list_value_length(rows), 0)
    first = pc.if_else(pc.equal(counts, 1), rows.offsets.slice(0, len(rows)), pa.scalar(None, pa.int32()))
    several = pc.greater(counts, 1)
    errors, codes = batch.errors, batch.codes
    if pc.any(several, min_count=0).as_py():
        reason = pc.binary_join_element_wise(
            "the message holds ", counts.cast(pa.string()), " rows: use decode_rows", ""
        )
        none = pa.nulls(len(rows), pa.string())
        errors = pc.if_else(several, reason, none if errors is None else errors)
        codes = pc.if_else(several, ErrorCode.SEVERAL_ROWS.value, none if codes is None else codes)
    return rows.values.take(first), errors, codes


def _with_kinds(batch: DecodedBatch, row: FlinkType) -> pa.ListArray:
    """Return the rows with the row kind as the first column."""
    rows, values = batch.rows, batch.rows.values
    kinds = batch.row_kinds if batch.row_kinds is not None else pa.repeat(pa.scalar("+I"), len(values))
    struct = pa.StructArray.from_arrays(
        [kinds, *(values.field(i) for i in range(values.type.num_fields))], fields=list(arrow_type(row))
    )
    mask = rows.is_null() if rows.null_count else None
    return pa.ListArray.from_arrays(rows.offsets, struct, mask=mask)


def _apply_error_policy(
    format: Format,
    policy: Errors,
    messages: pa.Array,
    rows: pa.Array,
    reasons: pa.StringArray | None,
    codes: pa.StringArray | None,
) -> pa.Array:
    """Apply the policy for bad records: raise `DecodeError` for the first error, or add a column of errors."""
    if policy == "raise":
        if reasons is not None and reasons.null_count < len(reasons):
            assert codes is not None
            at = pc.index(reasons.is_valid(), True).as_py()
            message = messages.slice(at, 1).cast(pa.binary())[0].as_py()  # a string array may contain invalid UTF-8
            raise _decode_error(format, reasons[at].as_py(), message, codes[at].as_py())
        return rows
    if reasons is None:
        reasons = codes = pa.nulls(len(rows), pa.string())
    bad = reasons.is_valid()
    error = pa.StructArray.from_arrays(
        [
            pc.binary_join_element_wise(f"{format.identifier}: ", reasons, ""),
            pc.if_else(bad, messages.cast(pa.binary()), pa.scalar(None, pa.binary())),
            codes,
        ],
        fields=list(arrow_type(_ERROR)),
        mask=pc.invert(bad),
    )
    name = "rows" if pa.types.is_list(rows.type) else "row"
    return pa.StructArray.from_arrays([rows, error], names=[name, "error"])


def _decode_error(format: Format, reason: str, message: bytes | None, code: str) -> DecodeError:
    data = message or b""
    head = data[:_HEAD]
    more = f" and {len(data) - _HEAD} more bytes" if len(data) > _HEAD else ""
    return DecodeError(
        f"format '{format.identifier}' cannot decode a message: {reason}. The message: {head!r}{more}. "
        "To keep bad messages as data, use errors='capture'",
        format=format.identifier,
        reason=reason,
        head=head,
        code=code,
    )


# --- encoding --------------------------------------------------------------------------------------------


def _encode_function(format: Format, schema: pa.Schema | None) -> Callable[..., Column]:
    def messages(rows: pa.Array, row_kinds: pa.Array | None) -> pa.Array:
        declared = schema if schema is not None else arrow_schema(row_type(pa.schema(list(rows.type))))
        batch = format.encode_batch(rows, declared, row_kinds=row_kinds)
        if batch.errors is not None and batch.errors.null_count < len(batch.errors):
            assert batch.codes is not None
            at = pc.index(batch.errors.is_valid(), True).as_py()
            reason = batch.errors[at].as_py()
            raise EncodeError(
                f"format '{format.identifier}' cannot encode a row: {reason}",
                format=format.identifier,
                reason=reason,
                code=batch.codes[at].as_py(),
            )
        return batch.messages

    def call(row: Column, *row_kind: Column) -> Column:
        check_workers()
        encode = for_workers(messages)

        def of_rows(rows: pa.Array) -> pa.Array:
            return encode(rows, None)

        def of_changes(rows: pa.Array, row_kinds: pa.Array) -> pa.Array:
            return encode(rows, row_kinds)

        function = of_changes if row_kind else of_rows
        _set_name(function, format, "encode")
        encoded: Column = arrow_udf(function, BinaryType()).asNondeterministic()(row, *row_kind)
        return encoded

    return call


def wire_column(column: Column, type_: FlinkType) -> Column:
    """Return the column in a type that PySpark can send through Arrow: intervals of months become numbers."""
    if not any(inner.root == "INTERVAL YEAR TO MONTH" for _, inner in type_.walk()):
        return column
    # The first cast makes months of an INTERVAL YEAR, whose number is the number of years.
    return column.cast(spark_type(nullable(type_))).cast(spark_type(type_, wire=True))


def _to_wire(row: Column, declared: FlinkType) -> Column:
    """Return the row with the columns of `wire_column`."""
    if not any(t.root == "INTERVAL YEAR TO MONTH" for _, t in declared.walk()):
        return row
    fields = [wire_column(row.getField(f.name), f.type).alias(f.name) for f in declared.fields]
    return F.when(row.isNotNull(), F.struct(*fields))
