"""Messages of csv, whole and changed at random; and what is read from them, for another process.

    python -m tests.codecs.csv.csv_mutation 20000     decodes so many messages, writes the answers to standard output

The messages follow from their count alone. The answers are pickles: the name of the kernel, then for each batch its
case's number, its messages and an `Answer` for each of them.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator

import pyarrow as pa

from kvformat.codecs import KERNEL
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema
from tests.support.decoding import Answer, answers, decoded

Options = dict[str, str]
BATCH = 100
"""Messages of a batch."""

ORDERS = (
    "id BIGINT, customer STRING, note STRING, price DOUBLE, amount DECIMAL(10, 2), at TIMESTAMP(3), paid BOOLEAN, "
    "tags ARRAY<STRING>, ship ROW<city STRING, zip INT, at TIMESTAMP_LTZ(3)>"
)
_MORE = (
    "i1 TINYINT, i2 SMALLINT, i INT, f FLOAT, d DATE, t TIME(3), b BYTES, z TIMESTAMP_LTZ(3), wide DECIMAL(38, 18), "
    "ns ARRAY<INT>, s CHAR(3)"
)
EVERYTHING = f"{ORDERS}, {_MORE}"
_TEXTS = ["", "plain", "with blank", "é ß 世界", 'quote " in it', "a, b", "😀", "x" * 70, "a\\b", "two\nlines", "NULL"]
_INTEGERS = ["0", "-7", "127", "007", " 5 ", "+5", "300", "40000", "9223372036854775807", "9223372036854775808", "1.0"]


def _order(rng: random.Random, elements: str) -> list[str]:
    """Texts for the columns of `EVERYTHING`; one value of ten is unusual, or wrong."""

    def usual(good: list[str], odd: list[str]) -> str:
        return rng.choice(odd if rng.random() < 0.1 else good)

    number = usual([str(rng.randrange(-(2**63), 2**63)), str(rng.randrange(100))], [*_INTEGERS, "", "x"])
    stamp = usual(
        ["2024-02-29 23:59:59.123", "1969-12-31 00:00:00", "2024-06-01 12:00:00.123456"],
        ["2024-02-30 00:00:00", "2024-02-29 24:00:00", " 2024-06-01 12:00:00 ", "2024-06-01T12:00:00", "", "NULL"],
    )
    price = usual(
        [repr(rng.random() * 1000), "1.5e300", "-0.0", "3", "1E-7"], ["NaN", "1e400", " 1.5 ", "1f", "0x1p3", ".", ""]
    )
    amount = usual(
        ["12.50", str(rng.randrange(10**8)), "-0.01", "1.5"], ["1.005", "1e2", "123456789.1", " 1", "", "1E+400", ".5"]
    )
    small = usual(["-128", "127", "5", "0"], _INTEGERS)
    zoned = usual(["2024-01-01 00:00:00Z", "2024-01-01 00:00:00.5Z"], [stamp, "2024-01-01 00:00:00ZZ"])
    return [
        number,
        f"c-{rng.randrange(10**6)}",
        rng.choice(_TEXTS),
        price,
        amount,
        stamp,
        usual(["true", "false"], ["TRUE", " true ", "yes", ""]),
        elements.join(rng.choice(["a", "b c", ""]) for _ in range(rng.randrange(4))),
        elements.join([rng.choice(["Ulm", ""]), small, zoned][: usual(["3"], ["2", "1", "0"]).count("3") * 3 or 2]),
        small,
        small,
        small,
        price,
        usual(["2024-02-29", "0001-01-01", "9999-12-31"], ["2024-2-9", "2023-02-29", "", "1582-10-10"]),
        usual(["10:11:12", "10:11:12.345", "00:00"], ["24:00:00", "10:11:12.", "1:2:3", "10:11:12.123456789"]),
        usual(["AAH/", "", "YQ=="], ["YQ=", "YWJj YQ==", "!"]),
        zoned,
        usual(["1", "0.123456789012345678", "-12345678901234567.25"], ["1e-18", "0.0000000000000000005", "1e25"]),
        elements.join(rng.choice(["1", " 2", "-3"]) for _ in range(rng.randrange(4))),
        rng.choice(["abc", "abcdef"]),
    ]


def _written(rng: random.Random, columns: list[str], options: Options, more_quotes: float) -> str:
    delimiter = options.get("field-delimiter", ",").replace("\\t", "\t")
    quote = None if "disable-quote-character" in options else options.get("quote-character", '"')
    escape = options.get("escape-character")
    texts = []
    for column in columns:
        needed = any(c in column for c in (delimiter, "\n", *filter(None, (quote, escape))))
        if quote is not None and (needed or rng.random() < more_quotes):
            if escape is not None and rng.random() < 0.5:
                column = column.replace(escape, escape * 2).replace(quote, escape + quote)
            else:
                column = column.replace(escape, escape * 2) if escape else column
                column = column.replace(quote, quote * 2)
            column = quote + column + quote + rng.choice(["", "", "", " "])
        texts.append(column)
    return delimiter.join(texts) + rng.choice(["", "", "", "\n", "\r\n"])


def orders(rng: random.Random, count: int, schema: str, options: Options) -> list[bytes]:
    """Ordinary messages of several producers, with a few unusual and wrong values."""
    width = len(parse_schema(schema).fields)
    found = []
    for _ in range(count):
        columns = _order(rng, options.get("array-element-delimiter", ";"))[:width]
        found.append(_written(rng, columns, options, rng.choice([0, 0, 0.3, 1])).encode())
    return found


def mutated(rng: random.Random, message: bytes) -> bytes:
    """Return a message with one or two random changes."""
    data = bytearray(message)
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(len(data) or 1)
        kind = rng.randrange(4)
        if kind == 0:
            data[place : place + 1] = bytes([rng.choice(b"\"\\',;|# \n\r\t0-+.eZ:\x00\x1f\x7f\x80\xc3\xed\xef\xff")])
        elif kind == 1:
            del data[place : place + 1]
        elif kind == 2:
            data.insert(place, rng.choice(b"\"\\',;| \n\r01-"))
        else:
            del data[place:]
    return bytes(data)


CASES: tuple[Options, ...] = (
    {},
    {"ignore-parse-errors": "true"},
    {"null-literal": "", "allow-comments": "true"},
    {"null-literal": "NULL", "ignore-parse-errors": "true", "array-element-delimiter": "|"},
    {"escape-character": "\\", "empty-string-as-null": "true"},
    {"trim-spaces": "true", "null-literal": "NULL"},
    {"trim-spaces": "true", "escape-character": "^", "ignore-parse-errors": "true"},
    {"field-delimiter": "\t", "quote-character": "'", "escape-character": "\\"},
    {"field-delimiter": ";", "disable-quote-character": "true", "array-element-delimiter": ","},
    {"field-delimiter": "é", "quote-character": "世", "escape-character": "ß", "array-element-delimiter": "価"},
    {"ignore-trailing-unmappable": "true", "fail-on-missing-columns": "true", "null-literal": ""},
    {"allow-trailing-comma": "false", "escape-character": '"', "null-literal": "NULL"},
    {"field-delimiter": " ", "escape-character": " ", "trim-spaces": "true"},
)
"""The options of the messages."""
_ALPHABET = ',,""aab \\\n\r\'1;#é世ß\t'
_TEXT = "x STRING, y STRING"
_ENCODINGS = ("utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32-be", "utf-8-sig")


def small(rng: random.Random) -> bytes:
    """A few characters, mostly special ones."""
    return "".join(rng.choice(_ALPHABET) for _ in range(rng.randrange(9))).encode()


def batches(count: int) -> Iterator[tuple[int, list[bytes], list[Answer]]]:
    """At least so many messages: the number of the case, messages and their answers."""
    rng, done = random.Random(20260101), 0
    while done < count:
        for number, options in enumerate(CASES):
            format = get_format("csv", options)
            schema = rng.choice([ORDERS, EVERYTHING, "id BIGINT, s STRING", _TEXT])
            messages = small_batch(rng) if schema == _TEXT else orders(rng, BATCH, schema, options)
            messages = [mutated(rng, message) if rng.random() < 0.5 else message for message in messages]
            if rng.random() < 0.1:
                encoding = rng.choice(_ENCODINGS)
                messages = [message.decode("utf-8", "replace").encode(encoding) for message in messages]
                messages = [mutated(rng, message) if rng.random() < 0.3 else message for message in messages]
            yield number, messages, answers(decoded(format, pa.array(messages, pa.binary()), schema))
            done += len(messages)
            if done >= count:
                return


def small_batch(rng: random.Random) -> list[bytes]:
    """Messages of a few characters."""
    return [small(rng) for _ in range(BATCH)]


if __name__ == "__main__":
    pickle.dump(KERNEL, sys.stdout.buffer)
    for batch in batches(int(sys.argv[1])):
        pickle.dump(batch, sys.stdout.buffer)
