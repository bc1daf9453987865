"""Ingest topics without YAML: the arguments of a pipeline as Python values.

Example: `ingest(spark, {"topic": "shop", "value.format": "debezium-json", ...}, "/lake", checkpoint_location="/shop")`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from kvformat.connectors.kafka import KafkaTable
from kvformat.ingestion.pipeline.options import SOURCE_OPTIONS
from kvformat.ingestion.pipeline.pipeline import Pipeline
from kvformat.ingestion.pipeline.source import RECORDS
from kvformat.ingestion.targets.discovery import available_targets
from kvformat.ingestion.targets.target import Target
from kvformat.registry.contract.errors import ConfigurationError
from kvformat.registry.sql.connector_options import is_client_property

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kvformat.registry.streams.dead_letters import DeadLetterTarget

_OF_DECLARED_COLUMNS = ("key.fields", "value.fields-include")  # a KafkaTable's columns are not those of its topics


def ingest(
    spark: SparkSession,
    source: Mapping[str, Any] | KafkaTable | DataFrame,
    target: str | PathLike[str] | Mapping[str, Any] | Target,
    *,
    checkpoint_location: str | PathLike[str],
    options: Mapping[str, Any] | None = None,
    transform: Sequence[Mapping[str, Any]] = (),
    route: Sequence[Mapping[str, Any]] = (),
    pipeline: Mapping[str, Any] | None = None,
    schema_change: str = "lenient",
    dead_letters: DeadLetterTarget | None = None,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    on_table_error: Literal["stop", "quarantine"] = "stop",
    take_over: bool = False,
    probe: bool = True,
    spark_options: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start a query that keeps a table for each table in topics, without declared columns.

    `source` has the options of a source (docs/ingestion.md); or it is a `KafkaTable`, whose topics and client options
    are used; or a stream with the columns of Spark's Kafka source. `options` are further options of the source, such
    as `value.format` for a stream. `target` is a path for Delta tables ("/lake"), the type of a sink ("iceberg"), the
    options of a sink, or a `Target`. `transform` and `route` are lists of rules, `pipeline` further settings, and
    `schema_change` is `schema.change.behavior`. The other arguments are those of `Pipeline.start`.

    Returns the started query. Raises `ConfigurationError` before it starts.
    """
    return Pipeline(
        _source(source, options or {}),
        _sink(target),
        transform=transform,
        route=route,
        pipeline={"schema.change.behavior": schema_change, **(pipeline or {})},
    ).start(
        spark,
        checkpoint_location=checkpoint_location,
        records=None if isinstance(source, Mapping | KafkaTable) else source,
        dead_letters=dead_letters,
        trigger=trigger,
        query_name=query_name,
        on_table_error=on_table_error,
        take_over=take_over,
        probe=probe,
        spark_options=spark_options,
    )


def _source(source: Mapping[str, Any] | KafkaTable | DataFrame, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block `source`."""
    if isinstance(source, Mapping):
        return {"type": "kafka", **source, **options}
    if isinstance(source, KafkaTable):
        names = {spec.name for spec in SOURCE_OPTIONS}
        table_options = {k: v for k, v in source.kv.options.items() if k in names or is_client_property(k) or "." in k}
        if "format" in source.kv.options:
            table_options["value.format"] = source.kv.options["format"]
        kept = {k: v for k, v in table_options.items() if not k.startswith("sink.") and k not in _OF_DECLARED_COLUMNS}
        return {"type": "kafka", **kept, **options}
    if not hasattr(source, "isStreaming"):
        raise ConfigurationError(
            f"source must be options, a KafkaTable or a stream of Kafka records, not {type(source).__name__}"
        )
    return {"type": RECORDS, **options}


def _sink(target: str | PathLike[str] | Mapping[str, Any] | Target) -> Mapping[str, Any] | Target:
    """Return the block `sink`, or the target."""
    if isinstance(target, Target | Mapping):
        return target
    if isinstance(target, str) and target in available_targets():
        return {"type": target}
    return {"type": "delta", "path": fspath(target)}
