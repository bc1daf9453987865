"""Declared columns of a source: which members of messages they are, and what is an error."""

from __future__ import annotations

import pytest

from kvformat.ingestion import Pipeline
from kvformat.ingestion.pipeline.declared_columns import DeclaredColumns
from kvformat.registry import ConfigurationError
from kvformat.registry.contract.types import FlinkType
from tests.support.sources import BASE, source_of

_KEYED = {
    "value.format": "json",
    "key.format": "json",
    "key.fields": "key_id;key_no",
    "key.fields-prefix": "key_",
    "value.fields-prefix": "val_",
    "value.fields-include": "EXCEPT_KEY",
    "table.columns": "val_name VARCHAR(200) NOT NULL, `key_id` INT NOT NULL, part BIGINT NOT NULL METADATA FROM "
    "'partition', `offset` INT METADATA",
}
_INT, _NAME = FlinkType("INT"), FlinkType("VARCHAR", length=200)


def test_columns_are_members_of_keys_and_values_or_metadata() -> None:
    found = source_of(**_KEYED)
    declared = found.declared
    assert declared.names == ("val_name", "key_id", "part", "offset")
    assert (declared.key, declared.value, declared.fixed) == ({"id": _INT}, {"name": _NAME}, {"name": _NAME})
    assert (declared.key_members, declared.left_out) == ({"id", "no"}, frozenset())
    assert declared.not_null == {"val_name", "key_id"}
    assert found.fixed_types == {"name": _NAME}
    metadata = {name: (column.key, str(column.type)) for name, column in found.metadata.items()}
    assert metadata == {"part": ("partition", "BIGINT NOT NULL"), "offset": ("offset", "INT")}
    assert (declared.is_column("key", "no"), declared.is_column("key", "x")) == (True, False)
    assert source_of().declared == DeclaredColumns()
    assert source_of().declared.is_column("key", "x")


def test_values_that_have_the_key_columns_too() -> None:
    both = {"value.format": "json", "key.format": "json", "key.fields": "id", "table.columns": "id INT, name STRING"}
    declared = source_of(**both).declared
    assert (set(declared.key), set(declared.value), set(declared.fixed)) == ({"id"}, {"name"}, {"id", "name"})
    assert declared.left_out == frozenset()
    declared = source_of(**both, **{"value.fields-include": "except_key"}).declared
    assert (set(declared.fixed), declared.left_out) == ({"name"}, {"id"})


def test_a_key_column_that_no_value_column_can_have_has_no_type_in_values() -> None:
    """Its name does not begin with the prefix of value columns."""
    declared = source_of(**{**_KEYED, "value.fields-include": "ALL"}).declared
    assert (set(declared.key), set(declared.fixed)) == ({"id"}, {"name"})


def test_expressions_know_declared_columns_by_their_names_in_the_table() -> None:
    types = {name: str(t) for name, t in source_of(**_KEYED).column_types().items()}
    assert types == {"val_name": "VARCHAR(200)", "key_id": "INT", "part": "BIGINT NOT NULL", "offset": "INT"}


def test_the_explanation_has_the_columns() -> None:
    told = Pipeline({**BASE, **_KEYED, "metadata.list": "timestamp"}, {"type": "values"}).explain().splitlines()
    assert [line for line in told if line.startswith(("  columns", "  other"))] == [
        "  columns of the value: val_name VARCHAR(200)",
        "  columns of the key: key_id INT",
        "  columns of the key, types by its values: key_no",
        "  other members of the key: no columns",
        "  columns of the record: part BIGINT NOT NULL from partition, offset INT, timestamp TIMESTAMP_LTZ(3)",
    ]
    assert not any("fixed types" in line for line in told)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"table.columns": "id INT,"}, "source: option 'table.columns': cannot read the columns: expected a column"),
        ({"table.columns": "a INT b"}, "expected ',' or the end of the text, found 'b', at line 1, column 7"),
        ({"table.columns": "a INT,\n b AS a + 1"}, "a computed column is not allowed here, .* at line 2, column 2"),
        ({"table.columns": "a INT PRIMARY KEY NOT ENFORCED"}, "a PRIMARY KEY is not allowed here"),
        ({"table.columns": "a INT, a INT"}, "there are two columns named 'a'"),
        ({"table.columns": "p INT METADATA FROM 'partitoin'"}, "'partitoin' is unknown. Did you mean 'partition'"),
        ({"table.columns": "p INT METADATA FROM 'value.source.table'"}, "belongs to a format, and only that of the"),
        ({"table.columns": "p INT METADATA FROM 'leader-epoch'"}, "is not in Spark's Kafka source"),
        ({"table.columns": "t INT METADATA FROM 'timestamp'"}, r"TIMESTAMP_LTZ\(3\), which can't be read as INT"),
        ({"table.columns": "t TIME METADATA FROM 'timestamp'"}, r"which can't be read as TIME\(0\)"),
        ({"table.columns": "o INT METADATA FROM 'offset'", "metadata.list": "topic,o"}, "no column 'o'"),
        ({"table.columns": "`offset` INT METADATA", "metadata.list": "offset"}, "both|have the column 'offset'"),
        ({"table.columns": "name INT", "value.fields-prefix": "val_"}, "column 'name' does not begin with 'value.fi"),
        ({"table.columns": "val_ INT", "value.fields-prefix": "val_"}, "column 'val_' has no name without"),
        ({"table.columns": "a INT", "value.format": "csv"}, "messages of 'csv' do not name their columns.*maintain"),
        (
            {"table.columns": "a INT", "scan.value.initial-schemas.ddls": "CREATE TABLE t (a INT)"},
            "'scan.value.initial-schemas.ddls' and 'table.columns' both declare columns",
        ),
        (
            {"table.columns": "a INT", "value.format": "json", "json.infer-schema.fixed-types": "a INT"},
            "both have the column 'a'",
        ),
        ({"key.fields": "a"}, "'key.fields' needs 'key.format'"),
        ({"key.format": "json", "value.fields-include": "EXCEPT_KEY"}, "'EXCEPT_KEY' needs 'key.fields'"),
        (
            {"key.format": "json", "key.fields": "id", "key.fields-prefix": "k_"},
            "'id' does not begin with 'key.fields-prefix' = 'k_'",
        ),
        (
            {"key.format": "json", "key.fields": "offset", "table.columns": "`offset` INT METADATA"},
            "column 'offset' is metadata of the record",
        ),
        ({"value.fields-include": "NONE"}, r"supported values are \[ALL, EXCEPT_KEY\]"),
    ],
)
def test_errors(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        source_of(**options)
