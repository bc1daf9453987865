"""`avro-apicurio`: frames and headers byte by byte, a fake and a real registry, a serializer for Python as a peer."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from kvformat.codecs.registries import apicurio_frames as frames
from kvformat.connectors import infer_schema, inspect_topic
from kvformat.registry import KeyValueFormat, OptionError, SchemaError, SchemaRegistryError
from kvformat.registry.contract.schemas import resolve_schema, row_type
from kvformat.registry.table.record_headers import headers_of, plain_headers
from tests.support import random_rows, services
from tests.support.extent import case_count

DDL = "id BIGINT NOT NULL, name STRING"
SCHEMA = """{"type": "record", "name": "record", "fields":
    [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]}"""
NARROW = '{"type": "record", "name": "record", "fields": [{"name": "id", "type": "int"}]}'
DATUM, ROW = b"\x0e\x02\x06Ada", [{"id": 7, "name": "Ada"}]
FOUR, EIGHT = b"\0\0\0\0\7", b"\0" + bytes(7) + b"\7"
CONTENT, GLOBAL, ENCODING = frames.HEADERS["value"]
SECRET = "Tr0ub4dor&3"

_Header = tuple[str, bytes | None]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "7.avsc").write_text(SCHEMA)
    (tmp_path / "8.avsc").write_text(NARROW)
    return f"file:{tmp_path}"


def _format(url: str, **options: str) -> Any:
    given = {"url": url, "registry-backoff": "1 ms"}
    return get_format("avro-apicurio", given | {name.replace("_", "-"): value for name, value in options.items()})


def _decoded(fmt: Any, *messages: bytes | None, ddl: str = DDL) -> list[Any]:
    batch = fmt.decode_batch(pa.array(messages, pa.binary()), ddl)
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    return [row if error is None else error for row, error in zip(batch.rows.to_pylist(), errors, strict=True)]


def _records(table: KeyValueFormat, *records: tuple[bytes | None, list[_Header] | None]) -> list[Any]:
    values = pa.array([value for value, _ in records], pa.binary())
    found = [None if some is None else [{"key": k, "value": v} for k, v in some] for _, some in records]
    headers = pa.array(found, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    batch = table.decode_batch(None, values, headers=headers)
    errors = [None] * len(records) if batch.errors is None else batch.errors.to_pylist()
    return [row if error is None else error for row, error in zip(batch.rows.to_pylist(), errors, strict=True)]


def _table(url: str, more: str = "") -> KeyValueFormat:
    return KeyValueFormat.from_ddl(
        f"""CREATE TABLE t ({DDL}) WITH ('connector' = 'kafka', 'topic' = 'orders', 'scan.startup.mode' =
        'earliest-offset', 'properties.bootstrap.servers' = 'b:9', 'value.format' = 'avro-apicurio',
        'value.avro-apicurio.url' = '{url}'{more})"""
    )


# --- frames and headers ----------------------------------------------------------------------------------------


def test_frames_of_both_widths_are_read(folder: str) -> None:
    narrow, small = bytes(8) + b"\x08\x08", [{"id": 4, "name": None}]
    cases = {
        "auto": ([FOUR + DATUM, EIGHT + DATUM, None, narrow, FOUR + DATUM], [ROW, ROW, None, small, ROW]),
        "4": ([FOUR + DATUM, None, b"\0\0\0\0\x08\x08"], [ROW, None, [{"id": 4, "name": None}]]),
        "8": ([EIGHT + DATUM, narrow, None], [ROW, small, None]),
    }
    for width, (messages, expected) in cases.items():
        fmt = _format(folder, id_width=width)
        assert _decoded(fmt, *messages) == expected
        for message, row in zip(messages, expected, strict=True):
            assert _decoded(fmt, message) == [row]
        sliced = pa.array([b"x", *messages, b"y"], pa.binary())[1:-1]
        assert fmt.decode_batch(sliced, DDL).rows.to_pylist() == expected
        assert _decoded(fmt) == []
    assert "id 0 in" in _decoded(_format(folder, id_width="4"), EIGHT + DATUM)[0]


@pytest.mark.parametrize("short", [FOUR, EIGHT[:-1]])
def test_a_message_that_is_too_short_for_an_id_of_eight_bytes_has_no_id_of_four(folder: str, short: bytes) -> None:
    fmt = _format(folder, id_width="8")
    for messages in ([short], [EIGHT + DATUM, short]):
        assert f"the message has {len(short)} bytes, fewer than 00 and a schema id" in _decoded(fmt, *messages)[-1]


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (b"", "MALFORMED", "the message has 0 bytes, fewer than 00 and a schema id of four or eight bytes"),
        (FOUR[:-1], "MALFORMED", "the message has 4 bytes"),
        (b"\1" + FOUR[1:] + DATUM, "MALFORMED", "begins with 01, not with 00"),
        (DATUM, "MALFORMED", "'apicurio.value.contentId' or 'apicurio.value.globalId', decode records with"),
        (b"\0\0\0\0\x09" + DATUM, "UNKNOWN_SCHEMA", "Could not find schema with id 9 in"),
        (bytes(8) + b"\x09" + DATUM, "UNKNOWN_SCHEMA", "Could not find schema with id 9 in"),
        (b"\0\xff\xff\xff\xff" + DATUM, "UNKNOWN_SCHEMA", "Could not find schema with id -1 in"),
        (FOUR + DATUM[:-1], "MALFORMED", ""),
        (b"\xfe" + bytes(5), "MALFORMED", "the message has 6 bytes"),
        (EIGHT, "MALFORMED", ""),
        (b"\xfe" + EIGHT[1:], "MALFORMED", ""),
    ],
)
def test_a_bad_frame_is_an_error_of_its_message(folder: str, message: bytes, code: str, text: str) -> None:
    batch = _format(folder).decode_batch(pa.array([FOUR + DATUM, message, EIGHT + DATUM]), DDL)
    assert batch.rows.to_pylist() == [ROW, None, ROW]
    assert batch.codes.to_pylist() == [None, code, None]
    assert text in batch.errors[1].as_py()


def test_changed_messages_do_not_change_their_neighbours(folder: str) -> None:
    rng, fmt = random.Random(3), _format(folder)
    good = [FOUR + DATUM, EIGHT + DATUM]
    broken = []
    for _ in range(case_count(quick=400, night=1600)):
        changed = bytearray(rng.choice(good))
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        broken.append(bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.3 else changed))
    alone = [_decoded(fmt, message)[0] for message in broken]
    mixed = _decoded(fmt, *(part for message in broken for part in (message, *good)))
    assert mixed[::3] == alone
    assert mixed[1::3] == mixed[2::3] == [ROW] * len(broken)
    assert sum(isinstance(found, str) for found in alone) > len(broken) / 3


def test_rows_are_written_with_an_id_of_either_width(folder: str) -> None:
    rows = pa.array([{"id": 7, "name": "Ada"}, None])
    for width, frame in (("auto", FOUR), ("4", FOUR), ("8", EIGHT)):
        fmt = _format(folder, subject="s", id_width=width, schema_id="7")
        assert fmt.encode_batch(rows, DDL).messages.to_pylist() == [frame + DATUM, None]
    large = 2**40
    wide = _format(folder, subject="s", id_width="8", schema_id=str(large)).encode_batch(rows, DDL).messages.to_pylist()
    assert wide[0] == b"\0" + large.to_bytes(8, "big") + DATUM
    with pytest.raises(SchemaError, match=r"the schema id 1099511627776 does not fit in four bytes; set 'id-width'"):
        _format(folder, subject="s", schema_id=str(large)).encode_batch(rows, DDL)
    memory = _format("mock://apicurio", subject="s")
    written = memory.encode_batch(rows, DDL).messages
    assert memory.decode_batch(written, DDL).rows.to_pylist() == [ROW, None]


def test_columns_are_proposed_and_ids_are_metadata(folder: str) -> None:
    messages = [FOUR + DATUM, EIGHT + DATUM, bytes(8) + b"\x08\x08", None, b"junk"]
    for style in ("table", "ingestion"):
        found = infer_schema(messages, format="avro-apicurio", options={"url": folder}, style=style)
        roots = [field.type.root for field in found.fields]
        assert roots == ["BIGINT", "VARCHAR"], "of both schemas"
    batch = _format(folder).decode_batch(pa.array(messages), DDL, metadata=["registry.schema-id"])
    ids = [row and row[0]["registry.schema-id"] for row in batch.rows.to_pylist()]
    assert ids == ["7", "7", "8", None, None]


def _id(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def test_ids_in_headers_of_records(fake: Fake) -> None:
    """In the fake registry, the content 7 and the version 3 have the schema."""
    for use_id in ("contentId", "globalId"):
        table = _table(fake.url, f", 'value.avro-apicurio.use-id' = '{use_id}'")
        assert dict(table.record_headers) == {"value": (CONTENT, GLOBAL, ENCODING)}
        framed = (FOUR if use_id == "contentId" else b"\0\0\0\0\3") + DATUM
        binary = (ENCODING, b"BINARY")
        found = _records(
            table,
            (DATUM, [(CONTENT, _id(7)), binary]),
            (DATUM, [(GLOBAL, _id(3)), binary]),
            (framed, None),
            (framed, [binary]),
            (framed, [("trace", b"x"), ("apicurio.key.contentId", _id(99)), (GLOBAL, None)]),
            (DATUM, [(GLOBAL, _id(99)), (CONTENT, _id(7))]),  # as in Java, the id of the content counts
            (DATUM, [(CONTENT, b"not an id"), (CONTENT, _id(7))]),  # and the last header with a name
            (None, [(CONTENT, _id(7)), binary]),
            (None, [(ENCODING, b"JSON")]),
        )
        assert found.pop() in (None, [])
        assert found.pop() in (None, [])
        assert found == [ROW] * 7


def test_wrong_headers_are_errors_of_their_records(fake: Fake) -> None:
    good = (DATUM, [(CONTENT, _id(7))])
    cases: list[tuple[list[_Header], str]] = [
        ([(CONTENT, b"\0\0\0\7")], "'apicurio.value.contentId' has the bytes '00 00 00 07': it must be an id of eight"),
        ([(CONTENT, b"")], "has the bytes ''"),
        ([(GLOBAL, _id(3) + b"\0")], "'apicurio.value.globalId' has the bytes"),
        ([(CONTENT, b"x" * 1_000_000)], "78 ...': it must be an id of eight bytes"),
        ([(CONTENT, _id(99))], "Could not find schema with id 99 in"),
        ([(GLOBAL, _id(99))], "Could not find schema with id globalId 99 in"),
        ([(CONTENT, _id(7)), (ENCODING, b"JSON")], "'apicurio.value.encoding' is 'JSON': only data in Avro's binary"),
        ([(ENCODING, b"\xff" * 100)], "only data in Avro's binary encoding can be read"),
        ([], "begins with 0e, not with 00. If the schema's id is in the record's header 'apicurio.value.contentId'"),
    ]
    records = [record for headers, _ in cases for record in ((DATUM, headers), good)]
    found = _records(_table(fake.url), *records)
    assert found[1::2] == [ROW] * len(cases)
    for (_, text), error in zip(cases, found[::2], strict=True):
        assert isinstance(error, str)
        assert text in error
        assert len(error) < 600
    assert _records(_table(fake.url), *records[:1]) == found[:1]


def test_headers_of_records_are_structs_of_those_with_a_name() -> None:
    """As ingestion reads them."""
    named = [[(CONTENT, b"1"), (CONTENT, b"2"), ("x", b"3")], [], None, [(ENCODING, b"BINARY"), (CONTENT, None)]]
    entries = [None if some is None else [{"key": k, "value": v} for k, v in some] for some in named]
    headers = pa.array(entries, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    found = headers_of(pa.record_batch({"headers": headers}), frames.HEADERS)
    assert found["key"].null_count == 4
    nothing = dict.fromkeys((CONTENT, GLOBAL, ENCODING))
    expected = [nothing | {CONTENT: b"2"}, None, None, nothing | {ENCODING: b"BINARY"}]
    assert found["value"].to_pylist() == expected
    assert plain_headers(found["value"], frames.HEADERS["value"]).to_pylist() == expected
    assert headers_of(pa.record_batch({"value": [b""]}), frames.HEADERS) == {}


@pytest.mark.spark
def test_headers_of_a_dataframe(spark: Any, folder: str) -> None:
    from pyspark.sql import functions as F

    schema = "value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    binary = (ENCODING, b"BINARY")
    records: list[Any] = [
        (DATUM, [(CONTENT, _id(7)), binary]),
        (EIGHT + DATUM, None),
        (FOUR + DATUM, [binary]),
        (DATUM, [(CONTENT, b"x"), (CONTENT, _id(7))]),
        (DATUM, [(CONTENT, b"x")]),
        (DATUM, [(CONTENT, _id(7)), (ENCODING, b"JSON")]),
        (None, [(CONTENT, _id(7))]),
    ]
    df = spark.createDataFrame(records, schema).coalesce(1)
    decoded = _table(folder).decode(df, errors="capture")
    found = decoded.select("id", F.col("error.reason").alias("reason")).collect()
    assert [row.id for row in found[:4]] == [7] * 4
    assert "apicurio.value.contentId" in found[4].reason
    assert "JSON" in found[5].reason
    assert [row.id for row in _table(folder).decode(df.limit(4)).collect()] == [7] * 4


def test_keys_have_their_own_headers(folder: str) -> None:
    table = KeyValueFormat.from_ddl(
        f"""CREATE TABLE t ({DDL}, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 't',
        'properties.bootstrap.servers' = 'b:9', 'key.format' = 'avro-apicurio', 'key.avro-apicurio.url' = '{folder}',
        'value.format' = 'avro-apicurio', 'value.avro-apicurio.url' = '{folder}')"""
    )
    assert dict(table.record_headers) == frames.HEADERS
    headers = [[{"key": "apicurio.key.contentId", "value": _id(8)}, {"key": CONTENT, "value": _id(7)}]] * 2
    batch = table.decode_batch(pa.array([b"\x0e", b"\x10"]), pa.array([DATUM, None]), headers=pa.array(headers))
    assert batch.rows.to_pylist() == [ROW, [{"id": 8, "name": None}]]
    assert batch.row_kinds.to_pylist() == ["+U", "-D"]


@pytest.mark.parametrize("with_registry", [True, False])
def test_inspection_reads_ids_in_headers(fake: Fake, with_registry: bool) -> None:
    of_key = ("apicurio.key.globalId", _id(3))
    fake.contents[9] = NARROW.replace('"int"', '"long"')
    records: list[tuple[list[_Header], bytes]] = [
        ([(GLOBAL, _id(3)), of_key, (ENCODING, b"BINARY")], DATUM),
        ([(CONTENT, _id(7)), of_key], DATUM),
        ([(CONTENT, _id(9)), (GLOBAL, _id(4)), of_key], b"\x08"),
        ([(CONTENT, _id(7)), of_key], DATUM),
    ]
    headers = [[{"key": name, "value": data} for name, data in own] for own, _ in records]
    values = [value for _, value in records]
    given = {"url": fake.url} if with_registry else None
    found = inspect_topic(
        values, [DATUM] * 4, headers=headers, timestamps=[4000, 3000, 2000, 1000], registry=given, topic="orders"
    )
    assert [(guess.part, guess.format, guess.confidence) for guess in found.guesses] == [
        ("value", "avro-apicurio", 1.0),
        ("key", "avro-apicurio", 1.0),
    ]
    shown = [
        (use.part, use.schema, use.messages, use.first and use.first.second, use.last and use.last.second)
        for use in found.schemas
    ]
    assert shown == [
        ("value", "7", 2, 1, 3),
        ("value", "9", 1, 2, 2),
        ("value", "globalId 3", 1, 4, 4),
        ("key", "globalId 3", 4, 1, 4),
    ]
    assert f"the schema's id is in the header '{CONTENT}' or '{GLOBAL}' of 4 records" in found.notes
    if not with_registry:
        assert found.ddl is None
        assert any("format 'avro-apicurio' needs the option 'url'" in note for note in found.notes)
        return
    assert found.ddl is not None
    table = KeyValueFormat.from_ddl(found.ddl)
    batch = table.decode_batch(pa.array([DATUM] * 4), pa.array(values), headers=pa.array(headers))
    assert batch.errors is None
    both = {"key_id": 7, "key_name": "Ada"}
    assert batch.rows.values.to_pylist() == [both | row for row in (*ROW, *ROW, {"id": 4, "name": None}, *ROW)]
    inferred = infer_schema(values, format="avro-apicurio", options={"url": fake.url}, headers=headers)
    assert [field.name for field in inferred.fields] == ["id", "name"]


def test_inspection_leaves_wrong_headers_out() -> None:
    """Data in Avro's JSON encoding is not a datum that the format reads."""
    wrong = [[{"key": CONTENT, "value": b"7"}], [{"key": ENCODING, "value": b"BINARY"}], None]
    plain = inspect_topic([b'{"id":7}', *[b"\xfd" + _id(7) + DATUM] * 2], headers=[None, *wrong[1:]])
    assert (plain.schemas, plain.guesses[0].format) == ((), "raw")  # bytes that are as those of an id of a header
    json_encoded = [{"key": CONTENT, "value": _id(7)}, {"key": ENCODING, "value": b"JSON"}]
    found = inspect_topic([b'{"id":7}'] * 2, headers=[wrong[0], json_encoded])
    assert (found.schemas, [guess.format for guess in found.guesses]) == ((), ["json"])


