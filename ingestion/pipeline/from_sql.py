"""The pipelines of a job of CREATE TABLE ... AS TABLE statements, as blocks like those of a YAML text.

    CREATE TABLE orders (id BIGINT, ...) WITH ('connector' = 'kafka', ...)       source: its options and columns
    CREATE TABLE lake.shop.orders WITH ('connector' = 'delta')                   sink; a route to shop.orders
    AS TABLE orders ADD COLUMN total AS price * amount                           transform, in Flink SQL

A query follows one Kafka table. Statements that follow the same table are one pipeline, if it can serve all of them.
Rules: the pages "CREATE TABLE AS (CTAS)" and "Kafka connector" of Ververica.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kvformat.ingestion.pipeline.options import PIPELINE_OPTIONS
from kvformat.ingestion.pipeline.sink import OTHER_SINKS
from kvformat.ingestion.pipeline.yaml import MASK, Document, Secret, Value, with_variables
from kvformat.ingestion.targets.discovery import GROUP, available_targets
from kvformat.registry.contract.errors import ConfigurationError, OptionError, SchemaError, did_you_mean
from kvformat.registry.contract.types import quoted
from kvformat.registry.sql.column_list import column_list_text
from kvformat.registry.sql.connector_options import CONFLUENT, KAFKA, UPSERT_KAFKA, masked
from kvformat.registry.sql.create_as_table import CreateAsTable, FollowedTable, SqlJob, read_job

_EACH_TABLE, _WHOLE_NAME = r"\.*.\.*.\.*", r"\.*"  # the selector and the pattern that match all tables
_OF_CATALOGS = ("delta", "iceberg")
_LISTS = ("include.schema.changes", "exclude.schema.changes")
_MOST_PARTS = 3  # parts of a target's name: catalog, database, table
_SETTINGS = {
    "pipeline.name": "name",
    "table.local-time-zone": "local-time-zone",
    "parallelism.default": "parallelism",
    "execution.runtime-mode": "execution.runtime-mode",
}
"""Settings of Flink and those of a pipeline that mean the same."""
_OF_FLINK = re.compile(
    r"(akka|classloader|cluster|env|execution|fs|heartbeat|high-availability|jobmanager|kubernetes|metrics|oss|parallelism|"
    r"pekko|pipeline|process|python|rest|restart-strategy|s3|security|sql-client|state|table|task|taskmanager|web|yarn)\b"
)
_NOT_IN_SQL = ("type", "name", "table.columns")  # options of a source in YAML that the statement itself says
_NOT_OF_FOLDERS = re.compile(r"[^A-Za-z0-9_.-]")
_WHAT_TO_WRITE = (
    "Write 'connector' = 'delta' or 'iceberg' for a table of a Spark catalog, or 'path' = '...' for a Delta table "
    "below a folder"
)


def sql_documents(text: str, variables: Mapping[str, Any] | None = None) -> dict[str, Document]:
    """Return the blocks of each pipeline of a job, by the name of the table that it follows.

    `variables` are the values of `${name}` in options and settings, as in YAML. Raises `ConfigurationError` with line
    and column.
    """
    return _JobDocuments(read_job(text), variables or {}).documents()


def checkpoint_folder(checkpoint: str, source: str) -> str:
    """Return the folder of a query's checkpoint below that of a job. `source` is the table that the query follows."""
    name = _NOT_OF_FOLDERS.sub(lambda character: f"={ord(character[0]):x}=", source)
    return f"{checkpoint.rstrip('/')}/{name}"


