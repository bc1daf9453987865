"""Transforms in Spark: the projection, filter and kinds of a rule on the rows of one source table.

Spark evaluates expressions of Spark SQL, which `ingestion/pipeline/transform_sql.py` translates, and says their types.
Expressions of Flink SQL are evaluated by `flink_columns.py`. A record is bad if an expression fails for one of its
rows. An update is filtered in both its rows. A table with a key gets a deletion for each row that does not match, so a
row that no longer matches goes away. For a target of changes, an update of which only one row matches becomes an
insertion or a deletion.

A column that the messages have, with NULL only, has no type yet: it is NULL in expressions, and left out of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kvformat.ingestion.decoded_rows import POSITION, ROW_ERROR, TIMESTAMP, types_of_rows
from kvformat.ingestion.errors import table_error
from kvformat.ingestion.flink_columns import with_flink_columns
from kvformat.ingestion.pipeline.flink_projection import METADATA_TYPES
from kvformat.ingestion.pipeline.transform import TransformRule
from kvformat.ingestion.schemas.table_id import TableId
from kvformat.ingestion.schemas.table_schema import SchemaColumn, TableSchema
from kvformat.ingestion.spark_columns import with_spark_columns
from kvformat.ingestion.targets.types import stored_columns
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType, from_spark, nullable, quoted
from kvformat.registry.spark.decoded_columns import ROW_INDEX, ROW_KIND, exact_column
from kvformat.registry.sql.projected_expressions import projected_expression

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

_MATCHES = "_kvformat_matches"
_CONDITION = "_kvformat_condition"
_INTERNAL = (ROW_KIND, ROW_INDEX, *POSITION, TIMESTAMP, ROW_ERROR)


def needs_rows(rule: TransformRule | None) -> bool:
    """Whether a rule changes rows, and not only the key or the properties of a table."""
    return rule is not None and (rule.columns is not None or bool(rule.filter) or rule.soft_delete)


def _flink_types(schema: TableSchema) -> dict[str, FlinkType]:
    """Return the types of the columns that an expression of Flink SQL may use."""
    return {**{column.name: column.type for column in schema.columns}, **METADATA_TYPES}


def _with_nulls(text: str, schema: TableSchema, nulls: frozenset[str]) -> str:
    """Return an expression of Flink SQL with NULL in place of the columns that had no value yet."""
    return projected_expression(text, columns=_flink_types(schema), inlined=dict.fromkeys(nulls, "NULL")).source


def _check_types(rule: TransformRule, table: TableId, schema: TableSchema, nulls: frozenset[str]) -> None:
    """Raise `SchemaChangeError` if an expression of Flink SQL is refused for the types that its columns have now."""
    if not rule.is_flink:
        return
    expressions = {f"column '{item.name}'": item.flink for item in rule.computed}
    expressions |= {"the filter": rule.filter} if rule.filter else {}
    for what, text in expressions.items():
        refused = projected_expression(_with_nulls(text, schema, nulls), columns=_flink_types(schema)).refused
        if refused:
            raise table_error(
                table,
                f"{what} of the transform of '{rule.source_table}' can't be computed: {refused}. The "
                f"table's columns are {', '.join(schema.names)}",
            )
    same = [item.name for item in rule.computed if item.name in schema.names]
    if same:
        raise table_error(
            table,
            f"the messages have a column '{same[0]}', and so has the transform of "
            f"'{rule.source_table}'. Give one of them another name: the computed column, or those of the messages by "
            "'value.fields-prefix'",
        )


def analyzed(
    spark: SparkSession, rule: TransformRule, table: TableId, schema: TableSchema, nulls: frozenset[str] = frozenset()
) -> TableSchema:
    """Return the columns of a table after a projection: their types are those that Spark derives.

    A column that passes as it is keeps its type of Flink. `nulls` are columns that came with NULL only. Raises
    `SchemaChangeError` with Spark's answer.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import types as T

    _check_types(rule, table, schema, nulls)
    stored = stored_columns(schema)
    fields = [*stored.fields, *map(T.StructField, _INTERNAL, types_of_rows())]
    try:
        rows = spark.createDataFrame([], T.StructType(fields))
        row_type = transformed(rows, rule, table, schema, nulls=nulls, changes=False).schema
    except AnalysisException as error:
        first_line = str(error).partition("\n")[0]  # the plan is behind it
        raise table_error(
            table,
            f"the transform of '{rule.source_table}' can't be applied: {first_line} The table's "
            f"columns are {', '.join(schema.names)}. 'table.columns' or 'scan.value.initial-schemas.ddls' declares a "
            "column that is not in its messages yet",
        ) from error
    computed = _computed_types(rule, schema, nulls)
    passed = {item.name for item in rule.columns or () if item.spark in ("", quoted(item.name))}
    columns = []
    for field in row_type.fields:
        if field.name in _INTERNAL or (nulls and isinstance(field.dataType, T.NullType)):
            continue
        kept = schema.column(field.name)
        if kept is not None and ("" in passed or field.name in passed) and not _is_computed(rule, field.name):
            columns.append(kept)
        elif field.name in computed:
            columns.append(SchemaColumn(field.name, computed[field.name]))
        else:
            columns.append(SchemaColumn(field.name, _type_of(field, rule, table)))
    return replace(schema, columns=tuple(columns))


