"""The lattice of types."""

from __future__ import annotations

import itertools
import random

import pytest

from kvformat.ingestion.schemas.types import is_compatible, merge_types, note_on_merge, parse_column_type
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.contract.types import FlinkType
from tests.support.extent import case_count

_PLAIN = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES", "DATE", "VARIANT"),
    *("INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND", "ARRAY<INT>", "MAP<STRING, INT>", "MULTISET<STRING>"),
]


def _random_type(random_source: random.Random, depth: int = 0) -> FlinkType:
    kind = random_source.randrange(9)
    if kind == 0:
        precision = random_source.randint(1, 38)
        text = f"DECIMAL({precision}, {random_source.randint(0, precision)})"
    elif kind == 1:
        text = f"{random_source.choice(['CHAR', 'VARCHAR', 'BINARY', 'VARBINARY'])}({random_source.randint(1, 30)})"
    elif kind == 2:
        kinds = ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_TZ")
        text = f"{random_source.choice(kinds)}({random_source.randint(0, 9)})"
    elif kind == 3 and depth == 0:
        text = f"ROW<a {_random_type(random_source, 1)}>" if random_source.random() < 0.5 else "ROW<b INT>"
    else:
        text = random_source.choice(_PLAIN)
    if depth and (text.startswith("TIMESTAMP_TZ") or text == "VARIANT"):
        text = "INT"
    return parse_column_type(text + random_source.choice(["", " NOT NULL"]))


def test_merging_is_commutative_associative_and_idempotent() -> None:
    """So neither the order of messages nor that of tasks can change a type."""
    random_source = random.Random(24)
    types = list(dict.fromkeys(_random_type(random_source) for _ in range(case_count(quick=250, night=700))))
    triples = 0
    for one in types:
        assert merge_types(one, one) == one
    for one, other in itertools.combinations(types, 2):
        assert merge_types(one, other) == merge_types(other, one)
    for _ in range(case_count(quick=10_000, night=50_000)):
        a, b, c = random_source.choices(types, k=3)
        assert merge_types(merge_types(a, b), c) == merge_types(a, merge_types(b, c)), f"{a}; {b}; {c}"
        assert merge_types(merge_types(a, b), b) == merge_types(a, b), f"{a}; {b}"
        triples += 1
    assert len(types) >= 90
    assert triples >= 10_000


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ("INT", "DECIMAL(5, 2)", "DECIMAL(12, 2)"),
        ("BIGINT", "DECIMAL(30, 20)", "STRING"),
        ("DECIMAL(20, 0)", "DECIMAL(20, 19)", "STRING"),
        ("DECIMAL(5, 2)", "DECIMAL(36, 0)", "DECIMAL(38, 2)"),
        ("DECIMAL(5, 2)", "DECIMAL(37, 0)", "STRING"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 4)", "DECIMAL(12, 4)"),
        ("TINYINT", "DECIMAL(38, 35)", "DECIMAL(38, 35)"),
        ("TINYINT", "DECIMAL(38, 36)", "STRING"),
        ("SMALLINT", "DECIMAL(38, 33)", "DECIMAL(38, 33)"),
        ("SMALLINT", "DECIMAL(38, 34)", "STRING"),
        ("INT", "DECIMAL(38, 28)", "DECIMAL(38, 28)"),
        ("INT", "DECIMAL(38, 29)", "STRING"),
        ("BIGINT", "DECIMAL(38, 19)", "DECIMAL(38, 19)"),
        ("BIGINT", "DECIMAL(38, 20)", "STRING"),
        ("TINYINT", "FLOAT", "FLOAT"),
        ("SMALLINT", "FLOAT", "FLOAT"),
        ("INT", "FLOAT", "DOUBLE"),
        ("DECIMAL(5, 2)", "DOUBLE", "STRING"),
        ("DATE", "TIMESTAMP(3)", "TIMESTAMP(9)"),
        ("TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"),
        ("TIME(0)", "TIME(3)", "STRING"),
        ("VARCHAR(10)", "VARCHAR(20)", "STRING"),
        ("ARRAY<INT>", "ARRAY<BIGINT>", "STRING"),
        ("INT NOT NULL", "BIGINT NOT NULL", "BIGINT NOT NULL"),
        ("INT NOT NULL", "BIGINT", "BIGINT"),
    ],
)
def test_least_common_types(one: str, other: str, merged: str) -> None:
    assert str(merge_types(parse_column_type(one), parse_column_type(other))) == merged


def test_a_compatible_column_keeps_its_type() -> None:
    random_source = random.Random(1)
    found = 0
    for _ in range(20_000):
        one, other = _random_type(random_source), _random_type(random_source)
        if is_compatible(one, other):
            found += 1
            assert merge_types(one, other) == one
    assert found > 500


def test_lossy_changes_have_a_note() -> None:
    def note(one: str, other: str) -> str:
        return note_on_merge(parse_column_type(one), parse_column_type(other))

    assert "need 40 digits together" in note("DECIMAL(5, 2)", "DECIMAL(38, 0)")
    assert note("DECIMAL(30, 0)", "DECIMAL(10, 8)") == note("DECIMAL(10, 8)", "DECIMAL(30, 0)") == ""
    assert "need 39 digits together" in note("DECIMAL(31, 0)", "DECIMAL(10, 8)")
    for one, other in itertools.permutations(("BIGINT", "DOUBLE", "FLOAT"), 2):
        assert ("only up to 2^53" in note(one, other)) == ("BIGINT" in (one, other))
    assert "BOOLEAN and INT become STRING, the only type that holds both" in note("BOOLEAN", "INT")
    assert "INT and STRING become STRING" in note("INT", "STRING")
    assert note("INT", "DOUBLE") == note("DECIMAL(5, 2)", "DECIMAL(10, 2)") == note("VARCHAR(5)", "STRING") == ""


def test_texts_of_types_that_only_the_lattice_has() -> None:
    for text in ("TIMESTAMP_TZ(3)", "TIMESTAMP_TZ(9) NOT NULL", "VARIANT", "VARIANT NOT NULL", "ROW<`a` INT> NOT NULL"):
        assert str(parse_column_type(text)) == text
    with pytest.raises(SchemaError, match="no format supports the type TIMESTAMP_TZ"):
        parse_column_type("ARRAY<TIMESTAMP_TZ(3)>")
