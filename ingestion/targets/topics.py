"""Topics as the target of tables: the sinks `kafka` and `upsert-kafka`, and records for code that writes them itself.

    TopicTarget.from_sink(sink).write(table, schema, rows, batch)     the topics of a pipeline
    tables_to_topics(changes, table="db.t", ...)               records for Spark's Kafka sink

A topic keeps no schema, so a change of a table only changes the records after it. Spark's sink writes at least once: a
batch that runs again writes its records again. With `exactly-once`, the records of all tables of a batch are written
by the same transactions (`connectors/exactly_once.py`). `ingestion/sink/` makes the bytes.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from kvformat.connectors import topics
from kvformat.connectors.exactly_once import ExactlyOnce
from kvformat.connectors.transaction_client import TransactionSettings
from kvformat.ingestion.pipeline.options import SINK_CLIENT
from kvformat.ingestion.pipeline.sink import TOPICS, PipelineSink, parse_sink
from kvformat.ingestion.schemas.events import SchemaEvent
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.sink.frame import records_frame
from kvformat.ingestion.sink.records import TableRecords, UpsertTableRecords
from kvformat.ingestion.sink.settings import SinkSettings, table_headers
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target, TargetSchema
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError, KafkaSinkWarning, OptionError, SchemaError, listed
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.schemas import row_of_spark
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND
from kvformat.registry.table.producer import producer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kvformat.ingestion.store import SchemaStore

_BOOTSTRAP = "properties.bootstrap.servers"
_GUARANTEE = "sink.delivery-guarantee"
_TABLE_HEADERS = "sink.add-tableId-to-header-enabled"
_LOG = logging.getLogger("kvformat.ingest")


@dataclass(frozen=True)
class _Brokers:
    """The brokers of a sink and the table that is written, for checks of topics."""

    name: str
    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class TopicTarget(Target):
    """Writes each change of a table as a record of the table's topic; `from_sink` makes it from a checked sink.

    settings: how the sink `kafka` writes records, None for the sink `upsert-kafka`. options: the options of the sink,
    with secrets. table_headers: whether the records of `upsert-kafka` have the headers of the table's name.
    transactions: how records are written `exactly-once`, None for `at-least-once`.
    """

    identifier: ClassVar[str] = "kafka"
    option_specs: ClassVar[tuple[Option, ...]] = (
        *SINK_CLIENT,
        Option(name="topic", doc="the topic of all records; an empty text is no topic"),
        Option(
            name="sink.tableId-to-topic.mapping",
            doc="`table[,table]:topic;...`: topics by table; without it and `topic` the topic is the table's name",
        ),
        Option(
            name="partition.strategy",
            type="enum",
            default="all-to-zero",
            allowed=("all-to-zero", "hash-by-key"),
            doc="all records to partition 0, or by the key",
        ),
        Option(name="key.format", type="enum", default="json", allowed=("json", "csv"), doc="format of the key"),
        Option(
            name="value.format",
            type="enum",
            default="debezium-json",
            allowed=("debezium-json", "canal-json"),
            doc="format of the value",
        ),
        Option(name="sink.custom-header", default="", doc="headers of each record, `k1:v1;k2:v2`"),
    )
    has_tables: ClassVar[bool] = False
    has_catalog: ClassVar[bool] = False

    settings: SinkSettings | None
    options: Mapping[str, str] = field(repr=False)
    table_headers: bool = False
    transactions: TransactionSettings | None = None
    checked: set[str] = field(default_factory=set, repr=False, compare=False)
    """The topics that were checked. Targets for other sessions share it."""
    writers: dict[str, ExactlyOnce] = field(default_factory=dict, repr=False, compare=False)
    """The writer of transactions by the id of the query. Targets for other sessions share it."""

    @property
    def rows(self) -> Literal["latest", "changes"]:
        """What `write` takes: all rows with kinds."""
        return "changes"

    @classmethod
    def from_sink(cls, sink: PipelineSink) -> Self:
        """Make the target of a sink. Raises `OptionError` with the reasons if Spark can't write it."""
        if sink.refused or sink.type not in TOPICS:
            reasons = "; ".join(sink.refused) or f"sink: the type '{sink.type}' does not write topics"
            raise OptionError(reasons, option="type" if not sink.refused else None)
        settings = SinkSettings.of(sink) if sink.type == "kafka" else None
        transactions = None
        if sink.values[_GUARANTEE] == "exactly-once":
            transactions = TransactionSettings.of(sink.options, (), sink.values["sink.transactional-id-prefix"])
        table_headers = settings is None and sink.values[_TABLE_HEADERS]
        return cls(settings, sink.options, table_headers, transactions)

    @classmethod
    def describe(cls, sink: PipelineSink) -> list[str]:
        """Return the lines of `Pipeline.explain`."""
        values = sink.values
        lines = [
            f"value: {values['value.format']}; key: {values['key.format']}, of the table's name and its primary key"
        ]
        if values["topic"]:
            lines.append(f"topic: {sink.options.shown.get('topic')}")
        else:
            lines += [f"topic of {','.join(tables)}: {topic}" for tables, topic in sink.topics]
            lines.append(f"topic{' of other tables' if sink.topics else ''}: the table's name")
        by_key = values["partition.strategy"] == "hash-by-key"
        lines.append("partition: by the key" if by_key else "partition: 0, so one task writes each topic")
        headers = ["namespace", "schemaName", "tableName"] if values[_TABLE_HEADERS] else []
        headers += [name for name, _ in sink.headers]
        return [*lines, f"headers: {', '.join(headers)}"] if headers else lines

    def probe(self) -> None:
        """Check the topics that the options name, so that a missing one stops the query before its first batch.

        With transactions, also checks brokers and executors by a small job. Raises `ConfigurationError` for a missing
        topic, `BrokerError` if no broker answers, `MissingExtraError` if executors lack confluent-kafka.
        """
        named: Iterable[str] = ()
        if self.settings is not None:
            named = [self.settings.topic] if self.settings.topic else [topic for _, topic in self.settings.topics]
        self._check("sink", named)
        if self.transactions is not None:
            ExactlyOnce(self.transactions).checked(self.spark.range(0))

    def schema(self, table: TableId) -> TargetSchema | None:
        """Return None: a topic has no schema."""
        return None

    def create(self, table: TableId, schema: TableSchema, options: TableOptions, owner: str) -> None:
        """Check that the records of the table can be written, and that its topic exists or brokers create it."""
        self._check_table(table, schema)

    def own(self, table: TableId, owner: str) -> None:
        """Do nothing: a topic has no owner."""

    def change(self, event: SchemaEvent, schema: TableSchema, batch: BatchWrite) -> None:
        """Do nothing: the records after the change have the new schema."""

    def records(self, table: TableId, schema: TableSchema, rows: DataFrame) -> DataFrame:
        """Return the records of rows: `key`, `value`, `headers`, `topic` and `partition`.

        `rows` has the columns of the schema, and may have `row_kind`. The order of the records is that of the rows.
        Raises `SchemaError` for rows or a schema that can't be written.
        """
        return records_frame(rows, str(table), schema, self._writer(table, schema))

    def write(self, table: TableId, schema: TableSchema, rows: DataFrame, batch: BatchWrite) -> DataFrame | None:
        """Write the records of the rows, at least once, in their order. With transactions, return the records.

        Raises `ConfigurationError` for a missing topic before the first write of a table, `BrokerError` if no broker
        answers; a row that can't be written fails the job.
        """
        self._check_table(table, schema)
        records = self.records(table, schema, rows)
        if self.transactions is not None:
            return records
        records.write.format("kafka").options(**producer_options(self.options)).save()
        return None

    def write_together(self, records: Sequence[DataFrame], batch: BatchWrite, store: SchemaStore) -> None:
        """Write the records of all tables of a batch exactly once; the records of a key in their order.

        The store keeps the topic that carries the marks: one of the query's first batch. Raises `BrokerError`
        and `DeliveryError`.
        """
        together = functools.reduce(lambda frame, other: frame.unionByName(other), records)
        if batch.query not in self.writers:
            assert self.transactions is not None
            once = ExactlyOnce(self.transactions, None, batch.query, store.checkpoint, in_order=True).checked(together)
            marks = store.chosen("marks") or store.choose("marks", min(self.checked))
            self.writers[batch.query] = replace(once, settings=replace(once.settings, topics=(marks,)))
        self.writers[batch.query].write(together, batch.batch_id, lambda records: records)

    def _writer(self, table: TableId, schema: TableSchema) -> Callable[[], TableRecords | UpsertTableRecords]:
        if self.settings is not None:
            return functools.partial(TableRecords, table, schema, self.settings)
        headers = table_headers(table) if self.table_headers else ()
        return functools.partial(UpsertTableRecords, table, schema, headers)

    def _check_table(self, table: TableId, schema: TableSchema) -> None:
        topic = self._writer(table, schema)().topic
        by_key = self.settings is not None and not self.settings.all_to_zero
        if by_key and not schema.primary_key and topic not in self.checked:
            _LOG.warning(
                "table %s has no primary key: 'partition.strategy' = 'hash-by-key' sends all records to one partition",
                table,
            )
        self._check(str(table), [topic])

    def _check(self, table: str, names: Iterable[str]) -> None:
        """Check topics once. Logs what the partitioning means for them."""
        wanted = list(dict.fromkeys(name for name in names if name not in self.checked))
        if not wanted:
            return
        for name, partitions in topics.check(_Brokers(table, self.options), wanted, self.spark).items():
            if self.settings is not None and self.settings.all_to_zero and partitions > 1:
                _LOG.warning(
                    "topic '%s' has %d partitions, and 'partition.strategy' = 'all-to-zero' writes all records to "
                    "partition 0; 'hash-by-key' uses all partitions",
                    name,
                    partitions,
                )
        self.checked.update(wanted)


