"""Framings: how messages and records are separated in a stream of bytes.

    lines      a message per line, without its line feed
    length     four bytes with the length, big-endian, and then the message; ff ff ff ff is a null message
    whole      each file is one message
    records    a JSON object per line: {"key": ..., "value": ..., "topic": ..., "offset": ..., "ts": ...}

A record has the form that `kcat -J` prints, where the value is named `payload`. Bytes that are not UTF-8 are in
`key_base64` and `value_base64`, or, as kcat prints them, unescaped in the JSON string.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

from kvformat.connectors.cli._output import json_line

FRAMINGS: Final = ("lines", "length", "whole", "records")
_CHUNK: Final = 1 << 18
"""Maximum number of bytes of one read call. The messages in these bytes form a batch."""
_NULL: Final = 0xFFFFFFFF
_LONGEST: Final = 1 << 30
"""Maximum length of a message. Kafka's limit is similar, and text that is read as a length is mostly greater."""


@dataclass
class MessageBatch:
    """Messages of one read call, with their keys and metadata.

    first: the number of the first message, from 1.
    about: the metadata of each record by Kafka's names: 'partition', 'offset', 'timestamp' in milliseconds, 'headers'
        as pairs.
    faults: the reason for each index in `values` that does not contain a message. The value then has the bytes read.
    """

    first: int
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    about: list[Mapping[str, Any]] | None = None
    faults: dict[int, str] = field(default_factory=dict)


# --- reading -----------------------------------------------------------------------------------------------


def read_messages(files: Iterable[IO[bytes]], framing: str) -> Iterator[MessageBatch]:
    """Yield the messages of all files in order. Memory holds at most one chunk of a file, or one message."""
    count = 0
    for file in files:
        for values, fault in _READERS[framing](file):
            batch = MessageBatch(count + 1, values)
            if fault:
                batch.faults[len(values) - 1] = fault
            if framing == "records":
                _parse_records(batch)
            count += len(values)
            yield batch


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    # `read1` returns the available bytes, so messages of a slow pipe are not delayed
    take: Callable[[int], bytes] = getattr(file, "read1", None) or file.read
    while chunk := take(_CHUNK):
        yield chunk


def _lines(file: IO[bytes]) -> Iterator[tuple[list[bytes | None], str]]:
    pieces: list[bytes] = []  # the start of a line without its end
    for chunk in _chunks(file):
        head, feed, rest = chunk.rpartition(b"\n")
        if feed:
            lines: list[bytes | None] = [*(b"".join((*pieces, head))).split(b"\n")]
            yield lines, ""
            pieces = []
        if rest:
            pieces.append(rest)
    if pieces:
        yield [b"".join(pieces)], ""


def _framed(file: IO[bytes]) -> Iterator[tuple[list[bytes | None], str]]:
    pieces, size, wanted = [], 0, 4  # buffered bytes, their number, and the number that the next message needs
    start = 0
    data = b""
    for chunk in _chunks(file):
        pieces.append(chunk)
        size += len(chunk)
        if size < wanted:
            continue
        data, offset = b"".join(pieces), 0
        messages: list[bytes | None] = []
        while len(data) - offset >= 4:
            length = int.from_bytes(data[offset : offset + 4], "big")
            if length == _NULL:
                length, message = 0, None
            elif length > _LONGEST:
                yield [*messages, data[offset : offset + 200]], f"no valid length at byte {start + offset}: {length}"
                return
            elif len(data) - offset - 4 < length:
                break
            else:
                message = data[offset + 4 : offset + 4 + length]
            messages.append(message)
            offset += 4 + length
        if messages:
            yield messages, ""
        start += offset
        pieces, size = [data[offset:]], len(data) - offset
        wanted = 4 if size < 4 else 4 + int.from_bytes(pieces[0][:4], "big")
    if size:
        yield [b"".join(pieces)], f"the input ends within a message, of which it has {size} of {wanted} bytes"


def _whole(file: IO[bytes]) -> Iterator[tuple[list[bytes | None], str]]:
    yield [file.read()], ""


_READERS: Final[dict[str, Callable[[IO[bytes]], Iterator[tuple[list[bytes | None], str]]]]] = {
    "lines": _lines,
    "length": _framed,
    "whole": _whole,
    "records": _lines,
}


