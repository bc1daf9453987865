"""Checks of a table before a job: its options and their values, names of the key's columns, casts of metadata."""

from __future__ import annotations

import json
import string
from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import ConfigurationError, KeyValueFormat
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.table.metadata import castable

_KEYED = {"key.format": "json", "key.fields": "id", "value.format": "json"}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ("id;id;id", ["id", "id_$0", "id_$1"]),
        ("id;v;id;v", ["id", "v", "id_$0", "v_$1"]),
        ("id;id_$0;id", ["id", "id_$0", "id_$0_$1"]),
    ],
)
def test_one_number_counts_the_repeats_of_all_key_fields(fields: str, names: list[str]) -> None:
    """As in Flink's `Projection`, which appends the next number until the name is new."""
    kv = KeyValueFormat("id INT, v INT, `id_$0` INT", {**_KEYED, "key.fields": fields})
    rows = pa.array([{"id": 1, "v": 2, "id_$0": 3}], pa.struct({name: pa.int32() for name in ("id", "v", "id_$0")}))
    (key,) = kv.encode_batch(rows).keys.to_pylist()  # type: ignore[union-attr]
    assert [*json.loads(key)] == names


@pytest.mark.parametrize(("count", "more"), [(1, None), (20, None), (21, "... and 1 more"), (26, "... and 6 more")])
def test_twenty_unknown_options_are_listed(count: int, more: str | None) -> None:
    names = [f"zz.{letter}" for letter in string.ascii_lowercase[:count]]
    with pytest.raises(OptionError) as caught:
        KeyValueFormat("v STRING", {"format": "json", **dict.fromkeys(names, "x")})
    listed = str(caught.value).partition("Unsupported options:\n\n")[2].partition("\n\n")[0].splitlines()
    assert listed == [*names[:20], *([] if more is None else [more])]


@pytest.mark.parametrize("secret", ["hunter2", "', Hunter two", "hunter-two!"])
def test_an_unknown_option_that_may_be_a_value_is_hidden(secret: str) -> None:
    """A missing quote makes a name of a value."""
    with pytest.raises(OptionError, match="hidden, as it does not look like an option; is a quote missing") as caught:
        KeyValueFormat("v STRING", {"format": "json", secret: "x"})
    assert secret not in f"{caught.value} {caught.value.option}"


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("quote", ["", "'"])
def test_the_name_of_a_format_that_may_hold_other_options_is_hidden(part: str, quote: str) -> None:
    """A quote is missing, or is there twice."""
    name = f"json{quote}, {quote}properties.ssl.key.password{quote} = {quote}hunter2"
    with pytest.raises(OptionError, match=f"option '{part}.format': there is no format of this name") as caught:
        KeyValueFormat("id INT, v STRING", {**_KEYED, f"{part}.format": name})
    assert "hunter2" not in str(caught.value)


def test_options_that_differ_in_letter_case_only_are_refused() -> None:
    told = r"Property already present: topic \(as 'topic' and 'TOPIC'\)"
    with pytest.raises(ConfigurationError, match=told):
        KeyValueFormat("v STRING", {"format": "json", "topic": "a", "TOPIC": "b"})


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false"), (2, "2"), ("TRUE", "TRUE")])
def test_the_value_of_an_option_may_be_a_bool_or_a_number(value: Any, text: str) -> None:
    name = "scan.parallelism" if text == "2" else "json.ignore-parse-errors"
    kv = KeyValueFormat("v STRING", {"format": "json", name: value})
    assert kv.options[name] == kv.with_options({name: value}).options[name] == text


def test_a_table_that_can_be_neither_read_nor_written_has_both_reasons() -> None:
    both = {"format": "json", "scan.parallelism": "0", "sink.parallelism": "0"}
    with pytest.raises(ConfigurationError, match=r"(?s)'scan\.parallelism' must .*For writing: .*'sink\.parallelism'"):
        KeyValueFormat("v STRING", both)
    with pytest.raises(ConfigurationError, match="tpoic") as caught:
        KeyValueFormat("v STRING", {"format": "json", "tpoic": "t"})
    assert "For writing" not in str(caught.value)


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_type_that_a_format_does_not_have_is_an_error_of_its_part(part: str) -> None:
    columns = {"key": "id MAP<INT, STRING>, v STRING", "value": "id INT, v MAP<INT, STRING>"}[part]
    with pytest.raises(ConfigurationError, match=f"{part} format 'json': .*non-string as key type of map"):
        KeyValueFormat(columns, {**_KEYED, "value.fields-include": "EXCEPT_KEY"})


@pytest.mark.parametrize("side", ["startup", "bounded"])
def test_committed_offsets_need_a_consumer_group_at_both_ends(side: str) -> None:
    options = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b", "format": "json"}
    modes = {"scan.startup.mode": "earliest-offset", f"scan.{side}.mode": "group-offsets"}
    kv = KeyValueFormat("v STRING", options | modes).planned()
    with pytest.raises(OptionError, match=f"with 'scan.{side}.mode' = 'group-offsets' set 'properties.group.id'"):
        kv.connector_options("decode")
    assert kv.with_options({"properties.group.id": "g"}).connector_options("decode")["topic"] == ("t",)


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        ("INT", "BOOLEAN", True),
        ("STRING", "BOOLEAN", True),
        ("DOUBLE", "BOOLEAN", False),
        ("BOOLEAN", "DECIMAL(3, 1)", True),
        ("STRING", "BIGINT", True),
        ("TIMESTAMP_LTZ(3)", "BIGINT", False),
        ("STRING", "BYTES", True),
        ("INT", "BYTES", False),
        ("TIMESTAMP_LTZ(3)", "DATE", True),
        ("TIME(3)", "DATE", False),
        ("TIMESTAMP(3)", "TIME(3)", True),
        ("TIME(3)", "TIMESTAMP(3)", False),
        ("DATE", "TIMESTAMP_LTZ(3)", True),
        ("STRING", "TIMESTAMP(3)", True),
        ("MAP<STRING, BYTES>", "STRING", True),
        ("MAP<STRING, BYTES>", "MAP<STRING, STRING>", True),
        ("MAP<STRING, BYTES>", "MAP<STRING, INT>", False),
        ("MAP<STRING, BYTES>", "ROW<k STRING, v BYTES>", False),
        ("ROW<a INT, b INT>", "ROW<a BIGINT, b STRING>", True),
        ("ROW<a INT, b INT>", "ROW<a INT>", False),
        ("ARRAY<ROW<a INT>>", "ARRAY<ROW<a BYTES>>", False),
        ("ARRAY<INT>", "INT", False),
    ],
)
def test_metadata_is_cast_as_flink_casts_it(source: str, target: str, fits: bool) -> None:
    assert castable(parse_type(source), parse_type(target)) is fits