def _computed_types(rule: TransformRule, schema: TableSchema, nulls: frozenset[str]) -> dict[str, FlinkType]:
    """Return the types of the columns computed in Flink SQL, whose expressions were checked."""
    if not rule.is_flink:
        return {}
    types = _flink_types(schema)
    computed = {
        item.name: projected_expression(_with_nulls(item.flink, schema, nulls), columns=types).type
        for item in rule.computed
    }
    return {name: nullable(type_) for name, type_ in computed.items() if type_ is not None}


def _type_of(field: StructField, rule: TransformRule, table: TableId) -> FlinkType:
    try:
        return nullable(from_spark(field.dataType, True, field.name))
    except SchemaError as error:  # Spark's NULL has a type that tables do not have
        raise table_error(
            table,
            f"the transform of '{rule.source_table}' can't be applied: {error}. Give the column another type by CAST",
        ) from error


def _is_computed(rule: TransformRule, name: str) -> bool:
    return any(item.name == name for item in rule.computed)


def transformed(
    rows: DataFrame,
    rule: TransformRule,
    table: TableId,
    schema: TableSchema,
    *,
    nulls: frozenset[str] = frozenset(),
    changes: bool,
    upserts: bool = False,
) -> DataFrame:
    """Return the rows after a rule, with the internal columns of `TableDecoder.rows`.

    `schema` has the columns before, `nulls` those that came with NULL only. `changes` says whether the target takes all
    changes, and not the last rows by key; `upserts` whether the changes lack the rows before them.
    """
    from pyspark.sql import functions as F

    known = {
        "__namespace_name__": F.lit(table.namespace or ""),
        "__schema_name__": F.lit(table.schema or ""),
        "__table_name__": F.lit(table.table),
        "__data_event_type__": exact_column(ROW_KIND),
    }
    rows = rows.withColumns({name: known[name] for name in sorted(rule.metadata)}) if rule.metadata else rows
    expressions = {item.name: item.flink if rule.is_flink else item.spark for item in rule.computed}
    condition = {_CONDITION: rule.filter} if rule.filter else {}
    if rule.is_flink and (expressions or condition):
        texts = {name: _with_nulls(text, schema, nulls) for name, text in (expressions | condition).items()}
        rows = with_flink_columns(rows, str(table), texts, _flink_types(schema))
    elif not rule.is_flink:
        rows = rows.withColumns(dict.fromkeys(sorted(nulls), F.lit(None))) if nulls else rows
        for columns in (expressions, condition):  # a filter may use a computed column
            rows = with_spark_columns(rows, columns) if columns else rows
    keyed = bool(schema.primary_key or rule.primary_keys)
    if rule.soft_delete:  # before the filter: its deletions are real ones
        kind = F.when(F.col(ROW_KIND) == "-D", "+U" if keyed else "+I")
        rows = rows.withColumn(ROW_KIND, kind.otherwise(F.col(ROW_KIND)))
    if rule.filter:
        rows = _filtered(rows, F.col(_CONDITION), keyed=keyed, changes=changes, upserts=upserts)
    return rows.select(*_projected(rule, schema.names, nulls), *_INTERNAL)


def _projected(rule: TransformRule, names: Sequence[str], nulls: frozenset[str]) -> list[Column]:
    """Return the columns of the projection; `*` is all columns that it does not name."""
    if rule.columns is None:
        return [exact_column(name) for name in names]
    named = {item.name for item in rule.columns if item.name}
    selected: list[str] = []
    for item in rule.columns:
        if not item.name:
            selected += [name for name in names if name not in named]
        elif item.name not in nulls or item in rule.computed:
            selected.append(item.name)
    return [*map(exact_column, selected)]


def _filtered(rows: DataFrame, condition: Column, *, keyed: bool, changes: bool, upserts: bool) -> DataFrame:
    """Return the rows that match, and deletions of those that do not match any more.

    Without the rows before, any row that was updated or deleted may have matched. A row with an error passes: its whole
    record is bad.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    matches = exact_column(ROW_ERROR).isNotNull() | F.coalesce(condition.cast("boolean"), F.lit(False))
    kind = F.col(ROW_KIND)
    if not changes:
        if not keyed:
            return rows.where(matches)
        return rows.withColumn(ROW_KIND, F.when(matches, kind).otherwise(F.when(kind == "-U", "-U").otherwise("-D")))
    if keyed and upserts:
        return rows.where(matches | (kind != "+I")).withColumn(ROW_KIND, F.when(matches, kind).otherwise("-D"))
    rows = rows.withColumn(_MATCHES, matches)
    *partition, offset = map(exact_column, POSITION)
    in_order = Window.partitionBy(*partition).orderBy(offset, ROW_INDEX)  # one task writes a partition, in its order
    before = F.when(offset == F.lag(offset).over(in_order), F.lag(F.struct(ROW_KIND, _MATCHES)).over(in_order))
    after = F.when(offset == F.lead(offset).over(in_order), F.lead(F.struct(ROW_KIND, _MATCHES)).over(in_order))
    alone = F.when((kind == "+U") & (before[ROW_KIND] == "-U") & ~before[_MATCHES], "+I").when(
        (kind == "-U") & (after[ROW_KIND] == "+U") & ~after[_MATCHES], "-D"
    )
    rows = rows.withColumn("_kvformat_alone", F.coalesce(alone, kind)).where(F.col(_MATCHES))
    return rows.withColumn(ROW_KIND, F.col("_kvformat_alone")).drop("_kvformat_alone", _MATCHES)