class _JobDocuments:
    """The documents of a job. `_settings` is the block `pipeline`."""

    def __init__(self, job: SqlJob, variables: Mapping[str, Any]) -> None:
        self._job, self._variables = job, variables
        self._notes = [*job.notes]
        self._settings: dict[str, Value] = {}
        self._places: dict[tuple[str, str], str] = {}
        for key, value in job.settings.items():
            self._set(key, value)

    def _set(self, key: str, value: str) -> None:
        """Note a setting, as one of the pipeline or as one without an effect."""
        place = self._job.places[key]
        names = [spec.name for spec in PIPELINE_OPTIONS]
        name = _SETTINGS.get(key, key)
        if name == "local-time-zone" and value == "default":
            return
        if name in names:
            self._settings[name] = with_variables(value, self._variables, place)
            self._places["pipeline", name] = place
        elif _OF_FLINK.match(key):
            interval = "; 'trigger' sets the time between batches" if key == "execution.checkpointing.interval" else ""
            self._notes.append(f"SET '{key}' ({place}) has no effect on Spark{interval}")
        else:
            raise OptionError(
                f"SET: there is no setting '{key}'.{did_you_mean(key, [*names, *_SETTINGS])} Settings of a pipeline: "
                f"{', '.join(names)} ({place})",
                option=key,
            )

    def documents(self) -> dict[str, Document]:
        groups: dict[str, list[CreateAsTable]] = {}
        targets: dict[tuple[str, ...], CreateAsTable] = {}
        for table in self._job.tables:
            name, other = table.source.table.name, targets.setdefault(table.name, table)
            if other is not table:
                raise SchemaError(
                    f"{_shown(other)} is created again at line {table.line}: a table belongs to one query"
                )
            group = groups.setdefault(name, [])
            if group and group[0].source.places[""] != table.source.places[""]:
                raise SchemaError(
                    f"two tables that are followed have the name '{name}' ({group[0].source.places['']}, and "
                    f"{table.source.places['']}): give one of them another name"
                )
            group.append(table)
        return {name: self._document(name, tables, several=len(groups) > 1) for name, tables in groups.items()}

    def _document(self, name: str, tables: Sequence[CreateAsTable], *, several: bool) -> Document:
        first = _Statement(tables[0], self._variables)
        routes = [first.route()]
        for table in tables[1:]:
            other = _Statement(table, self._variables)
            unlike = first.difference(other)
            if unlike:
                parts = name.split(".")
                base, copy = (".".join(map(quoted, [*parts[:-1], parts[-1] + end])) for end in ("", "_2"))
                raise ConfigurationError(
                    f"{_shown(tables[0])} and {_shown(table)} follow the same table '{name}', but differ in {unlike}, "
                    "and one query has one of it. Write them into two files, or let one follow a table of its own: "
                    f"CREATE TABLE {copy} LIKE {base}"
                )
            routes.append(other.route())
            first.notes += other.own_notes
        settings = dict(self._settings)
        checkpoint = settings.get("checkpoint")
        if isinstance(checkpoint, str) and not isinstance(checkpoint, Secret):  # a secret is an error of the setting
            settings["checkpoint"] = checkpoint_folder(checkpoint, name)
        if several and "name" in settings:
            settings["name"] = f"{settings['name']} {name}"
        blocks: dict[str, Any] = {
            "source": first.source,
            "sink": first.sink,
            "transform": first.transform(),
            "route": routes,
            "pipeline": settings,
        }
        notes = (*self._notes, *first.notes)
        return Document(blocks, tuple(notes), {**self._places, **first.places}, first.refused)


