"""Messages of the JSON formats, whole and changed at random; and what is read from them, for another process.

    python -m tests.support.json_mutation 20000     decodes so many messages, writes the answers to standard
                                                          output

The messages follow from their count alone. The answers are pickles: the name of the kernel, then for each batch its
case's number, its messages and an `Answer` for each of them.
"""

from __future__ import annotations

import json
import pickle
import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kvformat.registry import Format, get_format
from tests.support.decoding import answers, decoded
from tests.support.variants import random_document

BATCH = 100
"""Messages of a batch."""

# --- rows -----------------------------------------------------------------------------------------------

ORDERS = (
    "id BIGINT, customer STRING, note STRING, price DOUBLE, amount DECIMAL(10, 2), at TIMESTAMP(3), paid BOOLEAN, "
    "tags ARRAY<STRING>, ship ROW<city STRING, zip INT, at TIMESTAMP_LTZ(3)>"
)
FLAT = "id BIGINT, customer STRING, note STRING, price DOUBLE, at TIMESTAMP(3), paid BOOLEAN, tags ARRAY<STRING>"
MORE = (
    "i1 TINYINT, i2 SMALLINT, i INT, f FLOAT, d DATE, t TIME(3), b BYTES, m MAP<STRING, BIGINT>, "
    "r ARRAY<ROW<x INT, y ARRAY<INT>>>, wide DECIMAL(38, 18), s CHAR(3)"
)
DEEP = (
    "id BIGINT, name STRING, price DECIMAL(10, 2), ok BOOLEAN, tags ARRAY<STRING>, m MAP<STRING, INT>, "
    "a ROW<id INT, name STRING, b ROW<id INT, ok BOOLEAN, c ROW<name STRING, x DOUBLE>>>, "
    'lines ARRAY<ROW<id INT, price DECIMAL(5, 1), sub ROW<id INT, name STRING>>>, `\u00e9 "q` INT, x INT'
)
ODD = (
    "a STRING, b ARRAY<STRING>, c MAP<STRING, STRING>, d MULTISET<STRING>, e INTERVAL YEAR TO MONTH, "
    "f INTERVAL DAY TO SECOND, g MAP<STRING, ROW<x FLOAT, y MAP<STRING, ARRAY<BOOLEAN>>>>, h ARRAY<ARRAY<TINYINT>>, "
    "i ROW<a ROW<>, b ROW<c STRING, d BYTES>>, j TIME(0), k TIMESTAMP(9), l TIMESTAMP_LTZ(6), m DECIMAL(38, 0)"
)
LOOSE = "id BIGINT, v VARIANT, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>, r ROW<name STRING, more VARIANT>"
CHANGED = (
    "id BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP(3), tags ARRAY<STRING>, "
    "more MAP<STRING, INT>, rec ROW<x INT, name STRING>"
)
"""The schema of the rows of change messages."""
CHANGED_LOOSE = (
    "id BIGINT, name VARIANT, price DECIMAL(10, 2), at TIMESTAMP(3), tags ARRAY<VARIANT>, more VARIANT, rec VARIANT"
)


