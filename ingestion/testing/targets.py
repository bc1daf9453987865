"""The rules of a target as a class of tests, for authors of targets.

    class TestLake(TargetSuite):
        @pytest.fixture
        def target(self, spark):
            return LakeTarget("/tmp/lake").with_session(spark)

        def read(self, target, table):
            return target.spark.read.format("lake").load(...)

Each test makes tables of its own.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kvformat.ingestion.errors import UnsupportedChangeError
from kvformat.ingestion.schemas import events
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.schemas.types import parse_column_type
from kvformat.ingestion.targets.target import BatchWrite, TableOptions, Target
from kvformat.ingestion.targets.types import converted_rows, stored_columns
from kvformat.registry.contract.changelog import UNCHANGED
from kvformat.registry.contract.errors import ConfigurationError, KvFormatError
from kvformat.registry.spark.decoded_columns import ROW_KIND, exact_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUES: Mapping[str, str] = {
    "BOOLEAN": "true",
    "TINYINT": "CAST(-128 AS TINYINT)",
    "SMALLINT": "32767S",
    "INT": "-2147483648",
    "BIGINT": "9223372036854775807L",
    "FLOAT": "1.5F",
    "DOUBLE": "1e300D",
    "DECIMAL(20, 3)": "CAST('12345678901234567.125' AS DECIMAL(20, 3))",
    "CHAR(3)": "'a b'",
    "VARCHAR(10)": "'é\\n'",
    "STRING": "''",
    "BYTES": "X'00FF'",
    "DATE": "DATE'2024-02-29'",
    "TIMESTAMP(3)": "TIMESTAMP_NTZ'2024-02-29 12:00:01.120'",
    "TIMESTAMP_LTZ(6)": "TIMESTAMP'2024-02-29 12:00:01.123456Z'",
    "ARRAY<INT>": "array(1, NULL)",
    "MAP<STRING, BIGINT>": "map('k', 1L, 'n', NULL)",
    "ROW<a INT, b ROW<c STRING>>": "named_struct('a', 1, 'b', named_struct('c', 'x'))",
    "TIME(6)": "TIME'12:00:01.5'",
}
"""A value of each type, as an expression of Spark SQL. TIME only takes part if the session has it."""
WIDER: Sequence[tuple[str, str]] = (
    ("INT", "BIGINT"),
    ("FLOAT", "DOUBLE"),
    ("DECIMAL(20, 3)", "DECIMAL(25, 3)"),
    ("DECIMAL(20, 3)", "DECIMAL(25, 5)"),
    ("INT", "DECIMAL(20, 0)"),
    ("BIGINT", "DOUBLE"),
    ("DATE", "TIMESTAMP(6)"),
    ("TIMESTAMP(3)", "STRING"),
    ("ARRAY<INT>", "STRING"),
    ("BYTES", "STRING"),
)
"""Changes of types that a target makes in place, or by `Target.rewrite`."""


def table_schema(*columns: str, key: Sequence[str] = ()) -> TableSchema:
    """Return a schema: `table_schema("id INT", "name STRING", key=["id"])`. A key's columns are NOT NULL."""
    schema_columns = []
    for column in columns:
        name, _, text = column.rpartition(" ") if "<" not in column and "(" not in column else column.partition(" ")
        schema_columns.append(SchemaColumn(name, parse_column_type(text + (" NOT NULL" if name in key else ""))))
    return TableSchema(tuple(schema_columns), tuple(key))


