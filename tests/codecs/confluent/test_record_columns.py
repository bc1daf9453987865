"""Columns for types of records (`record-columns`): one pass over Avro messages gives what decoding by type gives.

Each message keeps its own rows, as many as it has.
"""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.registry import DecodedBatch, Format, SchemaError, get_format
from kvformat.registry.contract.schemas import resolve_schema, row_type
from tests.support import random_rows
from tests.support.decoding import decoded_rows
from tests.support.extent import case_count
from tests.support.registry_server import Registry

_NAMES = ("com.shop.Order", "com.shop.Refund", "org.stock.Item")
_KINDS = ("avro-confluent", "avro-registry", "avro-glue", "avro-apicurio")


def _by_type(fmt: Format, messages: pa.BinaryArray, table: str, monkeypatch: pytest.MonkeyPatch) -> DecodedBatch:
    """Decode the messages of each type after each other."""
    with monkeypatch.context() as patch:
        patch.setattr(AvroConfluentFormat, "decode_at_once", lambda *_: None)
        return fmt.decode_batch(messages, table)


class _Case:
    """Schemas of three types, some of them optional, others with a later version; and messages of them."""

    def __init__(self, rng: random.Random, registry: Registry) -> None:
        self._rng, self._messages = rng, []
        tables = []
        for name in _NAMES:
            table, text = self._table(name)
            tables.append(table)
            fields = json.loads(text)["fields"]
            versions = [text, json.dumps(["null", json.loads(text)])]
            versions.append(json.dumps({**json.loads(text), "fields": fields[: rng.randint(1, len(fields))]}))
            fmt = get_format(
                "avro-confluent", {"url": "mock://columns", "subject": "s", "schema-id": "1", "record-name": name}
            )
            batch = fmt.encode_batch(random_rows.rows(rng, row_type(resolve_schema(table)), 6), table)
            for version in rng.sample(versions, rng.choice([1, 1, 2])):
                schema_id = len(registry.ids) + 1
                registry.ids[schema_id] = version
                branch = b"\x02" if version.startswith("[") else b""
                datums = [message[5:] for message in batch.messages.to_pylist() if message is not None]
                self._messages += [b"\0" + schema_id.to_bytes(4, "big") + branch + datum for datum in datums]
                if branch:
                    self._messages.append(b"\0" + schema_id.to_bytes(4, "big") + b"\0")  # the datum null
        self.tables = tables

    def _table(self, name: str) -> tuple[str, str]:
        fmt = get_format("avro-confluent", {"url": "mock://columns", "subject": "s", "record-name": name})
        while True:
            text = random_rows.schema(self._rng, columns=self._rng.randint(1, 5), depth=2).replace("VARIANT", "INT")
            try:
                return text, fmt.own_schema(resolve_schema(text)).text  # type: ignore[attr-defined]
            except SchemaError:
                continue

    def messages(self) -> pa.BinaryArray:
        """Return messages in any order, some of them damaged."""
        rng, found = self._rng, []
        for message in rng.sample(self._messages, rng.randint(1, len(self._messages))):
            roll = rng.random()
            if roll < 0.05:
                found.append(message[: rng.randint(5, len(message))])
            elif roll < 0.08:
                place = rng.randrange(5, len(message) + 1)
                found.append(message[:place] + rng.randbytes(1) + message[place + 1 :])
            else:
                found.append(message)
        odd = rng.random()
        if odd < 0.05:
            found[rng.randrange(len(found))] = rng.choice([None, b"", b"\0\0", b"\2abcdefg", b"\0\0\0\xff\xff\x02"])
        return pa.array(found, pa.binary())


def _columns(tables: list[str], places: list[int]) -> tuple[str, str]:
    given = ",".join(f"c{at}:{name}" for at, name in enumerate(_NAMES))
    return given, ", ".join(f"c{at} ROW<{tables[at]}>" for at in places)


def _text(rows: pa.Array) -> str:
    """Return all values as text: Python has not all dates, and NaN differs from itself."""
    return rows.to_string(window=1_000_000, container_window=1_000_000)  # type: ignore[no-any-return]