def order(rng: random.Random, *, iso: bool = False) -> dict[str, Any]:
    """A row of ORDERS and MORE."""
    text = rng.choice(["", "plain", "with blank", "é ß 世界", 'quote " and \\ and \n', "😀", "a\u2028b", "x" * 70])
    between = "T" if iso else " "
    return {
        "id": rng.choice([rng.randrange(-(2**63), 2**63), rng.randrange(1000), 0, None]),
        "customer": f"c-{rng.randrange(10**6)}",
        "note": rng.choice([text, None]),
        "price": rng.choice([rng.random() * 1000, 1e-7, -0.0, 1.5e300, 3, None]),
        "amount": rng.choice(
            [round(rng.random() * 10**5, 2), 100, 1e16, 2e-7, 0.005, 123456789012.5, "12.50", "1E+2", None]
        ),
        "at": rng.choice(
            [
                f"2024-02-29{between}23:59:59.123",
                f"1969-12-31{between}00:00:00",
                f"2024-06-01{between}12:00:00.123456789",
                None,
            ]
        ),
        "paid": rng.choice([True, False, None]),
        "tags": rng.choice([[], ["a"], ["a", None, text], None]),
        "ship": rng.choice(
            [{"city": text, "zip": 12345, "at": f"2024-01-01{between}00:00:00Z"}, {}, {"zip": -1}, None]
        ),
        "i1": rng.choice([-128, 127, 5]),
        "i2": rng.choice([-32768, 3]),
        "i": rng.choice([2**31 - 1, 7, 1.9]),
        "f": rng.choice([1.5, 0.1, 16777217]),
        "d": rng.choice(["2024-02-29", "0001-01-01", "9999-12-31"]),
        "t": rng.choice(["10:11:12", "10:11:12.345", "00:00:00"]),
        "b": rng.choice(["AAH/", "", "YQ=="]),
        "m": rng.choice([{}, {"k": 1}, {"k": 1, "é": None}]),
        "r": rng.choice([[], [{"x": 1, "y": [1, 2]}, None, {"y": []}]]),
        "wide": rng.choice([1, 0.123456789012345678, -12345678901234567.25, 1e19, 1e-18, 5e-19, 1e25]),
        "s": rng.choice(["abc", "abcdef"]),
    }


def deep(rng: random.Random) -> dict[str, Any]:
    """A row of DEEP."""
    number = rng.randrange(1000)
    return {
        "id": number,
        "name": rng.choice(["plain", "x" * 30, 'say "id": {1}', "a\\", "é\n😀", ""]),
        "price": rng.choice([number / 4, 100, None]),
        "ok": rng.choice([True, False, None]),
        "tags": rng.choice([[], ["id"], ["a", '","id":1', None]]),
        "m": rng.choice([{}, {"id": 1}, {"a": 1, "id": None, "name": 3}]),
        "a": rng.choice(
            [{"id": number, "name": "n", "b": {"id": 1, "ok": True, "c": {"name": "deep", "x": 0.5}}}, {"b": {}}, None]
        ),
        "lines": [{"id": n, "price": n / 2, "sub": {"id": n, "name": "s"}} for n in range(rng.randrange(4))],
        "x": number,
    }


def odd(rng: random.Random) -> dict[str, Any]:
    """A row of ODD: values that are not texts for texts, other types."""
    number = rng.choice([0, -0.0, 1, -7, 1.5, 1.50, 1e3, 1e-7, 12345678.25, 123456789012345678901234567890])
    tree = rng.choice(
        [{}, [], {"a": [1, None, "é", True, 0.25]}, [[{"b": {"c": number}}]], {'"': "\n\t\\"}, [1.0, -0.0]]
    )
    flags = {"k": [True, False, None, "true", 1], "l": [], "m": None}
    row = {
        "a": rng.choice(["text", number, tree, True, None]),
        "b": rng.choice([["a", number, tree], [], None]),
        "c": rng.choice([{"k": "v", "l": tree, "": number}, {}, None]),
        "d": rng.choice([{"a": 1, "b": 2}, {}, {"a": None}]),
        "e": rng.choice([0, 14, -3, "7"]),
        "f": rng.choice([0, 86400000, -1, "5"]),
        "g": rng.choice([{"r": {"x": 0.1, "y": flags}, "s": None, "t": {}}, {}]),
        "h": rng.choice([[[1, 2], [], None, [-128]], []]),
        "i": rng.choice([{"a": {}, "b": {"c": "x", "d": "AQI="}}, {"a": None}, {"b": {"d": None}}]),
        "j": rng.choice(["01:02:03", "23:59:59", None]),
        "k": rng.choice(["2024-02-29 23:59:59.123456789", "0001-01-01 00:00:00", "2024-01-01 00:00"]),
        "l": rng.choice(["2024-02-29 23:59:59.123456Z", "9999-12-31 23:59:59Z"]),
        "m": rng.choice([0, 10**37, -(10**38) + 1, 10**38, 0.5, 1e20, "17"]),
    }
    return {key: row[key] for key in row if rng.random() < 0.9}


