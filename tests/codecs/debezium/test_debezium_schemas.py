"""Debezium's messages with embedded schemas: each is read by its own schema, whichever messages come before it."""

from __future__ import annotations

import base64
import gc
import itertools
import json
import random
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.debezium import embedded_schema
from kvformat.codecs.debezium.value_readings import value_reading
from kvformat.registry import Format, get_format
from tests.support.decoding import answers, is_json

_DECIMAL, _TIME = "org.apache.kafka.connect.data.Decimal", "io.debezium.time."
OPTIONS = {"schema-include": "true", "types": "debezium"}
FLAT = {"flattened": "true"}
LENIENT = {"ignore-parse-errors": "true"}
CONNECT = {"time.precision.mode": "connect"}


def decimal_of(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "name": _DECIMAL, "parameters": {"scale": str(scale)}}


def time_of(name: str) -> dict[str, Any]:
    return {"type": "int64", "name": _TIME + name}


def schema_of(columns: dict[str, dict[str, Any]], *, flat: bool = False) -> str:
    fields = [schema | {"field": name, "optional": True} for name, schema in columns.items()]
    images = [{"type": "struct", "fields": fields, "field": image} for image in ("before", "after")]
    return json.dumps({"type": "struct", "fields": fields if flat else images})


def message(row: str, *schemas: str, flat: bool = False, before: bool = True) -> bytes:
    """Return a message with any number of members `schema`, `before` or after the payload."""
    payload = row if flat else f'{{"before":null,"after":{row},"op":"c"}}'
    parts = [f'"schema":{schema}' for schema in schemas]
    parts.insert(len(parts) if before else 0, f'"payload":{payload}')
    return f"{{{','.join(parts)}}}".encode()


def check(format: Format, schema: str, messages: Sequence[bytes | None]) -> list[Any]:
    """Return the answers to each message by itself. Check that other messages do not change them."""

    def read(some: Sequence[bytes | None]) -> list[Any]:
        return answers(format.decode_batch(pa.array(some, pa.binary()), schema))

    alone = [read([one])[0] for one in messages]
    pairs = list(itertools.permutations(range(len(messages)), 2))
    for first, second in pairs if len(pairs) < 200 else random.Random(0).sample(pairs, 200):
        read([messages[first]])  # an earlier batch must not change the answers
        assert read([messages[first], messages[second]]) == [alone[first], alone[second]]
    for seed in range(10):
        order = random.Random(seed).choices(range(len(messages)), k=3 * len(messages))
        assert read([messages[at] for at in order]) == [alone[at] for at in order]
    return alone


NOT_SCHEMAS = ("null", "{}", "[]", '"x"', "7", '{"type":"string"}', '{"type":"struct","fields":[{"field":"after"}]}')
"""JSON values that are not the schema of a change."""


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("options", [{}, LENIENT])
def test_a_message_without_a_schema_is_not_read_by_another_schema(flat: bool, options: dict[str, str]) -> None:
    scales = [schema_of({"a": decimal_of(scale)}, flat=flat) for scale in (0, 2)]
    good = [message('{"a":"ATk="}', schema, flat=flat) for schema in scales]
    bare = [message('{"a":"ATk="}', schema, flat=flat) for schema in NOT_SCHEMAS[: -1 if flat else None]]
    bare.append(message('{"a":"ATk="}', flat=flat))
    bare.append(message('{"a":"ATk="}', scales[0], "null", flat=flat))  # the last of two members counts
    format = get_format("debezium-json", OPTIONS | options | (FLAT if flat else {}))
    alone = check(format, "a DECIMAL(10, 2)", [*good, *bare, None, b"", b"{"])
    rows = [answer.rows for answer in alone[:2]]
    assert "313.00" in rows[0]
    assert "3.13" in rows[1]
    for answer in alone[2 : 2 + len(bare)]:
        assert "'schema': is missing, or does not describe the rows" in str(answer.error)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(
    ("t", "schema", "value", "row"),
    [
        ("DECIMAL(10, 2)", {"type": "string"}, "3.13", "{'a': Decimal('3.13')}"),
        ("DATE", {"type": "string", "name": _TIME + "IsoDate"}, "1970-01-02Z", "{'a': 1}"),
        ("TIME(3)", {"type": "string", "name": _TIME + "IsoTime"}, "00:00:01Z", "{'a': 1000000000}"),
        ("TIMESTAMP(3)", {"type": "string", "name": _TIME + "IsoTimestamp"}, "1970-01-01T00:00:01Z", "{'a': 1000000}"),
    ],
)
def test_a_message_without_a_schema_is_refused_alone_where_values_are_texts_on_the_wire(
    t: str, schema: dict[str, Any], value: str, row: str, flat: bool
) -> None:
    """Messages without a schema are read as texts too, and so with these in one batch."""
    image = json.dumps({"a": value})
    good, bare = message(image, schema_of({"a": schema}, flat=flat), flat=flat), message(image, flat=flat)
    format = get_format("debezium-json", OPTIONS | (FLAT if flat else {}))
    read, refused, null = check(format, f"a {t}", [good, bare, None])
    assert (read.rows, read.error) == (f"[{row}]", None)
    assert "'schema': is missing, or does not describe the rows" in str(refused.error)
    assert (null.rows, null.error) == (None, None)


