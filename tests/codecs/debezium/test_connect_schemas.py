"""Schemas of Kafka Connect: what an Avro type or a block of JSON says about the rows of changes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.avro.parse import parse_schema
from kvformat.codecs.debezium.connect_schema import ConnectSchema, image_schema_from_avro, image_schema_from_json
from kvformat.registry import get_format
from tests.codecs.debezium.debezium_types import CONNECT, TIME, avro_event
from tests.support.registry_server import Registry


@pytest.mark.parametrize(
    ("avro", "expected"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, ConnectSchema("int64", f"{CONNECT}Timestamp")),
        ({"type": "long", "logicalType": "timestamp-micros"}, ConnectSchema("int64", f"{TIME}MicroTimestamp")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, ConnectSchema("int64", f"{TIME}NanoTimestamp")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, ConnectSchema("int64", f"{TIME}Timestamp")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, ConnectSchema("int64", f"{TIME}MicroTimestamp")),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, ConnectSchema("int64", f"{TIME}NanoTimestamp")),
        ({"type": "long", "logicalType": "time-micros"}, ConnectSchema("int64", f"{TIME}MicroTime")),
        ({"type": "int", "logicalType": "time-millis"}, ConnectSchema("int32", f"{CONNECT}Time")),
        ({"type": "int", "logicalType": "date"}, ConnectSchema("int32", f"{CONNECT}Date")),
        (
            {"type": "long", "logicalType": "timestamp-micros", "connect.name": f"{TIME}NanoTimestamp"},
            ConnectSchema("int64", f"{TIME}NanoTimestamp"),
        ),
        (
            {
                **{"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
                "connect.parameters": {"scale": "3", "connect.decimal.precision": "5"},
            },
            ConnectSchema("bytes", f"{CONNECT}Decimal", {"scale": "2", "connect.decimal.precision": "5"}),
        ),
        ({"type": "int", "connect.type": "int16"}, ConnectSchema("int16")),
        ({"type": "fixed", "name": "F", "size": 2}, ConnectSchema("bytes")),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, ConnectSchema("string")),
        (["null", "long"], ConnectSchema("int64")),
        (["null", "long", "string"], ConnectSchema("union")),
    ],
)
def test_an_avro_type_is_that_of_its_connect_name_or_else_of_its_logical_type(
    avro: Any, expected: ConnectSchema
) -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "v", "type": avro}]}
    image = image_schema_from_avro(parse_schema(json.dumps(row)), flat=True)
    assert image is not None
    assert image.fields["v"] == expected


@pytest.mark.parametrize("of_after", [None, {"type": "string"}, {"type": "struct", "fields": []}])
def test_the_row_before_a_change_has_the_schema_if_the_one_after_has_none(of_after: Any) -> None:
    def image(block: Any, name: str) -> Any:
        return {**block, "field": name}

    row = {"type": "struct", "fields": [{"type": "int64", "field": "id"}]}
    fields = [image(row, "before"), *([] if of_after is None else [image(of_after, "after")])]
    found = image_schema_from_json({"type": "struct", "fields": fields})
    assert found is not None
    assert [*found.fields] == (["id"] if (of_after or {}).get("type") != "struct" else [])


def test_a_row_may_be_one_of_several_types_in_avro(registry: Registry) -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "long"}]}
    row = {"type": "record", "name": "Value", "fields": [{"name": "v", "type": ["null", "string", place]}]}
    images = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    schema = {"type": "record", "name": "Envelope", "fields": [*images, {"name": "op", "type": "string"}]}
    registry.ids[1] = json.dumps(schema)
    messages = [avro_event(1, schema, {"v": value}) for value in ({"x": 7}, None, "here")]
    fmt = get_format("debezium-avro-confluent", {"url": registry.url, "types": "debezium"})
    batch = fmt.decode_batch(pa.array(messages), "v ROW<x BIGINT>")
    assert batch.rows.to_pylist() == [[{"v": {"x": 7}}], [{"v": None}], None]