def loose(rng: random.Random) -> bytes:
    """A row of LOOSE."""
    names = {"id": "7", "v": "%s", "l": "[%s, null,%s]", "m": '{"a":%s,"b": null}', "r": '{"name":"n","more":%s}'}
    members = [
        f'"{name}":' + re.sub("%s", lambda _: random_document(rng), text)
        for name, text in names.items()
        if rng.random() < 0.8
    ]
    return f"{{{','.join(members)}}}".encode()


# --- layouts --------------------------------------------------------------------------------------------

_BLANK = (" ", "\t", "\r\n", "\n      ", " " * 9, " " * 60)


def written(value: Any, rng: random.Random, *, blanks: bool = False, shuffled: bool = False, **how: Any) -> str:
    """A value as JSON, with random blanks between all tokens, or keys in random order at every level."""
    between = (lambda: rng.choice(_BLANK[:5]) if rng.random() < 0.3 else "") if blanks else lambda: ""
    if isinstance(value, dict):
        items = list(value.items())
        if shuffled:
            rng.shuffle(items)
        parts = [
            between() + json.dumps(key, **how) + between() + ":" + between()
            + written(item, rng, blanks=blanks, shuffled=shuffled, **how) + between()
            for key, item in items
        ]  # fmt: skip
        return "{" + (",".join(parts) or between()) + "}"
    if isinstance(value, list):
        parts = [between() + written(item, rng, blanks=blanks, shuffled=shuffled, **how) + between() for item in value]
        return "[" + (",".join(parts) or between()) + "]"
    return json.dumps(value, **how)


def _extra(rng: random.Random, value: dict[str, Any]) -> str:
    """Members of no column at any place, with names and members of columns inside of them."""
    others = {"k1": 1, "k\u00e92": "text", "k3": {"id": 7, "name": ["x", {"ok": 1}], "a": {"b": {"id": 1}}}, "k4": [[]]}
    items = [*value.items(), *((key, other) for key, other in others.items() if rng.random() < 0.6)]
    return written(dict(sorted(items, key=lambda _: rng.random())), rng, ensure_ascii=False)


def _repeated(rng: random.Random, value: dict[str, Any]) -> str:
    """A key twice, the second time with the value that counts."""
    key = rng.choice(list(value))
    return written({key: value[rng.choice(list(value))]}, rng)[:-1] + "," + written(value, rng)[1:]


def _escaped(rng: random.Random, value: dict[str, Any]) -> str:
    """Names and texts with some of their letters and digits as escapes."""
    text = json.dumps(value, separators=(",", ":"))
    strings = re.compile(r'"(?:[^"\\]|\\.)*"')

    def escaped(match: re.Match[str]) -> str:
        at = rng.randrange(1, max(len(match[0]) - 1, 2))
        before, letter, after = match[0][:at], match[0][at], match[0][at + 1 :]
        return f"{before}\\u{ord(letter):04x}{after}" if letter.isalnum() and "\\" not in before else match[0]

    return strings.sub(lambda match: escaped(match) if rng.random() < 0.4 else match[0], text)


LAYOUTS: dict[str, Callable[[random.Random, dict[str, Any]], str]] = {
    "plain": lambda rng, value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
    "ascii": lambda rng, value: json.dumps(value, separators=(",", ":")),
    "sorted": lambda rng, value: json.dumps(value, separators=(",", ":"), sort_keys=True),
    "reversed": lambda rng, value: json.dumps(dict(reversed(value.items())), separators=(",", ":")),
    "random order": lambda rng, value: written(value, rng, shuffled=True, ensure_ascii=False),
    "blanks": lambda rng, value: json.dumps(value),
    "pretty": lambda rng, value: json.dumps(value, indent=2),
    "pretty, other order": lambda rng, value: json.dumps(value, indent="\t", sort_keys=True),
    "random blanks": lambda rng, value: written(value, rng, blanks=True, ensure_ascii=False),
    "blanks around": lambda rng, value: rng.choice(_BLANK) + written(value, rng) + rng.choice(_BLANK),
    "no nulls": lambda rng, value: written({key: item for key, item in value.items() if item is not None}, rng),
    "extra": _extra,
    "repeated": _repeated,
    "escaped": _escaped,
    "wrapped": lambda rng, value: rng.choice(["[%s]", "[ %s ]", "[null, %s]"]) % json.dumps(value, ensure_ascii=False),
}
"""Ways to write a row that all say the same (in the order of the keys only "repeated" is a way for `json` alone)."""


