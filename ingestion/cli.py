"""`kvformat ingest` and `kvformat schemas`: run a pipeline, and show what it knows of its tables.

`ingest` starts Spark, or uses the session of `spark-submit` or of a Spark Connect server (`SPARK_REMOTE`); so does
`schemas` for a checkpoint that is not on this machine. `ingest --explain` starts nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from kvformat.connectors.cli._output import json_option, note, show, table, tell, write_json
from kvformat.connectors.cli._progress import progress
from kvformat.connectors.cli._table import FILE
from kvformat.ingestion.errors import SchemaChangeError
from kvformat.ingestion.pipeline.from_sql import checkpoint_folder
from kvformat.ingestion.pipeline.pipeline import Pipeline
from kvformat.ingestion.schemas import events
from kvformat.ingestion.schemas.known import IngestState
from kvformat.ingestion.schemas.state import CausedEvent
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import TableSchema
from kvformat.registry.contract.errors import ConfigurationError, SchemaError, did_you_mean, listed
from kvformat.registry.contract.types import quoted
from kvformat.registry.streams.foreach_batch import own_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kvformat.connectors.batch_progress import BatchProgress
    from kvformat.ingestion.store import SchemaStore

_F = TypeVar("_F", bound=Callable[..., Any])
_OF_SQL, _OF_YAML = (".sql", ".ddl", ".hql"), (".yaml", ".yml")
_SQL = re.compile(
    r"(?:\s|--[^\n]*\n|//[^\n]*\n|/\*.*?\*/)*(?:CREATE|SET|USE|BEGIN|EXECUTE|DROP)\s", re.IGNORECASE | re.DOTALL
)
"""The beginning of a text of SQL, if the name of its file does not tell."""
_LONGEST_WAIT = 10.0  # seconds for the progress of the last batches, after the queries have ended
_REMOTE = "SPARK_REMOTE"
_ELSEWHERE = (_REMOTE, "SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR")
"""Variables of the environment that can make a path one of another machine or file system."""


def _conf_option(function: _F) -> _F:
    return click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of the Spark session; may be repeated."
    )(function)


# --- ingest ----------------------------------------------------------------------------------------------------


@click.command()
@click.argument("file", type=FILE, metavar="PIPELINE.yaml|JOB.sql")
@click.option("--checkpoint", metavar="DIR", help="The query's checkpoint. Default: 'checkpoint' of the pipeline.")
@click.option("--once", is_flag=True, help="Ingest what is there, then stop.")
@click.option("--set", "variables", multiple=True, metavar="NAME=VALUE", help="A value of ${NAME}; may be repeated.")
@click.option("--table", metavar="NAME", help="Of a job, only the query that follows this Kafka table.")
@_conf_option
@click.option("--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="An endpoint for Prometheus.")
@click.option("--metrics-file", metavar="FILE.prom", help="A file with metrics for Prometheus's node_exporter.")
@click.option("--statsd", metavar="HOST:PORT", help="A StatsD server that gets the metrics.")
@click.option("--explain", "only_explain", is_flag=True, help="Describe the pipeline; start nothing.")
@json_option("Errors and the description as lines of JSON.")
def ingest_command(
    file: Path,
    checkpoint: str | None,
    once: bool,
    variables: tuple[str, ...],
    table: str | None,
    conf: tuple[str, ...],
    metrics_port: int | None,
    metrics_file: str | None,
    statsd: str | None,
    only_explain: bool,
    as_json: bool,
) -> None:
    """Run the pipeline of a YAML file, as Flink CDC writes it, or a job of Flink SQL, until it is interrupted.

    A job has CREATE TABLE ... AS TABLE statements. It is a query for each Kafka table that they follow, with a folder
    of this name below the checkpoint. `-` is stdin. Values of ${name} that are not given by --set come from the
    environment. Secrets belong there: other users can see the arguments of a process. The progress of its batches goes
    to stderr. With --explain, asks no broker and starts no Spark; the exit status is 2 if the pipeline can't be
    started.
    """
    pipelines = _pipelines(file, _pairs("--set", variables), table)
    if only_explain:
        _explain(pipelines, as_json)
    folders = {name: _checkpoint(name, pipeline, checkpoint) for name, pipeline in pipelines.items()}
    for name, pipeline in pipelines.items():
        if pipeline.refused:
            which = f" that follows '{name}'" if len(pipelines) > 1 else ""
            raise ConfigurationError(f"the pipeline{which} can't be started: {'; '.join(pipeline.refused)}")
    settings = _pairs("--conf", conf)
    for text in dict.fromkeys(text for pipeline in pipelines.values() for text in pipeline.notes):
        note(text)
    spark = _session(settings)
    trigger = {"availableNow": True} if once else None
    queries: dict[str, StreamingQuery] = {}
    spark.streams.resetTerminated()  # of earlier queries of this session
    with _exporting(spark, metrics_port, metrics_file, statsd), _telling(spark, as_json=as_json):
        try:
            for name, pipeline in pipelines.items():
                queries[name] = pipeline.start(spark, checkpoint_location=folders[name], trigger=trigger)
            _await(spark, list(queries.values()))
        finally:
            for query in queries.values():
                query.stop()
    for name, query in queries.items():
        progress = query.lastProgress
        which = f" that follows '{name}'" if len(queries) > 1 else ""
        note(f"the query{which} has stopped" + (f" after batch {progress['batchId']}" if progress else ""))


@contextlib.contextmanager
def _telling(spark: SparkSession, *, as_json: bool) -> Iterator[None]:
    """Write the log of the library to stderr, with the progress of the session's queries."""
    from kvformat.connectors.progress import ProgressListener

    logger, handler = logging.getLogger("kvformat"), _LogHandler(as_json=as_json)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(level or logging.INFO, logging.INFO))
    read: dict[str, int] = {}
    waiting: dict[str, int] = {}
    with progress("ingesting", None, "records") as bar:

        def show(batch: BatchProgress) -> None:
            read[batch.query] = read.get(batch.query, 0) + batch.records
            if batch.lag is not None and not batch.lag.unknown:
                waiting[batch.query] = sum(batch.lag.partitions.values())
            total = sum(read.values())
            bar.to(total, total=total + sum(waiting.values()) if waiting else None)

        listener = ProgressListener(told=show)
        spark.streams.addListener(listener)
        try:
            yield
        finally:
            listener.await_ends(_LONGEST_WAIT)
            spark.streams.removeListener(listener)
            logger.setLevel(level)
            logger.removeHandler(handler)


