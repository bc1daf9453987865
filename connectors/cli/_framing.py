"""Messages in streams of bytes: where one ends and the next one begins, and the records that they are of.

    lines      a message per line, without its line feed
    length     four bytes, big-endian, and so many bytes of message; ff ff ff ff is a null message
    whole      each file is one message
    records    a JSON object per line: {"key": ..., "value": ..., "topic": ..., "offset": ..., "ts": ...}

A record is what `kcat -J` prints: its value is also called `payload`. Bytes that are no text are in `key_base64` and
`value_base64`, or, as kcat has them, between the quotes as they are.
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
"""Bytes that are read at once, if they are there: the messages in them make a batch."""
_NULL: Final = 0xFFFFFFFF
_LONGEST: Final = 1 << 30
"""Bytes of a message: Kafka's own limit is of this order, and four letters taken for a length are mostly more."""


@dataclass
class MessageBatch:
    """Messages that came together, with the keys of their records, and what else is known of each.

    first: the number of the first one, from 1. about: by the names of Kafka's metadata ('partition', 'offset',
    'timestamp' in milliseconds, 'headers' as pairs). faults: by its place, why something is no message at all, whose
    bytes are then in `values`.
    """

    first: int
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    about: list[Mapping[str, Any]] | None = None
    faults: dict[int, str] = field(default_factory=dict)


# --- reading -----------------------------------------------------------------------------------------------


def read(files: Iterable[IO[bytes]], framing: str) -> Iterator[MessageBatch]:
    """The messages of all files, as they come; never more than a piece of a file, or one message, is held."""
    count = 0
    for file in files:
        for values, fault in _READERS[framing](file):
            batch = MessageBatch(count + 1, values)
            if fault:
                batch.faults[len(values) - 1] = fault
            if framing == "records":
                _take_apart(batch)
            count += len(values)
            yield batch


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    # what is there is taken at once, so that a slow pipe is read message by message
    take: Callable[[int], bytes] = getattr(file, "read1", None) or file.read
    while chunk := take(_CHUNK):
        yield chunk


def _lines(file: IO[bytes]) -> Iterator[tuple[list[bytes | None], str]]:
    pieces: list[bytes] = []  # of a line whose end has not been read
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
    pieces, size, wanted = [], 0, 4  # bytes that are held, how many, and of how many a message can be read
    start = 0
    data = b""
    for chunk in _chunks(file):
        pieces.append(chunk)
        size += len(chunk)
        if size < wanted:
            continue
        data, place = b"".join(pieces), 0
        found: list[bytes | None] = []
        while len(data) - place >= 4:
            length = int.from_bytes(data[place : place + 4], "big")
            if length == _NULL:
                length, message = 0, None
            elif length > _LONGEST:
                yield [*found, data[place : place + 200]], f"at byte {start + place} there is no length: {length}"
                return
            elif len(data) - place - 4 < length:
                break
            else:
                message = data[place + 4 : place + 4 + length]
            found.append(message)
            place += 4 + length
        if found:
            yield found, ""
        start += place
        pieces, size = [data[place:]], len(data) - place
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


def _take_apart(batch: MessageBatch) -> None:
    """Lines of JSON as records; a line that is none stays as it is, with its fault."""
    batch.keys, batch.about = [], []
    for place, line in enumerate(batch.values):
        key, value, about = None, line, dict[str, Any]()
        try:
            key, value, about = _record(line or b"")
        except (ValueError, RecursionError) as cause:
            batch.faults[place] = f"the line is not a record: {cause}"
        batch.keys.append(key)
        batch.values[place] = value
        batch.about.append(about)


def _record(line: bytes) -> tuple[bytes | None, bytes | None, dict[str, Any]]:
    # bytes that are no UTF-8 travel as halves of surrogates, and come out as they were
    found = json.loads(line.decode("utf-8", "surrogateescape"))
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    names = [name for name in ("value", "payload", "value_base64") if name in found]
    if len(names) != 1:
        raise ValueError("it needs one of 'value', 'payload' and 'value_base64'")
    key_names = [name for name in ("key", "key_base64") if name in found]
    if len(key_names) > 1:
        raise ValueError("it has 'key' and 'key_base64'")
    key = _bytes_of(key_names[0], found[key_names[0]]) if key_names else None
    return key, _bytes_of(names[0], found[names[0]]), _about(found)


def _about(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of itself besides key and value; what is not there is not known."""
    about: dict[str, Any] = {}
    for name, kind, what in _MEMBERS:
        value = record.get(name)
        if value is not None:
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ValueError(f"'{name}' is not {what}")
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
        raise ValueError(f"'{name}' is a text or null")
    if not name.endswith("_base64"):
        return value.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as cause:
        raise ValueError(f"'{name}' is not valid Base64: {cause}") from None


# --- writing -----------------------------------------------------------------------------------------------


def frame(key: bytes | None, value: bytes | None, framing: str, *, with_key: bool) -> bytes | str:
    """A message with what marks its end; or, as a text, why it can't be written so."""
    if framing == "records":
        record = _member("key", key) if with_key else {}
        return f"{json_line(record | _member('value', value))}\n".encode()
    if framing == "length":
        return _NULL.to_bytes(4, "big") if value is None else len(value).to_bytes(4, "big") + value
    if value is None:
        return f"a null message can't be written as '{framing}': take --framing length or records"
    if framing == "lines" and b"\n" in value:
        return "the message has a line feed in it: take --framing length or records"
    return value + b"\n" if framing == "lines" else value


def record_of(key: bytes | None, value: bytes | None, about: Mapping[str, Any]) -> dict[str, Any]:
    """A record as an object for JSON, with what is known of it, as `records` has them."""
    known = {name: about[name] for name in ("topic", "partition", "offset") if name in about}
    if "timestamp" in about:
        known |= {"tstype": _SHORT_TYPES.get(about["timestamp-type"], "unknown"), "ts": about["timestamp"]}
    if about.get("headers"):
        # bytes that are no UTF-8 are halves of surrogates in JSON, and are read as what they were
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