# --- change messages ------------------------------------------------------------------------------------


def row(rng: random.Random) -> dict[str, Any]:
    """A row of CHANGED."""
    found = {
        "id": rng.choice([rng.randrange(10**9), str(rng.randrange(99)), None]),
        "name": rng.choice(["plain", "é 世界", 'quote " \\', "😀", "", None]),
        "price": rng.choice([12.5, 100, "5.18", 1e16, 0.005, None]),
        "at": rng.choice(["2024-02-29 23:59:59.123", "1969-12-31 00:00:00", None]),
        "tags": rng.choice([[], ["a", None], ["b"] * 5, None]),
        "more": rng.choice([{}, {"k": 1, "l": None}, {"name": 3}, None]),
        "rec": rng.choice([{}, {"x": 1, "name": "in"}, {"name": None}, None]),
    }
    return {key: found[key] for key in found if rng.random() < 0.95}


def _images(rng: random.Random, name: str, values: str) -> dict[str, Any]:
    create, update, delete = values
    operation = rng.choice(values)
    before = None if operation == create or rng.random() < 0.02 else row(rng)
    after = None if operation == delete and rng.random() < 0.9 else row(rng)
    assert update in values
    return {"before": before, "after": after, name: operation}


def _debezium(rng: random.Random) -> dict[str, Any]:
    source = {"version": "2.7", "db": "shop", "schema": None, "table": f"t{rng.randrange(3)}", "ts_ms": 1700000000000}
    message = {**_images(rng, "op", "cud"), "ts_ms": rng.choice([1700000000123, "17", None])}
    message["source"] = rng.choice([source, source, {"ts_ms": "5"}, None])
    return {"schema": rng.choice(["s", None]), "payload": message} if rng.random() < 0.02 else message


def _wrapped(rng: random.Random) -> dict[str, Any]:
    return {"schema": rng.choice([None, {"type": "struct"}, "text"]), "payload": _debezium(rng)}


def _flat(rng: random.Random) -> dict[str, Any]:
    message = {**row(rng), "__deleted": rng.choice(["true", "false", True, None])}
    if rng.random() < 0.9:
        message["__op"] = rng.choice(["c", "u", "u", "d", "r", "t", None, 5])
    if rng.random() < 0.5:
        del message["__deleted"]
    return rng.choice([{"ts_ms": 5}, {"op": "c", "after": {}}]) if rng.random() < 0.03 else message


def _others(rng: random.Random) -> dict[str, Any]:
    others = [{"op": "t", "before": None}, {"op": "m"}, {"ts_ms": 5}, {"status": "END", "id": "1", "event_count": 2}]
    return rng.choice(others) if rng.random() < 0.3 else _debezium(rng)


def _ogg(rng: random.Random) -> dict[str, Any]:
    times = ["2024-05-13 15:40:06.123456", "2024-05-13T15:40:07.327000", "2024-5-3", None, 7]
    return {
        "table": rng.choice(["A.B", None, 5]),
        **_images(rng, "op_type", "IUD"),
        "op_ts": rng.choice([times[0], times[0], times[0], rng.choice(times)]),
        "current_ts": rng.choice(times),
        "primary_keys": rng.choice([["id"], [], None]),
    }


def _old(rng: random.Random) -> dict[str, Any]:
    return {key: value for key, value in row(rng).items() if rng.random() < 0.3}


