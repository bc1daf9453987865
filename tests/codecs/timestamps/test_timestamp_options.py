"""The options `timestamp-format.patterns` and `timestamp-format.zone` in json, csv and json-registry."""

from __future__ import annotations

import csv
import datetime as dt
import json
import random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.connectors import infer_schema
from kvformat.registry import Format, KeyValueFormat, OptionError, SchemaError, get_format
from kvformat.registry.contract.schemas import resolve_schema, row_type
from tests.support.extent import case_count

PATTERNS, ZONE = "timestamp-format.patterns", "timestamp-format.zone"
MIXED = "yyyy-MM-dd HH:mm:ss[.SSSSSS]; ISO-8601; epoch-millis; epoch-seconds"
NOON = dt.datetime(2024, 2, 29, 12)


def _format(kind: str, patterns: str, **options: str) -> Format:
    own = {ZONE if name == "zone" else name.replace("_", "-"): value for name, value in options.items()}
    return get_format(kind, {PATTERNS: patterns, **own})


def _rows(format: Format, schema: str, *messages: str) -> list[Any]:
    """Return the rows of each message, or its error."""
    batch = format.decode_batch(pa.array([message.encode() for message in messages]), schema)
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    return [error or rows for rows, error in zip(batch.rows.to_pylist(), errors, strict=True)]


# --- reading --------------------------------------------------------------------------------------------


def test_a_topic_with_many_forms() -> None:
    values = (
        *('"2024-02-29 12:00:00"', '"2024-02-29 12:00:00.000"', '"2024-02-29T12:00:00"', '"2024-02-29T12:00"'),
        *("1709208000000", "1709208000", "1709208000.000", "1.709208E9", '"1709208000000"', '"1709208000"'),
        *(
            '"2024-02-29T12:00:00Z"',
            '"2024-02-29T12:00:00+02:00"',
            '"2024-02-29T12:00:00+0200"',
            '"2024-02-29T12:00-05"',
        ),
        *('"2024\\u002d02-29 12:00:00"', '"2024-02-29t12:00:00z"'),
    )
    rows = _rows(_format("json", MIXED), "a TIMESTAMP(3)", *(f'{{"a":{value}}}' for value in values))
    assert [row[0]["a"] for row in rows] == [NOON] * len(values)


def test_timestamp_ltz_is_a_moment() -> None:
    json_ = _format("json", MIXED, zone="Europe/Berlin")
    values = {
        '"2024-02-29T12:00:00+02:00"': 10,
        '"2024-02-29T12:00:00Z"': 12,
        "1709208000": 12,
        '"1709208000000"': 12,
        '"2024-02-29T12:00:00"': 11,
        '"2024-02-29 12:00:00"': 11,
    }
    rows = _rows(json_, "a TIMESTAMP_LTZ(3)", *(f'{{"a":{value}}}' for value in values))
    assert [row[0]["a"] for row in rows] == [dt.datetime(2024, 2, 29, hour, tzinfo=dt.UTC) for hour in values.values()]