def test_a_message_without_a_schema_is_read_by_the_options() -> None:
    named = [schema_of({"t": time_of(name)}) for name in ("NanoTimestamp", "MicroTimestamp")]
    row = '{"t":1577836800000}'
    messages = [message(row, named[0]), message(row, named[1]), message(row), message(row, "null"), message(row, "[]")]
    alone = check(get_format("debezium-json", OPTIONS | CONNECT), "t TIMESTAMP(3)", messages)
    micros = [int(str(re.search(r"-?\d+", str(answer.rows))[0])) for answer in alone]  # type: ignore[index]
    assert micros == [1_577_836_800, 1_577_836_800_000, *[1_577_836_800_000_000] * 3]


@pytest.mark.parametrize("options", [{}, LENIENT])
@pytest.mark.parametrize(("t", "number"), [("DECIMAL(10, 2)", "Decimal('3.13')"), ("STRING", "'3.13'")])
def test_a_decimal_of_any_scale_needs_its_scale_and_may_have_no_value(t: str, number: str, options: Any) -> None:
    parts = {"scale": "int32", "value": "bytes"}
    fields = [{"field": name, "type": kind, "optional": True} for name, kind in parts.items()]
    schema = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": fields}
    null = ("null", "{}", '{"scale":2,"value":null}')
    bad = ('{"value":"ATk="}', '{"scale":null,"value":"ATk="}', '{"scale":"x","value":"ATk="}')
    rows = ['{"scale":2,"value":"ATk="}', *null, *bad]
    format = get_format("debezium-json", OPTIONS | options)
    good, *others = check(format, f"a {t}", [message(f'{{"a":{row}}}', schema_of({"a": schema})) for row in rows])
    assert good.rows == f"[{{'a': {number}}}]"
    for answer in others[: len(null) if not options else None]:
        assert (answer.rows, answer.error) == ("[{'a': None}]", None)
    for answer in others[len(null) :] if not options else ():
        assert re.search(
            'cannot read (.*VariableScaleDecimal by the message\'s schema.* as|"x" as INT)', str(answer.error)
        )


@pytest.mark.parametrize(
    ("scale", "value", "read"),
    [
        (0, "313", "Decimal('313.00')"),
        (2, "3.13", "Decimal('3.13')"),
        (2, "3", "Decimal('3.00')"),
        (2, "3.135", None),
        (2, '{"scale":2,"value":"ATk="}', None),
        (39, "3", None),
    ],
)
def test_a_decimal_of_a_schema_may_be_a_number_and_is_no_object(scale: int, value: str, read: str | None) -> None:
    """The converter writes numbers with `decimal.format` = NUMERIC."""
    texts = [message(f'{{"a":{value}}}', schema_of({"a": decimal_of(scale)}))] * 2
    found = answers(get_format("debezium-json", OPTIONS).decode_batch(pa.array(texts), "a DECIMAL(10, 2)"))
    assert [answer.rows for answer in found] == [None if read is None else f"[{{'a': {read}}}]"] * 2


