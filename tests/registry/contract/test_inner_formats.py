"""Options of the type `format`: how inner formats are given, checked and shown, and which calls they receive."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tables import options_table

from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.codecs.debezium_json import DebeziumJsonFormat
from kvformat.codecs.json.format import JsonFormat
from kvformat.registry import Format, KeyValueFormat, Option, OptionError, UnknownFormatError, register_format
from kvformat.registry.contract import discovery
from kvformat.registry.contract.batches import DecodedBatch, EncodedBatch

PASSWORD = "hunter2"
SECRET = {
    "payload.format": "avro-confluent",
    "payload.avro-confluent.url": "mock://inner",
    "payload.avro-confluent.subject": "s",
    "payload.avro-confluent.basic-auth.user-info": f"ann:{PASSWORD}",
}


class Wrapped(Format):
    """Passes payloads to the inner format unchanged."""

    identifier = "wrapped"
    option_specs = (
        Option(name="payload", type="format", required=True, doc="What is inside."),
        Option(name="mark", default="!", doc="Beside it."),
    )

    def decode_arrow(self, messages: Any, schema: Any, *, metadata: tuple[str, ...] = ()) -> DecodedBatch:
        return self.options["payload"].decode_batch(messages, schema)  # type: ignore[no-any-return]

    def encode_arrow(self, rows: Any, schema: Any, *, row_kinds: Any = None) -> EncodedBatch:
        return self.options["payload"].encode_batch(rows, schema)  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(discovery, "_registered", {})
    register_format(Wrapped)
    return


def test_the_value_is_a_format_with_its_options() -> None:
    format = Wrapped({"payload.format": "json", "payload.json.ignore-parse-errors": "true", "mark": "?"})
    assert format.options["payload"] == JsonFormat({"ignore-parse-errors": "true"})
    assert format.options["mark"] == "?"
    assert format.decode_batch(pa.array([b'{"id":1}', b"no"]), "id INT").rows.to_pylist() == [[{"id": 1}], []]


def test_a_format_object_can_be_given() -> None:
    format = Wrapped({"payload": JsonFormat({"ignore-parse-errors": "true"})})
    assert format.options["payload"].options["ignore-parse-errors"]
    assert repr(format) == "Wrapped({'payload': JsonFormat({'ignore-parse-errors': 'true'})})"
    assert eval(repr(format)) == format
    assert Wrapped({"payload": JsonFormat()}) != format


def test_a_format_with_an_inner_format_is_a_value() -> None:
    format = Wrapped({"payload.format": "json", "payload.json.ignore-parse-errors": "true"})
    assert eval(repr(format)) == format
    assert pickle.loads(pickle.dumps(format)) == format
    assert hash(pickle.loads(pickle.dumps(format))) == hash(format)


def test_inner_formats_can_be_nested() -> None:
    inner = "payload.wrapped.payload"
    format = Wrapped(
        {"payload.format": "wrapped", f"{inner}.format": "json", f"{inner}.json.ignore-parse-errors": "true"}
    )
    assert format.options["payload"].options["payload"] == JsonFormat({"ignore-parse-errors": "true"})
    with pytest.raises(OptionError) as caught:
        Wrapped({"payload.format": "wrapped", f"{inner}.format": "json", f"{inner}.json.ignore-parse": "true"})
    assert caught.value.option == f"{inner}.json.ignore-parse"


@pytest.mark.parametrize(
    ("given", "option", "said"),
    [
        ({}, "payload.format", "format 'wrapped' needs the option 'payload.format': What is inside"),
        (
            {"payload.json.x": "1"},
            "payload.format",
            "needs the option 'payload.format' because 'payload.json.x' is set",
        ),
        ({"payload.fromat": "json"}, "payload.format", "needs the option 'payload.format'"),
        (
            {"payload.format": "json", "payload.csv.x": "1"},
            "payload.csv.x",
            "'payload.csv.x' does not belong to 'payload.format' = 'json': its options begin with 'payload.json.'",
        ),
        (
            {"payload.format": "json", "payload.json.ignore-parse-error": "1"},
            "payload.json.ignore-parse-error",
            "in format 'wrapped', options 'payload.json.*': format 'json' has no option 'ignore-parse-error'. Did you",
        ),
        (
            {"payload.format": "json", "payload.json.ignore-parse-errors": "yes"},
            "payload.json.ignore-parse-errors",
            "invalid value 'yes' for option 'ignore-parse-errors' of format 'json': expected true or false",
        ),
        (
            {"payload": "json"},
            "payload",
            "set its name with 'payload.format' and its options with 'payload.<format>.<option>'",
        ),
        ({"payload": JsonFormat(), "payload.json.x": "1"}, "payload", "must be a Format, without other options for it"),
        (
            {"payload": JsonFormat(), "markk": "1"},
            "markk",
            "Did you mean 'mark'? Supported options: mark, payload.format",
        ),
    ],
)
def test_errors_name_the_full_option_key(given: dict[str, Any], option: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        Wrapped(given)
    assert said in str(caught.value)
    assert caught.value.option == option


def test_an_unknown_inner_format_is_reported() -> None:
    with pytest.raises(
        UnknownFormatError, match=r"^option 'payload\.format' of format 'wrapped': unknown format 'jso'"
    ):
        Wrapped({"payload.format": "jso"})


def test_secrets_of_an_inner_format_are_hidden() -> None:
    format = Wrapped(SECRET)
    inside = Wrapped(
        {"payload": AvroConfluentFormat({"url": "mock://inner", "basic-auth.user-info": f"ann:{PASSWORD}"})}
    )
    table = KeyValueFormat(
        "id INT",
        {"value.format": "wrapped", **{f"value.wrapped.{key}": text for key, text in SECRET.items()}},
    )
    shown = [repr(each) for each in (format, format.options, format.options["payload"], inside, inside.options, table)]
    shown += [each._mask_secrets(f"failed with ann:{PASSWORD}") for each in (format, inside)]
    for text in shown:
        assert PASSWORD not in text, text
        assert "******" in text
    with pytest.raises(OptionError) as caught:
        Wrapped({**SECRET, "payload.avro-confluent.registry-retries": "x"})
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("user", ["ann:begin", "ann:begin-of-a-token"])
@pytest.mark.parametrize("token", ["ann:begin", "ann:begin-of-a-token"])
def test_a_secret_that_begins_with_another_is_hidden_in_errors(user: str, token: str) -> None:
    registry = {"url": "mock://r", "basic-auth.user-info": user, "bearer-auth.token": token}
    inside = {"payload.format": "avro-confluent", **{f"payload.avro-confluent.{k}": v for k, v in registry.items()}}
    for format in (AvroConfluentFormat(registry), Wrapped(inside)):
        assert format._mask_secrets(f"{user} {token} end") == "****** ****** end"


def test_an_inner_format_is_validated_for_one_direction() -> None:
    format = Wrapped({"payload.format": "avro-confluent", "payload.avro-confluent.url": "mock://inner"})
    assert format.prepare("decode", "id INT").names == ["id"]
    with pytest.raises(
        OptionError, match=r"options 'payload\.avro-confluent\.\*': .* is required for serialization"
    ) as caught:
        format.encode_batch(pa.array([], pa.struct([("id", pa.int32())])), "id INT")
    assert caught.value.option == "payload.avro-confluent.subject"


def test_a_table_completes_the_options_of_an_inner_format() -> None:
    options = {"payload.format": "avro-confluent", "payload.avro-confluent.url": "mock://inner", "mark": "?"}
    completed = Wrapped.complete_options(options, topic="orders", part="value")
    assert completed == {**options, "payload.avro-confluent.subject": "orders-value"}
    given = {**options, "payload.avro-confluent.subject": "mine"}
    assert Wrapped.complete_options(given, topic="orders", part="value") == given
    table = KeyValueFormat(
        "id INT",
        {
            "topic": "orders",
            "value.format": "wrapped",
            **{f"value.wrapped.{key}": text for key, text in options.items()},
        },
    )
    assert table._plan("encode").layout.value_format.options["payload"].options["subject"] == "orders-value"


def test_a_table_refuses_unknown_options_of_an_inner_format() -> None:
    options = {"value.format": "wrapped", "value.wrapped.payload.format": "json"}
    with pytest.raises(OptionError, match=r"value\.wrapped\.payload\.json\.nope"):
        _ = KeyValueFormat("id INT", {**options, "value.wrapped.payload.json.nope": "1"}).value_schema


def test_the_schema_of_a_job_is_requested_once() -> None:
    format = Wrapped({**SECRET, "mark": "?"})
    made = format.for_encoding(pa.schema([("id", pa.int32())]))
    assert isinstance(made.options["payload"].options["schema-id"], int)
    assert made.options["mark"] == "?"
    assert format.options["payload"].options["schema-id"] is None
    plain = Wrapped({"payload.format": "json"})
    assert plain.for_encoding(pa.schema([("id", pa.int32())])) is plain


def test_the_key_of_the_rows_is_passed_to_the_inner_format() -> None:
    format = Wrapped({"payload": DebeziumJsonFormat({"changelog.mode": "upsert"})})
    made = format.for_rows(["id"], in_record=True)
    assert made.options["payload"].row_key == (("id",), True)
    assert pickle.loads(pickle.dumps(made)).options["payload"].row_key == (("id",), True)


def test_the_table_of_options_shows_the_key_of_the_inner_format() -> None:
    assert "| `payload.format` | format | required |  | What is inside. |" in options_table(Wrapped.option_specs)
