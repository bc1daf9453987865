"""Random JSON documents for VARIANT, and random values.

The documents have all forms of numbers, keys in every order of UTF-16, and large and deep containers.
"""

from __future__ import annotations

import random

import pyarrow as pa

from kvformat.codecs.json.variant import read_variants, variant_texts

_MOST_OF_A_VALUE = 500
_KEYS = (
    *("a", "b", "id", "name", "", "key_1", "Key", "a_long_name_of_a_member", "a_long_name_of_another", "0", "-", " "),
    *("\u00e4", "\u4e2d\u6587", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0001f600", "\ue000\U00010000"),
    *("prefix__\uff5e", "prefix__\U0001f600", "prefix__", "prefix__a", "prefix__\x7f"),
)
_ESCAPED_KEYS = (r"\u0061", r"\n", r"\"", r"\\", r"\u0000", r"\ud83d\ude00", r"\/", r"a\u0000")
_STRINGS = (
    "",
    "x",
    "plain text",
    "\u00e4\u4e2d\U0001f600",
    r"\u00e9\t\"",
    r"\ud83d\ude00",
    "s" * 63,
    "s" * 64,
    "\u4e2d" * 22,
)
_NUMBERS = (
    *("0", "-0", "127", "128", "-128", "-129", "32767", "32768", "-32769", "2147483647", "2147483648", "-2147483649"),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809", "9" * 38, "9" * 39),
    *("0.0", "-0.0", "1.0", "0.10", "123456789.0", "0.123456789", "0.1234567891", "999999999", "99999999.9"),
    *("0." + "0" * 37 + "1", "0." + "0" * 38 + "1", "-" + "9" * 18 + ".1", "0." + "9" * 18, "1." + "0" * 19),
    *(
        "1e0",
        "1E5",
        "-2.5e-3",
        "1e22",
        "1e23",
        "9007199254740993e0",
        "1.7976931348623157e308",
        "1e400",
        "-1e400",
        "5e-324",
    ),
    *("1e-400", "0e0", "-0e-5", "123456789012345678.5e-10", "0.1e1", "1" * 60 + "." + "2" * 60),
)


def random_document(rng: random.Random) -> str:
    """Return a random document; of a hundred, one is large, and a few have an object with a repeated key."""
    size = rng.random()
    if size < 0.01:
        return _large(rng)
    return _value(rng, rng.choice((0, 1, 2, 3, 4)))


def random_variant(rng: random.Random) -> dict[str, bytes]:
    """Return the two parts of a value that does not change when it is written as JSON and read again."""
    while True:
        texts = pa.array([random_document(rng)])
        for _ in range(3):  # a double becomes a decimal, and a decimal without a fraction an integer
            values, problems = read_variants(texts)
            texts, _ = variant_texts(values)
        if not problems and values[0].is_valid and len(texts[0].as_py()) < _MOST_OF_A_VALUE:
            found: dict[str, bytes] = values[0].as_py()
            return found


def _value(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(7 if depth else 4)
    if kind == 0:
        return rng.choice(("true", "false", "null"))
    if kind == 1:
        return _number(rng)
    if kind in (2, 3):
        return f'"{_text(rng)}"'
    blank = rng.choice(("", "", " ", "\n\t"))
    count = rng.choice((0, 1, 2, 3, 5, 9))
    if kind == 4:
        return f"[{blank}{(',' + blank).join(_value(rng, depth - 1) for _ in range(count))}{blank}]"
    names = [_key(rng) for _ in range(count)]
    if rng.random() < 0.97:
        names = list(dict.fromkeys(names))
    members = (f'"{name}"{blank}:{blank}{_value(rng, depth - 1)}' for name in names)
    return f"{{{blank}{(blank + ',').join(members)}{blank}}}"


def _number(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(_NUMBERS)
    whole = str(rng.randrange(10 ** rng.randrange(1, 45)))
    fraction = "." + "".join(rng.choices("0123456789", k=rng.randrange(1, 45))) if rng.random() < 0.5 else ""
    exponent = f"e{rng.randrange(-340, 320)}" if rng.random() < 0.2 else ""
    return rng.choice(("", "-")) + whole + fraction + exponent


def _text(rng: random.Random) -> str:
    return rng.choice(_STRINGS) if rng.random() < 0.7 else rng.choice(("s", "\u00e9")) * rng.randrange(200)


def _key(rng: random.Random) -> str:
    chosen = rng.random()
    if chosen < 0.1:
        return rng.choice(_ESCAPED_KEYS)
    return f"{rng.choice(_KEYS)}{rng.randrange(30)}" if chosen < 0.3 else rng.choice(_KEYS)


def _large(rng: random.Random) -> str:
    """Return a document with ids, offsets or a number of elements of more than one byte."""
    count = rng.choice((254, 255, 256, 257, 300, 3000))
    kind = rng.randrange(4)
    if kind == 0:
        return f"[{','.join(_value(rng, 1) for _ in range(count))}]"
    if kind == 1:
        keys = [f"k{i}" for i in range(count)]
        rng.shuffle(keys)
        members = (f'"{key}":{_value(rng, 0)}' for key in keys)
        return f"{{{','.join(members)}}}"
    if kind == 2:
        return "[" * count + "]" * count
    text = "x" * rng.choice((250, 65_530, 65_536, 70_000))
    return f'{{"a":"{text}","b":{count}}}'
