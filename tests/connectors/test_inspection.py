"""Inspection recognizes the content of a topic from its records, and the proposed table reads them."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import uuid
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from benchmarks._records import record_kinds
from kvformat.connectors import Inspection, KafkaTable, inspect_topic
from kvformat.registry import ConfigurationError, KeyValueFormat, available_formats
from tests.support import interop, recordings
from tests.support.registry_server import Registry

Messages = list[bytes | None]


def values_of(topic: str) -> tuple[Messages, Messages]:
    records = recordings.records(topic)
    return [record.key for record in records], [record.value for record in records]


def texts(*rows: Any) -> Messages:
    return [json.dumps(row).encode() for row in rows]


def read(found: Inspection, keys: Messages | None, values: Messages) -> list[Any]:
    """Read all records with the proposed table and return the rows."""
    assert found.ddl is not None, found.notes
    array = None if keys is None else pa.array(keys, pa.binary())
    batch = KeyValueFormat.from_ddl(found.ddl).decode_batch(array, pa.array(values, pa.binary()))
    assert batch.errors is None, batch.errors
    rows: list[Any] = batch.rows.values.to_pylist(maps_as_pydicts="strict")
    return rows


ROW = {"id": 1, "name": "a"}
CHANGE = {"before": None, "after": ROW, "op": "c", "source": {"db": "x"}}
CANAL = {"data": [{"id": "1"}], "old": None, "type": "INSERT", "isDdl": False, "mysqlType": {"id": "int(11)"}}
MAXWELL = {"database": "d", "table": "t", "type": "insert", "ts": 1, "data": ROW}
OGG = {"table": "T", "op_type": "I", "after": ROW, "before": None}
WRAPPED = {"schema": {"type": "struct", "fields": []}, "payload": CHANGE}


@pytest.mark.parametrize(
    ("messages", "format", "reason"),
    [
        (texts(ROW), "json", "1 of 1 messages are JSON objects"),
        (texts([ROW, ROW]), "json", "are JSON arrays of objects, a row each"),
        (texts({**ROW, "__op": "c", "__deleted": "false"}), "json", "ExtractNewRecordState"),
        (texts({"schema": {"type": "struct"}, "payload": ROW}), "json", "as Kafka Connect writes rows"),
        (texts(CHANGE), "debezium-json", "Debezium without schemas"),
        (texts(WRAPPED), "debezium-json", "Debezium with schemas"),
        (texts({**CHANGE, "after": '{"_id":1}'}), "json", "Debezium's MongoDB connector"),
        (texts(CANAL), "canal-json", "as Canal writes them"),
        (texts(MAXWELL), "maxwell-json", "as Maxwell writes them"),
        (texts(OGG), "ogg-json", "Oracle GoldenGate"),
        (['{"id":1}'.encode("utf-16")], "json", "are JSON objects"),
        (['{"id":1}'.encode("utf-8-sig")], "json", "are JSON objects"),
        ([b"1,a,x", b"2,b,y", b"3,c,z"], "csv", "100% of which has 3 columns with ',' between"),
        ([b"1\ta", b"2\tb", b"3\tc"], "csv", "with a tab between"),
        ([b"1|a", b"2|b", b"3|c"], "csv", "with '|' between"),
        ([b"1;a", b"2;b", b"3;c"], "csv", "with ';' between"),
        ([b"hello, world", b"no comma", "é, è, à".encode()], "raw", "are text"),
        ([b"42"], "raw", "are text"),
        (["größer".encode("latin-1")], "raw", "text, but not in UTF-8, ISO-8859-1 perhaps"),
        (["größer: 5 € ‚das‘".encode("cp1252")], "raw", "windows-1252 perhaps"),
        (["größer".encode("utf-16")], "raw", "are text in UTF-16"),
        ([struct.pack(">q", n) for n in (1, -2, 1_700_000_000_000)], "raw", "a whole number (BIGINT) in big-endian"),
        ([struct.pack(">i", n) for n in (1, -2, 70_000)], "raw", "a whole number (INT) in big-endian"),
        ([struct.pack(">d", n) for n in (1.5, -2.0, 1e3)], "raw", "a DOUBLE in big-endian"),
        ([b"\x08\x96\x01\x12\x03abc\xff", b"\x01"], "raw", "of no form that can be told: plain Avro or Protobuf"),
    ],
)
def test_formats_are_recognized_and_read(messages: Messages, format: str, reason: str) -> None:
    found = inspect_topic(messages)
    assert (found.guesses[0].part, found.guesses[0].format, found.guesses[0].readable) == ("value", format, True)
    assert reason in found.guesses[0].reason
    assert 0 < found.guesses[0].confidence <= 1
    rows = read(found, None, messages)
    assert len(rows) >= len(messages)


@pytest.mark.parametrize(
    ("message", "format", "remedy"),
    [
        (gzip.compress(b"{}"), "gzip", "Decompress them before"),
        (b"\x28\xb5\x2f\xfd\x20\x02", "zstd", "Decompress them before"),
        (b"\xff\x06\x00\x00sNaPpY\x01", "snappy", "Decompress them before"),
        (b"\x82SNAPPY\x00\x00\x00\x00\x01", "snappy", "Decompress them before"),
        (b"\xc3\x01" + b"12345678" + b"\x02", "avro single object", "ten bytes"),
        (b"Obj\x01\x00" + bytes(16), "avro file", "not whole files"),
        (b'{"a":', "broken JSON", "capture"),
    ],
)  # fmt: skip
def test_unreadable_messages_are_explained_with_a_remedy(message: bytes, format: str, remedy: str) -> None:
    found = inspect_topic([message, None, b"", message])
    (guess,) = found.guesses
    assert (guess.format, guess.readable, guess.confidence) == (format, False, pytest.approx(1, abs=0.1))
    assert format not in available_formats()
    assert remedy in guess.reason
    assert found.ddl is None
    assert any(remedy in note for note in found.notes)
    assert found.counts == {"messages": 4, "nulls": 1, "empty": 1}


def test_encodings_other_than_utf_8_are_recognized() -> None:
    (mark, *_) = inspect_topic(['{"a":1}'.encode("utf-8-sig"), "a".encode("utf-8-sig")]).notes
    assert mark == "value: some begin with UTF-8's byte order mark: JSON is read without it, text with it"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        note = inspect_topic(['{"a":1}'.encode(encoding)]).notes[0]
        assert note.startswith("value: some are JSON in UTF-16 or UTF-32")
    assert not any("UTF" in note for note in inspect_topic([b'{"a":1}', b"a"]).notes)


def test_a_topic_without_records_has_no_guess() -> None:
    assert inspect_topic([]) == Inspection((), None, (), {"messages": 0, "nulls": 0, "empty": 0})
    assert inspect_topic([None], [None]).counts == {"messages": 1, "nulls": 1, "empty": 0, "keys": 0, "null keys": 1}
    assert inspect_topic([None, b" "]).guesses == ()


def test_mixed_topics_have_a_guess_for_each_kind() -> None:
    messages = [*texts(ROW) * 6, *texts(CHANGE) * 3, b"{"]
    found = inspect_topic(messages)
    assert [(g.format, g.confidence) for g in found.guesses] == [
        ("json", 0.6),
        ("debezium-json", 0.3),
        ("broken JSON", 0.1),
    ]
    assert found.guesses[0].reason == "6 of 10 messages are JSON objects"
    assert any(note.startswith("1 of 10 records are errors to the proposed table, the first: ") for note in found.notes)
    assert found.ddl is not None
    assert "`name` STRING" in found.ddl
    assert "after" not in found.ddl


# --- keys ------------------------------------------------------------------------------------------------


def test_key_is_part_of_the_table() -> None:
    keys, values = texts({"id": 1}, {"id": 2}), texts({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    found = inspect_topic(values, keys, name="orders", topic="shop.orders", bootstrap="b:9092")
    assert [(g.part, g.format) for g in found.guesses] == [("value", "json"), ("key", "json")]
    assert found.guesses[1].reason == "2 of 2 keys are JSON objects"
    assert found.ddl == (
        "CREATE TABLE `orders` (\n  `key_id` INT,\n  `id` INT,\n  `v` STRING\n) WITH (\n"
        "  'connector' = 'kafka',\n  'topic' = 'shop.orders',\n  'properties.bootstrap.servers' = 'b:9092',\n"
        "  'scan.startup.mode' = 'earliest-offset',\n  'key.format' = 'json',\n  'key.fields' = 'key_id',\n"
        "  'key.fields-prefix' = 'key_',\n  'value.format' = 'json',\n  'value.fields-include' = 'EXCEPT_KEY'\n)"
    )
    assert found.notes == ()
    assert read(found, keys, values)[1] == {"key_id": 2, "id": 2, "v": "b"}


def test_tombstones_make_an_upsert_table() -> None:
    keys: Messages = [b"a", b"b", b"a"]
    values: Messages = [*texts({"v": 1}, {"v": 2}), None]
    found = inspect_topic(values, keys)
    assert found.counts["nulls"] == 1
    assert found.ddl is not None
    assert "'connector' = 'upsert-kafka'" in found.ddl
    assert "PRIMARY KEY (`key`) NOT ENFORCED" in found.ddl
    assert read(found, keys, values)[-1] == {"key": "a", "v": None}
    without = inspect_topic(values, [b"a", None, b"a"])
    assert without.ddl is not None
    assert "'connector' = 'kafka'" in without.ddl


def test_keys_of_any_kind() -> None:
    values = texts(ROW, {**ROW, "id": 2})
    numbers: Messages = [struct.pack(">q", n) for n in (5, 6)]
    assert read(inspect_topic(values, numbers), numbers, values)[0] == {"key": 5, **ROW}
    several: Messages = [b"a,1,x", b"b,2,y"]
    assert read(inspect_topic(values, several), several, values)[0] == {"f0": "a", "f1": 1, "f2": "x", **ROW}
    named = texts({"key": "x", "k": 1}, {"key": "x", "k": 2})
    assert read(inspect_topic(named, numbers), numbers, named)[0] == {"key_key": 5, "key": "x", "k": 1}
    packed: Messages = [gzip.compress(b"a")] * 2
    found = inspect_topic(values, packed)
    assert "key" not in (found.ddl or "")
    assert any(note.startswith("no table is proposed for the key") for note in found.notes)


def test_debezium_topics() -> None:
    for topic, key in (("orders", "order_id"), ("accounts", "account_id")):
        keys, values = values_of(topic)
        found = inspect_topic(values, keys, topic=topic, bootstrap="b:9092")
        assert found.guesses[0].format == "debezium-json"
        assert found.counts["nulls"] > 0
        assert found.ddl is not None
        assert f"PRIMARY KEY (`{key}`) NOT ENFORCED" in found.ddl
        assert len(read(found, keys, values)) > len(values) - found.counts["nulls"]
    assert found.guesses[0].options == {"timestamp-format.standard": "ISO-8601"}


def test_connect_schema_does_not_become_a_column() -> None:
    found = inspect_topic(texts({"schema": {"type": "struct"}, "payload": ROW}))
    assert "schema" not in (found.ddl or "")
    assert "value: Connect's schema in each message is left out" in found.notes


# --- registries ------------------------------------------------------------------------------------------

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": "string"}]}


def confluent(schema_id: int, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), datum)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def test_registry_resolves_schema_ids(registry: Registry) -> None:
    registry.ids = {7: json.dumps(AVRO), 8: "syntax", 9: "{}"}
    registry.types = {8: "PROTOBUF", 9: "JSON"}
    avro: Messages = [confluent(7, {"id": n, "v": "x" * n}) for n in range(6)]
    found = inspect_topic(avro, registry=registry.url)
    assert found.guesses[0].format == "avro-confluent"
    assert found.guesses[0].confidence == 1.0
    assert found.guesses[0].options == {"url": registry.url}
    assert read(found, None, avro)[2] == {"id": 2, "v": "xx"}

    others: Messages = [b"\0\0\0\0\x08\x02\x0a\x01a"] * 2
    (guess,) = inspect_topic(others, registry=registry.url).guesses
    assert (guess.format, guess.readable) == ("proto-registry", True)
    assert guess.reason.endswith("they are Protobuf")
    (guess,) = inspect_topic([b"\0\0\0\0\x09\x02\x0a\x01ab"] * 2, registry=registry.url).guesses
    assert guess.format == "json-schema"
    (guess,) = inspect_topic([b"\0\0\0\0\x63\x02\x0a\x01ab"], registry=registry.url).guesses
    assert (guess.readable, "does not know their ids" in guess.reason) == (False, True)

    mixed = inspect_topic([*avro, *others], registry=registry.url)
    assert [guess.format for guess in mixed.guesses] == ["avro-confluent", "proto-registry"]
    assert any(note.startswith("2 of 8 records are errors") for note in mixed.notes)


def test_messages_that_may_be_numbers_have_ids_if_the_registry_knows_one_of_them(registry: Registry) -> None:
    registry.ids = {7: json.dumps(AVRO)}
    known, unknown = (confluent(schema_id, {"id": 1, "v": "x"}) for schema_id in (7, 99))  # of eight bytes
    guesses = inspect_topic([known] * 5 + [unknown], registry=registry.url).guesses
    assert (guesses[0].format, guesses[0].reason[:6]) == ("avro-confluent", "5 of 6")
    assert inspect_topic([unknown] * 6, registry=registry.url).guesses[0].format == "raw"


def test_messages_without_a_type_are_recognized_beside_those_of_several_types(registry: Registry) -> None:
    """Here without a title in the schema, and of a schema that the registry does not know. A has two schemas."""
    registry.ids = {5: '{"title": "A"}', 6: '{"title": "A", "type": "object"}', 7: '{"title": "B"}', 8: "{}"}
    registry.types = dict.fromkeys(registry.ids, "JSON")
    messages: Messages = [b"\0\0\0\0" + bytes([schema_id]) + b'{"id":1}' for schema_id in (5, 7, 6, 8, 9)]
    guesses = inspect_topic(messages, registry=registry.url).guesses
    assert {guess.format for guess in guesses} == {"json-registry"}
    counts = {guess.options.get("record-name"): guess.reason.partition(" of")[0] for guess in guesses}
    assert counts == {"A": "2", "B": "1", None: "2"}


def test_debezium_envelope_in_avro_is_recognized(registry: Registry) -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
    fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    envelope = {"type": "record", "name": "Envelope", "fields": [*fields, {"name": "op", "type": "string"}]}
    registry.ids = {3: json.dumps(envelope)}
    out = io.BytesIO()
    datum = {"before": None, "after": {"id": 5}, "op": "c"}
    fastavro.schemaless_writer(out, fastavro.parse_schema(envelope), datum)
    messages: Messages = [b"\0\0\0\0\x03" + out.getvalue()]
    found = inspect_topic(messages, registry=registry.url)
    assert found.guesses[0].format == "debezium-avro-confluent"
    assert read(found, None, messages) == [{"id": 5}]


def test_glues_frame_is_recognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # so that boto3 finds no credentials
    versions = [uuid.UUID("7b9b4ea1-3f5e-4a37-a7d0-2b2f8e0d3c11"), uuid.UUID("0e9d6e6c-5c2f-4f0e-9a1e-7f2f0b8a4d10")]
    (tmp_path / f"{versions[0]}.avsc").write_text(json.dumps(AVRO))
    out = [confluent(0, {"id": n, "v": "x" * n})[5:] for n in range(6)]
    plain: Messages = [b"\3\0" + versions[0].bytes + datum for datum in out]
    mixed: Messages = [*plain[:3], *(b"\3\5" + versions[0].bytes + zlib.compress(datum) for datum in out[3:])]
    for messages in (plain, mixed):
        found = inspect_topic(messages, registry=f"file:{tmp_path}")
        (guess,) = found.guesses
        assert (guess.format, guess.confidence) == ("avro-glue", 0.9)
        assert guess.reason == (
            f"6 of 6 messages begin with 03 and the UUID of a schema's version, AWS Glue's frame ({versions[0]})"
        )
        assert read(found, None, messages)[2] == {"id": 2, "v": "xx"}
    without = inspect_topic(plain)
    assert (without.guesses[0].format, without.ddl) == ("avro-glue", None)
    assert any("option 'aws.region' of format 'avro-glue' is missing" in note for note in without.notes)
    region = inspect_topic(plain, registry={"aws.region": "eu-west-1"}).guesses[0]
    assert region.options == {"aws.region": "eu-west-1"}
    both = [*plain, b"\3\0" + versions[1].bytes + b"\2", None]
    for registry in (f"file:{tmp_path}", None):
        two = inspect_topic(both, both, timestamps=[n * 1000 for n in range(6, -2, -1)], registry=registry)
        of_each = [(str(versions[1]), 1), (str(versions[0]), 6)]
        assert [(use.part, use.schema, use.messages) for use in two.schemas] == [
            (part, *use) for part in ("value", "key") for use in of_each
        ]
        assert [(use.first.second, use.last.second) for use in two.schemas if use.first and use.last] == 2 * [
            (0, 0),
            (1, 6),
        ]
        assert any(str(versions[1]) in note for note in two.notes) == (registry is not None)
    other = inspect_topic([b"\3\0" + uuid.UUID(int=7).bytes + datum for datum in out])  # AWS makes no such UUIDs
    assert (other.guesses[0].format != "avro-glue", other.schemas) == (True, ())


def test_the_frame_of_apicurio_2_is_recognized(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(AVRO))
    long_id = b"\0" + bytes(7) + b"\7"
    messages: Messages = [long_id + confluent(0, {"id": n, "v": "x" * n})[5:] for n in range(6)]
    found = inspect_topic(messages, registry=f"file:{tmp_path}")
    (guess,) = found.guesses
    reason = "6 of 6 messages begin with 00 and the id of a schema in eight bytes, the frame of Apicurio 2"
    assert (guess.format, guess.confidence, guess.reason) == ("avro-apicurio", 0.9, reason)
    assert guess.options == {"url": f"file:{tmp_path}", "use-id": "globalId"}
    assert read(found, None, messages)[2] == {"id": 2, "v": "xx"}
    assert [(use.schema, use.messages) for use in found.schemas] == [("7", 6)]

    without = inspect_topic([*messages, confluent(7, {"id": 1, "v": ""})])
    assert [guess.format for guess in without.guesses] == ["avro-apicurio", "avro-confluent"]
    assert [(use.schema, use.messages) for use in without.schemas] == [("7", 7)]
    for other in (long_id, bytes(9) + b"\2"):  # a number, and an id that is 0
        (guess,) = inspect_topic([other] * 6).guesses
        assert guess.format != "avro-apicurio"


def test_schema_ids_without_a_registry() -> None:
    avro: Messages = [confluent(7, {"id": n, "v": "x" * n}) for n in range(6)]
    found = inspect_topic(avro)
    assert (found.guesses[0].format, found.guesses[0].confidence, found.ddl) == ("avro-confluent", 0.9, None)
    assert found.guesses[0].reason.endswith("(7); no registry was asked what they stand for")
    assert any("give a schema registry" in note for note in found.notes)
    for count, shown in ((5, "(1, 2, 3, 4, 5);"), (6, "(1, 2, 3, 4, 5, ...);")):
        several = inspect_topic([confluent(n % count + 1, {"id": n, "v": "x" * n}) for n in range(12)])
        assert shown in several.guesses[0].reason
    down = inspect_topic(avro, registry={"url": "http://127.0.0.1:1", "registry-retries": 0})
    assert down.ddl is None
    assert any("gave no usable answer" in note for note in down.notes)


def test_keys_and_values_of_a_registry(registry: Registry) -> None:
    registry.ids = {7: json.dumps(AVRO)}
    records: Messages = [confluent(7, {"id": n, "v": "x"}) for n in range(3)]
    found = inspect_topic(records, records, registry=registry.url)
    assert read(found, records, records)[1] == {"key_id": 1, "key_v": "x", "id": 1, "v": "x"}


def test_keys_other_than_records_are_left_out(registry: Registry) -> None:
    registry.ids = {7: json.dumps(AVRO), 8: '"string"'}
    records: Messages = [confluent(7, {"id": n, "v": "x"}) for n in range(3)]
    found = inspect_topic(records, [b"\0\0\0\0\x08\x04ab"] * 3, registry=registry.url)
    assert any("the Avro schema is string, but only a record" in note for note in found.notes)
    assert read(found, None, records)[1] == {"id": 1, "v": "x"}


def test_registry_secrets_are_masked(registry: Registry) -> None:
    registry.ids, registry.credentials = {7: json.dumps(AVRO)}, "alice:sesame"
    avro: Messages = [confluent(7, {"id": n, "v": "x"}) for n in range(6)]
    user = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "alice:sesame"}
    found = inspect_topic(avro, avro, registry={"url": registry.url, **user})
    assert found.ddl is not None
    assert found.notes == ("set topic and properties.bootstrap.servers in the table",), "key and value are read"
    assert "'value.avro-confluent.basic-auth.user-info' = '******'" in found.ddl
    by_url = inspect_topic(avro, registry=registry.url.replace("//", "//alice:sesame@"))
    assert by_url.ddl is not None
    wrong = inspect_topic(avro, registry=registry.url.replace("//", "//alice:sesame2@"))
    assert "sesame" not in f"{found}{by_url}{wrong}"


# --- all kinds of records --------------------------------------------------------------------------------


def test_hostile_records_do_not_raise() -> None:
    rng = random.Random(20240229)
    seeds = [*texts(ROW, CHANGE, WRAPPED, CANAL, MAXWELL, OGG), b"1,2,3", confluent(7, {"id": 1, "v": "x"}), b"Obj\x01"]
    seeds += [b"[" * 5000, b'{"a":' * 5000, b'{"a":"\\ud800"}', b'{"\\ud800":1}', b'{"":{"":[]}}', b"\xff\xfe\x00"]
    seeds += [struct.pack(">q", 5), gzip.compress(b"x"), b'{"a":1e999999999}', b"\0" * 5, b"`';--\n", b"'", b'"']

    def changed(seed: bytes) -> bytes:
        data = bytearray(seed[:300])
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(3)] = rng.choice(
                [b"", b'"', b"{", b"null", bytes([rng.randrange(256)]), b"\0"]
            )
        return bytes(data)

    for _ in range(300):
        some = [
            rng.choice([None, b"", *(changed(rng.choice(seeds)) for _ in range(4))]) for _ in range(rng.randrange(6))
        ]
        keys = [rng.choice([None, changed(rng.choice(seeds))]) for _ in some]
        found = inspect_topic(some, rng.choice([keys, None]))
        if found.ddl is not None:
            KeyValueFormat.from_ddl(found.ddl)


def test_records_of_real_shape() -> None:
    for kind in record_kinds(200):
        found = inspect_topic(list(kind.pool), name=kind.name, topic=kind.name, bootstrap="b:9092")
        assert [(guess.format, guess.confidence) for guess in found.guesses] == [("json", 1.0)]
        assert len(read(found, None, list(kind.pool))) == len(kind.pool)


@pytest.mark.parametrize(
    "format", ["json", "csv", "raw", "avro-confluent", "debezium-json", "canal-json", "maxwell-json", "ogg-json"]
)
def test_flink_records_are_recognized(format: str) -> None:
    told = Counter[str]()
    for name, case in interop.cases().items():
        options = interop.table(case).options
        values = interop.binary(case, "value").to_pylist()
        if options.get("value.format", options.get("format")) == format and len([v for v in values if v]) > 2:
            found = inspect_topic(values)
            told[found.guesses[0].format if "bad" not in name else format] += 1
    assert not told or told[format] == max(told.values()), told


def test_invalid_sources_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="there are 1 keys for 2 messages"):
        inspect_topic([b"a", b"b"], [b"k"])
    with pytest.raises(ConfigurationError, match="iterable of messages"):
        inspect_topic(7)
    with pytest.raises(ConfigurationError, match="no option 'user'"):
        inspect_topic([b"a"], registry={"url": "http://x", "user": "y"})
    with pytest.raises(ConfigurationError, match=r"the options aws.regoin, but neither 'url'.* nor 'aws.region'"):
        inspect_topic([b"a"], registry={"aws.regoin": "eu-west-1"})


@pytest.mark.spark
@pytest.mark.services
def test_unknown_topic_becomes_a_table(spark: Any, broker: Any) -> None:
    topic = broker.create("nothing-known", 2)
    keys, values = values_of("accounts")
    broker.send(topic, zip(keys, values, strict=True))
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.read.format("kafka").options(**options).load()
    found = inspect_topic(records, name="accounts", topic=topic, bootstrap=broker.bootstrap)
    assert (found.guesses[0].format, found.notes) == (
        "debezium-json",
        ("value: balance: texts that are numbers: DECIMAL with enough digits reads them, too",),
    )
    rows = KafkaTable.from_ddl(found.ddl or "").read(spark, changelog=True)
    wanted = read(found, None, values)
    assert sorted(row.account_id for row in rows.collect()) == sorted(row["account_id"] for row in wanted)
