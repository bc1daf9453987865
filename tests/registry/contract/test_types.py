"""Schemas in every spelling, and the mapping of types between Flink, Spark and Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvformat.registry.contract.common_types import holds
from kvformat.registry.contract.ddl import parse_schema, parse_type
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.schemas import (
    TYPE_KEY,
    arrow_schema,
    resolve_schema,
    row_of_spark,
    row_type,
    spark_schema,
)
from kvformat.registry.contract.types import MAX_LENGTH, FlinkField, FlinkType, spark_type, with_time_digits

pyspark_types = pytest.importorskip("pyspark.sql.types")

_FLAT = st.one_of(
    st.sampled_from(
        [FlinkType(r) for r in ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE"]]
        + [FlinkType("INTERVAL YEAR TO MONTH"), FlinkType("INTERVAL DAY TO SECOND")]
    ),
    st.builds(lambda p, s: FlinkType("DECIMAL", precision=p, scale=min(p, s)), st.integers(1, 38), st.integers(0, 38)),
    st.builds(
        lambda r, n: FlinkType(r, length=n),
        st.sampled_from(["CHAR", "VARCHAR", "BINARY", "VARBINARY"]),
        st.sampled_from([1, 7, MAX_LENGTH]),
    ),
    st.builds(
        lambda r, p: FlinkType(r, precision=p),
        st.sampled_from(["TIME", "TIMESTAMP", "TIMESTAMP_LTZ"]),
        st.integers(0, 9),
    ),
)
_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).filter(lambda name: name.strip())


def _nested(inner: st.SearchStrategy[FlinkType]) -> st.SearchStrategy[FlinkType]:
    one = inner.map(lambda t: (FlinkField("element", t),))
    rows = st.lists(st.tuples(_NAMES, inner), min_size=1, max_size=3, unique_by=lambda field: field[0])
    return st.one_of(
        st.builds(lambda f: FlinkType("ARRAY", fields=f), one),
        st.builds(lambda f: FlinkType("MULTISET", fields=f), one),
        st.builds(lambda k, v: FlinkType("MAP", fields=(FlinkField("key", k), FlinkField("value", v))), inner, inner),
        st.builds(lambda fields: FlinkType("ROW", fields=tuple(FlinkField(n, t) for n, t in fields)), rows),
    )


_TYPES = st.recursive(_FLAT, _nested, max_leaves=5).flatmap(
    lambda t: st.booleans().map(lambda null: FlinkType(t.root, null, t.length, t.precision, t.scale, t.fields))
)
_ROWS = st.lists(st.tuples(_NAMES, _TYPES), max_size=4, unique_by=lambda field: field[0]).map(
    lambda fields: FlinkType("ROW", nullable=False, fields=tuple(FlinkField(n, t) for n, t in fields))
)


@given(_TYPES)
def test_the_text_of_a_type_can_be_parsed(t: FlinkType) -> None:
    assert parse_type(str(t)) == t


@given(_ROWS)
def test_arrow_and_spark_keep_every_type(row: FlinkType) -> None:
    assert row_type(arrow_schema(row)) == row
    assert row_of_spark(spark_schema(row)) == row
    assert resolve_schema(spark_schema(row)).equals(arrow_schema(row), check_metadata=True)


def test_flink_and_spark_spellings() -> None:
    flink = parse_schema(
        "ts TIMESTAMP(3) NOT NULL, r ROW<a INT, b ARRAY<STRING>>, b BYTES, t TIME(3), m MULTISET<STRING>, "
        "v VARCHAR(10), z TIMESTAMP_LTZ(3), user STRING, value INT COMMENT 'it''s', timestamp TIMESTAMP, "
        "`x y` INT ARRAY"
    )
    assert [field.name for field in flink.fields] == [
        "ts",
        "r",
        "b",
        "t",
        "m",
        "v",
        "z",
        "user",
        "value",
        "timestamp",
        "x y",
    ]
    assert str(flink.fields[0].type) == "TIMESTAMP(3) NOT NULL"
    spark = parse_schema(
        "a LONG, r STRUCT<a: INT, b: ARRAY<STRING>>, n TIMESTAMP_NTZ, d DECIMAL(5, 2), s SHORT, y BYTE"
    )
    assert [str(f.type) for f in spark.fields] == [
        "BIGINT", "ROW<`a` INT, `b` ARRAY<STRING>>", "TIMESTAMP(6)", "DECIMAL(5, 2)", "SMALLINT", "TINYINT",
    ]  # fmt: skip
    assert (
        parse_schema("ROW<a INT, b STRING>")
        == parse_schema("a INT, b STRING")
        == parse_schema("STRUCT<a: INT, b: STRING>")
    )


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIME", "TIME(0)"),
        ("BINARY", "BINARY(1)"),
        ("CHAR", "CHAR(1)"),
        ("VARCHAR", "STRING"),
        ("VARBINARY", "BYTES"),
        ("CHARACTER VARYING", "STRING"),
        ("BINARY VARYING", "BYTES"),
        ("BINARY VARYING(3)", "VARBINARY(3)"),
        ("ARRAY<VARCHAR>", "ARRAY<STRING>"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("numeric(5)", "DECIMAL(5, 0)"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("CHARACTER VARYING(5)", "VARCHAR(5)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"),
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP(6)"),
        ("INTERVAL YEAR(4) TO MONTH", "INTERVAL YEAR TO MONTH"),
        ("INTERVAL DAY TO SECOND(3)", "INTERVAL DAY TO SECOND"),
        ("INTERVAL HOUR", "INTERVAL DAY TO SECOND"),
        ("INTERVAL MINUTE TO SECOND", "INTERVAL DAY TO SECOND"),
        ("TIMESTAMP_LTZ(9)", "TIMESTAMP_LTZ(9)"),
        ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
        ("INT NULL", "INT"),
        ("ARRAY<INT NULL> NULL", "ARRAY<INT>"),
        ("VARCHAR(2147483646)", "VARCHAR(2147483646)"),
        ("INT" + " ARRAY" * 100, "ARRAY<" * 100 + "INT" + ">" * 100),
        ("INT NOT NULL ARRAY NOT NULL", "ARRAY<INT NOT NULL> NOT NULL"),
        ("ROW(a INT, b ROW<>)", "ROW<`a` INT, `b` ROW<>>"),
    ],
)
def test_types_have_the_meaning_of_flink(text: str, meaning: str) -> None:
    assert str(parse_type(text)) == meaning


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a INTT", "unknown type 'INTT'. Did you mean 'INT'?"),
        ("a INT, a STRING", "there are two columns named 'a'"),
        ("a DECIMAL(39, 1)", "DECIMAL needs a precision from 1 to 38"),
        ("a DECIMAL(5, 6)", "scale from 0 to the precision"),
        ("a TIMESTAMP(10)", "TIMESTAMP needs a precision from 0 to 9"),
        ("a TIMESTAMP_LTZ(10)", "TIMESTAMP_LTZ needs a precision from 0 to 9"),
        ("a TIMESTAMP(10) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ needs a precision from 0 to 9"),
        ("a TIME(10)", "TIME needs a precision from 0 to 9"),
        ("a TIMESTAMP_NTZ WITH LOCAL TIME ZONE", "expected ',', found 'WITH'"),
        ("a DECIMAL(0, 0)", "DECIMAL needs a precision from 1 to 38"),
        ("a CHAR(0)", "CHAR needs a length from 1"),
        ("a VARCHAR(2147483648)", "VARCHAR needs a length from 1 to 2147483647"),
        ("a INT VARYING", "INT VARYING is not a type"),
        ("a INTERVAL DAY TO DAY", "expected one of HOUR, MINUTE, SECOND, found 'DAY'"),
        ("a INTERVAL MONTH TO YEAR", "expected one of , found 'YEAR'"),
        ("a INTERVAL SECOND TO MINUTE", "found 'MINUTE'"),
        ("a TIMESTAMP(3) WITH TIME ZONE", "use TIMESTAMP or TIMESTAMP_LTZ"),
        ("a RAW('c', 's')", "no format supports the type RAW"),
        ("a ARRAY<INT", "expected '>', found the end of the text"),
        ("a INT b STRING", "expected ',', found 'b'"),
        ("a INT,", "expected a column after the comma"),
        ("a", "expected a type, found the end of the text"),
        ("a STRING(5)", "expected ',', found '('"),
        ("a § INT", "unexpected character '§', at character 3"),
        ("` ` INT", "must not be empty or blank"),
        ("a " + "ARRAY<" * 300 + "INT" + ">" * 300, "nested more than 100 levels deep"),
        ("a INT" + " ARRAY" * 101, "nested more than 100 levels deep"),
    ],
)
def test_errors_of_schemas_have_a_position(text: str, why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert why in str(caught.value)
    assert "⟨here⟩" in str(caught.value)


def test_arrow_schemas_are_accepted() -> None:
    given = pa.schema([("s", pa.large_string()), ("t", pa.timestamp("ms")), ("z", pa.timestamp("ns", "Europe/Berlin"))])
    assert [str(f.type) for f in row_type(given).fields] == ["STRING", "TIMESTAMP(3)", "TIMESTAMP_LTZ(9)"]
    for wrong in (pa.uint8(), pa.decimal256(50, 2), pa.null(), pa.date64()):
        with pytest.raises(SchemaError, match="column 'x'"):
            resolve_schema(pa.schema([("x", wrong)]))
    with pytest.raises(SchemaError, match="two columns named"):
        resolve_schema(pa.schema([("x", pa.int8()), ("x", pa.int8())]))
    with pytest.raises(SchemaError, match="a schema must be a Spark StructType"):
        resolve_schema({"a": "INT"})  # type: ignore[arg-type]


def test_two_fields_with_one_name_are_refused_at_any_depth() -> None:
    T = pyspark_types
    twice = pa.struct([("x", pa.int8()), ("x", pa.int8())])
    fields = [T.StructField("x", T.ByteType())] * 2
    for schema in (
        pa.schema([("r", pa.struct([("l", pa.list_(twice))]))]),
        T.StructType([T.StructField("r", T.StructType([T.StructField("l", T.ArrayType(T.StructType(fields)))]))]),
    ):
        with pytest.raises(SchemaError, match=r"there are two columns named 'x' in r\.l\.element") as caught:
            resolve_schema(schema)
        assert caught.value.field == "r.l.element"


@pytest.mark.parametrize("digits", [0, 3, 9])
def test_times_have_at_least_some_digits_at_every_level(digits: int) -> None:
    found = with_time_digits(parse_type("ROW<a ARRAY<TIME(1) NOT NULL>, m MAP<TIME(6), TIME>, t TIMESTAMP(0)>"), digits)
    one, six, none = (max(digits, declared) for declared in (1, 6, 0))
    assert str(found) == f"ROW<`a` ARRAY<TIME({one}) NOT NULL>, `m` MAP<TIME({six}), TIME({none})>, `t` TIMESTAMP(0)>"


def test_stale_metadata_is_ignored() -> None:
    renamed = pa.schema([pa.field("x", pa.int32(), metadata={TYPE_KEY: "TIMESTAMP(3)"})])
    assert str(row_type(renamed).fields[0].type) == "INT"
    T = pyspark_types
    struct = T.StructType([T.StructField("x", T.LongType(), True, {TYPE_KEY: "not a type"})])
    assert str(row_of_spark(struct).fields[0].type) == "BIGINT"


@pytest.mark.parametrize("nullable", [True, False])
def test_the_nullability_of_a_field_wins_over_that_of_its_metadata(nullable: bool) -> None:
    """A cast or an outer join may have changed it."""
    T, wanted = pyspark_types, "TIMESTAMP(3)" if nullable else "TIMESTAMP(3) NOT NULL"
    for text in ("TIMESTAMP(3)", "TIMESTAMP(3) NOT NULL"):
        arrow = pa.schema([pa.field("x", pa.timestamp("us"), nullable, {TYPE_KEY: text})])
        spark = T.StructType([T.StructField("x", T.TimestampNTZType(), nullable, {TYPE_KEY: text})])
        assert str(row_type(arrow).fields[0].type) == str(row_of_spark(spark).fields[0].type) == wanted


@pytest.mark.parametrize("text", ["ARRAY<{}>", "MAP<STRING, {}>", "ROW<a {}>", "MAP<STRING, ROW<l ARRAY<{}>>>"])
def test_a_result_of_python_may_have_null_at_every_level(text: str) -> None:
    """A null where the type has none would fail the whole job."""
    declared, free = (parse_type(text.format(inner)) for inner in ("INT NOT NULL", "INT"))
    assert spark_type(declared, wire=True) == spark_type(free, wire=True) == spark_type(free)
    assert spark_type(declared) != spark_type(free)


def test_spark_types_without_counterpart_are_refused() -> None:
    T = pyspark_types
    with pytest.raises(SchemaError, match=r"column 'v'.*void"):
        resolve_schema(T.StructType([T.StructField("v", T.NullType())]))
    assert spark_type(parse_type("TIME(3)")) == T.TimeType(3)
    assert spark_type(parse_type("TIME(3)"), wire=True) == T.TimeType(6)


@pytest.mark.parametrize(
    ("known", "held", "others"),
    [
        ("STRING NOT NULL", "STRING; INT; BYTES; ARRAY<INT>; DATE", ""),
        ("VARCHAR(3)", "VARCHAR(3); VARCHAR(3) NOT NULL", "VARCHAR(2); VARCHAR(4); CHAR(3); INT"),
        ("INT", "TINYINT; SMALLINT; INT NOT NULL", "BIGINT; DECIMAL(3, 0); FLOAT"),
        ("FLOAT", "TINYINT; SMALLINT; FLOAT", "INT; DOUBLE; DECIMAL(3, 0)"),
        ("DOUBLE", "BIGINT; FLOAT", "DECIMAL(5, 2); STRING"),
        ("DECIMAL(12, 2)", "INT; DECIMAL(5, 2); DECIMAL(10, 0)", "BIGINT; DECIMAL(5, 3); DECIMAL(11, 0); DOUBLE"),
        ("TIMESTAMP(3)", "TIMESTAMP(0)", "DATE; TIMESTAMP(6); TIMESTAMP_LTZ(3)"),
        ("TIMESTAMP(9)", "DATE; TIMESTAMP(6)", "TIMESTAMP_LTZ(0)"),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP(6)", "DATE; TIMESTAMP(9)"),
        ("BYTES", "BYTES NOT NULL", "STRING; BINARY(2)"),
        ("ROW<a INT>", "ROW<a INT NOT NULL> NOT NULL", "ROW<a BIGINT>; ROW<a INT, b INT>; STRING"),
    ],
)
def test_a_column_holds_the_types_that_do_not_change_it(known: str, held: str, others: str) -> None:
    one = parse_type(known)
    found = {text: holds(one, parse_type(text)) for text in f"{held}; {others}".split("; ") if text}
    assert found == {text: text in held.split("; ") for text in found}