class _LogHandler(logging.Handler):
    """Writes lines of a log to stderr, without the errors of failed queries, which the command raises."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(logging.INFO)
        self._as_json = as_json
        self.addFilter(lambda record: (record.name, record.levelno) != ("kvformat.progress", logging.ERROR))

    def emit(self, record: logging.LogRecord) -> None:
        level, text = record.levelname.lower(), record.getMessage()
        if self._as_json:
            tell({"level": level, "message": text})
        else:
            note(text if record.levelno <= logging.INFO else f"{level}: {text}")


@contextlib.contextmanager
def _exporting(spark: SparkSession, port: int | None, file: str | None, statsd: str | None) -> Iterator[None]:
    """Export metrics as the options say."""
    if port is None and file is None and statsd is None:
        yield
        return
    from kvformat.connectors.metrics import export_metrics

    metrics = export_metrics(spark, prometheus_port=port, textfile=file, statsd=statsd)
    if metrics.port is not None:
        note(f"metrics are at http://localhost:{metrics.port}/metrics")
    try:
        yield
    finally:
        metrics.close()


def _pipelines(file: Path, variables: Mapping[str, str], table: str | None) -> dict[str, Pipeline]:
    """Return the pipelines of a file: of SQL by the tables that they follow, of YAML one without a name."""
    with click.open_file(str(file), "rb") as opened:
        content = opened.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise ConfigurationError(f"cannot read {file} as UTF-8: {cause.reason} at byte {cause.start}") from None
    if file.suffix.lower() in _OF_SQL or (file.suffix.lower() not in _OF_YAML and _SQL.match(text)):
        if table is None:
            return Pipeline.all_from_sql(text, set=variables)
        return {table: Pipeline.from_sql(text, source=table, set=variables)}
    if table is not None:
        raise click.UsageError("--table chooses a query of a job of SQL, and this is a pipeline in YAML")
    return {"": Pipeline.from_yaml(text, set=variables)}


def _explain(pipelines: Mapping[str, Pipeline], as_json: bool) -> NoReturn:
    for number, (name, pipeline) in enumerate(pipelines.items()):
        if as_json:
            follows = {"follows": name} if name else {}
            told = {"explain": pipeline.explain(), "refused": pipeline.refused, "notes": pipeline.notes}
            write_json([{**follows, **told}])
        else:
            show("\n" if number else "", pipeline.explain())
    raise SystemExit(2 if any(pipeline.refused for pipeline in pipelines.values()) else 0)


def _checkpoint(name: str, pipeline: Pipeline, folder: str | None) -> str:
    """Return the folder of a query's checkpoint: that of a job has one for each of its queries."""
    if folder:
        return checkpoint_folder(folder, name) if name else folder
    if not pipeline.settings.values["checkpoint"]:
        raise click.UsageError("--checkpoint DIR is missing, and the pipeline has no 'checkpoint'")
    return str(pipeline.settings.values["checkpoint"])