@pytest.mark.parametrize(
    ("name", "value", "octets"), [("", "00ff", b"\0\xff"), ("io.debezium.data.Json", "AP8=", b"\0\xff")]
)
def test_the_mode_of_bytes_is_not_that_of_a_text_with_a_logical_type(name: str, value: str, octets: bytes) -> None:
    schema = schema_of({"a": {"type": "string"} | ({"name": name} if name else {})})
    format = get_format("debezium-json", OPTIONS | {"binary.handling.mode": "hex"})
    batch = format.decode_batch(pa.array([message(f'{{"a":"{value}"}}', schema)]), "a BYTES")
    assert batch.rows.to_pylist() == [[{"a": octets}]]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("options", [{}, LENIENT])
@pytest.mark.parametrize("flat", [False, True])
def test_an_unrequested_number_may_have_any_exponent(flat: bool, options: dict[str, str], before: bool) -> None:
    plain = schema_of({"a": {"type": "string"}}, flat=flat)  # Flink's rules for DECIMAL would refuse the exponent
    exact = schema_of({"a": decimal_of(2)}, flat=flat)
    messages = [
        message(row, schema, flat=flat, before=before)
        for schema in (plain, exact)
        for row in ('{"a":null,"x":1e99999999999}', '{"a":null,"x":1}')
    ]
    format = get_format("debezium-json", OPTIONS | options | (FLAT if flat else {}))
    has_row = [answer.rows not in (None, "[]") for answer in check(format, "a DECIMAL(10, 2)", messages)]
    assert has_row == [True, True, True, True]


def test_messages_in_unusual_forms_are_read_by_their_own_schema() -> None:
    """Encodings, arrays of one message, repeated members, escapes in names, updates, and bad messages."""
    schemas = [schema_of({"a": decimal_of(0)}), schema_of({"a": decimal_of(2)}), schema_of({"a": {"type": "string"}})]
    texts = []
    for schema in schemas:
        text = message('{"a":"ATk="}', schema).decode()
        image = '{"a":"ATk="}'
        texts += [text, f"[{text}]", f"[null,{text}]", f"[{text},{text}]", f"{text} x"]
        texts += [text[:-3], text.replace("a", "b")]
        texts += [text.replace('"schema"', '"sch\\u0065ma"'), message(image, schema, schema.replace("0", "3")).decode()]
        texts += [text.replace('"op":"c"', op) for op in ('"op":"?"', '"op":null', '"op":"d"', '"op":"t"')]
        texts.append(text.replace('"before":null', f'"before":{image}').replace('"op":"c"', '"op":"u"'))
    messages = [text.encode() for text in texts]
    messages += [text.encode(code) for text in texts[:3] for code in ("utf-16", "utf-32-le", "utf-8-sig")]
    messages += [text.encode() + b"\xff" for text in texts[:3]]
    for options in ({}, LENIENT, {"other-messages": "skip"}):
        alone = check(get_format("debezium-json", OPTIONS | options), "a DECIMAL(10, 2)", messages)
        assert sum(answer.rows not in (None, "[]") for answer in alone) >= 15


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(
    ("columns", "row", "schema", "named"),
    [
        ("a DECIMAL(10, 2)", {"a": "AdTA"}, {"a": decimal_of(2)}, _DECIMAL),
        ("`a.b` DECIMAL(10, 2)", {"a.b": "AdTA"}, {"a": {"type": "string"}, "a.b": decimal_of(2)}, _DECIMAL),
        ("a ARRAY<DATE>", {"a": [5]}, {"a": {"type": "array", "items": time_of("Date")}}, "array"),
        (
            "a ROW<b DATE>",
            {"a": {"b": 5}},
            {"a": {"type": "struct", "fields": [time_of("Date") | {"field": "b"}]}},
            "struct",
        ),
    ],
)
def test_an_error_with_flinks_types_names_the_type_of_the_schema(
    columns: str, row: Any, schema: dict[str, Any], named: str, flat: bool, array: bool
) -> None:
    text = message(json.dumps(row), schema_of(schema, flat=flat), flat=flat)
    format = get_format("debezium-json", {"schema-include": "true"} | (FLAT if flat else {}))
    (answer,) = answers(format.decode_batch(pa.array([b"[" + text + b"]" if array else text]), columns))
    assert f". By the message's schema it is {named}: set 'types' = 'debezium' to read it" in str(answer.error)


