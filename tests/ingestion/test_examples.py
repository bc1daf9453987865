"""Every YAML of the product pages parses, and its explanation says what runs, what is refused, what has no effect."""

from __future__ import annotations

import pytest

from kvformat.ingestion import Pipeline
from tests.support.pipeline_examples import EXAMPLES, SECRET, VARIABLES

_MYSQL = "source 'mysql': run Debezium or Flink CDC into Kafka, and read that topic with a source 'kafka'"
_ALIYUN = (
    "sink: no effect: aliyun.kafka.accessKeyId, aliyun.kafka.accessKeySecret, aliyun.kafka.endpoint, "
    "aliyun.kafka.instanceId, aliyun.kafka.regionId; use 'properties.sasl.*'"
)
_ROUTED = (
    "route: a message has the table's name from its route. To change the topic only, use the sink's "
    "'sink.tableId-to-topic.mapping'"
)
_MOVED = "source: 'sink.tableId-to-topic.mapping' is read as an option of the sink: write it there"
REFUSED = {
    "source_to_hologres": [
        "sink 'hologres' is not supported: use 'delta' or 'iceberg'. 'sink.type-normalize-strategy' is "
        "known there. Other targets can be added with an entry point of the group 'kvformat.targets'"
    ],
    "syntax": [
        "source: 'scan.startup.mode' = 'group-offsets' (the default) needs 'properties.group.id'; set it, or another "
        "mode such as 'earliest-offset'"
    ],
    **{
        name: [_MYSQL]
        for name in ("mysql_to_kafka", "no_mapping", "route", "mapping_list", "mapping_entries", "upsert_kafka")
    },
}
NOTES = {
    "mysql_to_kafka": [_ROUTED],
    "route": ["'route' at line 16 is read as a block of the pipeline: do not indent it", _ROUTED],
    "mapping_list": [_MOVED],
    "mapping_entries": [_MOVED],
    "upsert_kafka": [_ALIYUN],
    "upsert_kafka_syntax": [_ALIYUN],
}
TOLD = {
    "source_to_hologres": ["  value: debezium-json {'other-messages': 'skip-all'}", "Sink: hologres (refused)"],
    "initial_schemas": [
        "  first schemas: the given schemas, then the newest 50 messages of each partition, then the first batch of "
        "the table",
        "  first schema of db1.t1: ROW<`id` BIGINT, `name` VARCHAR(10)> NOT NULL",
        "  first schema of db1.t2: ROW<`id` BIGINT> NOT NULL",
    ],
    "fixed_types": ["  first schemas: the first batch of the table", "  fixed types: id BIGINT, name VARCHAR(10)"],
    "table_id": ["  tables: named by the members col1, col2 of the message"],
    "transform": [r"Transform 1: tables \.*.\.*", "  columns: *", "  primary key: key1, key2"],
    "errors_limited": ["  bad records: dropped, at most 1000 since the checkpoint began"],
    "errors_unlimited": ["  bad records: dropped, without a limit"],
    "errors_logged": ["  bad records: dropped, without a limit; logged as warnings"],
    "no_mapping": ["  topic: the table's name"],
    "route": ["  mydb.mytable1,mydb.mytable2 -> mytable"],
    "mapping_list": ["  topic of mydb.mytable1,mydb.mytable2: mytable", "  topic of other tables: the table's name"],
    "mapping_entries": ["  topic of mydb.mytable1: mytable", "  topic of mydb.mytable2: mytable"],
    "mysql_to_kafka": [r"  shop.\.* -> shop"],
    "upsert_kafka": [r"  shop.\.* -> shop-now", "Sink 'Upsert Kafka Sink': upsert-kafka"],
}


def test_all_examples_are_there() -> None:
    assert len(EXAMPLES) >= 17
    assert {*REFUSED, *NOTES, *TOLD} <= set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_parsed_and_explained(name: str) -> None:
    made = Pipeline.from_yaml(EXAMPLES[name], set=VARIABLES)
    told = made.explain()
    assert list(made.refused) == REFUSED.get(name, [])
    assert list(made.notes) == NOTES.get(name, [])
    assert [line for line in TOLD.get(name, []) if line not in told.splitlines()] == []
    assert all(f"  {line}" in told.splitlines() for line in (*made.refused, *made.notes))
    assert ("Refused, this pipeline can't be started:" in told) == bool(made.refused)
    assert SECRET not in told.replace(VARIABLES["mysql.password"], "").replace(VARIABLES["upsert.kafka.aliyun.sk"], "")