# --- a fake registry: the paths and the answers are those of a real one -------------------------------------------


class Fake(ThreadingHTTPServer):
    """A registry in memory for the versions 2 and 3 of the interface. `answers` come before its own, by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contents = {7: SCHEMA, 8: NARROW}
        self.versions: dict[str, list[tuple[int, int]]] = {"known": [(3, 7)]}  # ids of version and content
        self.references: dict[int, list[Any]] = {}
        self.answers: dict[str, list[tuple[int, bytes]]] = {}
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/apis/registry/v3"

    def answer(self, path: str, query: dict[str, str], body: bytes, headers: Any) -> tuple[int, bytes]:
        planned = self.answers.get(path)
        if planned:
            return planned.pop(0)
        _, _, _, interface, *parts = path.split("/")
        match parts:
            case ["ids", kind, number, *rest]:
                content = self._content(kind, int(number))
                if content is None:
                    return _missing("ContentNotFoundException", f"No content with ID '{number}' was found.")
                return 200, json.dumps(self.references.get(content, [])).encode() if rest else self.contents[
                    content
                ].encode()
            case ["search", "versions"]:
                equal = self._equal(query["artifactId"], body)
                return 200, json.dumps({"versions": [_about(version) for version in equal]}).encode()
            case ["groups", _, "artifacts"] if interface == "v3":
                given = json.loads(body)
                text = given["firstVersion"]["content"]["content"]
                return 200, json.dumps({"version": _about(self._add(given["artifactId"], text))}).encode()
            case ["groups", _, "artifacts"]:
                return 200, json.dumps(_about(self._add(headers["X-Registry-ArtifactId"], body.decode()))).encode()
            case ["groups", _, "artifacts", name, "meta"] if body:
                return _one(self._equal(name, body)[:1], name)
            case ["groups", _, "artifacts", name, *_] if parts[-1] in ("meta", "branch=latest"):
                return _one(self.versions.get(name, [])[-1:], name)
            case ["groups", _, "artifacts", name, "versions", number, *rest]:
                _, content = self.versions[name][int(number) - 1]
                if rest == ["references"]:
                    return 200, json.dumps(self.references.get(content, [])).encode()
                return 200, self.contents[content].encode()
        return 404, b"<html>no such page</html>"

    def _content(self, kind: str, number: int) -> int | None:
        if kind == "contentIds":
            return number if number in self.contents else None
        return next((c for found in self.versions.values() for v, c in found if v == number), None)

    def _equal(self, name: str, body: bytes) -> list[tuple[int, int]]:
        """Return the versions with a schema. Its canonical form leaves the order of fields out: the worst case."""

        def canonical(text: str | bytes) -> list[str]:
            return sorted(map(str, json.loads(text)["fields"]))

        return [v for v in self.versions.get(name, []) if canonical(self.contents[v[1]]) == canonical(body)]

    def _add(self, name: str, text: str) -> tuple[int, int]:
        content = max(self.contents) + 1
        self.contents[content] = text
        version = max((v for found in self.versions.values() for v, _ in found), default=0) + 1
        self.versions.setdefault(name, []).append((version, content))
        return version, content


class _Handler(BaseHTTPRequestHandler):
    server: Fake

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((f"{self.command} {parts.path}", self.headers.get("Authorization")))
        query = dict(urllib.parse.parse_qsl(parts.query))
        status, data = self.server.answer(urllib.parse.unquote(parts.path), query, body, self.headers)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", data.decode())
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


def _about(version: tuple[int, int]) -> dict[str, Any]:
    return {"globalId": version[0], "contentId": version[1], "artifactType": "AVRO", "version": "1"}


def _one(versions: list[tuple[int, int]], name: str) -> tuple[int, bytes]:
    if not versions:
        return _missing("VersionNotFoundException", f"No version of '{name}'")
    return 200, json.dumps(_about(versions[0])).encode()


def _missing(name: str, text: str) -> tuple[int, bytes]:
    return 404, json.dumps({"title": text, "status": 404, "name": name}).encode()


@pytest.fixture
def fake() -> Iterator[Fake]:
    server = Fake()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("interface", ["v2", "v3", ""])
@pytest.mark.parametrize("use_id", ["contentId", "globalId"])
def test_schemas_are_registered_and_looked_up(fake: Fake, interface: str, use_id: str) -> None:
    url = fake.url.replace("/apis/registry/v3", f"/apis/registry/{interface}" if interface else "/")
    rows = pa.array([{"id": 7, "name": "Ada"}])
    fmt = _format(url, subject="orders-value", use_id=use_id)
    refused = _format(url, subject="orders-value", use_id=use_id, auto_register_schemas="false").encode_batch(rows, DDL)
    assert refused.codes.to_pylist() == ["UNKNOWN_SCHEMA"]
    (message,) = fmt.encode_batch(rows, DDL).messages.to_pylist()
    version, content = fake.versions["orders-value"][0]
    number = content if use_id == "contentId" else version
    assert message == b"\0" + number.to_bytes(4, "big") + DATUM
    assert _decoded(fmt, message) == [ROW]
    assert json.loads(fake.contents[content])["fields"][0] == {"name": "id", "type": "long"}
    again = _format(url, subject="orders-value", use_id=use_id, registry_timeout="29 s")  # without cached answers
    assert again.encode_batch(rows, DDL).messages.to_pylist() == [message]
    assert len(fake.versions["orders-value"]) == 1
    assert again.for_encoding(resolve_schema(DDL)).options["schema-id"] == number
    latest = _format(url, subject="orders-value", use_id=use_id, use_latest_version="true")
    assert latest.encode_batch(rows, DDL).messages.to_pylist() == [message]
    nothing = _format(url, subject="nothing", use_latest_version="true").encode_batch(rows, DDL)
    assert "subject 'nothing' has no latest schema" in nothing.errors[0].as_py()


def test_a_schema_with_another_order_of_fields_is_another_one(fake: Fake) -> None:
    fmt, swapped = _format(fake.url, subject="known"), "name STRING, id BIGINT NOT NULL"
    fake.contents[7] = fmt.own_schema(resolve_schema(swapped)).text
    (message,) = fmt.encode_batch(pa.array([{"id": 7, "name": "Ada"}]), DDL).messages.to_pylist()
    assert len(fake.versions["known"]) == 2
    assert message == b"\0" + fake.versions["known"][1][1].to_bytes(4, "big") + DATUM
    (other,) = fmt.encode_batch(pa.array([{"name": "Ada", "id": 7}]), swapped).messages.to_pylist()
    assert other == FOUR + b"\x02\x06Ada\x0e"
    assert _decoded(fmt, message, other) == [ROW, ROW]


def test_references_are_followed(fake: Fake) -> None:
    fake.versions["name"] = [(20, 21)]
    fake.contents[21] = '{"type": "record", "name": "Name", "fields": [{"name": "first", "type": "string"}]}'
    fake.contents[22] = """{"type": "record", "name": "Person", "fields": [{"name": "id", "type": "long"},
        {"name": "name", "type": "Name"}]}"""
    fake.references[22] = [{"groupId": None, "artifactId": "name", "version": "1", "name": "Name"}]
    (found,) = _decoded(_format(fake.url), b"\0\0\0\0\x16\x0e\x06Ada", ddl="id BIGINT, name ROW<first STRING>")
    assert found == [{"id": 7, "name": {"first": "Ada"}}]
    fake.contents[23] = fake.contents[22]
    fake.references[23] = [{"artifactId": "name", "version": "1", "name": f"N{i}"} for i in range(1001)]
    with pytest.raises(SchemaRegistryError, match="refers to more than 1000 others"):
        _decoded(_format(fake.url), b"\0\0\0\0\x17\x0e")


@pytest.mark.parametrize("interface", ["v2", "v3"])
def test_references_of_references_are_followed_each_once(fake: Fake, interface: str) -> None:
    """A reference without a group is to the group `default`, whatever the group of the table is."""
    groups = {"B": None, "C": "shop", "D": "other", "E": None, "F": "default"}
    for number, (name, used) in enumerate({"O": "BC", "B": "DE", "C": "DF", "D": "", "E": "", "F": ""}.items(), 30):
        fields = [{"name": t.lower(), "type": t} for t in used] or [{"name": "x", "type": "int"}]
        fake.contents[number] = json.dumps({"type": "record", "name": name, "fields": fields})
        fake.versions[name] = [(number, number)]
        fake.references[number] = [{"groupId": groups[t], "artifactId": t, "version": "1", "name": t} for t in used]
    ddl = "b ROW<d ROW<x INT>, e ROW<x INT>>, c ROW<d ROW<x INT>, f ROW<x INT>>"
    fmt = _format(fake.url.replace("v3", interface), group_id="shop")
    (found,) = _decoded(fmt, b"\0\0\0\0\x1e\x02\x04\x06\x08", ddl=ddl)
    assert found == [{"b": {"d": {"x": 1}, "e": {"x": 2}}, "c": {"d": {"x": 3}, "f": {"x": 4}}}]
    paths = [path.partition("/groups/")[2] for path, _ in fake.asked if "/versions/" in path]
    end = "" if interface == "v2" else "/content"
    assert sorted(path for path in paths if not path.endswith("/references")) == sorted(
        f"{group or 'default'}/artifacts/{name}/versions/1{end}" for name, group in groups.items()
    )


def test_a_page_of_another_server_is_not_a_missing_schema(fake: Fake) -> None:
    fake.answers["/apis/registry/v2/groups/default/artifacts/s/meta"] = [(404, b"<html>no such page</html>")]
    fmt = _format(fake.url.replace("v3", "v2"), subject="s")
    with pytest.raises(SchemaRegistryError, match="no such page"):
        fmt.encode_batch(pa.array([{"id": 7, "name": "Ada"}]), DDL)
    assert "s" not in fake.versions


def test_failures_are_tried_again_if_that_may_help(fake: Fake) -> None:
    path = "/apis/registry/v3/ids/contentIds/7"
    for number, (answers, count) in enumerate(
        (
            ([(503, b"busy"), (500, b"{}")], 3),
            ([(401, b"who?")], 1),
            ([(404, b"<html>no such page</html>")], 1),
            ([(302, b"file:///etc/passwd")], 1),
            ([(200, b"\xff\xfe")], 1),
        )
    ):
        fake.asked.clear()
        fake.answers[path] = list(answers)
        fmt = _format(fake.url, registry_timeout=f"{number + 10} s")  # with its own cached answers
        if count > 1:
            assert _decoded(fmt, FOUR + DATUM) == [ROW]
        else:
            with pytest.raises(SchemaRegistryError, match="schema id 7"):
                _decoded(fmt, FOUR + DATUM)
        assert [asked for asked, _ in fake.asked].count(f"GET {path}") == count
    fake.answers[path] = [(400, b'{"name": "SomeException", "title": "it is disabled"}')]
    assert "HTTP 400: it is disabled" in _decoded(_format(fake.url, registry_timeout="3 s"), FOUR + DATUM)[0]


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        *((status, "X", "repeated") for status in (408, 429, 500, 502, 503, 504)),
        *((status, "X", "refused") for status in (400, 404, 409, 422)),
        *((status, "", "failed") for status in (400, 404, 409, 422)),
        *((status, "X", "failed") for status in (401, 403, 405, 501)),
    ],
)
def test_the_status_of_an_answer_decides_whether_it_is_about_the_schema(
    fake: Fake, status: int, name: str, kind: str
) -> None:
    path = "/apis/registry/v3/ids/contentIds/7"
    fake.answers[path] = [(status, json.dumps({"name": name, "title": "not now"}).encode())]
    if kind == "failed":
        with pytest.raises(SchemaRegistryError, match=f"HTTP {status}: not now"):
            _decoded(_format(fake.url), FOUR + DATUM)
    else:
        (found,) = _decoded(_format(fake.url), FOUR + DATUM)
        assert found == ROW if kind == "repeated" else f"HTTP {status}: not now" in found
    assert [asked for asked, _ in fake.asked].count(f"GET {path}") == 1 + (kind == "repeated")


def test_a_huge_answer_is_an_error(fake: Fake) -> None:
    fake.contents[9] = " " * (9 << 20)
    with pytest.raises(SchemaRegistryError, match="the answer has more than 8388608 bytes"):
        _decoded(_format(fake.url), b"\0\0\0\0\x09")


def test_credentials_are_sent_and_not_shown(fake: Fake) -> None:
    other = Fake()
    threading.Thread(target=other.serve_forever, args=(0.01,), daemon=True).start()
    path = "/apis/registry/v3/ids/contentIds/7"
    fake.answers[path] = [(302, f"http://127.0.0.1:{other.server_port}{path}".encode())]
    basic = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": f"alice:{SECRET}"}
    formats = [
        get_format("avro-apicurio", {"url": fake.url, **basic}),
        get_format("avro-apicurio", {"url": fake.url, "bearer-auth.token": SECRET}),
        get_format("avro-apicurio", {"url": fake.url.replace("//", f"//alice:{urllib.parse.quote(SECRET)}@")}),
        get_format(
            "avro-apicurio",
            {
                "url": fake.url.replace("http://", f"HTTP://alice:{urllib.parse.quote(SECRET)}@"),
                "basic-auth.user-info": "bob:other",
            },
        ),
        get_format("avro-apicurio", {"url": fake.url.replace("//", "//bob:other@"), "bearer-auth.token": SECRET}),
    ]
    basic_header, bearer_header = "Basic YWxpY2U6VHIwdWI0ZG9yJjM=", f"Bearer {SECRET}"
    expected = [basic_header, bearer_header, basic_header, basic_header, bearer_header]
    for fmt, authorization in zip(formats, expected, strict=True):
        fake.asked.clear()
        assert _decoded(fmt, FOUR + DATUM) == [ROW]
        assert {sent for _, sent in fake.asked} == {authorization}
        fake.answers[path.replace("/7", "/8")] = [(403, f"{SECRET} {authorization}".encode())]
        with pytest.raises(SchemaRegistryError, match="HTTP 403") as caught:
            _decoded(fmt, b"\0\0\0\0\x08\x08")
        shown = [str(caught.value), repr(caught.value.__cause__), repr(fmt), repr(fmt.settings)]
        assert not any(SECRET in text or authorization in text for text in shown)
    assert {sent for _, sent in other.asked} == {None}  # another server gets no credentials
    other.shutdown()
    other.server_close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs the option 'url'"),
        ({"url": "http://r", "id-width": "16"}, r"supported values are \[auto, 4, 8\]"),
        ({"url": "http://r", "use-id": "hash"}, r"supported values are \[contentId, globalId\]"),
        ({"url": "http://a,http://b"}, "give one URL"),
        ({"url": "http://r/apis/ccompat/v7"}, "this is Confluent's interface: give `.../apis/registry/v3`"),
        ({"url": "http://r", "bearer-auth.credentials-source": "OAUTHBEARER"}, "use 'STATIC_TOKEN'"),
        ({"url": "http://r", "properties.x": "y"}, "unknown option|no option"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        _decoded(get_format("avro-apicurio", options), FOUR + DATUM)


def test_a_server_that_does_not_answer_ends_with_the_timeout(fake: Fake) -> None:
    fake.answer = lambda *_: (time.sleep(5), (200, b""))[1]  # type: ignore[method-assign, func-returns-value]
    begin = time.monotonic()
    with pytest.raises(SchemaRegistryError, match="registry-timeout"):
        _decoded(_format(fake.url, registry_timeout="200 ms"), FOUR + DATUM)
    assert time.monotonic() - begin < 3


# --- a real registry, and a serializer for Python -----------------------------------------------------------------


def _check_peers(url: str, count: int) -> int:
    """Let a serializer for Python read ours and write the same bytes again. Returns the number of messages."""
    from apicurio_serdes import ApicurioRegistryClient
    from apicurio_serdes.avro import AvroDeserializer, AvroSerializer
    from apicurio_serdes.serialization import MessageField, SerializationContext, WireFormat

    context = SerializationContext("orders", MessageField.VALUE)
    rng, compared = random.Random(29), 0
    with ApicurioRegistryClient(url, "default") as client:
        for number in range(count):
            text = random_rows.schema(rng, columns=rng.randint(1, 6), depth=2)
            use_id: Any = rng.choice(["contentId", "globalId"])
            fmt = _format(url, subject=f"peer-{number}", use_id=use_id)
            try:
                own = json.loads(fmt.own_schema(resolve_schema(text)).text)
            except SchemaError:  # a type that Flink's Avro does not have
                continue
            client.register_schema(f"peer-{number}", own)  # with other spaces, and still ours finds it
            batch = fmt.encode_batch(random_rows.rows(rng, row_type(resolve_schema(text)), 10), text)
            table = KeyValueFormat.from_ddl(
                f"""CREATE TABLE t ({text}) WITH ('connector' = 'kafka', 'topic' = 'orders', 'scan.startup.mode' =
                'earliest-offset', 'properties.bootstrap.servers' = 'b:9', 'value.format' = 'avro-apicurio',
                'value.avro-apicurio.url' = '{url}', 'value.avro-apicurio.use-id' = '{use_id}')"""
            )
            reader = AvroDeserializer(client, use_id=use_id)
            framing = AvroSerializer(client, f"peer-{number}", use_id=use_id)
            naming = AvroSerializer(client, f"peer-{number}", use_id=use_id, wire_format=WireFormat.KAFKA_HEADERS)
            for ours in filter(None, batch.messages.to_pylist()):
                value = reader(ours, context)
                assert framing(value, context) == ours, text
                named = naming.serialize(value, context)
                assert named.payload == ours[5:]
                wide = b"\0" + int.from_bytes(ours[1:5], "big").to_bytes(8, "big") + ours[5:]
                found = _records(table, (ours, None), (wide, []), (named.payload, list(named.headers.items())))
                assert not isinstance(found[0], str), (text, found[0])
                assert repr(found[0]) == repr(found[1]) == repr(found[2]), text
                compared += 1
    print(f"compared {compared} messages")
    return compared


@pytest.mark.services
@pytest.mark.slow
@pytest.mark.parametrize("interface", ["v2", "v3"])
def test_a_real_registry(apicurio: services.SchemaRegistry, interface: str) -> None:
    url = apicurio.url.replace("/apis/ccompat/v7", f"/apis/registry/{interface}")
    rows, name = pa.array([{"id": 7, "name": "Ada"}]), f"real-{interface}"
    lookup = _format(url, subject=name, auto_register_schemas="false")
    assert "has no version with this content" in lookup.encode_batch(rows, DDL).errors[0].as_py()
    for use_id in ("contentId", "globalId"):
        fmt = _format(url, subject=name, use_id=use_id, id_width="8")
        (message,) = fmt.encode_batch(rows, DDL).messages.to_pylist()
        assert _decoded(fmt, message) == [ROW]
        assert _decoded(_format(url, use_id=use_id), message, b"\0\x7f\xff\xff\xff") == [
            ROW,
            *_decoded(fmt, b"\0" + bytes(4) + b"\x7f\xff\xff\xff"),
        ]
    spaced = _format(
        url, subject=name, schema=json.dumps(json.loads(fmt.own_schema(resolve_schema(DDL)).text), indent=4)
    )
    assert spaced.encode_batch(rows, DDL).errors is None
    assert lookup.encode_batch(rows, DDL).errors is None
    more = "id BIGINT NOT NULL, name STRING, more BIGINT"
    _format(url, subject=name).encode_batch(pa.array([{"id": 1, "name": "x", "more": 2}]), more)
    latest = _format(url, subject=name, use_latest_version="true")
    assert latest.encode_batch(pa.array([{"id": 1, "name": "x", "more": 2}]), more).errors is None
    (refused,) = _format(url, subject=name, use_id="globalId").decode_batch(pa.array([bytes(8) + b"\x7f"]), DDL).errors
    assert "HTTP 404: No version with global ID '127' found" in refused.as_py()


@pytest.mark.services
@pytest.mark.slow
def test_a_serializer_for_python_with_a_real_registry(apicurio: services.SchemaRegistry) -> None:
    url = apicurio.url.replace("/apis/ccompat/v7", "/apis/registry/v3")
    assert _check_peers(url, case_count(quick=40, night=120)) > 200