class _Statement:
    """The blocks of one statement. `places` and `refused` are those of `Document`, `own_notes` are on the target."""

    def __init__(self, statement: CreateAsTable, variables: Mapping[str, Any]) -> None:
        self._statement, self._variables = statement, variables
        self.places: dict[tuple[str, str], str] = {}
        self.refused: dict[tuple[str, str], str] = {}
        self.own_notes = [*statement.notes]
        self.notes: list[str] = []
        self.source = self._source(statement.source)
        self._parts = statement.name
        self.sink = self._sink()
        self.notes += self.own_notes

    def difference(self, other: _Statement) -> str:
        """Return the clause in which two statements differ that one query can't serve, "" if there is none."""
        mine, its = self._statement, other._statement
        clauses = {
            "the hint OPTIONS": (self.source, other.source),
            "WITH": (self.sink, other.sink),
            "PRIMARY KEY": (mine.primary_key, its.primary_key),
            "PARTITIONED BY": (mine.partition_keys, its.partition_keys),
            "ADD COLUMN": (self._projection(), other._projection()),
        }
        return next((clause for clause, (first, second) in clauses.items() if first != second), "")

    # --- source ------------------------------------------------------------------------------------------------

    def _source(self, followed: FollowedTable) -> dict[str, str]:
        """Return the block `source`."""
        table, options = followed.table, dict(followed.table.options)
        where = f"table '{table.name}'"
        self._check_connector(where, options.pop("connector", None), followed.places)
        block = {"type": KAFKA, "name": table.name}
        formats = {key: options.pop(key) for key in ("format", "value.format") if key in options}
        if len(set(formats.values())) != 1:
            why = "has no 'format'" if not formats else "has a 'format' and another 'value.format'; write one"
            raise OptionError(f"{where} {why}{_at(followed.places, *formats)}", option="format")
        for key, text in options.items():
            if key in _NOT_IN_SQL:
                raise OptionError(f"{where}: there is no option '{key}'{_at(followed.places, key)}", option=key)
            if key.startswith("sink."):
                self.notes.append(f"{where}: no effect: '{key}', because the table is only read")
            else:
                block[key] = self._value(key, text, followed.places)
        block["value.format"] = self._value("value.format", next(iter(formats.values())), {"value.format": ""})
        columns = [column for column in table.columns if column.kind != "computed"]
        if columns:
            block["table.columns"] = column_list_text(columns)
        for clause, value in {
            "WATERMARK": table.watermark,
            "PARTITIONED BY": table.partition_keys,
            "DISTRIBUTED": table.distribution,
        }.items():
            if value:
                self.notes.append(f"{where}: no effect: {clause}, because the rows are written as they come")
        self.places |= {("source", key): place for key, place in followed.places.items()}
        self.places["source", "value.format"] = next(followed.places.get(key, "") for key in formats)
        self.places["source", "type"] = followed.places.get("connector", followed.places[""])
        for column in table.columns:
            if column.refused:
                self.refused["transform", column.name] = f"{where}: column '{column.name}': {column.refused}"
        return block

    def _check_connector(self, where: str, connector: str | None, places: Mapping[str, str]) -> None:
        if connector == KAFKA:
            return
        at = _at(places, "connector")
        if connector is None:
            raise OptionError(f"{where} has no 'connector'; it is 'kafka'{at}", option="connector")
        shown = masked("connector", connector)
        why = "run Debezium or Flink CDC into Kafka, and follow a Kafka table of that topic"
        if connector == UPSERT_KAFKA:
            why = "KafkaTable.maintain keeps a table of its rows; with 'connector' = 'kafka', each record becomes a row"
        elif connector == CONFLUENT:
            why = "write it as a table with 'connector' = 'kafka'"
        raise OptionError(
            f"{where} has the connector '{shown}', and only a table of 'kafka' can be followed: {why}{at}",
            option="connector",
        )

    def _value(self, key: str, text: str, places: Mapping[str, str]) -> str:
        """Return the value of an option with its variables replaced, as a `Secret` if its name or content says so."""
        value = with_variables(text, self._variables, places.get(key) or places.get("", ""))
        if isinstance(value, Secret):
            return value
        return Secret(value) if masked(key, value) == MASK else value

    # --- sink --------------------------------------------------------------------------------------------------

    def _sink(self) -> dict[str, Any]:
        """Return the block `sink`. A name of three parts begins with the catalog, if the target has catalogs."""
        statement, places = self._statement, self._statement.places
        shown = ".".join(statement.name)
        block: dict[str, Any] = {key: self._value(key, text, places) for key, text in statement.options.items()}
        for key in _LISTS:
            if key in block:
                of_key = type(block[key])  # the entries of a secret are secrets
                block[key] = [of_key(entry.strip()) for entry in re.split("[,;]", block[key])]
        if "type" in block:
            raise OptionError(f"table '{shown}': there is no option 'type'; it is 'connector'{_at(places, 'type')}")
        if "connector" not in block and "path" not in block:
            at = _at(places, "")
            raise OptionError(f"table '{shown}' has no 'connector'. {_WHAT_TO_WRITE}{at}", option="connector")
        connector = block.pop("connector", "delta")
        kind = str(connector).lower()
        self.places |= {("sink", key): place for key, place in places.items()}
        self.places["sink", "type"] = places.get("connector", places[""])
        known = available_targets()
        if kind not in known:
            why = (
                f"the connector '{masked('connector', connector)}' of table '{shown}' is not supported here"
                f"{_at(places, 'connector')}.{did_you_mean(kind, known)} Connectors: {', '.join(known)}. "
                f"{_WHAT_TO_WRITE}. Other targets can be added with an entry point of the group '{GROUP}'"
            )
            if kind not in OTHER_SINKS:
                raise OptionError(why, option="connector")
            self.refused["sink", "type"] = why
        if any("." in part for part in statement.name) or len(statement.name) > _MOST_PARTS:
            raise SchemaError(
                f"table '{shown}': a target has a name of at most three parts, and no part has a dot{_at(places, '')}"
            )
        if (
            kind in _OF_CATALOGS
            and "path" not in block
            and len(statement.name) == _MOST_PARTS
            and "catalog" not in block
        ):
            block["catalog"] = statement.name[0]
            self._parts = statement.name[1:]
        return {"type": kind, **block}

    def route(self) -> dict[str, str]:
        """Return the rule of the block `route`: all tables of the messages lead to the target."""
        name = ".".join(self._parts).replace("\\", "\\\\").replace("$", "\\$")
        return {"source-table": _WHOLE_NAME, "sink-table": name}

    # --- transform ---------------------------------------------------------------------------------------------

    def transform(self) -> list[dict[str, str]]:
        """Return the block `transform`, without a rule if there is nothing to do."""
        statement = self._statement
        rule = {"description": statement.comment} if statement.comment else {}
        projection = self._projection()
        if projection:
            rule |= {"dialect": "flink", "projection": projection}
        for key, names in (("primary-keys", statement.primary_key), ("partition-keys", statement.partition_keys)):
            comma = next((name for name in names if "," in name), None)
            if comma is not None:
                raise SchemaError(f"column '{comma}': a key column can't have a comma in its name")
            if names:
                rule[key] = ", ".join(map(quoted, names))
        return [{"source-table": _EACH_TABLE, **rule}] if rule else []

    def _projection(self) -> str:
        """Return the SELECT list: the declared columns in their order, all others, then the added ones."""
        table, added = self._statement.source.table, self._statement.added
        texts = {column.name: quoted(column.name) for column in table.columns}
        texts |= {column.name: column.source for column in table.columns if column.kind == "computed"}
        texts |= {column.name: column.expression.source for column in added}
        if all(text == quoted(name) for name, text in texts.items()):
            return ""
        order = [*(column.name for column in table.columns), ""]
        for column in added:
            at = 0 if column.first else order.index(column.after) + 1 if column.after else len(order)
            order.insert(at, column.name)
            if column.expression.refused:
                why = f"column '{column.name}' of ADD COLUMN: {column.expression.refused}"
                self.refused["transform", column.name] = why
        items = [
            "*" if not name else texts[name] if texts[name] == quoted(name) else f"{texts[name]} AS {quoted(name)}"
            for name in order
            if ("transform", name) not in self.refused
        ]
        return ", ".join(items)


def _shown(table: CreateAsTable) -> str:
    return f"table '{'.'.join(table.name)}' (line {table.line})"


def _at(places: Mapping[str, str], *keys: str) -> str:
    """Return the place of the first of these options that has one, in brackets; otherwise that of the table."""
    place = next((places[key] for key in keys if places.get(key)), places.get("", ""))
    return f" ({place})" if place else ""