def _maxwell(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(["insert", "update", "update", "delete"])
    message = {"database": "shop", "table": "t", "type": kind, "ts": rng.choice([1700000000, "17", None])}
    old = _old(rng) if kind == "update" and rng.random() < 0.97 else None
    return {**message, "primary_key_columns": ["id"], "data": row(rng), "old": old}


def _canal(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(["INSERT", "UPDATE", "UPDATE", "DELETE", "CREATE"])
    count = rng.choice([1, 1, 1, 2, 5, 0])
    data = None if kind == "CREATE" else [row(rng) for _ in range(count)]
    old = [_old(rng) for _ in range(count + rng.choice([0, 0, 0, 0, 1, -1]))] if kind == "UPDATE" else None
    tables = ["orders", "orders_1", "tmp", None, 7]
    return {
        "data": data,
        "old": old,
        "type": kind,
        "database": rng.choice(["shop", "shop", "other"]),
        "table": rng.choice(tables),
        "sqlType": rng.choice([{"id": 4, "name": 12}, None, "x"]),
        "pkNames": rng.choice([["id"], None]),
        "es": 1700000000000,
        "ts": rng.choice([1700000000123, None]),
    }


@dataclass(frozen=True)
class Producer:
    """Who writes change messages, for a format with options."""

    format: str
    message: Callable[[random.Random], dict[str, Any]]
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "-".join([self.format, *(value for _, value in self.options)])

    def texts(self, rng: random.Random, count: int) -> list[bytes]:
        """Messages, most of them as the producer writes them, some with blanks or in another order."""
        found = []
        for _ in range(count):
            message = self.message(rng)
            if rng.random() < 0.1:
                message = dict(rng.sample(list(message.items()), len(message)))
            separators = (", ", ": ") if rng.random() < 0.1 else (",", ":")
            found.append(json.dumps(message, ensure_ascii=rng.random() < 0.2, separators=separators).encode())
        return found


_LENIENT = (("ignore-parse-errors", "true"),)
_INCLUDED = (("database.include", "shop"), ("table.include", "orders.*"))
PRODUCERS = [
    Producer("debezium-json", _debezium),
    Producer("debezium-json", _wrapped, (("schema-include", "true"),)),
    Producer("debezium-json", _debezium, _LENIENT),
    Producer("debezium-json", _wrapped, (("schema-include", "true"), *_LENIENT)),
    Producer("debezium-json", _others, (("other-messages", "skip"),)),
    Producer("debezium-json", _flat, (("flattened", "true"),)),
    Producer("debezium-json", _flat, (("flattened", "true"), ("other-messages", "skip-all"), *_LENIENT)),
    Producer("ogg-json", _ogg),
    Producer("ogg-json", _ogg, _LENIENT),
    Producer("maxwell-json", _maxwell),
    Producer("maxwell-json", _maxwell, _LENIENT),
    Producer("canal-json", _canal),
    Producer("canal-json", _canal, _INCLUDED),
    Producer("canal-json", _canal, _LENIENT),
]


# --- mutations ------------------------------------------------------------------------------------------

_MEMBER = re.compile(rb'"[^"\\]*" ?:')
_NUMBER = re.compile(rb"(?<=[:,\[ ])-?\d[\d.eE+-]*")
_VALUE = re.compile(rb'(?<=[:,\[])(?:-?\d[\d.eE+-]*|null|true|false|"[^"\\]*"(?! ?:)|\{\}|\[\])')
_NUMBERS = (
    *(b"0", b"-0", b"-0.0", b"00", b"01", b"1.", b".5", b"-", b"+1", b"1e", b"1e+", b"1E2", b"1e-2", b"0e0", b"1e400"),
    *(b"2147483648", b"-2147483649", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809"),
    *(b"18446744073709551616", b"99999999999999999999999", b"0.1", b"0.3333333333333333", b"123456789.987654321"),
    *(b"1e2147483647", b"1e2147483648", b"1e-2147483648", b"1e-2147483649", b"1e999999999999", b"16777217", b"3.4e38"),
    *(b"3.5e38", b"1e-46", b"1.7976931348623157e308", b"1.8e308", b"4.9e-324", b"9007199254740993", b"127", b"128"),
    *(
        b"32768",
        b"999999999999999999",
        b"0.005",
        b"0.0049999999999",
        b"99999999.995",
        b"NaN",
        b"Infinity",
        b"-Infinity",
    ),
    *(b"9" * 1000, b"9" * 1001, b"0." + b"1" * 999, b"0." + b"1" * 1000, b"1e" + b"0" * 998 + b"1", b"-" + b"1" * 1000),
)
_VALUES = (
    *(
        b"null",
        b"true",
        b"false",
        b'""',
        b'"x"',
        b"{}",
        b"[]",
        b"[null]",
        b"[[]]",
        b'{"a":1}',
        b'{"a":1,"a":2}',
        b"tru",
    ),
    *(b'"12"', b'" 12 "', b'"+7"', b'"1.5"', b'"1e2"', b'"NaN"', b'"-0"', b'"0x1p3"', b'"1d"', b'"true"', b'"TRUE"'),
    *(b'"2024-02-30"', b'"2024-02-29T00:00:00"', b'"2024-02-29 24:00:00"', b'"10:11"', b'"\\u0031"', b'"AQI"'),
    *(b'"2024-02-29 10:11:12.1234567890"', b'"+12024-01-01 00:00:00"', b'"0000-01-01"', b"nul", b"nulll", b"NULL"),
    *(b'[{"a":[1.50,-0,1e3]},"\\u0041"]', b'{"":{"":[]}}', b'"\xef\xbb\xbf"', b'"\xed\x9f\xbf\xf4\x8f\xbf\xbf"'),
)
_ESCAPES = (
    *(
        b"\\n",
        b"\\/",
        b"\\b\\f\\r\\t",
        b'\\"',
        b"\\\\",
        b"\\u0041",
        b"\\u00e9",
        b"\\u0000",
        b"\\ud83d\\ude00",
        b"\\ud83d",
    ),
    *(
        b"\\ude00",
        b"\\uDBFF\\uDFFF",
        b"\\ud83d\\u0041",
        b"\\x",
        b"\\u12",
        b"\\u12g4",
        b"\\",
        b"\\u",
        b"\\U0041",
        b"\\u 041",
    ),
    *(b"\\u+041", b"\\u\xd9\xa1000"),
)
_BYTES = (
    *(b"\x80", b"\xc0\x80", b"\xc1\xbf", b"\xc3", b"\xe0\x80\x80", b"\xe4\xb8", b"\xed\xa0\x80", b"\xed\xbf\xbf"),
    *(
        b"\xf0\x80\x80\x80",
        b"\xf0\x9f\x98",
        b"\xf4\x90\x80\x80",
        b"\xf5",
        b"\xfe",
        b"\xff",
        b"\xef\xbf\xbf",
        b"\xef\xbb\xbf",
    ),
)
_BLANKS = (b" ", b"\t", b"\n", b"\r", b"\x0b", b"\x0c", b"\x00", b"\xc2\xa0", b" " * 17, b"\xe2\x80\xa8")
_ENCODINGS = ("utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32-be", "utf-32", "utf-8-sig", "latin-1", "utf-7")
_TAILS = (b" ", b"\n", b"{}", b",", b"]", b"}", b" x", b"\x00", b"null", b"//", b"\xff", b"\xef\xbb\xbf")


def mutated(rng: random.Random, message: bytes, times: int | None = None) -> bytes:
    """The message, changed in one to three places, mostly one."""
    for _ in range(times or rng.choice([1, 1, 1, 2, 3])):
        message = rng.choice(_MUTATIONS)(rng, message)
    return message


def _place(rng: random.Random, message: bytes) -> int:
    return rng.randrange(len(message) + 1)


def _with(message: bytes, at: int, part: bytes, instead_of: int = 0) -> bytes:
    return message[:at] + part + message[at + instead_of :]


def _inserting(*parts: bytes) -> Callable[[random.Random, bytes], bytes]:
    return lambda rng, message: _with(message, _place(rng, message), rng.choice(parts))


def _replacing(pattern: re.Pattern[bytes], parts: tuple[bytes, ...]) -> Callable[[random.Random, bytes], bytes]:
    def replaced(rng: random.Random, message: bytes) -> bytes:
        found = list(pattern.finditer(message))
        if not found:
            return message
        match = rng.choice(found)
        return _with(message, match.start(), rng.choice(parts), len(match[0]))

    return replaced


def _flipped(rng: random.Random, message: bytes) -> bytes:
    at = _place(rng, message)
    return _with(message, at, bytes(byte ^ 1 << rng.randrange(8) for byte in message[at : at + 1]), 1)


def _other_byte(rng: random.Random, message: bytes) -> bytes:
    return _with(
        message, _place(rng, message), bytes([rng.choice(b'"\\{}[],:0-+.eE truefalsnu\x00\x1f\x7f\x80\xc3\xff')]), 1
    )


def _without(rng: random.Random, message: bytes) -> bytes:
    return _with(message, _place(rng, message), b"", rng.randint(1, 4))


def _cut(rng: random.Random, message: bytes) -> bytes:
    return message[: _place(rng, message)]


def _swapped(rng: random.Random, message: bytes) -> bytes:
    a, b, c = sorted(_place(rng, message) for _ in range(3))
    return message[:a] + message[b:c] + message[a:b] + message[c:]


def _member_again(rng: random.Random, message: bytes) -> bytes:
    """A member, from its name to the next one, put before another one, or in its place."""
    starts = [match.start() for match in _MEMBER.finditer(message)]
    if len(starts) < 3:
        return message
    here = rng.randrange(len(starts) - 1)
    there = rng.choice(starts)
    return _with(message, there, message[starts[here] : starts[here + 1]])


def _name_again(rng: random.Random, message: bytes) -> bytes:
    names = list(_MEMBER.finditer(message))
    if len(names) < 2:
        return message
    one, other = rng.sample(names, 2)
    return _with(message, one.start(), other[0], len(one[0]))


def _nested(rng: random.Random, message: bytes) -> bytes:
    """A value in many arrays or objects, some of them not closed."""
    found = list(_VALUE.finditer(message))
    if not found:
        return message
    match = rng.choice(found)
    levels = rng.choice([1, 2, 30, 990, 999, 1000, 1001, 1100])
    opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'[{"id":', b"}]")])
    closed = levels if rng.random() < 0.8 else rng.randrange(levels + 1)
    return _with(message, match.start(), opening * levels + match[0] + closing * closed, len(match[0]))


