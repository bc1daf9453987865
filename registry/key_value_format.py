"""Key and value together: a Kafka table with Flink's connector `kafka` or `upsert-kafka`.

    KeyValueFormat(schema, options)       a table from columns and options; no broker is needed
    KeyValueFormat.from_ddl("CREATE ...") a table from CREATE TABLE, with metadata, watermark and computed columns
    decode(df), encode(df)                Kafka records to rows and back, in Spark
    decode_batch(...), encode_batch(...)  without Spark, for Arrow arrays

The constructor checks the whole table, in Flink's order and with its messages. Errors that Flink reports only for
reading or only for writing are raised by `decode` or `encode`.
Rules: `KafkaDynamicTableFactory`, `UpsertKafkaDynamicTableFactory`, `FactoryUtil`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kvformat.registry.contract.changelog import ChangelogMode, RowKind
from kvformat.registry.contract.errors import (
    ConfigurationError,
    MetadataError,
    OptionError,
    ReadingOnlyError,
    SchemaError,
    add_context,
)
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.html import html
from kvformat.registry.contract.nested_formats import find_nested_option
from kvformat.registry.contract.normalize_input import binary_messages, normalize_kinds, normalize_rows
from kvformat.registry.contract.options import Direction, OptionValues
from kvformat.registry.contract.schemas import arrow_schema, resolve_schema, row_type, spark_schema
from kvformat.registry.contract.types import nullable, quoted
from kvformat.registry.format import Errors
from kvformat.registry.sql.connector_options import KAFKA, masked
from kvformat.registry.sql.statements import Statement, find_table, statements
from kvformat.registry.sql.table_definition import (
    TableColumn,
    TableDefinition,
    Watermark,
    create_table_text,
    with_primary_key,
)
from kvformat.registry.table.computed_columns import ComputedColumns, computed_columns, without_computed
from kvformat.registry.table.decode_records import DecodedRecords, decode_record_batch
from kvformat.registry.table.encode_records import EncodedRecords, encode_records
from kvformat.registry.table.metadata import (
    MetadataColumn,
    MetadataKeys,
    check_raw,
    own_columns,
    readable,
    requested_metadata,
    writable,
)
from kvformat.registry.table.projection import only_columns
from kvformat.registry.table.raw_records import raw_messages, with_raw_columns
from kvformat.registry.table.record_decoding import RecordDecoding
from kvformat.registry.table.record_headers import checked_headers
from kvformat.registry.table.table_plan import TablePlan, plan_table

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import DataType, StructType

    from kvformat.registry.streams.dead_letters import DeadLetterTarget
    from kvformat.registry.streams.maintain import Merge, TargetOfTables
    from kvformat.registry.table.decode_stage import DecodeStage
    from kvformat.registry.table.row_encoder import RowEncoder


class KeyValueFormat:
    """A Kafka table with key and value: immutable, comparable, picklable; its `repr` does not contain secrets.

    `schema` has the physical columns: a Spark `StructType`, a `pyarrow.Schema`, or text such as
    `"user_region STRING, pv BIGINT"`. `options` are those of Flink's WITH clause: `key.format`, `key.fields`,
    `key.fields-prefix`, `value.format` or `format`, `value.fields-include`, and the options of the formats with their
    prefix (`value.json.ignore-parse-errors`). `connector` is `kafka` (the default) or `upsert-kafka`. Its other options
    are optional, and checked if given. `primary_key` is the key of an upsert table.

    Raises `OptionError`, `SchemaError` or another `ConfigurationError`.
    """

    def __init__(
        self, schema: StructType | pa.Schema | str, options: Mapping[str, Any], *, primary_key: Sequence[str] = ()
    ) -> None:
        row = row_type(resolve_schema(schema))
        columns = tuple(TableColumn(field.name, "physical", field.type) for field in row.fields)
        key = tuple([primary_key] if isinstance(primary_key, str) else primary_key)
        names = {column.name for column in columns}
        for name in key:
            if name not in names:
                raise SchemaError(f"column '{name}' of the PRIMARY KEY does not exist", field=name)
        table = TableDefinition("table", columns, {str(k): _text(str(k), v) for k, v in options.items()})
        self._set(with_primary_key(table, key or None), strict=False)

    @classmethod
    def from_ddl(
        cls, ddl: str, *, table: str | None = None, options: Mapping[str, Any] | None = None
    ) -> KeyValueFormat:
        """Create a table from CREATE TABLE, which needs `connector`, a topic and `properties.bootstrap.servers`.

        `options` replace those of the text; None removes one. A table of Confluent Cloud (`'connector' = 'confluent'`)
        becomes one of Kafka, and needs options that name its brokers and its schema registry.

        `ddl` may contain further statements, like a file for Flink's SQL client. They are skipped, see `statements`. If
        it creates several tables, `table` names one, with catalog and database before it if necessary. In CREATE TABLE
        ... LIKE the base table must be created earlier in the text.

        Metadata columns are read and written under their names in the DDL, a WATERMARK becomes `withWatermark`, and
        computed columns are evaluated as Flink evaluates them.
        Raises `SchemaError` with line and column for invalid SQL, and with the names of the tables if none or several
        match.
        """
        if not isinstance(ddl, str):
            hint = ": read it, path.read_text(encoding='utf-8')" if isinstance(ddl, PurePath) else ""
            raise SchemaError(f"from_ddl takes Flink SQL as a string, not {type(ddl).__name__}{hint}")
        return cls._of(find_table(ddl, table, options=_texts(options or {})), True)

    @staticmethod
    def statements(ddl: str) -> tuple[Statement, ...]:
        """Return the statements of a text, each with kind ('CREATE TABLE', 'SET'), name and line.

        Of these `from_ddl` parses one CREATE TABLE and the tables that it is LIKE, and skips the others.
        Raises `SchemaError` if the text cannot be split into statements.
        """
        return statements(ddl)

    @classmethod
    def _of(cls, table: TableDefinition, strict: bool) -> KeyValueFormat:
        instance = cls.__new__(cls)
        instance._set(table, strict=strict)
        return instance

    def _set(self, table: TableDefinition, *, strict: bool) -> None:
        self._table, self._strict = table, strict
        self._plans: dict[Direction, TablePlan | ConfigurationError] = {}
        reading = self._plan_or_error("decode")
        if isinstance(reading, TablePlan):
            return
        writing = self._plan_or_error("encode")
        if isinstance(writing, TablePlan):
            return
        if isinstance(writing, ReadingOnlyError):  # the table is not meant for writing
            raise reading
        raise reading if str(reading) == str(writing) else add_context(reading, "", f"\nFor writing: {writing}")

    def _plan_or_error(self, direction: Direction) -> TablePlan | ConfigurationError:
        """Return the plan of a direction, made when it is first needed."""
        if direction not in self._plans:
            try:
                self._plans[direction] = plan_table(self._table, self._strict, direction)
            except ConfigurationError as error:
                self._plans[direction] = error
        return self._plans[direction]

    def _plan(self, direction: Direction) -> TablePlan:
        plan = self._plan_or_error(direction)
        if isinstance(plan, ConfigurationError):
            raise plan.with_traceback(None)
        return plan

    # --- properties --------------------------------------------------------------------------------------

    @property
    def key_schema(self) -> StructType | None:
        """The columns of the key, in the order of `key.fields`, without their prefix; None if the table has no key."""
        schema = self._any_plan().layout.key_schema
        return None if schema is None else spark_schema(row_type(schema))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the key columns: the PRIMARY KEY, else `key.fields`; empty if the table has neither.

        These are names in the table, with `key.fields-prefix`. `latest_by_key` and `normalize_changes` use them if they
        get the table itself.
        """
        layout = self._any_plan().layout
        return self._table.primary_key or tuple(layout.physical.fields[i].name for i in layout.key_indexes)

    @property
    def value_schema(self) -> StructType:
        """The columns of the value, without their prefix."""
        return spark_schema(row_type(self._any_plan().layout.value_schema))

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The kinds of rows that `decode` returns: those of the value's format, or UPSERT for an upsert table."""
        layout = self._any_plan().layout
        return ChangelogMode.UPSERT if layout.upsert else layout.value_format.changelog_mode

    @property
    def record_headers(self) -> Mapping[Part, HeaderNames]:
        """Headers of records that the formats of the key and the value read: part -> name, such as ids of schemas.

        A format that reads several headers has a tuple of names.
        """
        return self._any_plan().layout.record_headers

    @property
    def options(self) -> Mapping[str, str]:
        """The options as given; the `repr` hides secrets, `options[name]` does not."""
        return OptionValues(self._table.options, self._shown())

    @property
    def name(self) -> str:
        """The table's name in its DDL, "table" without a DDL."""
        return self._table.name

    @property
    def ddl(self) -> str:
        """The table as a CREATE TABLE for `from_ddl`, with its secrets; the `repr` has the same without them."""
        return create_table_text(self._table, self._table.options)

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """All columns in the order of declaration: physical, metadata and computed ones."""
        return self._table.columns

    @property
    def watermark(self) -> Watermark | None:
        """The event time that the table declares."""
        return self._table.watermark

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the PRIMARY KEY; empty if there is none."""
        return self._table.primary_key or ()

    def connector_options(self, direction: Direction) -> Mapping[str, Any]:
        """Return the connector's options for reading ("decode") or writing ("encode"), parsed, with their defaults.

        Raises the error of the table in this direction, if there is one.
        """
        return self._plan(direction).values

    def with_options(self, options: Mapping[str, Any]) -> KeyValueFormat:
        """Return the table with these options instead of its own; None removes an option.

        Flink's hint `/*+ OPTIONS(...) */` does this for one query. Raises like the constructor.
        """
        merged = {**self._table.options, **_texts(options)}
        table = replace(self._table, options={key: value for key, value in merged.items() if value is not None})
        return KeyValueFormat._of(table, self._strict)

    def only(self, names: Sequence[str]) -> KeyValueFormat:
        """Return the table without columns that its rows need not have, if only those of `names` are read.

        Columns of the key and of the watermark stay, and all columns if a computed one is read, or if the value's
        format does not find columns by their names. Raises `SchemaError` for a column that the table does not have.
        """
        return KeyValueFormat._of(only_columns(self._table, self._plan("decode").layout, names), self._strict)

    def without_computed(self, *names: str) -> KeyValueFormat:
        """Return the table without these computed columns, such as one that can't be evaluated.

        Raises `ConfigurationError` if one of the names is not a computed column, or is that of the WATERMARK.
        """
        return KeyValueFormat._of(without_computed(self._table, names), self._strict)

    def computed_columns(self, zone: str = "UTC") -> ComputedColumns | None:
        """Return the computed columns, to be evaluated without Spark in a session of this time zone; None if none.

        Raises `ConfigurationError` for a column that can't be evaluated.
        """
        return computed_columns(self._table, self._plan("decode").metadata, zone)

    def planned(self) -> KeyValueFormat:
        """Return the table, checked like a CREATE TABLE: it needs a connector, a topic and bootstrap servers."""
        return KeyValueFormat._of(self._table, True)

    def _any_plan(self) -> TablePlan:
        return next(plan for plan in self._plans.values() if isinstance(plan, TablePlan))

    # --- Spark -------------------------------------------------------------------------------------------

    def decode(
        self,
        df: DataFrame,
        *,
        metadata: MetadataKeys | None = None,
        errors: Errors = "raise",
        row_index: bool = False,
        skip_computed: Sequence[str] = (),
        input_schema: StructType | str | None = None,
    ) -> DataFrame:
        """Decode a DataFrame of Kafka records to rows of the table.

        `df` has `key` and `value`, and the Kafka columns that metadata needs (`topic`, `partition`, `offset`,
        `timestamp`, `timestampType`, `headers`). The result has these columns, all nullable:

        1. the table's columns in their order,
        2. the columns of `metadata` (a list of keys, or a mapping of column name to key),
        3. `unchanged_columns`, if the format's options ask for the columns that an update leaves unchanged,
        4. `row_kind`, if the table can have other rows than inserts,
        5. `row_index`, with `row_index=True`: the row's index in its record (INT, from 0), by which `latest_by_key` and
           `normalize_changes` keep rows of the same offset in order,
        6. `error`, with `errors="capture"`: null for good rows (see `split_errors`).

        A record with a null key has a row with null key columns; in an upsert table it is an error. A key of several
        rows combines with each row of the value. A null value deletes the key in an upsert table; in other tables the
        value's format decides. `skip_computed` names computed columns to leave out, such as one that can't be
        evaluated. `errors="raise"` fails the job at a bad record, or drops the record with
        `ingestion.ignore-errors`. `input_schema` are the columns of `df`, for the functions of a declarative pipeline,
        where Spark refuses to tell them; those of Spark's own Kafka source are known there. Raises
        `ConfigurationError` before a job starts.
        """
        if skip_computed:
            table = self.without_computed(*skip_computed)
            return table.decode(df, metadata=metadata, errors=errors, row_index=row_index, input_schema=input_schema)
        plan, extra = self._decoding(metadata, errors)
        from kvformat.registry.table.decode_frame import decode_frame  # imports PySpark

        return decode_frame(plan, extra, df, errors, row_index=row_index, input_schema=input_schema)

    def decode_stage(
        self,
        *,
        metadata: MetadataKeys | None = None,
        errors: Errors = "raise",
        row_index: bool = False,
        input_types: Mapping[str, DataType] | None = None,
        zone: str = "UTC",
    ) -> DecodeStage:
        """Plan `decode` for a source that decodes records itself, in Python; no session of Spark is needed.

        `input_types` are the columns that the source has, by default all of Spark's Kafka source. `zone` is the
        session's time zone, for computed columns. The other arguments and the exceptions are those of `decode`.
        """
        plan, extra = self._decoding(metadata, errors)
        from kvformat.registry.table.decode_stage import KAFKA_COLUMNS, DecodeStage  # imports PySpark

        types = KAFKA_COLUMNS if input_types is None else input_types
        return DecodeStage(plan, extra, errors=errors, row_index=row_index, input_types=types, zone=zone)

    def record_decoding(
        self,
        *,
        metadata: MetadataKeys | None = None,
        errors: Errors = "raise",
        row_index: bool = False,
        zone: str = "UTC",
    ) -> RecordDecoding:
        """Plan `decode` for batches of Kafka's columns in Arrow, without Spark.

        `zone` is the time zone for computed columns. The other arguments and the exceptions are those of `decode`.
        """
        plan, extra = self._decoding(metadata, errors)
        return RecordDecoding(plan, extra, errors=errors, row_index=row_index, zone=zone)

    def _decoding(self, metadata: MetadataKeys | None, errors: Errors) -> tuple[TablePlan, tuple[MetadataColumn, ...]]:
        """Return the plan for reading, and the metadata columns that are not the table's own."""
        if errors not in ("raise", "capture"):
            raise ConfigurationError(f"errors must be 'raise' or 'capture', not {errors!r}")
        plan = self._plan("decode")
        value_format = plan.layout.value_format
        extra = readable(self._table.name, requested_metadata(metadata), value_format)
        return plan, (*extra, *own_columns(value_format))

    def encode(
        self, df: DataFrame, *, metadata: MetadataKeys | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataFrame:
        """Encode rows of the table to Kafka records: `key` (with a key format), `value`, and the metadata to write.

        Columns are found by name and cast if nothing is lost. Columns of `df` that the table does not write are left
        out. If `df` has `row_kind`, CDC formats write their envelope, and an upsert table writes a null value for `-D`
        and `-U`. A `-U` directly followed by a `+U` of the same key writes nothing. The order is that of `df`: nothing
        is shuffled.

        `metadata` names further columns to write as `topic`, `headers` or `timestamp`, or as the key or the value as
        they are (`__raw_key__`, `__raw_value__`; STRING or BINARY). `changelog_mode` tells which kinds `df` can
        contain, if not all: an upsert table without `-U` uses a faster engine.
        Raises `ConfigurationError` before a job starts; a row that can't be written fails the job.
        """
        from kvformat.registry.table.encode_frame import encode_frame  # imports PySpark

        return encode_frame(self._plan("encode"), self._written(metadata), df, changelog_mode)

    def row_encoder(self, schema: StructType, *, metadata: MetadataKeys | None = None) -> RowEncoder:
        """Plan `encode` for a sink that encodes rows itself, in Python; no session of Spark is needed.

        `schema` are the columns of the rows. `metadata` and the exceptions are those of `encode`.
        """
        from kvformat.registry.table.row_encoder import RowEncoder  # imports PySpark

        return RowEncoder.of(self._plan("encode"), self._written(metadata), schema)

    def written_metadata(self, metadata: MetadataKeys | None = None) -> tuple[str, ...]:
        """Return the metadata keys that `encode` writes: those of the table's own columns, then those of `metadata`."""
        return tuple(column.key for column in (*self._plan("encode").metadata, *self._written(metadata)))

    def _written(self, metadata: MetadataKeys | None) -> tuple[MetadataColumn, ...]:
        plan = self._plan("encode")
        columns = [TableColumn(c.name, "metadata", None, c.key) for c in requested_metadata(metadata)]
        written = writable(self._table.name, columns, plan.topics)
        check_raw(self._table.name, (*plan.metadata, *written), plan.layout)
        return written

    def maintain(
        self,
        stream: DataFrame,
        target: str | PathLike[str] | Merge | TargetOfTables,
        *,
        checkpoint_location: str,
        dead_letters: DeadLetterTarget | None = None,
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
    ) -> StreamingQuery:
        """Start a query that keeps a table current: the last row of each key of a stream of Kafka records.

        `stream` has the columns of Spark's Kafka source. `target` is a path for a Delta table, which `current_table`
        reads (`kvformat[delta]`), or a target of `kvformat.ingestion` such as `DeltaTarget()`, where the table has the
        name of this one, or a function `merge(changes, batch_id)` for other tables that support MERGE. The function
        gets one row per key, with the table's columns and `row_kind`: '+U' for a row to write, '-D' for a key to
        remove. After a failure it may be called again with the same batch, and must give the same result.

        `dead_letters` is where bad records go before the rows of their batch: a topic, a path, or a function of them
        and the batch id (see `write_dead_letters`). Without it the query fails at a bad record, or drops it with
        `ingestion.ignore-errors`; `ingestion.error-tolerance.max-count` is counted per micro-batch. `trigger` has the
        arguments of Spark's trigger, `{"availableNow": True}`. Raises `ConfigurationError` before the query starts.
        """
        from kvformat.registry.streams.maintain import start_maintaining

        return start_maintaining(
            self,
            stream,
            target,
            checkpoint_location=checkpoint_location,
            dead_letters=dead_letters,
            trigger=trigger,
            query_name=query_name,
        )

    # --- Arrow, without Spark ----------------------------------------------------------------------------

    def decode_batch(
        self, keys: pa.Array | None, values: pa.Array, *, metadata: Sequence[str] = (), headers: pa.Array | None = None
    ) -> DecodedRecords:
        """Decode binary Arrow arrays, one record per element; `rows` has the physical columns, then metadata.

        `metadata` names keys of the value's format (`value.source.table`), or `__raw_key__` and `__raw_value__`, the
        record's key and value as they are. Otherwise `keys` is ignored without a key format.
        `headers` has a list of headers per record, each a struct of `key` and `value` as in Spark's Kafka source.
        Formats with a schema registry find ids of schemas there.
        Never raises for bad data: `errors` and `parts` give the error of each bad record, and its part.
        """
        plan = self._plan("decode")
        columns = readable(self._table.name, requested_metadata(metadata), plan.layout.value_format)
        for column in columns:
            if column.of_value is None and column.raw_part is None:
                raise MetadataError(
                    f"'{column.key}' is not part of the message: only decode(df) has the connector's metadata"
                )
        plain = binary_messages(values)
        if keys is None:
            keys = pa.nulls(len(plain), pa.binary())
        keys = binary_messages(keys)
        reads_keys = plan.layout.key_format is not None or any(column.raw_part == "key" for column in columns)
        if reads_keys and len(keys) != len(plain):
            raise SchemaError(f"there are {len(keys)} keys, but {len(plain)} values", field="key")
        decoded = decode_record_batch(
            plan.layout,
            keys,
            plain,
            {c.name: str(c.of_value) for c in columns if c.raw_part is None},
            None if headers is None else checked_headers(headers, len(plain)),
        )
        if all(column.raw_part is None for column in columns):
            return decoded
        return with_raw_columns(decoded, columns, {"key": keys, "value": plain}, len(plan.layout.physical.fields))

    def encode_batch(
        self, rows: pa.StructArray, *, row_kinds: pa.Array | None = None, metadata: MetadataKeys | None = None
    ) -> EncodedRecords:
        """Encode a struct array, one record per row; see `EncodedRecords`. Never raises for bad data.

        Columns are found by name and cast if nothing is lost. `row_kinds` has the kind of each row, like the column
        `row_kind` in `encode`; None means that all rows are inserts. The table's columns of `__raw_key__` and
        `__raw_value__`, and those that `metadata` names, are written as they are. Other metadata are not part of a key
        or a value, and are ignored.
        """
        plan = self._plan("encode")
        written = (*plan.metadata, *self._written(metadata))
        if row_kinds is not None:
            row_kinds = normalize_kinds(row_kinds)
            wrong = pc.invert(pc.is_in(row_kinds, pa.array([kind.value for kind in RowKind])))
            if len(row_kinds) != len(rows) or pc.any(wrong, min_count=0).as_py():
                raise SchemaError("row_kinds must have '+I', '-U', '+U' or '-D' for every row", field="row_kind")
        physical = normalize_rows(rows, arrow_schema(nullable(plan.layout.physical)))
        return encode_records(plan.layout, physical, row_kinds, raw=raw_messages(rows, written))

    # --- display, comparison and pickling ----------------------------------------------------------------

    def __repr__(self) -> str:
        shown = self._shown()
        if self._strict:
            return f"KeyValueFormat.from_ddl({create_table_text(self._table, shown)!r})"
        row = self._table.physical()
        schema = ", ".join(f"{quoted(field.name)} {field.type}" for field in row.fields)
        key = f", primary_key={list(self._table.primary_key)!r}" if self._table.primary_key else ""
        return f"KeyValueFormat({schema!r}, {shown!r}{key})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the columns and their origins, and the options without secrets."""
        columns = ((column.name, column.type or "", self._origin(column)) for column in self.columns)
        connector = self._table.options.get("connector", KAFKA)
        return html(
            self.name,
            f"{connector} table",
            (("column", "type", "from"), columns),
            (("option", "value"), self._shown().items()),
        )

    def _origin(self, column: TableColumn) -> str:
        """Return where the values of a column come from, and its role in the table."""
        if column.kind == "computed":
            roles = [f"AS {column.source}"]
        elif column.kind == "metadata":
            roles = [f"metadata {column.key}"]
        else:
            layout = self._any_plan().layout
            names = [field.name for field in layout.physical.fields]
            parts = {"key": layout.key_indexes, "value": layout.value_indexes}
            roles = [part for part, places in parts.items() if column.name in [names[i] for i in places]]
        if column.name in self.primary_key:
            roles.append("PRIMARY KEY")
        if self.watermark is not None and column.name == self.watermark.column:
            roles.append(f"WATERMARK, {self.watermark.delay_ms} ms late")
        return ", ".join(roles)

    def _shown(self) -> dict[str, Any]:
        """Return the options without secrets."""
        return {key: masked(key, value, self._spec(key)) for key, value in self._table.options.items()}

    def _spec(self, key: str) -> Any:
        """Return the declaration of a format's option by its full key; None if no format has it."""
        layout = self._any_plan().layout
        for format in (layout.key_format, layout.value_format):
            if format is not None:
                _, mark, short = f".{key}".partition(f".{format.identifier}.")
                if mark:
                    return find_nested_option(format.option_specs, short)
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyValueFormat) and (other._table, other._strict) == (self._table, self._strict)

    def __hash__(self) -> int:
        return hash((self._table.columns, self._table.primary_key, frozenset(self._table.options.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyValueFormat._of, (self._table, self._strict)


def _texts(options: Mapping[str, Any]) -> dict[str, str | None]:
    return {key: None if value is None else _text(key, value) for key, value in options.items()}


def _text(option: str, value: Any) -> str:
    """Return the value of an option as text, as in a WITH clause; accepts a bool or a number, too."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise OptionError(f"the value of option '{option}' must be a string, not {type(value).__name__}", option=option)