def test_errors_name_the_value_and_the_forms() -> None:
    tried = "; its form must be one of: dd/MM/yyyy, ISO-8601, epoch-millis"
    schema = "a TIMESTAMP(3), z TIMESTAMP_LTZ(3)"
    found = _rows(
        _format("json", "dd/MM/yyyy; ISO-8601; epoch-millis"),
        schema,
        *('{"a":"2024-02-30T00:00:00"}', '{"a":true}', '{"a":{}}', '{"a":1e30}', '{"a":"\\"x"}', '{"z":"29/02/2024"}'),
        '{"z":"29.02.2024"}',
    )
    assert found == [
        f"field 'a': cannot read \"2024-02-30T00:00:00\" as TIMESTAMP(3){tried}",
        f"field 'a': cannot read true as TIMESTAMP(3){tried}",
        "field 'a': cannot read an object as TIMESTAMP(3)",
        f"field 'a': cannot read 1e30 as TIMESTAMP(3){tried}",
        f'field \'a\': cannot read "\\"x" as TIMESTAMP(3){tried}',
        f"field 'z': cannot read \"29/02/2024\" as TIMESTAMP_LTZ(3){tried}. It has no time zone: set '{ZONE}'",
        f"field 'z': cannot read \"29.02.2024\" as TIMESTAMP_LTZ(3){tried}",
    ]
    csv_ = _format("csv", "dd/MM/yyyy; ISO-8601; epoch-millis", null_literal="n/a")
    assert _rows(csv_, schema, "x,n/a", "n/a,29/02/2024", "29/02/2024,-1") == [
        f"field 'a': cannot read \"x\" as TIMESTAMP(3){tried}",
        f"field 'z': cannot read \"29/02/2024\" as TIMESTAMP_LTZ(3){tried}. It has no time zone: set '{ZONE}'",
        [{"a": dt.datetime(2024, 2, 29), "z": dt.datetime(1969, 12, 31, 23, 59, 59, 999000, dt.UTC)}],
    ]
    lone = _rows(
        _format("json", "dd/MM/yyyy"), schema, '{"a":"\\ud800"}', '{"z":"\\udc00 29/02/2024"}', '{"a":"29/02/2024"}'
    )
    assert ["its form must be one of: dd/MM/yyyy" in str(found) for found in lone] == [True, True, False]
    # without a number among the forms, a number is an error too
    assert "cannot read 1 as TIMESTAMP(3); its form must be one of: SQL" in str(
        _rows(_format("json", "SQL"), schema, '{"a":1}')
    )


def test_nested_values_and_neighbours() -> None:
    schema = "l ARRAY<TIMESTAMP(3)>, m MAP<STRING, TIMESTAMP(3)>, r ROW<a TIMESTAMP(3), b INT>, d DATE, t TIME(3)"
    good = (
        '{"l":["2024-02-29 12:00:00",1709208000000,null],"m":{"k":"2024-02-29T12:00:00"},'
        '"r":{"a":1709208000,"b":1},"d":"2024-02-29","t":"12:00:00"}'
    )
    row = {
        "l": [NOON, NOON, None],
        "m": [("k", NOON)],
        "r": {"a": NOON, "b": 1},
        "d": dt.date(2024, 2, 29),
        "t": dt.time(12),
    }
    bad = good.replace("1709208000,", '"x",')
    found = _rows(_format("json", MIXED), schema, good, bad, good, good.replace('"2024-02-29","t"', '1,"t"'))
    assert found[0] == found[2] == [row]
    assert found[1].startswith("field 'r.a': cannot read \"x\" as TIMESTAMP(3); its form")
    assert found[3] == "field 'd': cannot read 1 as DATE"  # the options are for timestamps only
    lenient = _rows(_format("json", MIXED, ignore_parse_errors="true"), schema, bad)
    assert lenient == [[{**row, "r": {"a": None, "b": 1}}]]


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize(
    ("pattern", "suffix", "fraction"),
    [
        ("[.SSS]", "", 0),
        ("[.SSS]", ".123", 123),
        ("[,SSS]", ";123", None),
        ("[,SSS]", ".123", None),
        (" SSS", " 123", 123),
        (" SSS", ".123", None),
        ("[.SSS]", " 123", None),
        ("[.SSS]", ".1234", None),
        ("'.'SS", ".12", 120),
        ("'.'SS", ".123", None),
    ],
)
def test_a_fraction_has_the_separator_and_the_digits_of_its_form(
    kind: str, pattern: str, suffix: str, fraction: int | None
) -> None:
    format = _format(kind, f"yyyy-MM-dd HH:mm:ss{pattern}", ignore_parse_errors="true")
    text = f"2024-02-29 12:00:00{suffix}"
    rows = _rows(format, "a TIMESTAMP(3)", *[f'{{"a":"{text}"}}' if kind == "json" else text] * 3)
    wanted = None if fraction is None else NOON.replace(microsecond=fraction * 1000)
    assert rows == [[{"a": wanted}]] * 3


