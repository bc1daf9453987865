"""Tables and records through Spark's data source `kvformat`, for `KafkaTable`.

The data source gives the rows with the types of the decoder; casts and watermark are Spark's, as for its own source.
"""

from __future__ import annotations

import contextlib
import json
import re
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kvformat.connectors.data_source import DDL, NAME
from kvformat.connectors.data_source.options import RANGES, RECORDS, WIRE
from kvformat.connectors.properties import PREFIX
from kvformat.connectors.range_records import RANGE_COLUMNS
from kvformat.registry.contract.errors import BrokerError, OptionError
from kvformat.registry.contract.types import FlinkField
from kvformat.registry.format import Errors
from kvformat.registry.key_value_format import KeyValueFormat
from kvformat.registry.spark.settings import check_time
from kvformat.registry.spark.workers import check_workers
from kvformat.registry.table.metadata import MetadataKeys, requested_metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_registered: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def decoded(
    spark: SparkSession,
    kv: KeyValueFormat,
    spark_options: Mapping[str, Any] | None,
    *,
    streaming: bool,
    metadata: MetadataKeys | None,
    errors: Errors = "raise",
    row_index: bool = False,
) -> DataFrame:
    """Return the rows of a table; `metadata`, `errors`, `row_index` and exceptions are those of `kv.decode`."""
    check_workers(spark)
    check_time((FlinkField(c.name, c.type) for c in kv.columns if c.type is not None), spark)
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    stage = kv.decode_stage(metadata=metadata, errors=errors, row_index=row_index, zone=zone)
    from kvformat.registry.table.decode_frame import finished  # imports PySpark

    options = {
        "metadata": json.dumps({column.name: column.key for column in requested_metadata(metadata)}),
        "errors": errors,
        "row_index": row_index,
        "time_zone": zone,
        WIRE: True,
    }
    rows = _loaded(spark, kv, stage.wire, {**(spark_options or {}), **options}, streaming=streaming)
    return finished(stage, rows, streaming=streaming)


def records(
    spark: SparkSession, kv: KeyValueFormat, spark_options: Mapping[str, Any] | None, *, streaming: bool
) -> DataFrame:
    """Return the records of a table, with the columns of Spark's Kafka source and `headers`."""
    check_workers(spark)
    from kvformat.registry.table.decode_stage import record_schema  # imports PySpark

    return _loaded(spark, kv, record_schema(), {**(spark_options or {}), RECORDS: True}, streaming=streaming)


def ranges(
    spark: SparkSession, kv: KeyValueFormat, spark_options: Mapping[str, Any] | None, *, streaming: bool
) -> DataFrame:
    """Return the ranges of a table's offsets, with `RANGE_COLUMNS`: `RangeRecords.read_rows` reads their records."""
    check_workers(spark)
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(pa.schema([*RANGE_COLUMNS.items()]))
    return _loaded(spark, kv, schema, {**(spark_options or {}), RANGES: True}, streaming=streaming)


def ask_topics(spark: SparkSession, kv: KeyValueFormat) -> None:
    """Let the data source look up the topics of a table from where Spark's driver is, and read at most one record.

    Raises `OptionError` for a missing topic, `BrokerError`.
    """
    from pyspark.errors import PySparkException

    try:
        records(spark, kv, None, streaming=False).isEmpty()
    except PySparkException as cause:
        for kind in (OptionError, BrokerError):
            said = re.findall(rf"\b{kind.__name__}: (.+)", str(cause))
            if said:
                option = "topic" if kind is OptionError else f"{PREFIX}bootstrap.servers"
                raise kind(said[-1].strip(), option=option) from cause
        raise


def _loaded(
    spark: SparkSession, kv: KeyValueFormat, schema: StructType, options: Mapping[str, Any], *, streaming: bool
) -> DataFrame:
    from pyspark.errors import PySparkException

    if spark not in _registered:
        _registered.add(spark)
        with contextlib.suppress(PySparkException):  # in a declarative pipeline: Spark finds the data source by itself
            from kvformat.connectors.data_source.source import register  # imports PySpark

            register(spark)
    reader = spark.readStream if streaming else spark.read
    # With a schema, Spark does not start a process only to ask for it.
    found = reader.format(NAME).schema(schema).option(DDL, kv.ddl)
    return found.options(**{name: value for name, value in options.items() if value is not None}).load()
