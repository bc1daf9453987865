"""How the Kafka sink writes records, from its options.

`pipeline/sink.py` declares and checks the options. Rules: Flink CDC's `KafkaDataSinkOptions` and `KafkaSinkUtils`;
Ververica's "Kafka connector" page for `emit.full-table-id.enabled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from kvformat.codecs.json.settings import WriteSettings
from kvformat.ingestion.pipeline.routes import Selector
from kvformat.ingestion.pipeline.sink import PipelineSink
from kvformat.ingestion.schemas.table_id import TableId

_MAPPING = "sink.tableId-to-topic.mapping"


@dataclass(frozen=True)
class SinkSettings:
    """How records are written.

    key_format, value_format: `json` or `csv`; `debezium-json` or `canal-json`.
    key, value: settings of the JSON of keys and values.
    include_schema: whether a schema of Kafka Connect is beside the payload. connect_payload: whether values are written
        as the schema says, otherwise as in JSON.
    full_table_id: whether `source` has all three parts of the table's name.
    topic: the topic of all records, or None. topics: patterns of tables, each with its topic; the first match counts.
    all_to_zero: whether all records go to partition 0; otherwise the producer hashes the key.
    table_headers: whether headers have the parts of the table's name. headers: headers of each record.
    """

    key_format: str
    value_format: str
    key: WriteSettings
    value: WriteSettings
    include_schema: bool = False
    connect_payload: bool = False
    full_table_id: bool = False
    topic: str | None = None
    topics: tuple[tuple[Selector, str], ...] = ()
    all_to_zero: bool = True
    table_headers: bool = False
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, sink: PipelineSink) -> Self:
        """Take the settings from the checked options of a sink `kafka`."""
        values = sink.values
        key, value = values["key.format"], values["value.format"]
        include_schema = values.get("debezium-json.include-schema.enabled", False)
        return cls(
            key_format=key,
            value_format=value,
            key=_json_settings(values, "json") if key == "json" else WriteSettings(),
            value=_json_settings(values, value),
            include_schema=include_schema,
            connect_payload=include_schema and values["debezium-json.payload"] == "connect",
            full_table_id=values.get("debezium-json.emit.full-table-id.enabled", False),
            topic=values["topic"],
            topics=tuple((Selector(",".join(patterns), _MAPPING), topic) for patterns, topic in sink.topics),
            all_to_zero=values["partition.strategy"] == "all-to-zero",
            table_headers=values["sink.add-tableId-to-header-enabled"],
            headers=sink.headers,
        )

    def topic_of(self, table: TableId) -> str:
        """Return the topic of a table: `topic`, the first mapping that matches, or the table's name."""
        if self.topic is not None:
            return self.topic
        return next((topic for selector, topic in self.topics if selector.matches(table)), str(table))

    def headers_of(self, table: TableId) -> tuple[tuple[str, bytes], ...]:
        """Return the headers of a table's records."""
        return (
            *(table_headers(table) if self.table_headers else ()),
            *((name, value.encode()) for name, value in self.headers),
        )

    @property
    def partition(self) -> int | None:
        """The partition of all records, or None if the producer hashes the key."""
        return 0 if self.all_to_zero else None


def table_headers(table: TableId) -> tuple[tuple[str, bytes], ...]:
    """Return the headers with the parts of a table's name. The header of a missing part is empty."""
    parts = {"namespace": table.namespace, "schemaName": table.schema, "tableName": table.table}
    return tuple((name, (part or "").encode()) for name, part in parts.items())


def _json_settings(values: Mapping[str, Any], format: str) -> WriteSettings:
    prefix = f"{format}."
    settings = WriteSettings.of({key.removeprefix(prefix): v for key, v in values.items() if key.startswith(prefix)})
    return replace(settings, trimmed_decimals=True)  # as Flink 1.20, on which Flink CDC runs