def test_one_pass_equals_decoding_by_type(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, compared, bad, at_once = random.Random(41), 0, 0, 0
    original = AvroConfluentFormat.decode_at_once

    def counted(self: Any, messages: pa.BinaryArray, row: Any) -> DecodedBatch | None:
        nonlocal at_once
        found = original(self, messages, row)
        at_once += found is not None
        return found

    monkeypatch.setattr(AvroConfluentFormat, "decode_at_once", counted)
    count = case_count(quick=40, night=120)
    for _ in range(count):
        registry.ids.clear()
        case = _Case(rng, registry)
        for _ in range(3):
            given, table = _columns(case.tables, rng.sample(range(3), rng.choice([3, 3, 3, 2])))
            options = {
                "url": f"{registry.url}",
                "record-columns": given,
                "other-messages": rng.choice(["error", "skip"]),
            }
            # each case has its own schemas, which are cached by the settings of the client
            fmt = get_format("avro-confluent", {**options, "registry-timeout": f"{rng.randrange(10**6) + 10_000} ms"})
            messages = case.messages()
            messages = pa.concat_arrays([pa.array([b"x"], pa.binary()), messages]).slice(1)
            found, wanted = fmt.decode_batch(messages, table), _by_type(fmt, messages, table, monkeypatch)
            assert _text(found.rows) == _text(wanted.rows)
            errors = [None if batch.errors is None else batch.errors.to_pylist() for batch in (found, wanted)]
            codes = [None if batch.codes is None else batch.codes.to_pylist() for batch in (found, wanted)]
            assert errors[0] == errors[1]
            assert codes[0] == codes[1]
            found.rows.validate(full=True)
            compared, bad = compared + len(messages), bad + sum(map(bool, errors[0] or ()))
    assert compared > 30 * count
    assert bad > count
    assert at_once > count


def test_more_types_than_a_byte_can_count(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.ids |= {
        number: json.dumps({"type": "record", "name": f"T{number}", "fields": [{"name": "x", "type": "int"}]})
        for number in range(300)
    }
    given = ",".join(f"c{number}:T{number}" for number in range(300))
    fmt = get_format("avro-confluent", {"url": registry.url, "record-columns": given})
    messages = pa.array([b"\0" + number.to_bytes(4, "big") + b"\2" for number in range(300)])
    monkeypatch.setattr(AvroConfluentFormat, "decode_records", None)  # decoding by type fails
    rows = fmt.decode_batch(messages, ", ".join(f"c{number} ROW<x INT>" for number in range(300))).rows.flatten()
    assert [rows.field(number).is_valid().index(True).as_py() for number in range(300)] == list(range(300))
    assert sum(len(column) - column.null_count for column in rows.flatten()) == 300


@pytest.mark.parametrize("kind", _KINDS)
def test_each_avro_format_reads_in_one_pass(kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url = {"avro-glue": f"file:{tmp_path}", "avro-apicurio": f"file:{tmp_path}"}.get(kind, f"mock://one-pass-{kind}")
    given, table = _columns(["id BIGINT, a STRING", "id INT, at TIMESTAMP(3)", "x DOUBLE"], [0, 1, 2])
    options = {"url": url, "record-columns": given, "subject-name-strategy": "record-name"}
    options |= {"schema.autoRegistration": "true"} if kind == "avro-glue" else {}
    fmt = get_format(kind, options)
    rows = [
        {"c0": {"id": 7, "a": "é"}},
        {"c1": {"id": 1, "at": None}},
        {"c2": {"x": 0.5}},
        {"c0": {"id": None, "a": ""}},
    ]
    empty = dict.fromkeys(("c0", "c1", "c2"))
    kind_of_rows = pa.struct([pa.field(name, t) for name, t in zip(empty, _types(table), strict=True)])
    batch = fmt.encode_batch(pa.array([{**empty, **row} for row in rows], kind_of_rows), table)
    assert batch.errors is None
    monkeypatch.setattr(AvroConfluentFormat, "decode_records", None)  # decoding by type fails
    assert fmt.decode_batch(batch.messages, table).rows.to_pylist() == [[{**empty, **row}] for row in rows]


def test_a_message_with_two_rows_does_not_shift_those_of_others(registry: Registry) -> None:
    """Another message has no row, so that there are as many rows as messages."""
    for number, name in enumerate(_NAMES[:2]):
        registry.ids[number], registry.types[number] = json.dumps({"title": name, "type": "object"}), "JSON"
    options = {"url": registry.url, "record-columns": f"a:{_NAMES[0]},b:{_NAMES[1]}"}
    fmt, first, second = get_format("json-registry", options), bytes(5), b"\0\0\0\0\1"
    answers = {
        first + b'[{"id":1},{"id":2}]': [("+I", {"id": 1}, None), ("+I", {"id": 2}, None)],
        first: [],
        first + b'{"id":3}': [("+I", {"id": 3}, None)],
        second + b'{"id":4}': [("+I", None, {"id": 4})],
    }
    for messages in itertools.permutations(answers):
        assert decoded_rows(fmt, "a ROW<id INT>, b ROW<id INT>", *messages) == [answers[one] for one in messages]


def _types(table: str) -> list[pa.DataType]:
    return [field.type for field in resolve_schema(table)]