def _other_encoding(rng: random.Random, message: bytes) -> bytes:
    return message.decode(errors="replace").encode(rng.choice(_ENCODINGS), errors="replace")


def _escaped_letter(rng: random.Random, message: bytes) -> bytes:
    at = _place(rng, message)
    letter = message[at : at + 1]
    return _with(message, at, b"\\u%04x" % letter[0], 1) if letter.isalnum() else message


def _many(rng: random.Random, message: bytes) -> bytes:
    """Many members of the same name or of different names, or many elements, at a value's place."""
    found = list(_VALUE.finditer(message))
    if not found:
        return message
    match = rng.choice(found)
    count, other = rng.choice([2, 20, 30, 60]), rng.choice([0, 0, 1])
    names = [b'"n%d":%d' % (n * other or 1, n) for n in range(count)]
    many = rng.choice([b"{" + b",".join(names) + b"}", b"[" + b",".join([match[0]] * count) + b"]"])
    return _with(message, match.start(), many, len(match[0]))


def _in_an_array(rng: random.Random, message: bytes) -> bytes:
    ends = [(b"", b"]"), (b"", b"," + message + b"]"), (b"", b",null]"), (b"1,", b"]"), (b"", b""), (b"", b",]")]
    before, after = rng.choice(ends)
    return b"[" + before + message + after


_MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_flipped, _flipped, _other_byte, _without, _cut, _swapped, _member_again, _member_again, _name_again, _nested),
    *(_other_encoding, _escaped_letter, _escaped_letter, _many, _in_an_array),
    *(_replacing(_NUMBER, _NUMBERS), _replacing(_VALUE, _NUMBERS), _replacing(_VALUE, _VALUES)),
    *(_replacing(_VALUE, _VALUES), _inserting(*_ESCAPES), _inserting(*_BYTES), _inserting(*_BLANKS)),
    _inserting(*(bytes([code]) for code in range(32))),
    _inserting(*(bytes([code]) for code in b'"\\{}[],:019-+.e \n')),
    lambda rng, message: message + rng.choice(_TAILS),
    lambda rng, message: rng.choice(_BLANKS) + message,
)


# --- cases ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A format with options, a schema and metadata; and messages for it, most of them good."""

    format: str
    schema: str
    whole: Callable[[random.Random], bytes]
    options: tuple[tuple[str, str], ...] = ()
    metadata: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        told = (self.format, *(f"{name}={value}" for name, value in self.options), *self.metadata[:1])
        return f"{'-'.join(told)}-{self.schema.partition(' ')[0]}"

    def made(self) -> Format:
        """The format."""
        return get_format(self.format, dict(self.options))