def test_csv_texts() -> None:
    csv_ = _format("csv", "'at' d.M.yyyy; epoch-seconds; yyyy年MM月dd日", ignore_parse_errors="true")
    schema = "a TIMESTAMP(3), l ARRAY<TIMESTAMP(3)>, n INT"
    day = dt.datetime(2024, 2, 29)
    found = _rows(
        csv_,
        schema,
        *('at 29.2.2024,1709164800;"at" 29.2.2024,1', " at 29.2.2024\t, 1709164800.0 ,1", "x,y,z", "2024年02月29日,,3"),
    )
    assert found == [
        [{"a": day, "l": [day, None], "n": 1}],
        [{"a": day, "l": [day], "n": 1}],
        [{"a": None, "l": [None], "n": None}],
        [{"a": day, "l": [], "n": 3}],
    ]
    wide = csv_.decode_batch(pa.array(["at 29.2.2024,,1".encode("utf-16")]), schema).rows.to_pylist()
    assert wide == [[{"a": day, "l": [], "n": 1}]]


def test_json_registry_reads_texts_by_the_forms_and_numbers_as_its_schema() -> None:
    options = {"url": "http://127.0.0.1:1", "subject": "s"}
    frame = b"\0\0\0\0\1"
    values = (b'"29/02/2024 12:00:00"', b"1709208000000", b"1709208000000.0", b"1.709208e12", b'"x"')
    messages = pa.array([frame + b'{"a":%s}' % value for value in values])
    registry = get_format("json-registry", {**options, PATTERNS: "dd/MM/yyyy HH:mm:ss"})
    batch = registry.decode_batch(messages, "a TIMESTAMP(3)")
    assert batch.rows.to_pylist() == [*[[{"a": NOON}]] * 4, None]
    assert batch.errors is not None
    assert batch.errors[4].as_py().endswith("its form must be one of: dd/MM/yyyy HH:mm:ss")
    seconds = get_format("json-registry", {**options, PATTERNS: "epoch-seconds"})
    assert seconds.decode_batch(pa.array([frame + b'{"a":1709208000}']), "a TIMESTAMP(3)").rows.to_pylist() == [
        [{"a": NOON}]
    ]
    with pytest.raises(OptionError, match="the letter Y at character 1"):
        get_format("json-registry", {**options, PATTERNS: "YYYY"}).decode_batch(messages, "a TIMESTAMP(3)")


# --- writing --------------------------------------------------------------------------------------------

