"""Tables of Flink on Confluent Cloud as tables of Kafka. The statements have the form of SHOW CREATE TABLE there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvformat.registry import KeyValueFormat, OptionError, SchemaError
from kvformat.registry.sql.confluent_tables import TOPIC_SETTINGS
from kvformat.registry.sql.statements import find_table

_GIVEN = {"properties.bootstrap.servers": "broker:9092", "avro-registry.url": "mock://confluent-tables"}
_KEY = "PRIMARY KEY (`id`) NOT ENFORCED"
_ROW = pa.struct([("id", pa.int64()), ("n", pa.string()), ("b", pa.binary())])
_MANAGED = """
  'kafka.cleanup-policy' = 'delete',
  'kafka.compaction.time' = '0 ms',
  'kafka.max-message-size' = '2097164 bytes',
  'kafka.retention.size' = '0 bytes',
  'kafka.retention.time' = '7 d',
  'scan.bounded.mode' = 'unbounded',
  'scan.startup.mode' = 'earliest-offset',"""
_ORDERS = f"""
CREATE TABLE `shop-env`.`shop-cluster`.`shop.public.orders` (
  `id` BIGINT NOT NULL COMMENT 'the number',
  `customer` VARCHAR(2147483647) NOT NULL,
  `placed` TIMESTAMP(3) WITH LOCAL TIME ZONE,
  `partition` BIGINT METADATA VIRTUAL,
  WATERMARK FOR `$rowtime` AS `$rowtime` - INTERVAL '5' SECOND
)
DISTRIBUTED BY HASH(`id`) INTO 6 BUCKETS
WITH (
  'changelog.mode' = 'append',
  'connector' = 'confluent',{_MANAGED}
  'key.avro-registry.schema-context' = '.flink-dev',
  'key.format' = 'avro-registry',
  'value.fields-include' = 'all',
  'value.format' = 'avro-registry'
)
"""


def _table(
    options: str = "", *, key: str = "PRIMARY KEY (`id`) NOT ENFORCED", by: str = "", **given: str
) -> KeyValueFormat:
    """Return a table of three columns with a PRIMARY KEY, and DISTRIBUTED `by` columns."""
    text = (
        f"CREATE TABLE t (`id` BIGINT NOT NULL, `n` STRING, `b` BYTES{f', {key}' if key else ''}) {by} "
        f"WITH ('connector' = 'confluent'{f', {options}' if options else ''})"
    )
    return KeyValueFormat.from_ddl(text, options={**_GIVEN, **given})


def test_an_append_table() -> None:
    table = KeyValueFormat.from_ddl(_ORDERS, options=_GIVEN)
    assert dict(table.options) == {
        "connector": "kafka",
        "topic": "shop.public.orders",
        "key.fields": "id",
        "key.format": "avro-registry",
        "value.format": "avro-registry",
        "value.fields-include": "ALL",
        "scan.bounded.mode": "unbounded",
        "scan.startup.mode": "earliest-offset",
        "properties.bootstrap.servers": "broker:9092",
        "properties.isolation.level": "read_committed",
        "key.avro-registry.schema-context": ".flink-dev",
        "key.avro-registry.url": "mock://confluent-tables",
        "value.avro-registry.url": "mock://confluent-tables",
    }
    assert table.name == "shop-env.shop-cluster.shop.public.orders"
    assert [(c.name, c.kind, c.key) for c in table.columns[3:]] == [
        ("partition", "metadata", "partition"),
        ("$rowtime", "metadata", "timestamp"),
    ]
    rowtime = table.columns[-1]
    assert (str(rowtime.type), rowtime.virtual) == ("TIMESTAMP_LTZ(3) NOT NULL", True), "it is only read"
    assert table.watermark is not None
    assert table.primary_key == ()
    assert eval(repr(table), {"KeyValueFormat": KeyValueFormat}) == table


def test_records_of_an_append_table() -> None:
    table = _table(key="", by="DISTRIBUTED BY (id) INTO 4 BUCKETS")
    row = {"id": 7, "n": "x", "b": b"y"}
    written = table.encode_batch(pa.array([row]))
    assert written.errors is None
    assert written.keys[0].as_py()[5:] == b"\x0e"
    assert written.values[0].as_py()[5:] == b"\x02\x02x\x02\x02y"  # except-key is the default
    assert table.decode_batch(written.keys, written.values).rows.to_pylist() == [[row]]


def test_an_upsert_table_is_the_default_with_a_primary_key() -> None:
    table = _table()
    assert table.options["connector"] == "upsert-kafka"
    assert {"key.fields", "scan.startup.mode", *TOPIC_SETTINGS}.isdisjoint(table.options)
    row = {"id": 7, "n": "x", "b": None}
    written = table.encode_batch(pa.array([row, row], _ROW), row_kinds=pa.array(["+I", "-D"]))
    assert written.values[1].as_py() is None
    shown = "'changelog.mode' = 'upsert', 'kafka.cleanup-policy' = 'compact'"
    assert _table(shown, by="DISTRIBUTED BY HASH(`id`) INTO 1 BUCKETS") == table


def test_an_upsert_table_is_distributed_by_its_primary_key_in_any_order() -> None:
    key = "PRIMARY KEY (`id`, `n`) NOT ENFORCED"
    table = _table(key=key, by="DISTRIBUTED BY HASH(`n`, `id`) INTO 6 BUCKETS")
    assert table == _table(key=key)
    assert (table.options["connector"], table.primary_key) == ("upsert-kafka", ("id", "n"))
    for columns in ("`id`", "`id`, `n`, `b`"):
        with pytest.raises(OptionError, match="the same columns in DISTRIBUTED BY"):
            _table(key=key, by=f"DISTRIBUTED BY HASH({columns}) INTO 6 BUCKETS")


def test_an_append_table_may_have_a_primary_key() -> None:
    table = _table("'changelog.mode' = 'append'", key="CONSTRAINT `PRIMARY` PRIMARY KEY (`n`, `id`) NOT ENFORCED")
    assert (table.options["connector"], table.options["key.fields"]) == ("kafka", "n;id")
    assert [field.type.nullable for field in table._table.physical().fields] == [False, False, True]


def test_a_table_without_a_key() -> None:
    options = "'key.format' = 'json-registry', 'value.fields-include' = 'except-key'"
    table = _table(options, key="", by="DISTRIBUTED INTO 1 BUCKETS")
    assert table.key_schema is None
    assert table.encode_batch(pa.array([{"id": 1, "n": None, "b": None}], _ROW)).keys is None


def test_raw_keys_of_inferred_tables() -> None:
    text = (
        "CREATE TABLE `t` (`key` VARBINARY(2147483647), `val` VARBINARY(2147483647)) "
        "DISTRIBUTED BY HASH(`key`) INTO 2 BUCKETS WITH ('changelog.mode' = 'append', 'connector' = 'confluent', "
        "'key.format' = 'raw', 'value.format' = 'raw')"
    )
    table = KeyValueFormat.from_ddl(text, options={"properties.bootstrap.servers": "b"})
    records = [pa.array([b"k", None]), pa.array([b"v", b"w"])]
    assert table.decode_batch(*records).rows.to_pylist() == [[{"key": b"k", "val": b"v"}], [{"key": None, "val": b"w"}]]


@pytest.mark.parametrize("mode", ["", "retract", "upsert"])
def test_debezium(mode: str) -> None:
    chosen = f"'changelog.mode' = '{mode}', " if mode else ""
    table = _table(f"{chosen}'value.format' = 'avro-debezium-registry'", **{"avro-debezium-registry.url": "mock://x"})
    assert table.options["connector"] == "kafka"
    assert table.primary_key == ("id",)
    assert table.changelog_mode.name == ("UPSERT" if mode == "upsert" else "ALL")


def test_settings_of_readers_and_writers() -> None:
    table = _table(
        "'kafka.consumer.isolation-level' = 'read-uncommitted', 'kafka.producer.compression.type' = 'zstd', "
        "'error-handling.mode' = 'ignore', 'error-handling.log.target' = 'x', 'late-handling.mode' = 'pass-through', "
        "'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '5', "
        "'value.format.schema-context' = '.c', 'key.format.schema-context' = '.k', 'changelog.mode' = 'APPEND'"
    )
    wanted = {
        "properties.isolation.level": "read_uncommitted",
        "properties.compression.type": "zstd",
        "ingestion.ignore-errors": "true",
        "scan.startup.timestamp-millis": "5",
        "value.avro-registry.schema-context": ".c",
        "key.avro-registry.schema-context": ".k",
    }
    assert {key: table.options[key] for key in wanted} == wanted


def test_given_options_win() -> None:
    table = _table(
        "'kafka.producer.compression.type' = 'zstd', 'error-handling.mode' = 'ignore'",
        topic="other",
        **{
            "value.avro-registry.url": "mock://value",
            "avro-registry.basic-auth.user-info": "alice:sesame",
            "properties.isolation.level": "read_uncommitted",
            "properties.compression.type": "lz4",
            "ingestion.ignore-errors": "false",
        },
    )
    assert table.options["topic"] == "other"
    assert table.options["key.avro-registry.url"] == "mock://confluent-tables"
    assert table.options["value.avro-registry.url"] == "mock://value"
    assert table.options["properties.isolation.level"] == "read_uncommitted"
    assert table.options["properties.compression.type"] == "lz4"
    assert table.options["ingestion.ignore-errors"] == "false"
    assert "sesame" not in repr(table)


def test_the_registry_may_have_its_long_name() -> None:
    options = {"properties.bootstrap.servers": "b", "avro-registry.schema-registry.url": "mock://x"}
    table = KeyValueFormat.from_ddl(_ORDERS, options=options)
    assert table.options["key.avro-registry.schema-registry.url"] == "mock://x"


def test_the_columns_of_partitioned_by_are_the_key() -> None:
    table = _table("'changelog.mode' = 'append'", by="PARTITIONED BY (`n`)")
    assert table.options["key.fields"] == "n"


def test_rowtime_beside_a_timestamp() -> None:
    text = _ORDERS.replace(
        "  `partition` BIGINT METADATA VIRTUAL",
        "  `at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',\n"
        "  `$rowtime` TIMESTAMP_LTZ(3) NOT NULL METADATA VIRTUAL COMMENT 'SYSTEM'",
    )
    columns = KeyValueFormat.from_ddl(text, options=_GIVEN).columns
    assert [(c.name, c.kind, c.key, c.source) for c in columns[3:]] == [
        ("at", "metadata", "timestamp", ""),
        ("$rowtime", "computed", "", "`at`"),
    ]


def test_rowtime_beside_a_physical_column_named_timestamp() -> None:
    text = _ORDERS.replace("`partition` BIGINT METADATA VIRTUAL", "`timestamp` STRING")
    columns = KeyValueFormat.from_ddl(text, options=_GIVEN).columns
    assert [(c.name, c.kind, c.key) for c in columns[3:]] == [
        ("timestamp", "physical", ""),
        ("$rowtime", "metadata", "timestamp"),
    ]


def test_like() -> None:
    like = "CREATE TABLE copy (more INT) LIKE `shop-env`.`shop-cluster`.`shop.public.orders`"
    table = KeyValueFormat.from_ddl(f"{_ORDERS}; {like}", table="copy", options=_GIVEN)
    assert (table.options["topic"], table.options["key.fields"]) == ("copy", "id")
    other = f"{_ORDERS}; CREATE TABLE copy (more INT) DISTRIBUTED BY (more) INTO 1 BUCKETS LIKE `shop.public.orders`"
    with pytest.raises(SchemaError, match="does not exist before it"):
        KeyValueFormat.from_ddl(other, table="copy", options=_GIVEN)
    other = other.replace("LIKE `", "LIKE `shop-env`.`shop-cluster`.`")
    with pytest.raises(SchemaError, match="already DISTRIBUTED; write EXCLUDING DISTRIBUTION"):
        KeyValueFormat.from_ddl(other, table="copy", options=_GIVEN)
    table = KeyValueFormat.from_ddl(f"{other} (EXCLUDING DISTRIBUTION)", table="copy", options=_GIVEN)
    assert table.options["key.fields"] == "more"
    without_key = f"{other.replace('BY (more) ', '')} (EXCLUDING DISTRIBUTION)"
    assert KeyValueFormat.from_ddl(without_key, table="copy", options=_GIVEN).key_schema is None


# --- errors --------------------------------------------------------------------------------------------


def test_brokers_and_registry_must_be_given() -> None:
    with pytest.raises(OptionError) as caught:
        KeyValueFormat.from_ddl(_ORDERS)
    assert "shop.public.orders' with 'connector' = 'confluent' does not say where the brokers and" in str(caught.value)
    assert "Add 'properties.bootstrap.servers', 'avro-registry.url', for example by from_ddl(" in str(caught.value)
    with pytest.raises(OptionError, match=r"Add 'avro-registry\.url', for"):
        KeyValueFormat.from_ddl(_ORDERS, options={"properties.bootstrap.servers": "b"})


def test_json_is_read_without_a_registry() -> None:
    text = "CREATE TABLE t (n INT) WITH ('connector' = 'confluent', 'value.format' = 'json-registry')"
    table = KeyValueFormat.from_ddl(text, options={"properties.bootstrap.servers": "b"})
    assert table.options["value.format"] == "json-registry"


@pytest.mark.parametrize("option", ["changelog.mode", "scan.startup.mode"])
def test_errors_do_not_show_a_secret_in_a_value(option: str) -> None:
    with pytest.raises(OptionError, match=option) as caught:
        _table(f"'{option}' = 'x password=hunter2'")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "more", "error"),
    [
        ("'changelog.mode' = 'retract'", {}, "table 't' is not supported: the kinds of rows are in the headers"),
        ("'changelog.mode' = 'upsert'", {"key": ""}, "needs a PRIMARY KEY"),
        ("'changelog.mode' = 'upsert'", {"by": "DISTRIBUTED BY HASH(n)"}, "the same columns in DISTRIBUTED BY"),
        ("'changelog.mode' = 'all'", {}, "option 'changelog.mode' must be one of append, upsert, retract, not 'all'"),
        ("'changelog.mode' = 'append', 'value.format' = 'avro-debezium-registry'", {}, "Set 'retract', and filter"),
        ("'scan.startup.mode' = 'latest-offset'", {}, "an upsert table is read from 'earliest-offset'"),
        ("'error-handling.mode' = 'log'", {}, "errors='capture' and dead_letters keep bad records"),
        ("'late-handling.mode' = 'filter'", {}, "a query can drop late rows"),
        ("'kafka.consumer.isolation-level' = 'none'", {}, "one of read-committed, read-uncommitted, not 'none'"),
        ("'kafka.retention' = '1 d'", {}, "Unsupported options found for 'upsert-kafka'"),
        ("'value.fields-include' = 'some'", {}, "'SOME'"),
    ],
)  # fmt: skip
def test_what_is_refused(options: str, more: dict[str, str], error: str) -> None:
    with pytest.raises(OptionError) as caught:
        _table(options, **more)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("by", "error"),
    [
        ("DISTRIBUTED BY HASH(missing) INTO 6 BUCKETS", "'missing' of DISTRIBUTED BY does not exist"),
        ("DISTRIBUTED BY RANGE(id) INTO 6 BUCKETS", "DISTRIBUTED BY HASH, not by RANGE"),
        ("DISTRIBUTED BY HASH(id) INTO many BUCKETS", "expected a number of buckets"),
        ("DISTRIBUTED BY HASH(id) INTO 6", "expected 'BUCKETS'"),
        ("DISTRIBUTED", "expected 'INTO'"),
    ],
)  # fmt: skip
def test_mistakes_in_distributed_by(by: str, error: str) -> None:
    with pytest.raises(SchemaError, match=error):
        _table(by=by)


def test_only_tables_of_confluent_cloud_are_distributed() -> None:
    text = (
        "CREATE TABLE t (id INT) DISTRIBUTED BY HASH(id) INTO 6 BUCKETS WITH ('connector' = 'kafka', 'topic' = 't', "
        "'properties.bootstrap.servers' = 'b', 'format' = 'json')"
    )
    with pytest.raises(SchemaError, match="which only tables with 'connector' = 'confluent' are"):
        find_table(text)
    with pytest.raises(SchemaError, match=r"'\$rowtime' of the WATERMARK does not exist"):
        find_table(text.replace("(id INT)", "(id INT, WATERMARK FOR `$rowtime` AS `$rowtime`)"))


def test_the_connector_is_for_ddls() -> None:
    with pytest.raises(OptionError, match=r"unknown connector 'confluent'\. .*: kafka, upsert-kafka; in a DDL also"):
        KeyValueFormat("id INT", {"connector": "confluent", "format": "json"})