def _laid_out(rng: random.Random, value: dict[str, Any]) -> bytes:
    return LAYOUTS[rng.choice(list(LAYOUTS))](rng, value).encode()


def _cases() -> Iterator[Case]:
    tree, missing = ("decode.json-parser.enabled", "false"), ("fail-on-missing-field", "true")
    for options in ((missing,), (missing, tree)):
        yield Case("json", f"{ORDERS}, {MORE}", lambda rng: _laid_out(rng, order(rng)), options)
        yield Case("json", FLAT, lambda rng: _laid_out(rng, order(rng)), options)
        yield Case(
            "json",
            "x INT, lines ARRAY<ROW<id INT, sub ROW<name STRING>>>",
            lambda rng: _laid_out(rng, deep(rng)),
            options,
        )
    for options in ((), (tree,), _LENIENT, (tree, *_LENIENT)):
        yield Case("json", f"{ORDERS}, {MORE}", lambda rng: _laid_out(rng, order(rng)), options)
        yield Case("json", DEEP, lambda rng: _laid_out(rng, deep(rng)), options)
        yield Case("json", ODD, lambda rng: _laid_out(rng, odd(rng)), options)
        yield Case("json", LOOSE, loose, options)
    iso = ("timestamp-format.standard", "ISO-8601")
    for more in ((), (tree,), _LENIENT):
        yield Case("json", ORDERS, lambda rng: _laid_out(rng, order(rng, iso=True)), (iso, *more))
    # without a DECIMAL, floating-point numbers are read in another way
    yield Case("json", "id BIGINT, price DOUBLE, f FLOAT, note STRING", lambda rng: _laid_out(rng, order(rng)), (tree,))
    for producer in PRODUCERS:
        keys = tuple(get_format(producer.format).metadata_types)
        for metadata in ((), keys):

            def whole(rng: random.Random, producer: Producer = producer) -> bytes:
                return producer.texts(rng, 1)[0]

            yield Case(producer.format, CHANGED, whole, producer.options, metadata)
        yield Case(producer.format, CHANGED_LOOSE, whole, producer.options)


CASES = list(_cases())


def batches(count: int) -> Iterator[tuple[int, list[bytes]]]:
    """So many messages in batches, each with the number of its case; three of four are changed."""
    for number in range(-(count // -BATCH)):
        rng = random.Random(number)
        case = number % len(CASES)
        whole = [CASES[case].whole(rng) for _ in range(BATCH)]
        yield case, [mutated(rng, message) if i % 4 else message for i, message in enumerate(whole)]


def main() -> None:
    from kvformat.codecs import KERNEL

    out = sys.stdout.buffer
    pickle.dump(KERNEL, out)
    for number, messages in batches(int(sys.argv[1])):
        case = CASES[number]
        batch = decoded(case.made(), messages, case.schema, metadata=case.metadata)
        pickle.dump((number, messages, answers(batch)), out)
        out.flush()


if __name__ == "__main__":
    main()
