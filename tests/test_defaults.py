"""The default of every option: Flink's where Flink has the option, Ververica's or Confluent's where they have it.

A default is written twice on purpose: here, and where the option is declared. A format has the same default for an
option as the others, unless it is named below.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest

from kvformat.ingestion.pipeline import options as blocks
from kvformat.ingestion.targets.discovery import BUILT_IN, sink_options
from kvformat.registry import available_formats, get_format
from kvformat.registry.contract.discovery import format_class
from kvformat.registry.contract.options import Option, display_value
from kvformat.registry.sql.connector_options import KAFKA_OPTIONS, UPSERT_KAFKA_OPTIONS

_OF_FORMATS: dict[str, Any] = {
    # of Flink's formats
    "ignore-parse-errors": False,
    "fail-on-missing-field": False,
    "timestamp-format.standard": "SQL",
    "map-null-key.mode": "FAIL",
    "map-null-key.literal": "null",
    "encode.decimal-as-plain-number": False,
    "encode.ignore-null-fields": False,
    "decode.json-parser.enabled": True,
    "schema-include": False,
    "field-delimiter": ",",
    "disable-quote-character": False,
    "allow-comments": False,
    "array-element-delimiter": ";",
    "trim-spaces": False,
    "ignore-trailing-unmappable": False,
    "allow-trailing-comma": True,
    "fail-on-missing-columns": False,
    "empty-string-as-null": False,
    "encoding": "binary",
    "timestamp_mapping.legacy": True,
    "read-default-values": False,
    "write-null-string-literal": "",
    "charset": "UTF-8",
    "endianness": "big-endian",
    # of clients of schema registries
    "auto-register-schemas": True,
    "use-latest-version": False,
    "subject-name-strategy": "topic-name",
    "group-id": "default",
    "use-id": "contentId",
    "schema.autoRegistration": False,
    "schema.compatibility": "BACKWARD",
    "schema.compression": "NONE",
    "schema.type": "GENERIC_RECORD",
    "schema.fetchFromRegistry": False,
    "cache.size": 200,
    "cache.ttlMs": 24 * 60 * 60 * 1000,
    "unavailable.value.placeholder": "__debezium_unavailable_value",
    # ours
    "timestamp-micros-as-millis": False,
    "read-enum-and-fixed": False,
    "on-new-schema": "ignore",
    "register-in-executors": False,
    "registry-timeout": dt.timedelta(seconds=30),
    "registry-retries": 3,
    "registry-backoff": dt.timedelta(milliseconds=500),
    "id-encoding": "payload",
    "id-width": "auto",
    "other-messages": "error",
    "changelog.mode": "all",
    "unchanged.columns": "data",
    "types": "flink",
    "flattened": False,
    "bytes.encoding": "base64",
    "max-size": 16 * 2**20,
}
_DIFFERENT: dict[tuple[str, str], Any] = {
    ("avro-registry", "read-enum-and-fixed"): True,
    ("avro-debezium-registry", "read-enum-and-fixed"): True,
}
_OF_TABLES: dict[str, Any] = {
    "value.fields-include": "ALL",
    "scan.bounded.mode": "unbounded",
    "scan.startup.mode": "group-offsets",
    "sink.delivery-guarantee": "at-least-once",
    "sink.partitioner": "default",
    "sink.buffer-flush.max-rows": 0,
    "ingestion.ignore-errors": False,
    "ingestion.error-tolerance.max-count": -1,
    "scan.check.duplicated.group.id": False,
}
_OF_PIPELINES: dict[str, Any] = {
    **{name: value for name, value in _OF_TABLES.items() if not name.startswith("sink.")},
    "value.format": "debezium-json",
    "schema.inference.strategy": "continuous",
    "scan.max.pre.fetch.records": 50,
    "schema.change.behavior": "lenient",
    "route-mode": "ALL_MATCH",
    "execution.runtime-mode": "STREAMING",
    "dialect": "spark",
    "table-options.delimiter": ",",
    "include-schema.enabled": False,
    "emit.full-table-id.enabled": False,
    "payload": "json",
    "distributed-tables": False,
    "infer-schema.primitive-as-string": False,
    "tables-by-record-name": False,
    "infer-schema.strategy": "AUTO",
    "mysql.treat-mysql-timestamp-as-datetime-enabled": True,
    "mysql.treat-tinyint1-as-boolean.enabled": True,
    "infer-schema.flatten-nested-columns.enable": False,
}
_OF_SINKS: dict[str, Any] = {
    "sink.delivery-guarantee": "at-least-once",
    "sink.transactional-id-prefix": "kvformat",
    "sink.add-tableId-to-header-enabled": False,
    "sink.type-normalize-strategy": "standard",
    "sink.custom-header": "",
    "create-tables": True,
    "write-mode": "merge",
    "rewrite.max-bytes": 2**30,
    "driver.max-bytes": 256 * 2**20,
    "upkeep.commits": 20,
    "partition.strategy": "all-to-zero",
    "key.format": "json",
    "value.format": "debezium-json",
}


_PIPELINES = [
    *(blocks.SOURCE_OPTIONS, blocks.PIPELINE_OPTIONS, blocks.TRANSFORM_OPTIONS, blocks.ROUTE_OPTIONS),
    *(*blocks.FORMAT_OPTIONS.values(), *blocks.SINK_FORMAT_OPTIONS.values()),
]


def _defaults(specs: Sequence[Option]) -> dict[str, Any]:
    return {spec.key: spec.default for spec in specs if spec.default is not None}


@pytest.mark.parametrize("identifier", sorted(available_formats()))
def test_each_option_of_a_format_has_its_default(identifier: str) -> None:
    specs = format_class(identifier).option_specs
    wanted = {
        spec.key: _DIFFERENT.get((identifier, spec.key), _OF_FORMATS[spec.key])
        for spec in specs
        if spec.key in _OF_FORMATS
    }
    assert _defaults(specs) == wanted


def test_each_option_of_a_table_has_its_default() -> None:
    assert _defaults([*KAFKA_OPTIONS, *UPSERT_KAFKA_OPTIONS]) == _OF_TABLES


def test_each_option_of_a_pipeline_has_its_default() -> None:
    specs = [spec for group in _PIPELINES for spec in group]
    assert len(specs) >= 60
    assert _defaults(specs) == _OF_PIPELINES


@pytest.mark.parametrize("sink", BUILT_IN)
def test_each_option_of_a_sink_has_its_default(sink: str) -> None:
    specs = sink_options(sink)
    assert _defaults(specs) == {spec.key: _OF_SINKS[spec.key] for spec in specs if spec.key in _OF_SINKS}


def test_each_default_can_be_given_as_the_documentation_shows_it() -> None:
    formats = [format_class(identifier).option_specs for identifier in available_formats()]
    groups = [*formats, KAFKA_OPTIONS, UPSERT_KAFKA_OPTIONS, *_PIPELINES, *map(sink_options, BUILT_IN)]
    specs = [spec for group in groups for spec in group if spec.default is not None]
    assert len(specs) >= 200
    for spec in specs:
        assert spec.parse(display_value(spec.default)) == spec.default, spec.name
        assert spec.allowed is None or spec.default in spec.allowed, spec.name


@pytest.mark.parametrize("identifier", sorted({*available_formats()} - {"protobuf"}))  # which needs a file
def test_a_format_with_its_defaults_is_the_format_without_options(identifier: str) -> None:
    specs = format_class(identifier).option_specs
    needed = {spec.name: "mock://x" for spec in specs if spec.required}
    defaults = {spec.name: display_value(spec.default) for spec in specs if spec.default is not None}
    assert dict(get_format(identifier, needed | defaults).options) == dict(get_format(identifier, needed).options)


def test_the_url_of_a_registry_is_required_where_flink_requires_it() -> None:
    """AWS and Confluent Cloud know their registry. No other format has another name for it."""
    required = {
        identifier: spec.required
        for identifier in available_formats()
        for spec in format_class(identifier).option_specs
        if spec.name == "url"
    }
    assert len(required) >= 10
    assert {identifier for identifier, needed in required.items() if not needed} == {
        *("avro-registry", "json-registry", "proto-registry", "avro-glue"),
        *("avro-debezium-registry", "json-debezium-registry", "proto-debezium-registry"),
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("30 s", "30 s"),
        ("2 min", "120 s"),
        ("500 ms", "500 ms"),
        ("1001 ms", "1001 ms"),
        ("7 µs", "7 µs"),
        ("0", "0 s"),
    ],
)
def test_a_duration_is_shown_with_all_its_digits(text: str, shown: str) -> None:
    assert display_value(Option(name="x", type="duration").parse(text)) == shown
