"""Temporary views of Spark for the Kafka tables of a file of Flink SQL.

    register_tables(spark, text)    -> {"orders": KafkaTable, ...}
    spark.sql("SELECT * FROM orders")

A view is what `KafkaTable.read` returns, so each query reads the records that are there when it runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from kvformat.connectors.kafka import KafkaTable
from kvformat.registry.contract.errors import (
    ConfigurationError,
    KafkaSourceWarning,
    MissingExtraError,
    OptionError,
    SchemaError,
    add_context,
)
from kvformat.registry.contract.types import quoted
from kvformat.registry.sql.connector_options import masked
from kvformat.registry.sql.create_as_table import followed_by_table
from kvformat.registry.sql.statements import find_table, table_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class _View:
    """A table to register: the name of its view, its name for messages, and its full name in Flink SQL."""

    view: str
    name: str
    path: str


def register_tables(
    spark: SparkSession,
    text: str,
    *,
    tables: Sequence[str] | Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, KafkaTable]:
    """Make a temporary view of each Kafka table of a text of Flink SQL, and return the tables by the views' names.

    A view has the name of its table, without catalog and database. It replaces a view of the same name. `tables` are
    the tables to register, by default all; a mapping gives the name of each view. `options` replace those of every
    table, as in `KafkaTable.from_ddl`; tables with other options are registered by another call.

    A view is the batch of `KafkaTable.read`: rows of inserts, current rows, or changes with `row_kind`. Each query
    reads from the start of the table to the newest record, or to `scan.bounded.*`. Without Spark's Kafka source in the
    session, the end stays that of the view's first query, and a `KafkaSourceWarning` says so. Only offsets that `read`
    asks the brokers for are looked up by this call. Views can't be written: use `write` of the returned tables.

    Tables of other connectors, and targets of CREATE TABLE ... AS TABLE, are left out, with a `KafkaSourceWarning` that
    names them, or an error if `tables` names them. No view is made if a table can't be read: then a
    `ConfigurationError` names the table, `BrokerError` the brokers. Raises `SchemaError` for two views of one name.
    """
    if not isinstance(text, str):
        hint = ": read it, path.read_text(encoding='utf-8')" if isinstance(text, PurePath) else ""
        raise SchemaError(f"register_tables takes Flink SQL as a string, not {type(text).__name__}{hint}")
    kafka_tables, others, refused = _kafka_tables(text, _chosen(text, tables), options, leave_out=tables is None)
    names = [view.name for view in kafka_tables]
    for view, error in refused.items():
        raise _of_table(view, error, names) from error
    if not kafka_tables:
        raise SchemaError(f"the text creates no table of Kafka, only {_listed(others)}")
    if others:
        warnings.warn(f"no view for tables that are not of Kafka: {_listed(others)}", KafkaSourceWarning, stacklevel=2)
    _check_names(list(kafka_tables))
    frames = {}
    for view, table in kafka_tables.items():
        try:
            frames[view.view] = _read(spark, table)
        except MissingExtraError:  # it is not about the table
            raise
        except ConfigurationError as error:
            raise _of_table(view, error, [name for name in names if name != view.name]) from error
    for name, frame in frames.items():
        frame.createOrReplaceTempView(quoted(name))
    return {view.view: table for view, table in kafka_tables.items()}


def _read(spark: SparkSession, table: KafkaTable) -> DataFrame:
    """Return the batch of a view: by Spark's Kafka source, which reads newer records in each query, if it is there.

    The data source in Python plans its offsets once for a view, and not for each query.
    """
    try:
        return table.read(spark, source="spark")
    except MissingExtraError:
        batch = table.read(spark)
    warnings.warn(
        f"the view of table '{table.kv.name}' reads up to the records that are there at its first query, also in later "
        "queries: register the table again to read newer ones, or add Spark's Kafka source to the session",
        KafkaSourceWarning,
        stacklevel=3,
    )
    return batch


def _chosen(text: str, tables: Sequence[str] | Mapping[str, str] | None) -> list[_View]:
    """Return the tables to register, each with the name of its view; raises `SchemaError` for an unknown name."""
    if isinstance(tables, str):
        raise ConfigurationError(
            f"tables must be a list of names, or a mapping of view name to table name, not {tables!r}"
        )
    if tables is not None and not tables:
        raise ConfigurationError("tables is empty: name the tables to register, or leave it out to register all")
    if tables is None:
        pairs = [(path[-1], name, path) for name, path in table_names(text).items()]
    else:
        wanted = tables.items() if isinstance(tables, Mapping) else [(None, name) for name in tables]
        pairs = [
            (view or path[-1], name, path)
            for view, table_name in wanted
            for name, path in table_names(text, [table_name]).items()
        ]
    return [_View(view, name, ".".join(map(quoted, path))) for view, name, path in pairs]


def _kafka_tables(
    text: str, views: Sequence[_View], options: Mapping[str, Any] | None, *, leave_out: bool
) -> tuple[dict[_View, KafkaTable], dict[_View, str], dict[_View, ConfigurationError]]:
    """Return the tables of Kafka, what the other tables to leave out are, and the errors of refused tables."""
    kafka_tables: dict[_View, KafkaTable] = {}
    others: dict[_View, str] = {}
    refused: dict[_View, ConfigurationError] = {}
    following = {".".join(map(quoted, path)): source for path, source in followed_by_table(text).items()}
    for view in views:
        if leave_out and view.path in following:
            others[view] = f"follows table {following[view.path]}"
            continue
        try:
            kafka_tables[view] = KafkaTable.from_ddl(text, table=view.path, options=options)
        except ConfigurationError as error:
            if leave_out and isinstance(error, OptionError) and error.option == "connector":
                connector = find_table(text, view.path).options.get("connector")
                others[view] = f"connector '{masked('connector', connector)}'" if connector else "no connector"
            else:
                refused[view] = error
    return kafka_tables, others, refused


def _check_names(views: Sequence[_View]) -> None:
    """Raise `SchemaError` for two views of one name; Spark ignores the case of names."""
    seen: dict[str, _View] = {}
    for view in views:
        other = seen.setdefault(view.view.lower(), view)
        if other is not view:
            names = {each.name.replace(".", "_"): each.name for each in (other, view)}
            raise SchemaError(
                f"tables '{other.name}' and '{view.name}' would both be the view '{view.view}': name the views, "
                f"tables={names!r}",
                field=view.name,
            )


def _of_table(view: _View, error: ConfigurationError, others: Sequence[str]) -> ConfigurationError:
    """Return the error with the name of its table, and with how to register the others."""
    instead = f". To register the others: tables={list(others)!r}" if others else ""
    return add_context(error, "", f"\nThis is why table '{view.name}' can't be registered{instead}")


def _listed(others: Mapping[_View, str]) -> str:
    return ", ".join(f"{view.name} ({what})" for view, what in others.items())
