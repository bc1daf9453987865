"""The schemas that the messages of a topic have, and when they were in use."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from kvformat.connectors.infer.schema_uses import SchemaUse, schema_uses, with_header_ids
from kvformat.registry.contract.samples import MessageSample
from kvformat.registry.table.record_headers import HEADERS_TYPE

SEVEN, EIGHT, NINE = (b"\x00\x00\x00\x00" + bytes([number]) + b"x" for number in (7, 8, 9))
AT = 1_700_000_000_123


def moment(millis: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=millis)


def uses(messages: list[bytes | None], timestamps: list[int | None] | None) -> list[SchemaUse]:
    return schema_uses(MessageSample(tuple(messages)), timestamps)


def test_a_schema_is_used_from_its_first_to_its_last_record() -> None:
    """Records of a topic may arrive in another order than their timestamps."""
    found = uses([SEVEN, SEVEN, SEVEN], [AT + 1, AT - 1, AT])
    assert found == [SchemaUse("value", "7", 3, moment(AT - 1), moment(AT + 1))]


def test_schemas_are_in_the_order_of_their_first_timestamps() -> None:
    """They differ in the last digit, and arrive in reverse. A schema without a timestamp is the last."""
    found = uses([NINE, EIGHT, SEVEN, EIGHT], [None, AT + 1, AT, AT - 1])
    assert [(use.schema, use.messages, use.first, use.last) for use in found] == [
        ("8", 2, moment(AT - 1), moment(AT + 1)),
        ("7", 1, moment(AT), moment(AT)),
        ("9", 1, None, None),
    ]


def test_without_timestamps_the_order_is_that_of_the_messages() -> None:
    found = uses([EIGHT, None, b"no frame", SEVEN, EIGHT], None)
    assert [(use.schema, use.messages, use.first) for use in found] == [("8", 2, None), ("7", 1, None)]


@pytest.mark.parametrize("millis", [2**62, -(2**62)])
def test_a_time_that_no_calendar_has_is_unknown(millis: int) -> None:
    assert uses([SEVEN], [millis]) == [SchemaUse("value", "7", 1, None, None)]


def test_headers_with_other_bytes_and_of_the_other_part_are_no_ids() -> None:
    frame = b"\x00\x00\x00\x00\x07"
    given = [("__value_schema_id", frame), ("__value_schema_id", b"?"), ("__key_schema_id", frame), ("id", frame)]
    headers = pa.array([[{"key": name, "value": data}] for name, data in given], HEADERS_TYPE)
    messages = (b"x",) * len(given)
    assert with_header_ids(messages, headers, "value") == (frame + b"x", b"x", b"x", b"x")
    assert with_header_ids(messages, headers, "key") == (b"x", b"x", frame + b"x", b"x")
    assert with_header_ids(messages, None, "value") == messages