def _parse_records(batch: MessageBatch) -> None:
    """Parse lines of JSON as records; a line that is not a record stays unchanged and gets a fault."""
    batch.keys, batch.about = [], []
    for index, line in enumerate(batch.values):
        key, value, about = None, line, dict[str, Any]()
        try:
            key, value, about = _record(line or b"")
        except (ValueError, RecursionError) as cause:
            batch.faults[index] = f"the line is not a record: {cause}"
        batch.keys.append(key)
        batch.values[index] = value
        batch.about.append(about)


def _record(line: bytes) -> tuple[bytes | None, bytes | None, dict[str, Any]]:
    # bytes that are not UTF-8 become surrogates here, and `_bytes_of` restores them
    members = json.loads(line.decode("utf-8", "surrogateescape"))
    if not isinstance(members, dict):
        raise ValueError("it is not a JSON object")
    names = [name for name in ("value", "payload", "value_base64") if name in members]
    if len(names) != 1:
        raise ValueError("it needs one of 'value', 'payload' and 'value_base64'")
    key_names = [name for name in ("key", "key_base64") if name in members]
    if len(key_names) > 1:
        raise ValueError("it has 'key' and 'key_base64'")
    key = _bytes_of(key_names[0], members[key_names[0]]) if key_names else None
    return key, _bytes_of(names[0], members[names[0]]), _about(members)


def _about(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a record that it contains; raises `ValueError` for a wrong type."""
    about: dict[str, Any] = {}
    for name, kind, what in _MEMBERS:
        value = record.get(name)
        if value is not None:
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ValueError(f"'{name}' is not {what}")
            most = 2 ** (31 if name == "partition" else 63)
            if isinstance(value, int) and not -most <= value < most:
                raise ValueError(f"'{name}' is beyond the range of Kafka's")
            about["timestamp" if name == "ts" else name] = value
    if "tstype" in about:
        kind = about.pop("tstype")
        about["timestamp-type"] = _TIMESTAMP_TYPES.get(kind, kind)
    if "headers" in about:
        names, values = about["headers"][::2], about["headers"][1::2]
        if len(names) != len(values) or not all(isinstance(name, str) for name in names):
            raise ValueError("'headers' is not a list of names, each followed by its value")
        about["headers"] = [(name, _bytes_of("headers", value)) for name, value in zip(names, values, strict=True)]
    return about


_MEMBERS: Final[tuple[tuple[str, type, str], ...]] = (
    ("topic", str, "text"),
    ("partition", int, "number"),
    ("offset", int, "number"),
    ("timestamp", int, "number of milliseconds"),
    ("ts", int, "number of milliseconds"),
    ("tstype", str, "text"),
    ("headers", list, "list"),
)


_TIMESTAMP_TYPES: Final = {"create": "CreateTime", "logappend": "LogAppendTime", "unknown": "NoTimestampType"}
_SHORT_TYPES: Final = {name: short for short, name in _TIMESTAMP_TYPES.items()}


def _bytes_of(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"'{name}' must be a text or null")
    if not name.endswith("_base64"):
        return value.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as cause:
        raise ValueError(f"'{name}' is not valid Base64: {cause}") from None


# --- writing -----------------------------------------------------------------------------------------------


def frame(key: bytes | None, value: bytes | None, framing: str, *, with_key: bool) -> bytes | str:
    """Return a message in its framing as bytes; or a text with the reason why the framing cannot represent it."""
    if framing == "records":
        record = _member("key", key) if with_key else {}
        return f"{json_line(record | _member('value', value))}\n".encode()
    if framing == "length":
        return _NULL.to_bytes(4, "big") if value is None else len(value).to_bytes(4, "big") + value
    if value is None:
        return f"a null message can't be written as '{framing}': use --framing length or records"
    if framing == "lines" and b"\n" in value:
        return "the message contains a line feed: use --framing length or records"
    return value + b"\n" if framing == "lines" else value


def record_of(key: bytes | None, value: bytes | None, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its known metadata as a JSON object of the framing `records`."""
    known = {name: about[name] for name in ("topic", "partition", "offset") if name in about}
    if "timestamp" in about:
        known |= {"tstype": _SHORT_TYPES.get(about["timestamp-type"], "unknown"), "ts": about["timestamp"]}
    if about.get("headers"):
        # bytes that are not UTF-8 become surrogates in JSON, and reading them restores the bytes
        texts = (None if data is None else data.decode("utf-8", "surrogateescape") for _, data in about["headers"])
        known["headers"] = [
            part for (name, _), text in zip(about["headers"], texts, strict=True) for part in (name, text)
        ]
    return known | _member("key", key) | _member("value", value)


def _member(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}
