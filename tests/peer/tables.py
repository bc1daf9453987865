"""Tables that both Flink and kvformat write and read, and random rows and changes for them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvformat.registry.contract.types import FlinkType
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.sql.table_definition import TableDefinition
from tests.support.interop import Row, row_type
from tests.support.random_rows import rows
from tests.support.vectors import from_arrow

_ALL = (
    "flag BOOLEAN, tiny TINYINT, small SMALLINT, n INT, many BIGINT, ratio DOUBLE, part FLOAT, amount DECIMAL(18, 4), "
    "name STRING, data BYTES, born DATE, clock TIME(0), ts TIMESTAMP(3), moment TIMESTAMP_LTZ(3)"
)
_AVRO = _ALL.replace("moment TIMESTAMP_LTZ(3)", "tail STRING")  # Flink's avro supports it only with an option
_NESTED = "names ARRAY<STRING>, counts MAP<STRING, INT>, place ROW<city STRING, codes ARRAY<INT>>"
_GOODS = (
    "shop STRING NOT NULL, id INT NOT NULL, name STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3), tags ARRAY<STRING>"
)
_PREFIXED = "k_shop STRING NOT NULL, k_id INT NOT NULL, id BIGINT, name STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3)"
_EXCEPT = {"value.fields-include": "EXCEPT_KEY"}
_PREFIX = {"key.fields-prefix": "k_", **_EXCEPT}
_NULL = {"key.csv.null-literal": "\\N", "value.csv.null-literal": "\\N"}


def _both(key: str, value: str, **options: str) -> dict[str, str]:
    """Return the options of the formats of key and value, with the registry of avro-confluent."""
    urls = {
        f"{part}.avro-confluent.url": "{registry}"
        for part, name in (("key", key), ("value", value))
        if name == "avro-confluent"
    }
    return {"key.format": key, "value.format": value, **urls, **options}


@dataclass(frozen=True)
class Table:
    """A table that both sides declare. `changes`: whether it has updates and deletes, by `key`."""

    name: str
    columns: str
    options: Mapping[str, str]
    key: tuple[str, ...] = ()
    changes: bool = False
    metadata: str = ""
    suffixes: tuple[str, ...] = ("",)
    """Suffixes of the names of its topics."""
    connector: str = "kafka"

    def topics(self, writer: str) -> list[str]:
        return [f"{self.name}.{writer}{suffix}" for suffix in self.suffixes]

    def ddl(self, writer: str, services: Mapping[str, str]) -> str:
        """Return the CREATE TABLE. The table has the name of the first topic."""
        options = {
            "connector": self.connector,
            "topic": ";".join(self.topics(writer)),
            "properties.bootstrap.servers": services["bootstrap"],
            "scan.bounded.mode": "latest-offset",
            **({} if self.connector == "upsert-kafka" else {"scan.startup.mode": "earliest-offset"}),
            **{name: value.replace("{registry}", services["registry"]) for name, value in self.options.items()},
        }
        if self.key and self.connector != "upsert-kafka" and "key.format" in options:
            options["key.fields"] = ";".join(self.key)
        key = f", PRIMARY KEY ({', '.join(self.key)}) NOT ENFORCED" if self.connector == "upsert-kafka" else ""
        columns = self.columns + (f", {self.metadata}" if self.metadata else "") + key
        given = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
        return f"CREATE TABLE `{self.name}.{writer}` ({columns}) WITH ({given})"

    def source_ddl(self, services: Mapping[str, str]) -> str:
        """Return a table with the same columns, which contains the rows that Flink writes."""
        columns = [f"`{f.name}` {f.type}" for f in self.written.fields]
        columns += [f"PRIMARY KEY ({', '.join(self.key)}) NOT ENFORCED"] * self.changes
        return (
            f"CREATE TABLE `{self.name}.source` ({', '.join(columns)}) WITH ('connector' = 'kafka', "
            f"'topic' = '{self.name}.source', 'properties.bootstrap.servers' = '{services['bootstrap']}', "
            "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', "
            f"'format' = '{'debezium-json' if self.changes else 'json'}')"
        )

    @property
    def definition(self) -> TableDefinition:
        return parse_create_table(self.ddl("any", {"bootstrap": "", "registry": ""}))

    @property
    def written(self) -> FlinkType:
        """The written columns as a ROW."""
        return row_type(self.definition, virtual=False)

    @property
    def read(self) -> FlinkType:
        """The read columns as a ROW."""
        return row_type(self.definition)

    def rows(self, seed: int, count: int) -> list[Row]:
        """Return `count` random rows or consistent changes."""
        rng = random.Random(f"{self.name} {seed}")
        row = self.written
        made = iter(self._filled(rng, row, tuple(from_arrow(value, row))) for value in rows(rng, row, 2 * count))
        if not self.changes:
            return [("+I", next(made)) for _ in range(count)]
        found: list[Row] = []
        for change in self._changes(rng, made):
            found += change
            if len(found) >= count:
                return found
        raise AssertionError("there are enough rows")

    def _changes(self, rng: random.Random, made: Iterator[tuple[Any, ...]]) -> Iterator[list[Row]]:
        """Return inserts, updates and deletes of some keys."""
        places = [i for i, field in enumerate(self.written.fields) if field.name in self.key]
        keys = {tuple(row[i] for i in places): None for row in (next(made) for _ in range(40))}
        known: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for row in made:
            key = rng.choice(list(keys))
            values = dict(zip(places, key, strict=True))
            new = tuple(values.get(i, value) for i, value in enumerate(row))
            if key not in known:
                yield [("+I", known.setdefault(key, new))]
            elif rng.random() < 0.25:
                yield [("-D", known.pop(key))]
            elif new != known[key]:
                yield [("-U", known[key]), ("+U", new)]
                known[key] = new

    def _filled(self, rng: random.Random, row: FlinkType, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a random row with valid values for NOT NULL columns, topics and current times.

        Maps have one entry, because Flink writes several in the order of a HashMap. Its value is not null, because
        Flink's sink omits headers without a value.
        """
        found: list[Any] = []
        for column, value in zip(row.fields, values, strict=True):
            if column.name == "topic_":
                topics = self.topics("flink")
                value = topics[len(found) % len(topics)] if value is None else topics[len(value) % len(topics)]
            elif column.name == "headers_" and value is None:
                value = []  # a NULL is read as this value
            elif value is None and not column.type.nullable:
                value = 0 if column.type.root == "INT" else "none"
            elif column.type.root == "MAP" and value is not None:
                value = [(name, data) for name, data in value if data is not None][:1]
            elif column.type.root == "FLOAT" and value is not None:
                value = rng.randrange(-(2**20), 2**20) / 4
            elif column.name == "timestamp_":
                value = 10**15 if value is None else abs(value) % 10**15
            found.append(value)
        return tuple(found)