@dataclass(frozen=True)
class UpsertTopicTarget(TopicTarget):
    """Writes the sink `upsert-kafka`: the last row of each key, and tombstones."""

    identifier: ClassVar[str] = "upsert-kafka"
    option_specs: ClassVar[tuple[Option, ...]] = SINK_CLIENT

    @classmethod
    def describe(cls, sink: PipelineSink) -> list[str]:
        """Return the lines of `Pipeline.explain`."""
        return ["the topic is the table's name; value: json; key: json of the primary key; a delete is a tombstone"]


def tables_to_topics(
    changes: DataFrame,
    *,
    table: str | TableId,
    primary_key: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Return the Kafka records of a table's rows or changes, as Flink CDC's Kafka sink writes them.

    `changes` is a batch or stream. With the column `row_kind` ('+I', '-U', '+U', '-D') it has changes: a '-U' and the
    '+U' after it are one record. Without it all rows are inserts. `table` is the table's name in the messages,
    `schema.table`. `columns` are the columns of the table, by default all but those that decoding adds (`row_kind`,
    `row_index`, `unchanged_columns`); a column that a format decoded keeps its Flink type. `options` are those of the
    sink `kafka`, or of `upsert-kafka` with that `type`: `value.format`, `partition.strategy`, ...; brokers are not
    needed.

    The result has `key`, `value`, `headers` (NULL without headers), `topic` and `partition` (NULL if the producer
    chooses it by the key), in the order of `changes`. Spark's Kafka sink writes it:

        records.write.format("kafka").option("kafka.bootstrap.servers", "broker:9092").save()

    Raises `OptionError` for a wrong option, `SchemaError` for a missing column and for a type that the format can't
    write. A NULL in the key, and a row that the format can't write, fail the job with `EncodeError`. A
    `KafkaSinkWarning` names each option without effect. Rules: Flink CDC's Kafka sink, Ververica's "Kafka connector".
    """
    block = {"type": "kafka", **(options or {})}
    if str(block["type"]).lower() not in TOPICS:
        raise OptionError(f"'type' must be one of {', '.join(TOPICS)}, not {block['type']!r}", option="type")
    sink = parse_sink({_BOOTSTRAP: "", **block})  # records are made without brokers, which a sink must name
    if sink.values[_GUARANTEE] == "exactly-once":
        raise OptionError(
            f"'{_GUARANTEE}' = 'exactly-once' has no effect on records that Spark's sink writes: it has no "
            "transactions. Remove the option; a pipeline and `KafkaTable.write_stream` write exactly once",
            option=_GUARANTEE,
        )
    target = (TopicTarget if sink.type == TopicTarget.identifier else UpsertTopicTarget).from_sink(sink)
    for note in sink.notes:
        warnings.warn(note, KafkaSinkWarning, stacklevel=2)
    name = table if isinstance(table, TableId) else TableId.parse(table)
    if columns is None:
        columns = [column for column in changes.columns if column not in (ROW_KIND, ROW_INDEX, UNCHANGED)]
    if isinstance(primary_key, str):
        raise ConfigurationError(f"primary_key must be a list of column names, [{primary_key!r}]")
    schema = _schema_of(changes, str(name), columns, primary_key)
    return target.records(name, schema, changes)


def _schema_of(df: DataFrame, table: str, columns: Sequence[str], primary_key: Sequence[str]) -> TableSchema:
    """Return the schema of columns of a DataFrame. Columns of the key are NOT NULL."""
    from pyspark.sql.types import StructType

    fields = {column.name: column for column in df.schema.fields}
    for name in (*columns, *primary_key):
        if name not in fields or (name in primary_key and name not in columns):
            raise SchemaError(
                f"table '{table}' has no column {name!r}. The columns: {listed(columns)}; those of the DataFrame: "
                f"{listed(df.columns)}",
                field=name,
            )
    row = row_of_spark(StructType([fields[name] for name in columns]))
    types = {each.name: replace(each.type, nullable=each.name not in primary_key) for each in row.fields}
    return TableSchema(tuple(SchemaColumn(name, t) for name, t in types.items()), tuple(primary_key))