_ROUND = {  # what is written of 2024-02-29 15:04:05.123456
    "SQL; epoch-millis": ("2024-02-29 15:04:05.123456", "2024-02-29 15:04:05.123456Z"),
    "ISO-8601": ("2024-02-29T15:04:05.123456", "2024-02-29T15:04:05.123456Z"),
    "epoch-seconds": (1709219045, 1709219045),
    "epoch-millis": (1709219045123, 1709219045123),
    "epoch-micros": (1709219045123456, 1709219045123456),
    "epoch-nanos": (1709219045123456000, 1709219045123456000),
    "yy-MM-dd HH:mm:ss; yyyy-MM-dd; dd/MM/yyyy hh:mm:ss.SSS a": ("29/02/2024 03:04:05.123 PM", None),
    "dd/MM/yyyy HH:mm:ss[.SSS][.SSSSSS][XXX][X]": ("29/02/2024 15:04:05.123", "29/02/2024 15:04:05.123Z"),
    "dd/MM/yyyy HH:mm:ss[.SSS[XXX]]": ("29/02/2024 15:04:05.123", "29/02/2024 15:04:05.123Z"),
    "yyyy-MM-dd HH:mm[:ss[.SSSSSS[ VV]]]": ("2024-02-29 15:04:05.123456", "2024-02-29 15:04:05.123456 UTC"),
    "yyyy-MM-dd HH:mm:ssxx; yyyyMMddHHmmssSSSSSS": ("20240229150405123456", "2024-02-29 15:04:05+0000"),
    "yyyy-MM-dd'T'HH:mm:ssXXX'['VV']'; epoch-millis": (1709219045123, "2024-02-29T15:04:05Z[UTC]"),
    "d.M.yyyy H:m:s'\"'": ('29.2.2024 15:4:5"', None),
}


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("patterns", _ROUND)
def test_the_first_form_that_can_be_written_is_written_and_read_again(kind: str, patterns: str) -> None:
    rng = random.Random(patterns)
    moments = [
        dt.datetime(2024, 2, 29, 15, 4, 5, 123456),
        None,
        dt.datetime(1970, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59),
    ]
    for _ in range(case_count(quick=500, night=2_000)):
        moments.append(dt.datetime(1, 1, 2) + dt.timedelta(microseconds=rng.randrange(315_000_000_000_000_000)))
    format = _format(kind, patterns, **({"null_literal": "n/a"} if kind == "csv" else {}))
    for t, wanted, zone in zip(("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"), _ROUND[patterns], (None, "UTC"), strict=True):
        rows = pa.StructArray.from_arrays([pa.array(moments, pa.timestamp("us", zone))], ["a"])
        if wanted is None:
            with pytest.raises(SchemaError, match=f"no form of '{PATTERNS}' can be written for TIMESTAMP_LTZ"):
                format.encode_batch(rows, f"a {t}")
            continue
        messages = format.encode_batch(rows, f"a {t}").messages
        first = messages[0].as_py().decode()
        assert str(json.loads(first)["a"] if kind == "json" else next(csv.reader([first]))[0]) == str(wanted)
        batch = format.decode_batch(messages, f"a {t}")
        assert batch.errors is None
        found = batch.rows.flatten().field("a").cast(pa.timestamp("us"))
        unit = "us" if "123456" in str(wanted) else "ms" if "123" in str(wanted) else "s"
        exact = pa.array(moments, pa.timestamp("us"))
        for moment, again in zip(exact.cast(pa.int64()).to_pylist(), found.cast(pa.int64()).to_pylist(), strict=True):
            size = {"us": 1, "ms": 1000, "s": 1_000_000}[unit]
            assert again == (None if moment is None else moment // size * size)


@pytest.mark.parametrize(
    ("pattern", "zone", "texts"),
    [
        ("yyyy-MM-dd HH:mm:ss", "Europe/Berlin", ("2024-01-01 13:00:00", "2024-07-01 14:00:00")),
        ("yyyy-MM-dd HH:mm:ss", "+05:30", ("2024-01-01 17:30:00", "2024-07-01 17:30:00")),
        ("yyyy-MM-dd HH:mm:ssXXX", "Europe/Berlin", ("2024-01-01 12:00:00Z", "2024-07-01 12:00:00Z")),
        ("yyyy-MM-dd HH:mm:ss[ VV]", "+05:30", ("2024-01-01 12:00:00 UTC", "2024-07-01 12:00:00 UTC")),
        ("SQL", "Europe/Berlin", ("2024-01-01 12:00:00Z", "2024-07-01 12:00:00Z")),
    ],
)
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_moments_are_written_in_the_zone_if_the_form_has_no_offset_and_else_in_utc(
    pattern: str, zone: str, texts: tuple[str, str], unit: str
) -> None:
    json_ = _format("json", pattern, zone=zone)
    moments = [dt.datetime(2024, month, 1, 12, tzinfo=dt.UTC) for month in (1, 7)]
    rows, schema = pa.StructArray.from_arrays([pa.array(moments, pa.timestamp(unit, "UTC"))], ["a"]), "a TIMESTAMP_LTZ"
    messages = json_.encode_batch(rows, schema).messages
    assert messages.to_pylist() == [f'{{"a":"{text}"}}'.encode() for text in texts]
    assert json_.decode_batch(messages, schema).rows.flatten().field("a").to_pylist() == moments


_UTC_TEXTS = {"X": "Z", "XX": "Z", "XXX": "Z", "XXXX": "Z", "XXXXX": "Z", "x": "+00", "xx": "+0000", "xxx": "+00:00"}
_UTC_TEXTS |= {"xxxx": "+0000", "xxxxx": "+00:00", "Z": "+0000", "ZZ": "+0000", "ZZZ": "+0000", "ZZZZZ": "Z"}


@pytest.mark.parametrize("letters", _UTC_TEXTS)
def test_utc_is_written_as_java_does_for_each_number_of_letters(letters: str) -> None:
    format, schema = _format("csv", f"yyyy-MM-dd HH:mm:ss{letters}"), "a TIMESTAMP_LTZ(0)"
    rows = pa.StructArray.from_arrays([pa.array([NOON], pa.timestamp("us", "UTC"))], ["a"])
    messages = format.encode_batch(rows, schema).messages
    assert messages.to_pylist() == [f'"2024-02-29 12:00:00{_UTC_TEXTS[letters]}"'.encode()]
    assert _rows(format, schema, messages[0].as_py().decode()) == [rows.to_pylist()]


def test_forms_that_cannot_be_written_are_named_with_the_reason() -> None:
    rows = pa.StructArray.from_arrays([pa.nulls(1, pa.timestamp("us"))], ["a"])
    for kind in ("json", "csv"):
        with pytest.raises(SchemaError) as caught:
            _format(kind, "dd/MM/yy HH:mm:ss; yyyy-MM-dd[ HH:mm:ssX]; yyyyMMddHHmmssX").encode_batch(
                rows, "a TIMESTAMP(3)"
            )
        assert str(caught.value).startswith(
            f"column 'a': no form of '{PATTERNS}' can be written for TIMESTAMP(3): dd/MM/yy HH:mm:ss has no century; "
            "yyyy-MM-dd[ HH:mm:ssX] has no time of day with seconds; "
            "yyyyMMddHHmmssX needs an offset, outside of [ and ]. Add a form that can"
        )


# --- configuration --------------------------------------------------------------------------------------

_TYPOS = {
    "": "there is no form; forms are patterns such as yyyy-MM-dd HH:mm:ss, and ISO-8601, SQL, epoch-micros",
    "SQL;;ISO-8601": "form 2, '': it needs a year, yyyy",
    "SQL; SQL": "form 2, 'SQL', is there twice",
    "SQL; epoch-milli": "form 2, 'epoch-milli': it is not the name of a form. Did you mean 'epoch-millis'?",
    "sql": "form 1, 'sql': it is not the name of a form. Did you mean 'SQL'?",
    "YYYY-MM-dd": "the letter Y at character 1 is not supported: use y (Y is the year of a week). Letters are H, M,",
    "yyyy-MM-DD": "the letter D at character 9 is not supported: use d (D is the day of a year)",
    "yyyy-MM-dd HH:mm:ss z": "the letter z at character 21 is not supported: use VV for names of zones, or X, x or Z",
    "yyyy-MM-ddTHH:mm": "the letter T at character 11 is not supported: put texts in quotes, such as 'T'",
    "yyyy-MM-dd HH:MM": "M at character 15 repeats M at character 6; minutes are m",
    "yyyy-MM-dd HH:mm:mm": "m at character 18 repeats m at character 15; months are M",
    "yyyy-MM-dd hh:mm": "h needs a, for AM or PM, beside it; hours from 0 to 23 are H",
    "yyyy-MM-dd HH a": "a at character 15 needs h in the pattern",
    "yyyy-MM-dd ss": "s at character 12 needs m in the pattern",
    "yyyy-MM-dd mm": "m at character 12 needs H or h in the pattern",
    "yyyy-MM-dd HH:mm.SSS": "S at character 18 needs s in the pattern",
    "yyyy-MM-dd HH:mm hh a": "h at character 18 repeats H at character 12",
    "yyyy uu-MM-dd": "u at character 6 repeats y at character 1",
    "yyyy-MM-dd hh:mm[ a]": "h needs a, for AM or PM, beside it; hours from 0 to 23 are H",
    "yyyyy-MM-dd": "yyyyy at character 1 is not supported: use yy or yyyy",
    "yyyy-MM-dd SSSSSSSSSS": "SSSSSSSSSS at character 12 is not supported: use S or SSSSSSSSS",
    "yyyy-MM-dd V": "V at character 12 is not supported: use VV",
    "yyyyMd": "M at character 5 has one or two digits, and digits follow: write MM, or a separator",
    "yyyy-M'1'-dd": "M at character 6 has one or two digits, and digits follow: write MM, or a separator",
    "yyyy-MM[-dd]": "it needs a day, dd, outside of [ and ]; separate several forms by ;",
    "yyyy-MM-dd [HH": "[ at character 12 has no ] after it",
    "yyyy-MM-dd HH]": "] at character 14 has no [ before it",
    "yyyy-MM-dd 'T": "the quote at character 12 is not closed",
    "yyyy-MM-dd'\\'": "the quote at character 11 is not closed, or has a character that is not allowed",
    "yyyy-MM-dd {HH}": "'{' at character 12 is not allowed in a pattern",
    "yyyy\\MM\\dd": "at character 5 is not allowed in a pattern",
}


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("text", _TYPOS)
def test_typos_are_errors_that_say_where(kind: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        _format(kind, text).decode_batch(pa.array([b""]), "a INT")
    assert f"invalid value {text!r} for option '{PATTERNS}' of format '{kind}': " in str(caught.value)
    assert _TYPOS[text] in str(caught.value)
    assert caught.value.option == PATTERNS


def test_zones_that_do_not_exist() -> None:
    for zone, hint in (
        ("Europe/Berln", "Did you mean 'Europe/Berlin'?"),
        ("+25:00", "Europe/Berlin, UTC or +02:00"),
        ("", "UTC"),
    ):
        with pytest.raises(OptionError) as caught:
            _format("csv", "SQL", zone=zone).decode_batch(pa.array([b""]), "a INT")
        assert "there is no such time zone" in str(caught.value)
        assert hint in str(caught.value)
    with pytest.raises(OptionError, match=f"option '{ZONE}' of format 'json' needs '{PATTERNS}'"):
        get_format("json", {ZONE: "UTC"}).decode_batch(pa.array([b""]), "a INT")


def test_quotes_separators_and_prefixes_in_ddl() -> None:
    table = KeyValueFormat.from_ddl(
        """
        CREATE TABLE t (a TIMESTAMP(3), z TIMESTAMP_LTZ(3)) WITH (
          'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:1', 'format' = 'json',
          'scan.startup.mode' = 'earliest-offset',
          'json.timestamp-format.standard' = 'ISO-8601',
          'json.timestamp-format.patterns' = 'yyyy-MM-dd'';''HH:mm; ISO-8601;',
          'json.timestamp-format.zone' = 'Asia/Tokyo'
        )
        """
    )
    value = b'{"a":"2024-02-29;12:00","z":"2024-02-29T12:00:00"}'
    found = table.decode_batch(pa.nulls(1, pa.binary()), pa.array([value])).rows.to_pylist()
    assert found == [[{"a": NOON, "z": dt.datetime(2024, 2, 29, 3, tzinfo=dt.UTC)}]]


def test_inference_and_ingestion() -> None:
    """Proposed tables have text columns. Ingestion, which declares no columns, refuses the options."""
    values = [b'{"a":"2024-02-29 12:00:00","b":"2024-02-29T12:00:00Z","c":1}']
    found = infer_schema(values, format="json", options={PATTERNS: "ISO-8601"})
    assert [str(field.type) for field in found.fields] == ["STRING", "STRING", "INT"]
    assert found.notes == ("a, b: timestamps: declare TIMESTAMP or TIMESTAMP_LTZ if the format's options read them",)
    texts = infer_schema([b"1,2024-02-29 12:00:00"], format="csv", options={PATTERNS: "ISO-8601"})
    assert [str(field.type) for field in texts.fields] == ["INT", "STRING"]
    for option in (PATTERNS, ZONE):
        with pytest.raises(OptionError, match=f"option '{option}' of format 'json' needs declared columns"):
            type(get_format("json")).look_options({option: "UTC"})


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_sparks_own_functions_write_no_forms(kind: str) -> None:
    """Arrow writes timestamps then; None means that `encode` can't use Spark's own functions."""
    row: Any = object()  # not used before the schema is checked
    schema = row_type(resolve_schema("l ARRAY<TIMESTAMP_LTZ(3)>"))
    assert _format(kind, "epoch-millis").native_encode(row, schema, None) is None
