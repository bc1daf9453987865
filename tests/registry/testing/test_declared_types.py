"""The types of a declaration: the test kit accepts every type of a schema and reports other texts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvformat.codecs.debezium_json import DebeziumJsonFormat
from kvformat.codecs.json.format import JsonFormat
from kvformat.registry import ConfigurationError
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.types import arrow_type, nullable
from kvformat.registry.testing import RULES, BrokenRules, Declaration, FormatContract, Sample, check_format
from kvformat.registry.testing.edges import known_type, rows_of
from kvformat.registry.testing.rules import Rule, check_rule
from kvformat.registry.testing.subject import Subject

TYPES = (
    *("MAP<STRING, INT>", "map<string,bigint>", "int", "LONG", "CHAR(3)", "varchar(30)", "BINARY(2)", "VARBINARY(300)"),
    *("decimal(5,2)", "DECIMAL", "TIME", "TIME(1)", "TIME(6)", "timestamp", "TIMESTAMP(0)", "TIMESTAMP(9)"),
    *("TIMESTAMP_LTZ(1)", "TIMESTAMP WITH LOCAL TIME ZONE", "STRUCT<a: LONG, b: ARRAY<DECIMAL(3, 1)>>", "ROW<x TIME>"),
    *("ARRAY<INT NOT NULL>", "INT NOT NULL", "MULTISET<BIGINT>", "MAP<ARRAY<INT>, ROW<a DATE>>", "INTERVAL DAY"),
    *("INTERVAL MONTH", "ARRAY<TIME(3)>", "MAP<DOUBLE, FLOAT>", "ARRAY<ARRAY<MAP<INT, MULTISET<STRING>>>>"),
)


@pytest.mark.parametrize("text", TYPES)
def test_every_type_of_a_schema_has_edge_values(text: str) -> None:
    rows = rows_of(known_type(text))
    rows.validate(full=True)
    assert rows.type.field("v").type == arrow_type(nullable(parse_type(text)))
    assert rows.field("v").null_count >= 1
    assert len(rows) >= 3
    assert known_type(known_type(text)) == known_type(text)


def test_a_type_has_the_same_edge_values_in_every_spelling() -> None:
    for text, same in (("map< string , bigint >", "MAP<STRING, BIGINT>"), ("VARCHAR(2147483647)", "STRING")):
        assert known_type(text) == same
        assert rows_of(text).equals(rows_of(same))


def test_types_may_be_declared_in_any_spelling() -> None:
    declared = Declaration(
        JsonFormat,
        samples=[Sample("id INT", [{"id": 1}])],
        bad=[b"{torn"],
        types=["MAP<STRING, INT>", "integer", "double", "decimal(5,2)", "struct<a: long>", "map<int, int>", "TIME"],
        unsupported=["MAP<INT,INT>"],
        changed_reads={"double as integer": {"7.9": "7", "-0.5": "0"}},
    )
    subject, compared = Subject(declared), 0
    assert subject.served == ["MAP<STRING, INT>", "INT", "DOUBLE", "DECIMAL(5, 2)", "ROW<`a` BIGINT>", "TIME(0)"]
    for name in ("types", "edges", "rows_alone", "other_types", "wide_schemas"):
        found = check_rule(RULES[name], subject)
        assert (found.broken, found.left_out) == (None, None)
        compared += found.compared
    assert compared >= 150


def test_check_format_accepts_any_spelling_of_types() -> None:
    schema = "m MAP<STRING, INT>"
    report = check_format(JsonFormat(), [{"m": {"a": 1}}], schema=schema, types=[schema[2:]], bad=[b"{"])
    assert report.compared["edges"] >= 8
    with pytest.raises(BrokenRules, match="`bad` declares no messages"):
        check_format(JsonFormat(), [{"id": 1}], schema="id INT", types=[])


def test_check_format_compares_the_kinds_of_rows() -> None:
    messages = [b'{"before":null,"after":{"id":1},"op":"c"}', b'{"before":{"id":2},"after":null,"op":"d"}']
    rows, given = [{"id": 1}, {"id": 2}], {"schema": "id INT", "types": [], "messages": messages, "bad": [b"{"]}
    report = check_format(DebeziumJsonFormat(), rows, row_kinds=["+I", "-D"], **given)  # type: ignore[arg-type]
    assert report.compared["round_trip"] >= 4
    with pytest.raises(BrokenRules, match=r"breaks the rule round_trip: .*expected .* got .* of the kinds"):
        check_format(DebeziumJsonFormat(), rows, **given)  # type: ignore[arg-type]


def test_a_rule_that_compares_nothing_is_broken() -> None:
    """A sample that fits a rule is missing: silence would look like success."""
    idle = Rule("idle", "object", (), "Nothing is compared.", "docs/plugins.md", lambda subject: None)
    found = check_rule(idle, Subject(Declaration(JsonFormat)))
    assert found.broken is not None
    assert "compared nothing, because no sample fits it. Declare more `samples`" in found.broken


@pytest.mark.parametrize("name", ["types", "unsupported", "unlike_wider"])
def test_a_text_that_is_not_a_type_is_reported(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot test the type 'MAPP<INT>': .* Did you mean 'MAP'\?"):
        Declaration(JsonFormat, **{name: ["MAPP<INT>"]})

    class Wrong(FormatContract):
        format = "json"

    setattr(Wrong, name, ["MAPP<INT>"])
    with pytest.raises(ConfigurationError, match="cannot test the type 'MAPP<INT>'"):
        Wrong().check(RULES["edges"])


def test_a_malformed_pair_of_types_is_reported() -> None:
    with pytest.raises(ConfigurationError, match="write it as 'DOUBLE as INT'"):
        Declaration(JsonFormat, changed_reads={"DOUBLE": {"7.9": "7"}})
    with pytest.raises(ConfigurationError, match="cannot test the type 'INTT'"):
        Declaration(JsonFormat, changed_values={"INTT": {}})


def test_a_type_that_contains_an_unsupported_type_is_unsupported() -> None:
    subject = Subject(Declaration(JsonFormat, types=["ARRAY<TIME(3)>", "ARRAY<TIME(0)>"], unsupported=["TIME(3)"]))
    assert subject.served == ["ARRAY<TIME(0)>"]
    assert isinstance(rows_of("ARRAY<TIME(0)>"), pa.StructArray)