class TargetSuite:
    """Tests of a target. A subclass has the fixture `target`, with a session, and the method `read`.

    in_place: whether columns can be renamed and dropped. orders_merges: whether the merge of an earlier batch is
    refused, or does nothing. names, table_names: unusual names of columns and of tables.
    """

    in_place: ClassVar[bool] = True
    orders_merges: ClassVar[bool] = True
    names: ClassVar[Sequence[str]] = ("a.b", "it's", 'say "x"', "größe 表", "select", "back`tick", "per%cent", "a=b")
    table_names: ClassVar[Sequence[str]] = ("a.b", "it's", 'say "x"', "größe 表")

    def read(self, target: Target, table: TableId) -> DataFrame:
        """Return the rows of a table as a user reads them."""
        raise NotImplementedError

    # --- helpers ---------------------------------------------------------------------------------------------------

    query = "11111111-2222-3333-4444-555555555555"

    def table(self, name: str = "t") -> TableId:
        """Return the name of a new table."""
        return TableId(("kvformat_suite", f"{name}_{uuid.uuid4().hex[:8]}"))

    def created(self, target: Target, schema: TableSchema, name: str = "t") -> TableId:
        """Create a table and return its name."""
        table = self.table(name)
        target.create(table, schema, TableOptions(), self.query)
        return table

    def write(
        self,
        target: Target,
        table: TableId,
        schema: TableSchema,
        rows: Iterable[tuple[Any, ...]],
        batch_id: int = 0,
        *,
        part: int = 0,
        more: str = "",
    ) -> None:
        """Write a batch. For a table with a key each row ends in its kind; `more` are further columns in DDL."""
        names = ", ".join(f"`{c.name.replace('`', '``')}` {_ddl(c)}" for c in schema.columns)
        ddl = names + (f", {ROW_KIND} STRING" if schema.primary_key else "") + more
        frame = target.spark.createDataFrame(list(rows), ddl)
        target.write(table, schema, frame, BatchWrite(self.query, batch_id, part))

    def change(
        self, target: Target, event: events.SchemaEvent, schema: TableSchema, batch_id: int = 0, *, part: int = 0
    ) -> TableSchema:
        """Apply a change and return the schema after it."""
        changed = event.apply(schema)
        target.change(event, changed, BatchWrite(self.query, batch_id, part))
        return changed

    def rows(self, target: Target, table: TableId) -> list[tuple[Any, ...]]:
        """Return the rows of a table, sorted by their texts."""
        return sorted((tuple(row) for row in self.read(target, table).collect()), key=repr)

    # --- tests -----------------------------------------------------------------------------------------------------

    def test_a_table_is_created_once(self, target: Target) -> None:
        """`create` of a table that is there keeps its rows."""
        schema = table_schema("id INT", "v STRING", key=["id"])
        assert target.schema(self.table()) is None
        table = self.created(target, schema)
        self.write(target, table, schema, [(1, "a", "+U")])
        target.create(table, schema, TableOptions(), self.query)
        assert self.rows(target, table) == [(1, "a")]
        existing = target.schema(table)
        assert existing is not None
        assert existing.columns.names == ["id", "v"]

    def test_the_owner_is_kept(self, target: Target) -> None:
        """The owner is the query that created the table, until another takes it over."""
        schema = table_schema("id INT")
        table = self.created(target, schema)
        target.create(table, schema, TableOptions(), "other")
        existing = target.schema(table)
        assert existing is not None
        assert existing.owner == self.query
        target.own(table, "other")
        target.own(table, "other")
        existing = target.schema(table)
        assert existing is not None
        assert existing.owner == "other"

    def test_rows_from_the_driver_are_those_of_spark(self, target: Target) -> None:
        """`write_rows` does what `write` does, and a repeated batch does nothing. Other targets do not have it."""
        if not target.driver_max_bytes:
            return
        batches: list[list[tuple[Any, ...]]]
        batches = [[(1, "a", "+U"), (2, "b", "+U")], [(1, None, "-D"), (3, "c", "+U")], [(3, "d", "+U")]]
        keys: Sequence[Sequence[str]] = (["id"], [])
        for key in keys:
            schema = target.stored(table_schema("id INT", "v STRING", key=key))
            ddl = "id INT, v STRING" + (f", {ROW_KIND} STRING" if key else "")
            tables = self.created(target, schema), self.created(target, schema)
            for number, rows in enumerate(batches):
                frame = target.spark.createDataFrame([row if key else row[:2] for row in rows], ddl)
                batch = BatchWrite(self.query, number)
                target.write(tables[0], schema, frame, batch)
                for _ in range(2):
                    target.write_rows(tables[1], schema, frame.toArrow(), batch)
            expected = [(2, "b"), (3, "d")] if key else [(1, "a"), (1, None), (2, "b"), (3, "c"), (3, "d")]
            assert [self.rows(target, table) for table in tables] == [expected, expected]

    def test_a_repeated_merge_changes_nothing(self, target: Target) -> None:
        """The last row of each key is in the table. A key that is not there can be deleted."""
        schema = table_schema("a INT", "b STRING", "v DOUBLE", key=["b", "a"])
        table = self.created(target, schema)
        first = [(1, "x", 1.0, "+U"), (2, "x", 2.0, "+U"), (1, "y", 3.0, "+U"), (9, "z", None, "-D")]
        second = [(1, "x", 4.5, "+U"), (2, "x", None, "-D"), (7, "y", None, "-D"), (3, "w", None, "+U")]
        for _ in range(2):
            self.write(target, table, schema, first, 0)
            assert self.rows(target, table) == [(1, "x", 1.0), (1, "y", 3.0), (2, "x", 2.0)]
        for _ in range(2):
            self.write(target, table, schema, second, 1)
            assert self.rows(target, table) == [(1, "x", 4.5), (1, "y", 3.0), (3, "w", None)]

    def test_unchanged_columns_keep_their_values(self, target: Target) -> None:
        """The names in `unchanged_columns` are columns of the row that the batch does not have."""
        schema = table_schema("id INT", "v STRING", "w STRING", key=["id"])
        table = self.created(target, schema)
        more = f", {UNCHANGED} ARRAY<STRING>"
        self.write(target, table, schema, [(1, "a", "b", "+U", None)], 0, more=more)
        self.write(target, table, schema, [(1, None, "c", "+U", ["v"]), (2, None, "d", "+U", ["v"])], 1, more=more)
        assert self.rows(target, table) == [(1, "a", "c"), (2, None, "d")]

    def test_a_repeated_append_changes_nothing(self, target: Target) -> None:
        """Equal rows of a table without a key are all there, and a repeated batch is there once."""
        schema = table_schema("id INT", "v STRING")
        table = self.created(target, schema)
        for _ in range(2):
            self.write(target, table, schema, [(1, "a"), (1, "a")], 3)
        for _ in range(2):
            self.write(target, table, schema, [(1, "a")], 5)
        assert self.rows(target, table) == [(1, "a")] * 3
        self.write(target, table, schema, [(2, None)], 5, part=1)
        assert self.rows(target, table) == [(1, "a")] * 3 + [(2, None)]

    def test_an_earlier_batch_is_not_appended(self, target: Target) -> None:
        """Writing it is an error, or does nothing."""
        schema = table_schema("id INT")
        table = self.created(target, schema)
        for batch in (1, 2):
            self.write(target, table, schema, [(batch,)], batch)
        with contextlib.suppress(KvFormatError):
            self.write(target, table, schema, [(1,)], 1)
        assert self.rows(target, table) == [(1,), (2,)]

    def test_an_earlier_batch_is_not_merged(self, target: Target) -> None:
        """A batch of a replaced driver arrives late. Merging it raises an error or does nothing."""
        schema = table_schema("id INT", "v INT", key=["id"])
        table = self.created(target, schema)
        for batch in (1, 2):
            self.write(target, table, schema, [(1, batch, "+U")], batch)
        if not self.orders_merges:
            return
        with contextlib.suppress(KvFormatError):
            self.write(target, table, schema, [(1, 1, "+U")], 1)
        assert self.rows(target, table) == [(1, 2)]

    def test_a_table_of_another_query_is_not_written(self, target: Target) -> None:
        """The table was taken over. Writing or emptying it is an error that names `take_over`."""
        schema = table_schema("id INT", key=["id"])
        table = self.created(target, schema)
        self.write(target, table, schema, [(1, "+U")], 0)
        target.own(table, "another")
        truncate = functools.partial(self.change, target, events.TruncateTable(table), schema, 1)
        for step in (functools.partial(self.write, target, table, schema, [(2, "+U")], 1), truncate):
            refused = ""
            try:
                step()
            except ConfigurationError as error:
                refused = str(error)
            assert "take_over" in refused
        assert self.rows(target, table) == [(1,)]

    def test_two_queries_append_in_turn(self, target: Target) -> None:
        """Batches of different queries have equal numbers."""
        schema = table_schema("id INT")
        table = self.created(target, schema)
        self.write(target, table, schema, [(1,)], 7)
        target.own(table, "another")
        rows = target.spark.createDataFrame([(2,)], "id INT")
        for _ in range(2):
            target.write(table, schema, rows, BatchWrite("another", 0))
        assert self.rows(target, table) == [(1,), (2,)]

    def test_added_columns_are_null_in_old_rows(self, target: Target) -> None:
        """A repeated change does nothing."""
        keys: Sequence[Sequence[str]] = (["id"], [])
        for key in keys:
            schema = table_schema("id INT", "v STRING", key=key)
            kind = ("+U",) if key else ()
            table = self.created(target, schema)
            self.write(target, table, schema, [(1, "a", *kind)], 0)
            columns = (
                events.AddedColumn(SchemaColumn("w", parse_column_type("BIGINT"))),
                *_added("x DATE", "y.z STRING"),
            )
            event = events.AddColumns(table, columns)
            changed = self.change(target, event, schema, 1)
            target.change(event, changed, BatchWrite(self.query, 1))
            self.write(target, table, changed, [(2, "b", 5, None, "z", *kind)], 1)
            assert self.rows(target, table) == [(1, "a", None, None, None), (2, "b", 5, None, "z")]

    def test_columns_get_wider_types(self, target: Target) -> None:
        """In place, or all others by one `rewrite`; a repeated change does nothing. Old and new rows are there."""
        schema = table_schema("id INT", *(f"c{n} {a}" for n, (a, _) in enumerate(WIDER)), key=["id"])
        table = self.created(target, schema)
        values = ", ".join(f"{VALUES[a]} AS c{n}" for n, (a, _) in enumerate(WIDER))
        old = target.spark.sql(f"SELECT 1 AS id, {values}, '+U' AS {ROW_KIND}")
        target.write(table, schema, old, BatchWrite(self.query, 0))
        changed, refused = schema, []
        for n, (_, wider) in enumerate(WIDER):
            column = (f"c{n}", parse_column_type(wider))
            event = events.AlterColumnTypes(table, (column,))
            after = event.apply(changed)
            try:
                for _ in range(2):
                    target.change(event, after, BatchWrite(self.query, 1))
            except UnsupportedChangeError:
                refused.append(column)
            else:
                changed = after
        if refused:
            event = events.AlterColumnTypes(table, tuple(refused))
            changed = event.apply(changed)
            target.rewrite(table, changed)
            target.change(event, changed, BatchWrite(self.query, 1))
        new = converted_rows(old, stored_columns(changed), [ROW_KIND])
        target.write(table, changed, new.selectExpr("* EXCEPT (id)", "2 AS id"), BatchWrite(self.query, 1))
        old_row, new_row = self.rows(target, table)
        assert (old_row[0], new_row[0]) == (1, 2)
        assert old_row[1:] == new_row[1:] == tuple(new.drop(ROW_KIND, "id").collect()[0])
        existing = target.schema(table)
        assert existing is not None
        assert [f.dataType for f in existing.columns] == [f.dataType for f in stored_columns(changed)]
        assert existing.owner == self.query, "a rewritten table keeps its owner"

    def test_columns_are_renamed_and_dropped(self, target: Target) -> None:
        """A name that comes back is a new column."""
        schema = table_schema("id INT", "v STRING", "w INT")
        table = self.created(target, schema)
        self.write(target, table, schema, [(1, "a", 5)], 0)
        changed = schema
        for event in (events.RenameColumns(table, (("v", "u"),)), events.DropColumns(table, ("w",))):
            try:
                changed = self.change(target, event, changed, 1)
                self.change(target, event, changed, 1)
            except UnsupportedChangeError:
                assert not self.in_place
                return
        assert self.rows(target, table) == [(1, "a")]
        changed = self.change(target, events.AddColumns(table, _added("w INT")), changed, 2)
        self.write(target, table, changed, [(2, "b", 6)], 2)
        assert self.rows(target, table) == [(1, "a", None), (2, "b", 6)]

    def test_a_repeated_truncate_keeps_later_rows(self, target: Target) -> None:
        """Each step of a batch is repeated, after each other step."""
        keys: Sequence[Sequence[str]] = (["id"], [])
        for key in keys:
            schema = table_schema("id INT", key=key)
            kind = ("+U",) if key else ()
            table = self.created(target, schema)
            self.write(target, table, schema, [(1, *kind)], 0)
            truncated = events.TruncateTable(table)
            steps: list[Callable[[], object]] = [
                functools.partial(self.write, target, table, schema, [(2, *kind)], 1),
                functools.partial(self.change, target, truncated, schema, 1, part=1),
                functools.partial(self.write, target, table, schema, [(3, *kind)], 1, part=1),
            ]
            for end in range(1, len(steps) + 1):
                for step in steps[:end]:
                    step()
            assert self.rows(target, table) == [(3,)]
            for step in steps:
                step()
            assert self.rows(target, table) == [(3,)]
            self.write(target, table, schema, [(4, *kind)], 2)
            assert self.rows(target, table) == [(3,), (4,)]

    def test_a_dropped_table_can_be_created_again(self, target: Target) -> None:
        """The new table is empty, and has a schema of its own."""
        schema, other = table_schema("id INT"), table_schema("name STRING")
        table = self.created(target, schema)
        self.write(target, table, schema, [(1,)], 0)
        for _ in range(2):
            self.change(target, events.DropTable(table), schema, 1)
            assert target.schema(table) is None
        target.create(table, other, TableOptions(), self.query)
        self.write(target, table, other, [("a",)], 1)
        assert self.rows(target, table) == [("a",)]

    def test_unusual_names(self, target: Target) -> None:
        """Names of tables and columns with dots, quotes and letters of other languages."""
        schema = table_schema("id INT", *(f"{name} STRING" for name in self.names), key=["id", "a.b"])
        values = tuple(f"v{n}" for n in range(len(self.names)))
        for name in self.table_names:
            table = self.created(target, schema, name)
            self.write(target, table, schema, [(1, *values, "+U")], 0)
            self.write(target, table, schema, [(1, *values[:-1], None, "+U"), (2, *values, "+U")], 1)
            changed = self.change(target, events.AddColumns(table, _added("né.w INT")), schema, 2)
            self.write(target, table, changed, [(2, *values, 5, "+U"), (1, *values, None, "-D")], 2)
            assert self.rows(target, table) == [(2, *values, 5)]
            existing = target.schema(table)
            assert existing is not None
            assert existing.columns.names == ["id", *self.names, "né.w"]

    def test_values_of_all_types(self, target: Target) -> None:
        """What is read equals what was written, as the type that the target has for it; NULL too."""
        types = [t for t in VALUES if t != "TIME(6)" or self._has_time(target)]
        columns = [f"c{n} {t}" for n, t in enumerate(types)]
        keys: Sequence[Sequence[str]] = (["id"], [])
        for key in keys:
            schema = table_schema("id INT", *columns, key=key)
            table = self.created(target, schema)
            values = ", ".join(f"{VALUES[t]} AS c{n}" for n, t in enumerate(types))
            filled = target.spark.sql(f"SELECT 1 AS id, {values}")
            empty = converted_rows(target.spark.sql("SELECT 2 AS id"), stored_columns(schema))
            rows = filled.unionByName(empty)
            written = rows.selectExpr("*", f"'+U' AS {ROW_KIND}") if key else rows
            target.write(table, schema, written, BatchWrite(self.query, 0))
            existing = target.schema(table)
            assert existing is not None
            expected = converted_rows(rows, existing.columns).collect()
            read = self.read(target, table).orderBy("id").select(*map(exact_column, existing.columns.names)).collect()
            assert read == sorted(expected, key=lambda row: row["id"])
            assert len(read[0]) == len(types) + 1

    def test_it_can_be_pickled(self, target: Target) -> None:
        """Spark Connect pickles the query's function, without the session."""
        again = pickle.loads(pickle.dumps(target)).with_session(target.spark)
        table = self.created(again, table_schema("id INT"))
        assert target.schema(table) is not None

    def _has_time(self, target: Target) -> bool:
        return target.spark.conf.get("spark.sql.timeType.enabled", "false") == "true"


def _added(*columns: str) -> tuple[events.AddedColumn, ...]:
    return tuple(events.AddedColumn(column) for column in table_schema(*columns).columns)


def _ddl(column: SchemaColumn) -> str:
    return stored_columns(TableSchema((column,)))[0].dataType.simpleString()
