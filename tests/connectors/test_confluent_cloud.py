"""A DDL of Confluent Cloud on a real broker, written by schemas of a registry, and read by Confluent's classes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvformat.connectors import KafkaTable
from kvformat.registry import SchemaError
from tests.support.confluent import registry_client
from tests.support.registry_server import Registry

pytestmark = [pytest.mark.spark, pytest.mark.services]

_DDL = """
CREATE TABLE `shop-env`.`shop-cluster`.`cloud.public.orders` (
  `id` BIGINT NOT NULL,
  `state` VARCHAR(2147483647),
  `price` DECIMAL(10, 2),
  WATERMARK FOR `$rowtime` AS `$rowtime` - INTERVAL '5' SECOND
)
DISTRIBUTED BY HASH(`id`) INTO 3 BUCKETS
WITH (
  'changelog.mode' = 'append',
  'connector' = 'confluent',
  'kafka.cleanup-policy' = 'delete',
  'kafka.retention.time' = '7 d',
  'key.format' = 'avro-registry',
  'scan.bounded.mode' = 'unbounded',
  'scan.startup.mode' = 'earliest-offset',
  'value.format' = 'avro-registry'
)
"""
_STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
_PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}
_VALUE = {
    "type": "record",
    "name": "Order",
    "namespace": "com.acme",
    "fields": [
        {"name": "note", "type": "string", "default": "none"},
        {"name": "price", "type": [_PRICE, "null"]},
        {"name": "state", "type": ["null", _STATE]},
    ],
}
_KEY = {"type": "record", "name": "OrderKey", "fields": [{"name": "id", "type": "long"}]}


def test_rows_are_written_by_the_schemas_of_the_topic(spark: Any, broker: Any, registry: Registry) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    topic = broker.create("cloud.public.orders", 3)
    registry.ids |= {4: json.dumps(_KEY), 5: json.dumps(_VALUE)}
    registry.subjects |= {f"{topic}-key": [4], f"{topic}-value": [5]}
    options = {
        "properties.bootstrap.servers": broker.bootstrap,
        "avro-registry.url": registry.url,
        "avro-registry.use-latest-version": "true",
    }
    table = KafkaTable.from_ddl(_DDL, options=options)
    price = "CAST(id / 4 AS DECIMAL(10, 2)) AS price"
    rows = spark.range(50).selectExpr("id", "CASE WHEN id % 3 > 0 THEN 'PAID' END AS state", price)
    table.write(rows)
    assert registry.registered == []

    read = AvroDeserializer(registry_client(registry.url))
    records = broker.records(topic)
    assert len(records) == 50
    for record in records:
        key = read(record.key(), SerializationContext(topic, MessageField.KEY))
        value = read(record.value(), SerializationContext(topic, MessageField.VALUE))
        state = "PAID" if key["id"] % 3 else None
        assert (value["note"], value["state"]) == ("none", state)
        assert float(value["price"]) == key["id"] / 4
    found = table.read(spark).collect()
    assert sorted(row.id for row in found) == list(range(50))
    assert {row.state for row in found} == {"PAID", None}
    assert all(row["$rowtime"] is not None for row in found)

    with pytest.raises(Exception, match=r"'SENT' is not a symbol of enum com\.acme\.State; it has NEW, PAID"):
        table.write(rows.selectExpr("id", "'SENT' AS state", "price"))
    registry.subjects["other-value"] = [4]
    registry.subjects["other-key"] = [4]
    other = table.with_options({"topic": broker.create("other")})
    with pytest.raises(SchemaError, match=r"^table '.*orders': .* subject 'other-value', id 4: record OrderKey has no"):
        other.write(rows)