TABLES = (
    Table("json_all_types", f"{_ALL}, {_NESTED}", _both("json", "json"), ("name", "n")),
    Table("csv_prefix", f"k_name STRING, k_n INT, {_ALL}", _both("csv", "csv", **_NULL, **_PREFIX), ("k_n", "k_name")),
    Table("raw_key_avro", f"k_name STRING NOT NULL, {_AVRO}, {_NESTED}", _both("raw", "avro", **_EXCEPT), ("k_name",)),
    Table("avro_composite", f"{_AVRO}, {_NESTED}", _both("avro", "avro"), ("many", "name", "born")),
    Table(
        "registry_prefix",
        f"k_id INT, k_name STRING, {_AVRO}, {_NESTED}",
        _both("avro-confluent", "avro-confluent", **_PREFIX),
        ("k_id", "k_name"),
    ),
    Table("raw_value", "payload BYTES", {"format": "raw"}),
    Table(
        "metadata",
        "id INT, name STRING",
        _both("json", "json"),
        ("id",),
        metadata="headers_ MAP<STRING, BYTES> METADATA FROM 'headers', timestamp_ TIMESTAMP_LTZ(3) METADATA FROM "
        "'timestamp', topic_ STRING METADATA FROM 'topic', partition_ INT METADATA FROM 'partition' VIRTUAL, "
        "offset_ BIGINT METADATA FROM 'offset' VIRTUAL",
        suffixes=(".a", ".b"),
    ),
    Table("debezium", _GOODS, _both("json", "debezium-json"), ("shop", "id"), changes=True),
    # Flink cannot read a NUL at the beginning of a line that it has written, so the number is the first column.
    Table("canal", _GOODS, _both("csv", "canal-json"), ("id", "shop"), changes=True),
    Table("maxwell", _PREFIXED, _both("avro", "maxwell-json", **_PREFIX), ("k_shop", "k_id"), changes=True),
    Table("ogg", _GOODS, _both("raw", "ogg-json"), ("shop",), changes=True),
    Table("upsert_json", _GOODS, _both("json", "json"), ("shop", "id"), changes=True, connector="upsert-kafka"),
    Table(
        "upsert_csv_avro",
        _PREFIXED,
        _both("csv", "avro", **_PREFIX),
        ("k_id", "k_shop"),
        changes=True,
        connector="upsert-kafka",
    ),
    Table(
        "upsert_registry",
        _GOODS,
        _both("avro-confluent", "avro-confluent"),
        ("shop", "id"),
        changes=True,
        connector="upsert-kafka",
    ),
    Table(
        "upsert_raw_registry",
        _GOODS,
        _both("raw", "avro-confluent", **_EXCEPT),
        ("shop",),
        changes=True,
        connector="upsert-kafka",
    ),
)