def _await(spark: SparkSession, queries: Sequence[StreamingQuery]) -> None:
    """Wait until all queries have ended; raises the error of the first one that fails."""
    try:
        while len(queries) > 1 and any(query.isActive for query in queries):
            spark.streams.awaitAnyTermination()
            spark.streams.resetTerminated()
        for query in queries:
            query.awaitTermination()
    except Exception as cause:  # of PySpark or Connect, by the kind of session
        reason = own_reason(cause)
        if reason is None:
            raise
        raise SchemaChangeError(f"the query has stopped: {reason}") from None


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Split NAME=VALUE. An error does not quote the value."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} needs NAME=VALUE")
        values[name] = value
    return values


def _session(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("kvformat")
    for name, value in {"spark.ui.showConsoleProgress": "false", **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


# --- schemas ---------------------------------------------------------------------------------------------------


@click.command()
@click.argument("checkpoint")
@click.argument("name", metavar="[TABLE]", required=False)
@click.option("--history", is_flag=True, help="The changes of the source tables, each with the record that caused it.")
@click.option("--ddl", is_flag=True, help="CREATE TABLE statements for 'scan.value.initial-schemas.ddls'.")
@click.option("--release", metavar="TABLE", help="Release a table from quarantine, for the next start of the query.")
@_conf_option
@json_option("A line of JSON for each table or change.")
def schemas_command(
    checkpoint: str,
    name: str | None,
    history: bool,
    ddl: bool,
    release: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the source and target tables of an ingestion, from its CHECKPOINT, or one TABLE with its columns.

    The query may run meanwhile, but not for --release. Spark is only started for a checkpoint that is not on this
    machine.
    """
    if history + ddl + (release is not None) > 1:
        raise click.UsageError("--history, --ddl and --release can't be given together")
    store = _store(checkpoint, _pairs("--conf", conf))
    state, _ = store.load()
    if not state.sources and not state.schemas.targets:
        raise ConfigurationError(
            f"'{checkpoint}' has no schemas: it is not the checkpoint of an ingestion, or no record has arrived yet"
        )
    if release is not None:
        store.release(_table(release, {str(table): table for table in state.quarantined}, "in quarantine"))
        note(f"table {release} is released; start the query again")
    elif history:
        _show_history(store, name, as_json)
    elif ddl:
        _show_ddl(state, name, as_json)
    else:
        _show_tables(state, name, as_json)


def _store(checkpoint: str, settings: Mapping[str, str]) -> SchemaStore:
    """Return the store of a checkpoint: without Spark if it is on this machine."""
    from kvformat.ingestion.local_store import LocalSchemaStore
    from kvformat.ingestion.store import SchemaStore

    # A path may be that of another file system or machine, where Spark looks for it.
    local = None if _REMOTE in os.environ else LocalSchemaStore.at(checkpoint)
    elsewhere = "://" in checkpoint or settings or any(name in os.environ for name in _ELSEWHERE)
    if local is None and not elsewhere:
        local = LocalSchemaStore(checkpoint)
    return local or SchemaStore(_session(settings), checkpoint)


def _table(name: str, tables: Mapping[str, TableId], where: str = "known") -> TableId:
    if name not in tables:
        raise SchemaError(
            f"no table {name!r} is {where}.{did_you_mean(name, tables)} Tables: {listed(sorted(tables)) or 'none'}"
        )
    return tables[name]


def _show_tables(state: IngestState, name: str | None, as_json: bool) -> None:
    without = dict.fromkeys(state.quarantined, TableSchema(()))  # a table may fail before it has a schema
    kinds: tuple[tuple[str, Mapping[TableId, TableSchema]], ...] = (
        ("source", {**without, **state.schemas.sources}),
        ("target", state.schemas.targets),
    )
    quarantined: dict[str, Mapping[TableId, str]] = {"source": state.quarantined, "target": {}}
    if name is not None:
        _table(name, {str(table): table for _, tables in kinds for table in tables})
    schemas = [
        (kind, table, schema)
        for kind, tables in kinds
        for table, schema in sorted(tables.items())
        if name in (None, str(table))
    ]
    if as_json:
        write_json(
            {"kind": kind, "table": str(table_id), **schema.to_json(), "quarantined": quarantined[kind].get(table_id)}
            for kind, table_id, schema in schemas
        )
    elif name is None:
        rows = [
            (
                kind,
                str(table_id),
                str(len(schema.columns)),
                ", ".join(schema.primary_key),
                f"quarantined: {quarantined[kind][table_id]}" if table_id in quarantined[kind] else "",
            )
            for kind, table_id, schema in schemas
        ]
        show(*table(("kind", "table", "columns", "key", "state"), rows))
    else:
        rows_ = [
            (kind, column.name, str(column.type), "key" if column.name in schema.primary_key else "")
            for kind, _, schema in schemas
            for column in schema.columns
        ]
        show(*table(("of the", "column", "type", ""), rows_))


def _show_history(store: SchemaStore, name: str | None, as_json: bool) -> None:
    changes = store.history()
    if name is not None:
        _table(name, {str(caused.event.table): caused.event.table for _, caused in changes})
        changes = [(batch, caused) for batch, caused in changes if str(caused.event.table) == name]
    if as_json:
        write_json({"batch": batch, **caused.to_json()} for batch, caused in changes)
        return
    rows = [(str(batch), str(c.event.table), c.event.tag, _details(c.event), _cause(c)) for batch, c in changes]
    show(*table(("batch", "table", "change", "columns", "caused by"), rows))


def _details(event: events.SchemaEvent) -> str:
    """Return the columns of a change in words."""
    if isinstance(event, events.CreateTable):
        return ", ".join(f"{column.name} {column.type}" for column in event.schema.columns)
    if isinstance(event, events.AddColumns):
        return ", ".join(f"{added.column.name} {added.column.type}" for added in event.columns)
    if isinstance(event, events.AlterColumnTypes):
        return ", ".join(f"{name} {t}" for name, t in event.types)
    if isinstance(event, events.RenameColumns):
        return ", ".join(f"{old} to {new}" for old, new in event.names)
    return ", ".join(event.columns) if isinstance(event, events.DropColumns) else ""


def _cause(caused: CausedEvent) -> str:
    cause = caused.cause
    return "declared" if cause is None else f"{cause.topic}, partition {cause.partition}, offset {cause.offset}"


def _show_ddl(state: IngestState, name: str | None, as_json: bool) -> None:
    wanted = sorted(each for each, source in state.sources.items() if source.value.columns)
    if name is not None:
        wanted = [_table(name, {str(each): each for each in wanted}, "known with columns")]
    statements = list(_statements(state, wanted))
    if as_json:
        write_json({"table": str(each), "ddl": text} for each, text in zip(wanted, statements, strict=True))
    else:
        show(";\n".join(statements))


def _statements(state: IngestState, tables: list[TableId]) -> Iterator[str]:
    """Yield a CREATE TABLE statement with the columns that the messages of a table have.

    A key of which a column had no value yet is left out: a statement can't have it, and the messages tell it again.
    """
    for each in tables:
        value = state.sources[each].value
        key = value.key if value.key is not None and {*value.key} <= value.columns.keys() else ()
        columns = [
            f"{quoted(column)} {type_}{' NOT NULL' if column in key and type_.nullable else ''}"
            for column, type_ in value.columns.items()
        ]
        keys = [f"PRIMARY KEY ({', '.join(map(quoted, key))}) NOT ENFORCED"] if key else []
        parts = ".".join(map(quoted, each.parts))
        yield f"CREATE TABLE {parts} ({', '.join([*columns, *keys])})"
