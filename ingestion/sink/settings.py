"""How the Kafka sink writes records, from its options.

Rules: Flink CDC's `KafkaDataSinkOptions`, `KafkaDataSinkFactory` and `KafkaSinkUtils`; Ververica's "Kafka connector"
page for `emit.full-table-id.enabled`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from kvformat.codecs._json.settings import TIMESTAMP_OPTION, WRITE_OPTIONS, WriteSettings
from kvformat.ingestion.routes import Selector
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.registry.contract.errors import OptionError, did_you_mean, listed
from kvformat.registry.contract.options import Option

_MAPPING, _HEADERS = "sink.tableId-to-topic.mapping", "sink.custom-header"
_OPTIONS = (
    Option(name="topic"),
    Option(name=_MAPPING, default=""),
    Option(name="partition.strategy", type="enum", default="all-to-zero", allowed=("all-to-zero", "hash-by-key")),
    Option(name="key.format", type="enum", default="json", allowed=("json", "csv")),
    Option(name="value.format", type="enum", default="debezium-json", allowed=("debezium-json", "canal-json")),
    Option(name="sink.add-tableId-to-header-enabled", type="boolean", default=False),
    Option(name=_HEADERS, default=""),
    Option(
        name="sink.delivery-guarantee",
        type="enum",
        default="at-least-once",
        allowed=("none", "at-least-once", "exactly-once"),
    ),
)
_DEBEZIUM_OPTIONS = (
    Option(name="include-schema.enabled", type="boolean", default=False),
    Option(name="emit.full-table-id.enabled", type="boolean", default=False),
)
_FORMATS = ("json", "csv", "debezium-json", "canal-json")


@dataclass(frozen=True)
class SinkSettings:
    """How records are written.

    key_format, value_format: `json` or `csv`; `debezium-json` or `canal-json`.
    key, value: settings of the JSON of keys and values.
    include_schema: whether a schema of Kafka Connect is beside the payload.
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
    full_table_id: bool = False
    topic: str | None = None
    topics: tuple[tuple[Selector, str], ...] = ()
    all_to_zero: bool = True
    table_headers: bool = False
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any],
        topics: Sequence[tuple[Sequence[str], str]] = (),
        headers: Sequence[tuple[str, str]] = (),
    ) -> Self:
        """Take the settings from parsed options.

        `values` has the options by name, those of the formats with the format's name in front. `topics` has patterns
        and the topic of each group of patterns, `headers` names and values. Raises `OptionError` for a pattern that is
        not one.
        """
        key, value = values["key.format"], values["value.format"]
        return cls(
            key_format=key,
            value_format=value,
            key=_json_settings(values, "json") if key == "json" else WriteSettings(),
            value=_json_settings(values, value),
            include_schema=values.get("debezium-json.include-schema.enabled", False),
            full_table_id=values.get("debezium-json.emit.full-table-id.enabled", False),
            topic=values["topic"] or None,
            topics=tuple((Selector(",".join(patterns), _MAPPING), topic) for patterns, topic in topics),
            all_to_zero=values["partition.strategy"] == "all-to-zero",
            table_headers=values["sink.add-tableId-to-header-enabled"],
            headers=tuple(headers),
        )

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Take the settings from the texts of options. Raises `OptionError`.

        As in Flink CDC, options of a format that is not used have no effect, and neither have unknown options of a
        format.
        """
        prefixes = tuple(f"{format}." for format in _FORMATS)
        known = {spec.name for spec in _OPTIONS}
        for name in options:
            if name not in known and not name.startswith((*prefixes, "properties.")):
                raise OptionError(
                    f"the sink 'kafka' has no option {name!r}.{did_you_mean(name, known)} Options: {listed(known)}",
                    option=name,
                )
        values = {spec.name: _parsed(spec, spec.name, options) for spec in _OPTIONS}
        formats: dict[str, tuple[Option, ...]] = {values["value.format"]: (TIMESTAMP_OPTION, *WRITE_OPTIONS)}
        if values["value.format"] == "debezium-json":
            formats["debezium-json"] += _DEBEZIUM_OPTIONS
        if values["key.format"] == "json":
            formats["json"] = (TIMESTAMP_OPTION, *WRITE_OPTIONS)
        for format, specs in formats.items():
            values |= {f"{format}.{spec.name}": _parsed(spec, f"{format}.{spec.name}", options) for spec in specs}
        topics = [((tables,), topic) for tables, topic in _pairs(_MAPPING, values[_MAPPING])]
        return cls.of(values, topics, _pairs(_HEADERS, values[_HEADERS]))

    def topic_of(self, table: TableId) -> str:
        """Return the topic of a table: `topic`, the first mapping that matches, or the table's name."""
        if self.topic is not None:
            return self.topic
        return next((topic for selector, topic in self.topics if selector.matches(table)), str(table))

    def headers_of(self, table: TableId) -> tuple[tuple[str, bytes], ...]:
        """Return the headers of a table's records."""
        parts = {"namespace": table.namespace, "schemaName": table.schema, "tableName": table.table}
        pairs = (*(parts.items() if self.table_headers else ()), *self.headers)
        return tuple((name, (value or "").encode()) for name, value in pairs)

    @property
    def partition(self) -> int | None:
        """The partition of all records, or None if the producer hashes the key."""
        return 0 if self.all_to_zero else None


def _json_settings(values: Mapping[str, Any], format: str) -> WriteSettings:
    prefix = f"{format}."
    settings = WriteSettings.of({key.removeprefix(prefix): v for key, v in values.items() if key.startswith(prefix)})
    return replace(settings, trimmed_decimals=True)  # as Flink 1.20, on which Flink CDC runs


def _parsed(spec: Option, name: str, options: Mapping[str, str]) -> Any:
    if name not in options:
        return spec.default
    try:
        return spec.parse(options[name])
    except ValueError as cause:
        raise OptionError(
            f"{spec.shown(options[name])} is not a value of the option '{name}': {cause}", option=name
        ) from cause


def _pairs(option: str, text: str) -> list[tuple[str, str]]:
    """Split `a:b;c:d` into pairs, without spaces around each. Any number of `;` at the end is fine."""
    pairs = []
    for entry in text.rstrip(";").split(";") if text.rstrip(";") else []:
        name, _, value = (piece.strip() for piece in entry.partition(":"))
        if not (name and value) or ":" in value:
            raise OptionError(
                f"'{option}' has the entry {entry!r}; an entry is two texts with one ':' between them, and a ';' "
                "separates entries",
                option=option,
            )
        pairs.append((name, value))
    return pairs