# --- many schemas in a batch -------------------------------------------------------------------------------

MANY = 1500


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts created readers, the most readers alive at once, parsed schemas, and planned columns."""
    counts = {"readers": 0, "alive": 0, "schemas": 0, "readings": 0}
    init, image_of = embedded_schema._WireReader.__init__, embedded_schema.image_schema_from_json
    gc.collect()
    before = sum(isinstance(one, embedded_schema._WireReader) for one in gc.get_objects())

    def counted(self: Any, *args: Any) -> None:
        init(self, *args)
        counts["readers"] += 1
        if counts["readers"] % 50 == 0 or counts["readers"] < 3:
            alive = sum(isinstance(one, embedded_schema._WireReader) for one in gc.get_objects()) - before
            counts["alive"] = max(counts["alive"], alive)

    def image(*args: Any, **kwargs: Any) -> Any:
        counts["schemas"] += 1
        return image_of(*args, **kwargs)

    def reading(*args: Any) -> Any:
        counts["readings"] += 1
        return value_reading(*args)

    monkeypatch.setattr(embedded_schema._WireReader, "__init__", counted)
    monkeypatch.setattr(embedded_schema, "image_schema_from_json", image)
    monkeypatch.setattr(embedded_schema, "value_reading", reading)
    return counts


def test_schemas_with_the_same_wire_types_share_a_reader(counts: dict[str, int]) -> None:
    text = base64.b64encode(b"\x01\x39").decode()
    messages = [message(f'{{"c3":"{text}"}}', schema_of({"c3": decimal_of(scale)})) for scale in range(MANY)]
    random.Random(1).shuffle(messages)
    columns = ", ".join(f"c{number} DECIMAL(38, 10)" for number in range(40))
    format = get_format("debezium-json", OPTIONS)
    batch = format.decode_batch(pa.array(messages), columns)
    assert len(batch.rows.flatten()) + len(batch.errors.drop_null()) == MANY  # type: ignore[union-attr]
    assert counts["readers"] <= 40, "scales that a DECIMAL cannot have are read as bytes, and share a reader"
    assert counts["schemas"] == MANY
    assert counts["readings"] <= MANY + 40, "only the columns in a schema are planned, not all 40"
    for at in (0, 700, MANY - 1):
        alone = answers(format.decode_batch(pa.array(messages[at : at + 1]), columns))
        assert alone == [answers(batch)[at]]


def test_few_readers_are_kept_for_many_combinations_of_types(counts: dict[str, int]) -> None:
    """Each message has another combination of wire types, so it needs its own reader."""
    names = [f"c{number}" for number in range(7)]
    messages = []
    for number in range(120):
        bits = [number >> place & 1 for place in range(7)]
        columns = {n: decimal_of(2) if bit else {"type": "string"} for n, bit in zip(names, bits, strict=True)}
        row = {n: "ATk=" if bit else "3.13" for n, bit in zip(names, bits, strict=True)}
        messages.append(message(json.dumps(row), schema_of(columns)))
    before = pa.total_allocated_bytes()
    batch = get_format("debezium-json", OPTIONS).decode_batch(
        pa.array(messages), ", ".join(f"{name} DECIMAL(10, 2)" for name in names)
    )
    assert batch.errors is None or not len(batch.errors.drop_null())
    assert {str(value) for row in batch.rows.flatten().to_pylist() for value in row.values()} == {"3.13"}
    assert counts["readers"] == 120
    assert 0 < counts["alive"] <= embedded_schema._READERS + 1
    assert pa.total_allocated_bytes() - before < 50 * sum(map(len, messages))
    assert counts["readings"] <= 2 * len(names) + len(names) * 2


def test_the_least_recently_used_reader_is_dropped(counts: dict[str, int]) -> None:
    names = [f"c{number}" for number in range(6)]

    def event(number: int) -> bytes:
        bits = [number >> place & 1 for place in range(6)]
        types = {n: decimal_of(2) if bit else {"type": "string"} for n, bit in zip(names, bits, strict=True)}
        row = {n: "ATk=" if bit else "3.13" for n, bit in zip(names, bits, strict=True)}
        return message(json.dumps(row), schema_of(types))

    format = get_format("debezium-json", OPTIONS)
    columns = ", ".join(f"{name} DECIMAL(10, 2)" for name in names)
    others = embedded_schema._READERS + 9
    for number in range(1, others + 1):  # the type of message 0 is used in each batch
        batch = format.decode_batch(pa.array([event(0), event(number), event(0)]), columns)
        assert batch.errors is None
    assert counts["readers"] == 1 + others


def test_the_caches_between_batches_are_bounded() -> None:
    schema = pa.schema([pa.field("a", pa.decimal128(10, 2))])
    format = get_format("debezium-json", OPTIONS)
    for start in range(0, 1000, 100):
        messages = [message('{"a":"ATk="}', schema_of({"a": decimal_of(start + n)})) for n in range(100)]
        format.decode_batch(pa.array(messages), schema)
    gc.collect()
    readers = [one for one in gc.get_objects() if isinstance(one, embedded_schema.EmbeddedSchemaReader)]
    assert readers
    assert all(len(one._numbers) <= embedded_schema._SCHEMAS for one in readers)
    assert all(len(one._readers) <= embedded_schema._READERS for one in readers)


def test_messages_are_read_by_their_own_schemas_after_more_than_are_kept() -> None:
    kinds = [
        (decimal_of(1), "ATk=", "31.30"),
        (decimal_of(2), "ATk=", "3.13"),
        ({"type": "string"}, "3.10", "3.10"),
    ]
    format, rng, number = get_format("debezium-json", OPTIONS), random.Random(7), 0
    for _ in range(3):
        chosen = [rng.choices(kinds, k=2) for _ in range(embedded_schema._SCHEMAS + 1)]
        messages = []
        for pair in chosen:
            number += 1  # the texts of all schemas differ
            types = {name: kind | {"version": number} for name, (kind, *_) in zip("ab", pair, strict=True)}
            row = {name: value for name, (_, value, _) in zip("ab", pair, strict=True)}
            messages.append(message(json.dumps(row), schema_of(types)))
        batch = format.decode_batch(pa.array(messages), "a DECIMAL(10, 2), b DECIMAL(10, 2)")
        assert batch.errors is None
        found = [[str(value) for value in row.values()] for row in batch.rows.flatten().to_pylist()]
        assert found == [[text for *_, text in pair] for pair in chosen]


@pytest.mark.parametrize("options", [{"schema-include": "true"}, OPTIONS])
def test_a_change_of_one_byte_in_a_schema_is_noticed(options: dict[str, str]) -> None:
    """The reader compares a schema with that of the previous message. The test removes or replaces each byte, or
    inserts a byte before it. Invalid JSON is an error, and the other messages are read by their own schemas.
    """
    format, schema = get_format("debezium-json", options), '{"a":[true,null,-1.5],"b":"x\\"y","c":{},"d":"e"}'
    typed = schema_of({"a": {"type": "string"}})[:-1] + f',"x":{schema}}}'
    usual = message('{"a":"3.13"}', typed)
    (fine,) = answers(format.decode_batch(pa.array([usual]), "a DECIMAL(10, 2)"))
    assert "3.13" in str(fine.rows)
    compared = bad = 0
    for place in range(len(typed) - len(schema) - 6, len(typed)):
        edits = ("", *',:{}[]"\\ 0-1.e')
        others = sorted({typed[:place] + edit + typed[place + rest :] for edit in edits for rest in (0, 1)})
        messages = [message('{"a":"3.13"}', other) for other in others]
        batch = [one for other in messages for one in (usual, other, other)]
        found = answers(format.decode_batch(pa.array([*batch, usual]), "a DECIMAL(10, 2)"))
        assert found[::3] == [fine] * (len(others) + 1)
        for other, first, second in zip(messages, found[1::3], found[2::3], strict=True):
            assert first == second, other
            assert (first.error is not None) == (not is_json(other)), other
            compared += 1
            bad += first.error is not None
    assert compared > 1000
    assert 700 < bad < compared - 100
