"""The tables that a history of messages gives do not depend on where its batches end, and texts stay as they are."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import uuid
from typing import Any

import pytest

from kvformat.ingestion import planning
from tests.fuzz.histories import compare_batchings, history
from tests.ingestion.folding import Folded, batchings, change
from tests.support.extent import case_count

NOON, DAY = "2024-02-29 12:00:00", "2024-02-29"

TEXTS = {
    "a time, then a word": [NOON, "abc", NOON],
    "a date, then a word": [DAY, "abc", DAY],
    "a date and midnight": [DAY, DAY + " 00:00:00"],
    "fractions with and without zeros": [NOON + ".5", NOON + ".50"],
    "a time with and without a fraction of zeros": [NOON, NOON + ".000"],
    "always three digits, then a word": [NOON + ".120", NOON + ".000", NOON + ".123", "abc"],
    "always one digit, then a word": [NOON + ".0", NOON + ".5", NOON + ".0", "abc"],
    "as many digits as needed, then a word": [NOON, NOON + ".5", NOON + ".25", "abc"],
    "at least one digit, then a word": [NOON + ".0", NOON + ".25", NOON + ".125", "abc"],
    "groups of three digits, then a word": [NOON, NOON + ".120", NOON + ".123450", "abc"],
    "micros": [NOON, NOON + ".123456", NOON],
    "nanos": [NOON + ".123456789", NOON + ".123456788"],
    "a zero date": [NOON, "0000-00-00 00:00:00", NOON],
    "with and without Z": [NOON, NOON + "Z", NOON],
    "with Z, then a word": [NOON + "Z", NOON + ".5Z", "abc"],
    "a space and a T": [NOON, NOON.replace(" ", "T"), NOON],
    "a time before the calendar of today": ["1000-01-01 00:00:00", "0001-01-01 00:00:00", "abc"],
    "a word first": ["abc", NOON, DAY],
    "an empty text": [NOON, "", NOON],
    "a time of day": ["12:00:00", NOON, "12:00:00"],
    "times and nothing else": [NOON, NOON + ".5", NOON],
}

TIMES_ONLY = {
    "SQL": ("times and nothing else", "micros"),
    "ISO-8601": ("times and nothing else", "micros", "a space and a T"),
}
"""The histories whose column stays a TIMESTAMP, because it writes all texts in one form."""


def _as_debezium(values: list[Any]) -> list[Any]:
    return [change("c", None, {"id": n, "v": v}) for n, v in enumerate(values)]


def _as_canal(values: list[Any], declared: str | None = None) -> list[Any]:
    types = None if declared is None else {"id": "int", "v": declared}
    common = {"type": "INSERT", "database": "shop", "table": "o", "pkNames": ["id"], "isDdl": False, "mysqlType": types}
    return [{"data": [{"id": str(n), "v": v}], "old": None, **common} for n, v in enumerate(values)]


def _as_maxwell(values: list[Any]) -> list[Any]:
    common = {"database": "shop", "table": "o", "type": "insert", "primary_key_columns": ["id"]}
    return [{**common, "data": {"id": n, "v": v}} for n, v in enumerate(values)]


def _as_json(values: list[Any]) -> list[Any]:
    return [json.dumps({"id": n, "v": v}) for n, v in enumerate(values)]


WRITERS = {"debezium-json": _as_debezium, "canal-json": _as_canal, "maxwell-json": _as_maxwell, "json": _as_json}


def _folds(value_format: str, messages: list[Any], options: dict[str, str] | None = None, key: str = "id") -> list[Any]:
    """Return the folded tables of all batchings."""
    found = []
    for batches in batchings(messages):
        folded = Folded(value_format, options, key)
        for batch in batches:
            folded.add(batch)
        assert folded.errors == []
        found.append(folded)
    return found


@pytest.mark.parametrize("standard", ["SQL", "ISO-8601"])
@pytest.mark.parametrize("value_format", WRITERS)
@pytest.mark.parametrize("text_case", TEXTS)
def test_texts_stay_as_they_are_wherever_batches_end(value_format: str, text_case: str, standard: str) -> None:
    values = TEXTS[text_case]
    if standard == "ISO-8601":
        values = [value.replace(" ", "T") for value in values]
    table = "t" if value_format == "json" else "shop.o"
    options = {f"{value_format}.timestamp-format.standard": standard}
    folds = _folds(value_format, WRITERS[value_format](values), options)
    assert len({json.dumps(f.types(table)) for f in folds}) == 1
    rows = [row["v"] for row in folds[0].tables()[table]]
    assert all(f.tables() == folds[0].tables() for f in folds)
    assert ("TIMESTAMP" in folds[0].types(table)["v"]) == (text_case in TIMES_ONLY[standard])
    if text_case not in TIMES_ONLY[standard]:
        assert rows == values


@pytest.mark.parametrize("values", TEXTS.values(), ids=TEXTS)
def test_two_texts_are_never_one_key_and_deletes_find_theirs(values: list[str]) -> None:
    messages = [change("c", None, {"id": v, "n": n}) for n, v in enumerate(values)]
    for folded in _folds("debezium-json", messages):
        assert len(folded.tables()["shop.o"]) == len(set(values))
    deletes = [change("d", {"id": v, "n": 0}) for v in values]
    for folded in _folds("debezium-json", [*messages, change("c", None, {"id": "last", "n": 9}), *deletes]):
        assert folded.tables()["shop.o"] == [{"id": "last", "n": 9}]


DECLARED = {
    "a zero date": ("datetime", [NOON, "0000-00-00 00:00:00", NOON]),
    "micros": ("datetime", [NOON, NOON + ".123456", NOON]),
    "micros with zeros": ("datetime(6)", [NOON + ".000000", NOON + ".120000", "0000-00-00 00:00:00.000000"]),
    "a date": ("date", [DAY, "0000-00-00", DAY]),
    "a boolean": ("tinyint(1)", ["1", "0", "2", "1"]),
    "a bit": ("bit(1)", ["1", "0", "x"]),
    "bits with leading zeros": ("bit(8)", ["200", "007", "7"]),
    "a double with a zero": ("double", ["1.50", "x", "1.50"]),
    "doubles of Java": ("double", ["1.0", "2.5", "1.0E10", "x"]),
    "doubles without a point": ("double", ["1", "2.5", "x"]),
    "leading zeros": ("bigint", ["007", "x", "7"]),
    "leading zeros of a decimal": ("decimal(10,2)", ["01.50", "x", "1.50"]),
    "a decimal": ("decimal(10,2)", ["1.50", "1.00", "x"]),
    "a decimal without zeros": ("decimal(10,2)", ["1.5", "1", "x"]),
    "a time": ("time", ["12:00:00", "-01:00:00", "12:00:00"]),
    "a time with millis": ("time(3)", ["12:00:00.000", "12:00:00.500", "99:00:00.000"]),
    "an integer": ("int", ["5", "-5", "x"]),
    "a year": ("year", ["2024", "0000", "2024"]),
}


@pytest.mark.parametrize(("declared", "values"), DECLARED.values(), ids=DECLARED)
def test_a_declared_type_that_a_value_does_not_fit_leaves_the_texts_as_they_are(
    declared: str, values: list[str]
) -> None:
    options = {"canal-json.infer-schema.strategy": "MYSQL_TYPE"}
    for folded in _folds("canal-json", _as_canal(values, declared), options):
        assert folded.types("shop.o")["v"] == "STRING"
        assert [row["v"] for row in folded.tables()["shop.o"]] == values


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("datetime(3)", [NOON + ".000", NOON + ".5"], "TIMESTAMP(3)"),
        ("decimal(10,2)", ["1.50", "1.5", "1"], "DECIMAL(10, 2)"),
        ("double", ["1.0", "1", "2.5"], "DOUBLE"),
        ("tinyint(1)", ["1", "true", "0"], "BOOLEAN"),
    ],
)
def test_a_declared_type_stays_when_its_texts_are_written_in_several_ways(
    declared: str, values: list[str], expected: str
) -> None:
    options = {"canal-json.infer-schema.strategy": "MYSQL_TYPE"}
    folds = _folds("canal-json", _as_canal(values, declared), options)
    assert all(folded.types("shop.o")["v"] == expected for folded in folds)
    assert all(folded.tables() == folds[0].tables() for folded in folds)


NUMBERS: dict[str, list[Any]] = {
    "a whole number, then a word": ["5", '"x"', "5"],
    "a fraction, then a word": ["2.5", '"x"', "2.5"],
    "a fraction with a zero, then a word": ["1.50", '"x"', "1.50"],
    "a whole number, a fraction, a word": ["5", "2.5", '"x"'],
    "a whole fraction, then a word": ["5.0", '"x"', "5"],
    "whole numbers, a fraction, then a word": ["12345678", "2.5", "90000000000", '"x"'],
    "prices, then a word": ["12.50", "3.00", "0.10", '"x"'],
    "a large number, then a word": ["12345678901234567890", '"x"', "5"],
    "fractions of several digits, then a word": ["2.25", "2.5", "0.125", '"x"'],
    "a boolean, then a number": ["true", "1", "false"],
    "a number, then a time": ["5", f'"{NOON}"', f'"{NOON}"'],
    "a time, then an object": [f'"{NOON}"', '{"a": 1.50}', f'"{NOON}"'],
    "negative zero, then a word": ["-0.0", '"x"', "-0"],
}


@pytest.mark.parametrize("value_format", ["debezium-json", "json"])
@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_become_text_do_not_depend_on_where_batches_end(value_format: str, values: list[str]) -> None:
    rows = [f'{{"id": {n}, "v": {value}}}' for n, value in enumerate(values)]
    if value_format == "debezium-json":
        source = '"op": "c", "source": {"db": "shop", "table": "o"}'
        rows = [f'{{"before": null, "after": {row}, {source}}}' for row in rows]
    folds = _folds(value_format, rows)
    assert all(folded.tables() == folds[0].tables() for folded in folds)


PLACEHOLDER = "__debezium_unavailable_value"
UNCHANGED = {
    "a text": ("big", PLACEHOLDER),
    "texts": (["x", "y"], [PLACEHOLDER]),
    "numbers": ([1, 2], [ord(c) for c in PLACEHOLDER]),
    "a UUID": (["6f1c1e9e-7a0e-4c34-9d3c-2a4f0e7d8a11"], ["1c2f4f34-6d18-3a5c-8e7e-9d2c4b7a6f10"]),
    "bytes": ("AAEC", base64.b64encode(PLACEHOLDER.encode()).decode()),
    "hexadecimal bytes": ("000102", PLACEHOLDER.encode().hex()),
    "arrays of bytes": (["AAEC"], [base64.b64encode(PLACEHOLDER.encode()).decode()]),
    "a map": ({"k": "v"}, {PLACEHOLDER: PLACEHOLDER}),
}


@pytest.mark.parametrize(("value", "placeholder"), UNCHANGED.values(), ids=UNCHANGED)
def test_values_that_did_not_change_are_kept_without_schemas(value: Any, placeholder: Any) -> None:
    if isinstance(value, list) and "-" in str(value[0]):
        digest = hashlib.md5(PLACEHOLDER.encode(), usedforsecurity=False).digest()
        placeholder = [str(uuid.UUID(bytes=digest, version=3))]
    options = {"debezium-json.unchanged.columns": "keep", "debezium-json.changelog.mode": "upsert"}
    messages = [
        change("c", None, {"id": 1, "a": value, "v": 1}),
        change("u", None, {"id": 1, "a": placeholder, "v": 2}),
    ]
    for folded in _folds("debezium-json", messages, options):
        (row,) = folded.tables()["shop.o"]
        shown = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        assert row == {"id": 1, "a": shown, "v": 2}


@pytest.mark.parametrize(
    ("size", "number", "expected"),
    [(8, "200", b"\xc8"), (64, "200", bytes(7) + b"\xc8"), (9, "256", b"\1\0"), (64, str(2**64 - 1), b"\xff" * 8)],
)
def test_bits_of_canal_are_the_bytes_of_their_number(size: int, number: str, expected: bytes) -> None:
    options = {"canal-json.infer-schema.strategy": "MYSQL_TYPE"}
    for folded in _folds("canal-json", _as_canal([number, None], f"bit({size})"), options):
        assert [row["v"] for row in folded.tables()["shop.o"]] == [expected, None]


def test_a_decimal_that_is_declared_without_digits_has_those_of_its_values() -> None:
    options = {"canal-json.infer-schema.strategy": "MYSQL_TYPE"}
    for folded in _folds("canal-json", _as_canal(["12.34", "5", "1234567890.5"], "decimal"), options):
        assert folded.types("shop.o")["v"] == "DECIMAL(12, 2)"


@pytest.mark.parametrize("value_format", ["debezium-json", "canal-json", "maxwell-json"])
def test_fixed_types_hold_for_change_data(value_format: str) -> None:
    options = {f"{value_format}.infer-schema.fixed-types": "v STRING"}
    for folded in _folds(value_format, WRITERS[value_format]([NOON, DAY]), options):
        assert folded.types("shop.o")["v"] == "STRING"


def test_a_random_history_gives_the_same_tables_in_all_batchings() -> None:
    """The fuzzer tries more of them."""
    rng = random.Random(41)
    cases, formats = case_count(quick=40, night=150), set[str]()
    for _ in range(cases):
        given = history(rng)
        formats.add(given.value_format)
        compare_batchings(given)
    print(f"{cases} histories")
    assert len(formats) == 4


def test_a_text_that_its_type_does_not_give_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: a column keeps a type that was inferred from texts of several forms."""
    monkeypatch.setattr(planning, "writes_all", lambda forms: True)
    rng = random.Random(41)
    histories = [history(rng) for _ in range(100)]
    with pytest.raises(AssertionError):
        [*map(compare_batchings, histories)]
