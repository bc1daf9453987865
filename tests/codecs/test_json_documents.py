"""Messages as trees: what discovery and keys read is JSON by the same rules as in the JSON formats."""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.codecs._json_documents import JsonDocuments
from kvformat.registry import get_format
from tests.support.decoding import decoded

_GOOD: dict[str, tuple[bytes, Any]] = {
    "blanks": (b' \t\r\n{"a":"x"} \t\r\n', "x"),
    "control characters": (b'{"a":"x\ty\x01"}', "x\ty\x01"),
    "UTF-8 with a mark": ('\ufeff{"a":"é"}'.encode(), "é"),
    "UTF-16": ('{"a":"é"}'.encode("utf-16"), "é"),
    "UTF-32": ('{"a":"é"}'.encode("utf-32-be"), "é"),
    "a lone surrogate": ('{"a":"x\ud800"}'.encode("utf-32-be", "surrogatepass"), "x\ud800"),
    "two backslashes before it": ('{"a":"\\\\\ud800"}'.encode("utf-32-be", "surrogatepass"), "\\\ud800"),
}
_BAD: dict[str, bytes] = {
    **{f"{end!a} after it": b'{"a":"x"}' + end for end in (b"\x0b", b"\x0c", b"\0", b"\x1f", b"\xc2\xa0", b"{}", b",")},
    "a malformed byte after it": b'{"a":"x"}\xff',
    "a malformed byte in it": b'{"a":"x\xff"}',
    "a backslash before a lone surrogate": '{"a":"\\\ud800"}'.encode("utf-32-be", "surrogatepass"),
    "three backslashes before it": '{"a":"\\\\\\\ud800"}'.encode("utf-32-be", "surrogatepass"),
    "an exponent beyond Java's": b'{"a":1e99999999999}',
    "1001 digits": b'{"a":' + b"1" * 1001 + b"}",
    "1001 levels": b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}",
    "no value": b" ",
}


@pytest.mark.parametrize("name", _GOOD)
def test_what_a_format_reads_is_a_document(name: str) -> None:
    message, value = _GOOD[name]
    documents = JsonDocuments()
    for _ in range(2):
        assert documents.parse(message) == documents.parse_valid(message) == {"a": value}
    (row,) = decoded(get_format("json"), [message], "a STRING").rows.flatten().to_pylist()
    assert row == {"a": value.replace("\ud800", "?")}


@pytest.mark.parametrize("name", _BAD)
def test_what_no_format_reads_is_no_document(name: str) -> None:
    documents = JsonDocuments()
    assert documents.parse_valid(_BAD[name]) is None
    assert documents.parse_valid(b'{"a":"x"}') == {"a": "x"}
    tree = get_format("json", {"decode.json-parser.enabled": "false"})
    assert decoded(tree, [_BAD[name]], "a DECIMAL(5, 2), b STRING").rows.to_pylist() in ([None], [[]])


def test_no_message_and_an_empty_one_are_no_documents() -> None:
    assert [JsonDocuments().parse_valid(message) for message in (None, b"")] == [None, None]
