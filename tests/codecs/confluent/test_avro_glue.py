"""`avro-glue`: frames byte by byte, requests to a fake AWS (moto), and AWS's serializer for Python as a peer."""

from __future__ import annotations

import base64
import json
import random
import sys
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import get_format
from kvformat.codecs.registries import cache
from kvformat.codecs.registries import glue_client as client
from kvformat.codecs.registries import glue_frames as frames
from kvformat.connectors import infer_schema, inspect_topic
from kvformat.registry import (
    KeyValueFormat,
    MissingExtraError,
    OptionError,
    PluginError,
    SchemaError,
    SchemaRegistryError,
)
from kvformat.registry.authoring import Direction
from kvformat.registry.contract.schemas import resolve_schema, row_type
from tests.support import random_rows
from tests.support.cli import run
from tests.support.extent import case_count

DDL = "id BIGINT NOT NULL, name STRING"
VERSION = "7b9b4ea1-3f5e-4a37-a7d0-2b2f8e0d3c11"
OTHER = "0e9d6e6c-5c2f-4f0e-9a1e-7f2f0b8a4d10"
SCHEMA = """{"type": "record", "name": "record", "fields":
    [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]}"""
NARROW = '{"type": "record", "name": "record", "fields": [{"name": "id", "type": "int"}]}'
DATUM = b"\x0e\x02\x06Ada"
ROW = [{"id": 7, "name": "Ada"}]
SECRET = "Tr0ub4dor/and+3-keys"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / f"{VERSION}.avsc").write_text(SCHEMA)
    (tmp_path / f"{OTHER}.avsc").write_text(NARROW)
    return f"file:{tmp_path}"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of a fake AWS with the registry `shop`; each test has its own region, and so its own cached answers."""
    import boto3
    from moto import mock_aws

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAFAKE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    cache._registries = cache._Cache(cache._CLIENTS)
    with mock_aws(config={"core": {"mock_credentials": False}}):
        found = boto3.client("glue", region_name="eu-west-1")
        found.create_registry(RegistryName="shop")
        yield found
    cache._registries = cache._Cache(cache._CLIENTS)


def _format(**options: str) -> Any:
    given = {"aws.region": "eu-west-1", "registry.name": "shop", "registry-backoff": "1 ms"}
    return get_format("avro-glue", {**given, **options})


def _name() -> dict[str, str]:
    """A name of a schema that no other test has, because ids of schemas are cached by names."""
    return {"schema.name": f"orders-{uuid.uuid4()}", "schema.autoRegistration": "true"}


def _frame(datum: bytes, version: str = VERSION, *, compress: bool = False) -> bytes:
    head = bytes.fromhex("0305" if compress else "0300") + uuid.UUID(version).bytes
    return head + (zlib.compress(datum) if compress else datum)


def _decoded(fmt: Any, *messages: bytes | None, ddl: str = DDL) -> list[Any]:
    batch = fmt.decode_batch(pa.array(messages, pa.binary()), ddl)
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    return [row if error is None else error for row, error in zip(batch.rows.to_pylist(), errors, strict=True)]


# --- frames --------------------------------------------------------------------------------------------------


def test_frames_are_read(folder: str) -> None:
    fmt = get_format("avro-glue", {"url": folder})
    for messages in ([_frame(DATUM)] * 3, [_frame(DATUM, compress=True)] * 2):
        assert _decoded(fmt, *messages) == [ROW] * len(messages)
    mixed = [
        _frame(DATUM),
        None,
        _frame(b"\x08", OTHER),
        _frame(DATUM, compress=True),
        _frame(b"\x0a", OTHER, compress=True),
        _frame(DATUM, compress=True) + b"bytes after the end do not count, as in AWS's libraries",
    ]
    expected = [ROW, None, [{"id": 4, "name": None}], ROW, [{"id": 5, "name": None}], ROW]
    assert _decoded(fmt, *mixed) == expected
    between = [_frame(DATUM), _frame(b"\x08", OTHER), _frame(DATUM)]
    assert _decoded(fmt, *between) == [ROW, [{"id": 4, "name": None}], ROW]
    sliced = pa.array([b"x", *mixed, b"y"], pa.binary())[1:-1]
    assert fmt.decode_batch(sliced, DDL).rows.to_pylist() == expected
    assert _decoded(fmt) == []
    assert _decoded(fmt, None) == [None]


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (b"", "MALFORMED", "the message has 0 bytes, fewer than the 18 of AWS Glue's frame"),
        (b"\x03", "MALFORMED", "the message has 1 bytes"),
        (_frame(b"")[:17], "MALFORMED", "the message has 17 bytes, fewer than the 18"),
        (_frame(DATUM, compress=True)[:17], "MALFORMED", "the message has 17 bytes, fewer than the 18"),
        (b"\x02" + _frame(DATUM)[1:], "MALFORMED", "begins with 02, not with 03"),
        (b"\0\0\0\0\1" + DATUM, "MALFORMED", "format 'avro-confluent' reads it"),
        (b"\x03\x01" + _frame(DATUM)[2:], "MALFORMED", "is 01: it must be 00 (none) or 05 (zlib)"),
        (b"\x03\x05" + _frame(DATUM)[2:], "MALFORMED", "the datum is not compressed by zlib"),
        (_frame(DATUM, compress=True)[:-1], "MALFORMED", "the compressed datum is truncated"),
        (_frame(b"", compress=True)[:18], "MALFORMED", "the compressed datum is truncated: it ends after 0 bytes"),
        (_frame(DATUM, str(uuid.UUID(int=1))), "UNKNOWN_SCHEMA", "Could not find schema with id 00000000-0000-"),
        (_frame(bytes(20 << 20), compress=True), "TOO_LARGE", "more than 'max-size' = 16777216 bytes"),
        (_frame(DATUM[:-1]), "MALFORMED", ""),
    ],
)
def test_a_bad_frame_is_an_error_of_its_message(folder: str, message: bytes, code: str, text: str) -> None:
    fmt = get_format("avro-glue", {"url": folder})
    batch = fmt.decode_batch(pa.array([_frame(DATUM), message, _frame(DATUM, compress=True)]), DDL)
    assert batch.rows.to_pylist() == [ROW, None, ROW]
    assert batch.codes.to_pylist() == [None, code, None]
    assert text in batch.errors[1].as_py()


def test_changed_messages_do_not_change_their_neighbours(folder: str) -> None:
    rng, fmt = random.Random(3), get_format("avro-glue", {"url": folder, "max-size": "1 kb"})
    good = [_frame(DATUM), _frame(DATUM, compress=True)]
    broken, alone = [], []
    for _ in range(case_count(quick=400, night=1600)):
        changed = bytearray(rng.choice(good))
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        broken.append(bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.3 else changed))
    alone = [_decoded(fmt, message)[0] for message in broken]
    mixed = _decoded(fmt, *(part for message in broken for part in (message, *good)))
    assert mixed[::3] == alone
    assert mixed[1::3] == mixed[2::3] == [ROW] * len(broken)
    assert sum(isinstance(found, str) for found in alone) > len(broken) / 2


@pytest.mark.kernel_raises
@pytest.mark.parametrize(("most", "largest"), [(8008, 2), (8007, 1), (40_040, 10), (40_039, 5), (100, 1)])
def test_a_batch_of_large_datums_is_read_in_parts(
    folder: str, monkeypatch: pytest.MonkeyPatch, most: int, largest: int
) -> None:
    """The datums of a part have together at most so many bytes, unless it is a single message."""
    monkeypatch.setattr(frames, "_MOST_OF_A_BATCH", most)
    usual, read = frames.decompressed, []

    def counted(found: Any, *arguments: Any) -> Any:
        after = usual(found, *arguments)
        read.append(len(found.messages))
        return after

    monkeypatch.setattr(frames, "decompressed", counted)
    text = b"x" * 4000
    large = _frame(b"\x0e\x02" + b"\xc0\x3e" + text, compress=True)  # 4004 bytes
    found = _decoded(get_format("avro-glue", {"url": folder}), *[large] * 10)
    assert found == [[{"id": 7, "name": text.decode()}]] * 10
    assert (max(read), sum(read)) == (largest, 10)
    mixed = _decoded(get_format("avro-glue", {"url": folder}), *[large, _frame(DATUM)] * 5)
    assert mixed == [[{"id": 7, "name": text.decode()}], ROW] * 5


def test_a_datum_may_have_as_many_bytes_as_allowed(folder: str) -> None:
    size, message = len(DATUM), _frame(DATUM, compress=True)
    assert _decoded(get_format("avro-glue", {"url": folder, "max-size": f"{size} b"}), message) == [ROW]
    (error,) = _decoded(get_format("avro-glue", {"url": folder, "max-size": f"{size - 1} b"}), message)
    assert f"more than 'max-size' = {size - 1} bytes" in error


def test_a_bomb_takes_no_memory(folder: str) -> None:
    import tracemalloc

    bomb = _frame(bytes(200 << 20), compress=True)
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    found = _decoded(get_format("avro-glue", {"url": folder, "max-size": "1 mb"}), *[bomb] * 20)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 32 << 20
    assert all("more than 'max-size' = 1048576 bytes" in error for error in found)


def test_rows_are_written_in_frames(folder: str) -> None:
    rows = pa.array([{"id": 7, "name": "Ada"}, None, {"id": 8, "name": None}])
    for compression, head in (("NONE", "0300"), ("zlib", "0305")):
        fmt = get_format("avro-glue", {"url": folder, "schema-id": VERSION, "schema.compression": compression})
        written = fmt.encode_batch(rows, DDL).messages.to_pylist()
        assert written[0][:18] == bytes.fromhex(head) + uuid.UUID(VERSION).bytes
        body = written[0][18:] if compression == "NONE" else zlib.decompress(written[0][18:])
        assert body == DATUM
        assert written[1] is None
        assert _decoded(fmt, *written) == [ROW, None, [{"id": 8, "name": None}]]
    fmt = get_format("avro-glue", {"url": folder, "schema.name": "any", "schema.autoRegistration": "true"})
    found = fmt.encode_batch(rows, DDL).messages.to_pylist()
    assert _decoded(fmt, *found) == [ROW, None, [{"id": 8, "name": None}]]
    assert fmt.encode_batch(rows, DDL).messages.to_pylist() == found


@pytest.mark.spark
@pytest.mark.parametrize("compression", ["NONE", "ZLIB"])
def test_columns_of_spark(spark: Any, folder: str, compression: str) -> None:
    from pyspark.sql import functions as F

    options = {"schema.name": "s", "schema.autoRegistration": "true", "schema.compression": compression}
    fmt = get_format("avro-glue", {"url": folder, **options})
    df = spark.createDataFrame([(7, "Ada"), (8, None)], "id BIGINT NOT NULL, name STRING").coalesce(1)
    row = F.struct("id", "name")
    rows = pa.array([{"id": 7, "name": "Ada"}, {"id": 8, "name": None}])
    expected = fmt.encode_batch(rows, DDL).messages.to_pylist()
    for engine in ("auto", "arrow"):
        written = [bytes(one[0]) for one in df.select(fmt.encode(row, DDL, engine=engine)).collect()]
        assert written == expected, engine
    messages = spark.createDataFrame([(message,) for message in expected], "value BINARY")
    assert [tuple(one[0]) for one in messages.select(fmt.decode("value", DDL)).collect()] == [(7, "Ada"), (8, None)]


def test_columns_are_proposed_and_ids_are_metadata(folder: str) -> None:
    messages = [_frame(DATUM), _frame(DATUM, compress=True), _frame(b"\x08", OTHER), None, b"junk"]
    for style in ("table", "ingestion"):
        found = infer_schema(messages, format="avro-glue", options={"url": folder}, style=style)
        names = {field.name: field.type.root for field in found.fields}
        assert names == {"id": "BIGINT", "name": "VARCHAR"}, style
    assert (
        "1 messages do not begin with 03 and the UUID of a schema's version, and are skipped"
        in infer_schema(messages, format="avro-glue", options={"url": folder}).notes
    )
    batch = get_format("avro-glue", {"url": folder}).decode_batch(
        pa.array(messages), DDL, metadata=["registry.schema-id"]
    )
    ids = [row and row[0]["registry.schema-id"] for row in batch.rows.to_pylist()]
    assert ids == [VERSION, VERSION, OTHER, None, None]


def test_a_table(folder: str) -> None:
    table = KeyValueFormat.from_ddl(
        f"""CREATE TABLE orders (id BIGINT NOT NULL, name STRING) WITH ('connector' = 'kafka', 'topic' = 'orders',
        'properties.bootstrap.servers' = 'b:9', 'scan.startup.mode' = 'earliest-offset', 'format' = 'avro-glue',
        'avro-glue.aws.region' = 'us-east-1',
        'avro-glue.registry.name' = 'my-registry', 'avro-glue.schema.name' = 'my-schema',
        'avro-glue.schema.type' = 'GENERIC_RECORD', 'avro-glue.cache.size' = '10', 'avro-glue.cache.ttlMs' = '1000',
        'avro-glue.schema.compatibility' = 'full_all', 'avro-glue.aws.endpoint' = 'http://localhost:1',
        'avro-glue.url' = '{folder}')"""
    )
    assert table.decode_batch(None, pa.array([_frame(DATUM)])).rows.to_pylist() == [ROW]


@pytest.mark.parametrize(
    ("options", "direction", "text"),
    [
        ({}, "decode", "option 'aws.region' of format 'avro-glue' is missing: it is required"),
        ({"aws.region": "r"}, "encode", "option 'registry.name' .* is missing: it is required for writing"),
        ({"aws.region": "r", "registry.name": "n"}, "encode", "option 'schema.name' .* is missing"),
        (
            {"aws.region": "r", "schema-id": "7"},
            "encode",
            "invalid value '7' for option 'schema-id' .* expected a UUID",
        ),
        ({"schema.compression": "gzip"}, "decode", r"supported values are \[NONE, ZLIB\]"),
        ({"schema.compatibility": "SOME"}, "decode", r"supported values are \[NONE, DISABLED"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, str], direction: Direction, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        get_format("avro-glue", options).validate(direction)


# --- requests ------------------------------------------------------------------------------------------------


def test_schemas_are_registered_and_looked_up(aws: Any) -> None:
    options = _name()
    rows = pa.array([{"id": 7, "name": "Ada"}])
    unknown = _format(**{**options, "schema.autoRegistration": "false"})
    refused = unknown.encode_batch(rows, DDL)
    assert refused.codes.to_pylist() == ["UNKNOWN_SCHEMA"]
    assert (
        "Register it, set 'schema.autoRegistration' = 'true', or set 'schema.fetchFromRegistry' = 'true'"
        in refused.errors[0].as_py()
    )
    with pytest.raises(SchemaError, match="the schema is not registered"):
        unknown.for_encoding(resolve_schema(DDL))
    (message,) = _format(**options, **{"schema.compatibility": "FULL"}).encode_batch(rows, DDL).messages.to_pylist()
    name = {"RegistryName": "shop", "SchemaName": options["schema.name"]}
    created = aws.get_schema(SchemaId=name)
    assert (created["DataFormat"], created["Compatibility"]) == ("AVRO", "FULL")
    version = aws.get_schema_version(SchemaId=name, SchemaVersionNumber={"LatestVersion": True})
    assert message == _frame(DATUM, version["SchemaVersionId"])
    assert _decoded(_format(), message) == [ROW]
    assert unknown.encode_batch(rows, DDL).messages.to_pylist() == [message]
    wider = _format(**options).encode_batch(pa.array([{"id": 7, "more": 1}]), "id BIGINT NOT NULL, more BIGINT")
    assert aws.get_schema(SchemaId=name)["LatestSchemaVersion"] == 2
    assert _decoded(_format(), wider.messages[0].as_py(), ddl="id BIGINT, more BIGINT") == [[{"id": 7, "more": 1}]]
    latest = _format(**{**options, "schema.fetchFromRegistry": "true"})
    assert latest.encode_batch(pa.array([{"id": 7, "more": 1}]), "id BIGINT NOT NULL, more BIGINT").errors is None
    with pytest.raises(SchemaError):  # the latest version has other columns
        latest.encode_batch(rows, DDL)
    assert latest.for_encoding(resolve_schema("id BIGINT NOT NULL, more BIGINT")).options["schema-id"] is not None


def test_inspection_on_the_command_line(aws: Any) -> None:
    """The proposed table has the options of the registry."""
    (message,) = _format(**_name()).encode_batch(pa.array([{"id": 7, "name": "Ada"}]), DDL).messages.to_pylist()
    record = {
        "key_base64": base64.b64encode(b'\0\0\0\0\1{"k":1}').decode(),
        "value_base64": base64.b64encode(message).decode(),
    }
    given = (json.dumps(record) + "\n").encode()
    options = [
        "-o",
        "avro-glue.aws.region=eu-west-1",
        "-o",
        "avro-glue.registry.name=shop",
        "-o",
        "avro-glue.max-size=1 kb",
    ]
    shown = run("inspect", "--framing", "records", "--sql", *options, given=given)
    assert "'value.avro-glue.registry.name' = 'shop'" in shown.stdout
    table = KeyValueFormat.from_ddl(shown.stdout)
    keys, values = pa.array([b'\0\0\0\0\1{"k":1}']), pa.array([message])
    assert table.decode_batch(keys, values).rows.to_pylist() == [[{"k": 1, **ROW[0]}]]
    assert table.options["value.avro-glue.max-size"] == "1 kb"
    both = run("inspect", *options, "--registry", "http://127.0.0.1:1", given=b"")
    assert (both.exit_code, "--registry or -o avro-glue.*, not both" in both.stderr) == (2, True)
    wrong = run("inspect", *options, "-o", "avro-glue.registry=shop", given=b"")
    assert (wrong.exit_code, "Did you mean 'registry.name'" in wrong.stderr) == (2, True)


def test_the_branch_of_a_union_is_written(aws: Any) -> None:
    field = {"name": "id", "type": "long"}
    union = [{"type": "record", "name": name, "fields": [field]} for name in ("com.shop.Order", "com.shop.Refund")]
    name, text = f"events-{uuid.uuid4()}", json.dumps(union)
    created = aws.create_schema(
        RegistryId={"RegistryName": "shop"},
        SchemaName=name,
        DataFormat="AVRO",
        Compatibility="NONE",
        SchemaDefinition=text,
    )
    options = {"schema.name": name, "schema.fetchFromRegistry": "true", "record-name": "com.shop.Refund"}
    written = _format(**options).encode_batch(pa.array([{"id": 7}]), "id BIGINT").messages.to_pylist()
    assert written == [_frame(b"\x02\x0e", created["SchemaVersionId"])]


def test_ids_that_aws_does_not_know_are_errors_of_their_messages(aws: Any) -> None:
    (message,) = _format(**_name()).encode_batch(pa.array([{"id": 7, "name": "Ada"}]), DDL).messages.to_pylist()
    foreign = [_frame(DATUM, str(uuid.UUID(int=i))) for i in range(1, 4)]
    found = _decoded(_format(), foreign[0], message, *foreign[1:])
    assert found[1] == ROW
    for error in (found[0], *found[2:]):
        assert "Could not find schema with id 00000000-" in error
        assert "EntityNotFoundException" in error
    absent = _format(**{**_name(), "registry.name": "nowhere"}).encode_batch(pa.array([{"id": 7}]), "id BIGINT")
    assert "EntityNotFoundException" in absent.errors[0].as_py()


def test_schemas_of_other_kinds_are_errors_of_their_messages(aws: Any) -> None:
    found = aws.create_schema(
        RegistryId={"RegistryName": "shop"},
        SchemaName="texts",
        DataFormat="JSON",
        Compatibility="NONE",
        SchemaDefinition='{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}',
    )
    (error,) = _decoded(_format(), _frame(b"{}", found["SchemaVersionId"]))
    assert "is not an Avro schema but JSON" in error


def _answers(monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[Any]]) -> list[str]:
    """Let AWS answer with these: dicts of answers, names of errors, or exceptions. Returns the list of requests."""
    import botocore.client
    from botocore.exceptions import ClientError

    asked: list[str] = []

    def call(self: Any, name: str, arguments: Any) -> Any:
        asked.append(name)
        answer = answers[name].pop(0)
        if isinstance(answer, str):
            code, _, text = answer.partition(" ")
            status = 500 if code == "InternalServiceException" else 400
            about = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(about, name)  # type: ignore[arg-type]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", call)
    return asked


def test_a_new_version_is_used_when_it_is_available(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = {"SchemaVersionId": VERSION, "Status": "PENDING"}
    not_found = "EntityNotFoundException none"
    answers = {
        "GetSchemaByDefinition": [not_found, not_found, not_found],
        "RegisterSchemaVersion": [pending, pending, not_found, {**pending, "Status": "AVAILABLE"}],
        "GetSchemaVersion": [pending, {"Status": "AVAILABLE"}, {"Status": "FAILURE"}],
        "CreateSchema": ["AlreadyExistsException by another process"],
    }
    asked, rows = _answers(monkeypatch, answers), pa.array([{"id": 7, "name": "Ada"}])
    assert _format(**_name()).encode_batch(rows, DDL).messages.to_pylist() == [_frame(DATUM)]
    assert asked == ["GetSchemaByDefinition", "RegisterSchemaVersion", "GetSchemaVersion", "GetSchemaVersion"]
    refused = _format(**_name()).encode_batch(rows, DDL)
    assert f"the schema's version {VERSION} has the status FAILURE" in refused.errors[0].as_py()
    assert _format(**_name()).encode_batch(rows, DDL).messages.to_pylist() == [_frame(DATUM)]
    assert asked[-4:] == ["GetSchemaByDefinition", "RegisterSchemaVersion", "CreateSchema", "RegisterSchemaVersion"]


def test_failures_of_aws_are_tried_again_if_that_may_help(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import EndpointConnectionError, NoCredentialsError

    good = {"SchemaVersionId": VERSION, "DataFormat": "AVRO", "SchemaDefinition": SCHEMA}
    later = [
        EndpointConnectionError(endpoint_url="https://glue"),
        "ThrottlingException slow",
        "InternalServiceException",
    ]
    for answers, count in (
        ([*later, good], 4),
        (["AccessDeniedException no", good], 1),
        ([NoCredentialsError(), good], 1),
        ([{"DataFormat": "AVRO"}, good], 1),
    ):
        asked = _answers(monkeypatch, {"GetSchemaVersion": list(answers)})
        fmt = _format(**{"schema.name": str(uuid.uuid4()), "registry.name": str(uuid.uuid4())})
        if count > 1:
            assert _decoded(fmt, _frame(DATUM)) == [ROW]
        else:
            with pytest.raises(SchemaRegistryError, match="the schema registry at glue://eu-west-1/"):
                _decoded(fmt, _frame(DATUM))
        assert len(asked) == count


def test_the_code_of_an_error_decides_whether_it_is_about_the_schema(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"SchemaVersionId": VERSION, "DataFormat": "AVRO", "SchemaDefinition": SCHEMA}
    repeated = ("ThrottlingException", "TooManyRequestsException", "RequestTimeout", "OperationTimeoutException")
    refused = ("EntityNotFoundException", "InvalidInputException", "ResourceNumberLimitExceededException")
    fmt = _format(**{"schema.name": str(uuid.uuid4()), "registry.name": str(uuid.uuid4())})
    for error in (*repeated, *refused, "AccessDeniedException", "AlreadyExistsException", "Other"):
        asked = _answers(monkeypatch, {"GetSchemaVersion": [f"{error} not now", good]})
        message = _frame(DATUM, str(uuid.uuid4()))
        if error in (*repeated, *refused):
            (found,) = _decoded(fmt, message)
            assert found == ROW if error in repeated else "not now" in found
        else:
            with pytest.raises(SchemaRegistryError, match="not now"):
                _decoded(fmt, message)
        assert len(asked) == 1 + (error in repeated), error


@pytest.mark.parametrize("secret", [SECRET, "session-token-77"])
def test_credentials_are_not_shown(aws: Any, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token-77")
    _answers(
        monkeypatch,
        {"GetSchemaVersion": [f"AccessDeniedException the key {secret} may not", "EntityNotFoundException " + secret]},
    )
    fmt = _format(**{"registry.name": str(uuid.uuid4())})
    with pytest.raises(SchemaRegistryError) as caught:
        _decoded(fmt, _frame(DATUM))
    assert "AccessDeniedException" in str(caught.value)
    shown = [str(caught.value), repr(caught.value), repr(caught.value.__cause__), repr(fmt), repr(fmt.settings)]
    shown += _decoded(fmt, _frame(DATUM))
    assert not any(secret in text for text in shown)


def test_boto3_is_needed_only_for_aws(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert _decoded(get_format("avro-glue", {"url": folder}), _frame(DATUM)) == [ROW]
    with pytest.raises(
        MissingExtraError, match=r"needs boto3: install kvformat\[glue\] \(in a clone: pip install '\.\[glue\]'\)"
    ):
        _decoded(_format(**{"registry.name": str(uuid.uuid4())}), _frame(DATUM))
    found = inspect_topic([_frame(DATUM)], registry={"aws.region": "eu-west-1", "registry.name": str(uuid.uuid4())})
    assert (found.guesses[0].format, found.ddl, found.schemas[0].schema) == ("avro-glue", None, VERSION)
    assert any("needs boto3: install kvformat[glue]" in note for note in found.notes)


def test_a_region_of_no_use_is_a_clear_error() -> None:
    with pytest.raises(PluginError, match=r"the schema registry 'glue' .* can't be created: InvalidRegionError"):
        _decoded(get_format("avro-glue", {"aws.region": "not a region"}), _frame(DATUM))


def test_a_server_that_does_not_answer_ends_with_the_timeout(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.Glue, "schema", lambda *_: time.sleep(20))
    begin = time.monotonic()
    with pytest.raises(SchemaRegistryError, match="registry-timeout"):
        _decoded(_format(**{"registry-timeout": "200 ms", "registry.name": "slow"}), _frame(DATUM))
    assert time.monotonic() - begin < 15


# --- a peer: AWS's frame by another library --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated")  # of the serializer's logger
def test_a_serializer_for_python_reads_and_writes_the_same_bytes(aws: Any) -> None:
    from aws_schema_registry import DataAndSchema, SchemaRegistryClient
    from aws_schema_registry.avro import AvroSchema
    from aws_schema_registry.codec import decode, encode
    from aws_schema_registry.serde import KafkaDeserializer, KafkaSerializer

    registry = SchemaRegistryClient(aws, registry_name="shop")
    writer, reader = KafkaSerializer(registry), KafkaDeserializer(registry)
    rng, compared = random.Random(19), 0
    for number in range(case_count(quick=30, night=100)):
        text = random_rows.schema(rng, columns=rng.randint(1, 6), depth=2)
        options = {"schema.name": f"peer-{number}-value", "schema.autoRegistration": "true"}
        fmt, zipped = _format(**options), _format(**options, **{"schema.compression": "ZLIB"})
        rows = random_rows.rows(rng, row_type(resolve_schema(text)), 10)
        try:
            batch, compressed = fmt.encode_batch(rows, text), zipped.encode_batch(rows, text)
        except SchemaError:  # a type that Flink's Avro does not have
            continue
        own = AvroSchema(json.loads(fmt.own_schema(resolve_schema(text)).text))
        for ours, ours_zipped in zip(batch.messages.to_pylist(), compressed.messages.to_pylist(), strict=True):
            if ours is None:
                assert ours_zipped is None
                continue
            datum, version = decode(ours)
            assert decode(ours_zipped) == (datum, version)
            value, schema = reader.deserialize("t", ours)
            assert schema == own
            theirs = writer.serialize(f"peer-{number}", DataAndSchema(value, own))
            assert theirs == ours, text
            both = fmt.decode_batch(pa.array([ours, theirs, encode(datum, version, compression=True)]), text)
            assert both.errors is None, (text, both.errors)
            assert both.rows[0] == both.rows[1] == both.rows[2], text
            compared += 1
    print(f"compared {compared} messages")
    assert compared > 150
