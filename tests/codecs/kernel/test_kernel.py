"""The kernel that reads JSON: compiled and as it stands, on messages changed at random, and on ones made to hurt."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvformat.codecs import KERNEL, _kernel
from kvformat.codecs._kernel import memory, message_metadata
from kvformat.codecs._kernel.columns import Column
from kvformat.codecs._kernel.memory import Bytes, Hashes
from kvformat.codecs._kernel.reader import Reader
from kvformat.codecs.json.settings import ReadSettings
from kvformat.codecs.json.types import JsonSchema
from kvformat.registry import Format, get_format
from kvformat.registry.contract.ddl import parse_schema, parse_type
from kvformat.registry.contract.types import FlinkField, FlinkType, nullable
from tests.support import cost, json_mutation, vectors
from tests.support.decoding import Answer, alone, answers, decoded, is_json
from tests.support.extent import case_count

_ROOT = Path(__file__).parents[3]
MUTATIONS = case_count("KVFORMAT_MUTATIONS", quick=6_000, night=20_000)
"""How many messages both kernels read; more for a night."""

_unsanitized = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="sanitizers take memory and time beyond what is allowed here"
)


def _environment(kernel: str) -> dict[str, str]:
    return {**os.environ, "KVFORMAT_KERNEL": kernel}


def _needs_a_compiled_kernel() -> None:
    code = "from kvformat.codecs import KERNEL; print(KERNEL)"
    tried = subprocess.run(
        [sys.executable, "-c", code],
        cwd=_ROOT,
        env=_environment("compiled"),
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode and "KVFORMAT_KERNEL=compiled" in tried.stderr:
        pytest.skip(f"no compiled kernel: {tried.stderr.strip().splitlines()[-1]}")
    assert tried.stdout == "compiled\n", tried.stderr


# --- compiled equals source -----------------------------------------------------------------------------


@contextlib.contextmanager
def _reading(kernel: str) -> Iterator[Any]:
    """The answers of a process with that kernel, as it gives them."""
    command = [sys.executable, "-m", "tests.support.json_mutation", str(MUTATIONS)]
    with subprocess.Popen(command, cwd=_ROOT, env=_environment(kernel), stdout=subprocess.PIPE) as process:
        yield process.stdout
        assert process.wait() == 0


def test_both_kernels_give_the_same_rows_kinds_and_errors() -> None:
    _needs_a_compiled_kernel()
    good: dict[int, int] = dict.fromkeys(range(len(json_mutation.CASES)), 0)
    bad = dict(good)
    with _reading("compiled") as compiled, _reading("python") as source:
        assert (pickle.load(compiled), pickle.load(source)) == ("compiled", "python")
        for _ in range(-(MUTATIONS // -json_mutation.BATCH)):
            case, messages, answer = pickle.load(compiled)
            *same, wanted = pickle.load(source)
            assert same == [case, messages]
            for message, one, other in zip(messages, answer, wanted, strict=True):
                assert one == other, f"{json_mutation.CASES[case]}: {message!r}"
                good[case] += one.error is None
                bad[case] += one.error is not None
    compared = sum(good.values()) + sum(bad.values())
    assert compared >= MUTATIONS
    if compared >= 6_000:  # fewer are only of the first cases
        assert sum(good.values()) > 0.4 * compared
        assert sum(bad.values()) > 0.25 * compared
    if compared >= 100 * len(json_mutation.CASES):
        lenient = [i for i, case in enumerate(json_mutation.CASES) if ("ignore-parse-errors", "true") in case.options]
        # metadata with a limit on its size may be an error even then, but not of messages like these
        assert all((bad[i] == 0) == (i in lenient) for i in bad), bad
        assert all(good.values())


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("json", b'{"a":1}'),
        ("csv", b"1"),
        ("avro", b"\2"),
        ("maxwell-json", b'{"database":"d","table":"t","type":"insert","data":{"a":1}}'),
    ],
)
def test_the_messages_of_a_reader_count_for_the_warning_of_an_uncompiled_kernel(
    monkeypatch: pytest.MonkeyPatch, format: str, message: bytes
) -> None:
    for name, value in {"COMPILED": False, "_ASKED": "", "_read": 0}.items():
        monkeypatch.setattr(_kernel, name, value)
    assert get_format(format).decode_batch(pa.array([message] * 3), "a INT NOT NULL").errors is None
    assert _kernel._read == 3


# --- neighbours -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(json_mutation.CASES)), ids=lambda n: str(json_mutation.CASES[n]))
def test_a_message_does_not_change_its_neighbours(number: int) -> None:
    """Each changed message between good ones, in one batch and alone."""
    case, format = json_mutation.CASES[number], json_mutation.CASES[number].made()
    rng = random.Random(number)
    good = [message for message in _good(case) if alone(format, [message], case.schema)[0].rows not in (None, "[]")]
    changed = [json_mutation.mutated(rng, case.whole(rng)) for _ in range(case_count(quick=50, night=150))]
    assert len(good) > 9
    together: list[bytes] = []
    for message in changed:
        together += [rng.choice(good), message]
    together.append(good[0])
    got = answers(decoded(format, together, case.schema, metadata=case.metadata))
    known: dict[bytes, Answer] = {}
    for message, answer in zip(together, got, strict=True):
        if message not in known:
            (known[message],) = alone(format, [message], case.schema, metadata=case.metadata)
        assert answer == known[message], message
    if not format.options["ignore-parse-errors"]:
        assert len(changed) // 8 < sum(answer.error is not None for answer in got[1::2]) <= len(changed)


def _good(case: json_mutation.Case) -> list[bytes]:
    """Messages that are mostly good: rows with all columns where they must have them."""
    rng = random.Random(case.schema)
    if ("fail-on-missing-field", "true") not in case.options:
        return [case.whole(rng) for _ in range(150)]
    names = [field.name for field in parse_schema(case.schema).fields]
    return [json.dumps(dict.fromkeys(names) | {names[0]: n}).encode() for n in range(60)]


@pytest.mark.parametrize("seed", range(4))
def test_a_character_that_two_messages_share_is_an_error_of_both(seed: int) -> None:
    """Messages that are UTF-8 together are not for that UTF-8 each; nulls among them have bytes, too."""
    rng, format = random.Random(seed), get_format("json", {"ignore-parse-errors": "false"})
    good, cut = '{"a":"é価😀"}'.encode(), '{"a":"é"}'.encode()
    messages: list[bytes] = []
    while len(messages) < 400:
        place = rng.choice((6, 7, 7, 8))  # the character is the bytes 6 and 7
        messages += rng.choice(([cut[:place], cut[place:]], [good], [good[:9] + b"\xff" + good[9:]], [b"\xe9" + good]))
    whole = pa.array(messages, pa.binary())
    valid = pa.array(rng.random() < 0.9 for _ in messages)
    with_nulls = pa.Array.from_buffers(pa.binary(), len(messages), [valid.buffers()[1], *whole.buffers()[1:]])
    expected = [alone(format, [message], "a STRING")[0] for message in messages]
    assert 100 < sum(answer.error is not None for answer in expected) < 380
    for batch in (whole, with_nulls, with_nulls.slice(33)):
        got = answers(format.decode_batch(batch, "a STRING"))
        for message, answer, known in zip(batch, got, expected[-len(batch) :], strict=True):
            assert not message.is_valid or answer == known, message


_SOURCES = (
    '{"version":"2.7.3","ts_ms":%d,"snapshot":"false","sequence":null,"pos":%d,"thread":-7.5e1,"query":null}',
    '{"ts_ms":%d, "of" : [true, false, {"a\\"b":{}, "pos": %d}, []], "text" : "a\\u00e9\\\\",\n "n": [0]}',
)
_ENVELOPES = {
    "debezium-json": '{"before":null,"source":%s,"after":{"a":1},"op":"c","transaction":%s}',
    "canal-json": '{"data":[{"a":1}],"mysqlType":%s,"type":"INSERT","sqlType":%s}',
    "maxwell-json": '{"data":{"a":1},"type":"insert","more":%s,"ts":1,"other":%s}',
    "ogg-json": '{"after":{"a":1},"more":%s,"op_type":"I","other":%s}',
}


@pytest.mark.parametrize("format", _ENVELOPES)
def test_what_is_like_the_message_before_is_read_as_if_it_were_not(format: str) -> None:
    """Members beside the rows, mostly with other numbers, some changed or cut off: in a batch and alone."""
    rng, made = random.Random(format), get_format(format)
    messages: list[bytes] = []
    for number in range(1200):
        usual = number // 200 % 2
        texts = [(source % (rng.choice([5, 17, 4711]), number)).encode() for source in _SOURCES]
        first = texts[usual if rng.random() < 0.9 else 1 - usual]
        if rng.random() < 0.5:
            first = json_mutation.mutated(rng, first, 1)
        message = _ENVELOPES[format].encode() % (first, rng.choice([texts[0], b"null", texts[1]]))
        messages.append(message[: rng.randrange(len(message))] if rng.random() < 0.1 else message)
    deep = "[" * 998 + "]" * 998
    deepest = (_ENVELOPES[format] % (deep, "[" + deep + "]")).encode()
    messages += [deepest, b"[" + deepest + b"]", deepest, deepest[:-1], deepest]
    got = answers(decoded(made, messages, "a INT"))
    for answer, message, wanted in zip(got, messages, alone(made, messages, "a INT"), strict=True):
        assert answer == wanted, message
    bad = sum(answer.error is not None for answer in got)
    assert bad > 300
    assert len(got) - bad > 600
    assert [answer.error is None for answer in got[-5:]] == [True, False, True, False, True]


@pytest.mark.parametrize("format", _ENVELOPES)
def test_one_other_byte_than_in_the_message_before_is_seen(format: str) -> None:
    """A change of each byte of an object beside the rows is seen: it is left out, replaced, or has another before it.

    A text that is not JSON then is an error, after the message that it is like, and where that was in the batch before.
    """
    made, envelope = get_format(format), _ENVELOPES[format] % ("%s", "null")
    texts = ['{"a":17,"b":"x\\"y","c":[true,null],"d":{},"e":-1.5}', '{"a":4,"b":"x","c":[17,"z"],"d":{},"e":0}']
    usual = (envelope % texts[0]).encode()
    compared, bad, step = 0, 0, case_count(quick=3, night=1)
    for text in texts:
        for place in range(len(text) % step, len(text), step):
            edits = ("", *',:{}[]"\\ 0-1.e')
            others = {text[:place] + edit + text[place + rest :] for edit in edits for rest in (0, 1)}
            for message in sorted((envelope % other).encode() for other in others):
                good = is_json(message)
                behind = answers(decoded(made, [usual, message, usual], "a INT"))
                assert [answer.error is None for answer in behind] == [True, good, True], message
                decoded(made, [usual], "a INT")  # now other bytes are where these were
                (first,) = answers(decoded(made, [message], "a INT"))
                assert first == behind[1], message
                compared += 1
                bad += not good
    assert compared * step > 2000
    assert 1500 < bad * step < (compared - 60) * step


# --- slices of batches ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(0, len(json_mutation.CASES), 3), ids=lambda n: str(json_mutation.CASES[n]))
def test_slices_of_batches_with_nulls_and_empty_messages(number: int) -> None:
    case, format = json_mutation.CASES[number], json_mutation.CASES[number].made()
    rng = random.Random(number)
    messages: list[bytes | None] = [json_mutation.mutated(rng, case.whole(rng)) for _ in range(30)]
    messages += [case.whole(rng) for _ in range(30)] + [None, b"", b" "] * 5
    rng.shuffle(messages)
    whole = pa.array(messages, pa.binary())
    wanted = answers(decoded(format, whole, case.schema, metadata=case.metadata))
    assert wanted == alone(format, messages, case.schema, metadata=case.metadata)
    assert [answer for answer, message in zip(wanted, messages, strict=True) if message is None] == [
        Answer(None, (), None)
    ] * 5
    for start, count in ((0, 0), (75, 0), (0, 1), (7, 1), (1, 74), (8, 9), (13, 40), (74, 1)):
        part = whole.slice(start, count)
        assert answers(decoded(format, part, case.schema, metadata=case.metadata)) == wanted[start : start + count]
    without_nulls = pa.array([message for message in messages if message is not None], pa.binary())
    assert without_nulls.slice(3).buffers()[0] is None
    got = answers(decoded(format, without_nulls.slice(3), case.schema, metadata=case.metadata))
    assert got == [answer for answer, message in zip(wanted, messages, strict=True) if message is not None][3:]


@pytest.mark.parametrize("format", ["json", "debezium-json", "canal-json", "maxwell-json", "ogg-json"])
@pytest.mark.parametrize("messages", [[], [None], [b""], [None] * 9, [b""] * 9, [b" \n"]], ids=str)
def test_batches_without_anything_in_them(format: str, messages: list[bytes | None]) -> None:
    made = get_format(format)
    array = pa.array(messages, pa.binary())
    schema = "a INT, b STRING, c ARRAY<ROW<d MAP<STRING, DECIMAL(9, 2)>>>"
    batch = decoded(made, array, schema, metadata=tuple(made.metadata_types))
    assert len(batch.rows.values) == 0
    assert batch.rows.values.type.num_fields == 3 + len(made.metadata_types)
    assert answers(decoded(made, pa.array([b"x", *messages], pa.binary()).slice(1), schema)) == answers(
        decoded(made, array, schema)
    )


# --- messages made to hurt ------------------------------------------------------------------------------

_NESTED = "INT"
for _ in range(30):
    _NESTED = f"ROW<a {_NESTED}>"
_MANY = 100_000
_NAMES = [f"n{number:05}" for number in range(_MANY)]
_LEVELS = "not JSON: more than 1000 levels"
_DIGITS = "not JSON: a number of more than 1000 digits"
_NUMERIC = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "INTERVAL YEAR TO MONTH",
    "INTERVAL DAY TO SECOND",
    "DECIMAL(38, 9)",
)


def _value(text: str) -> bytes:
    return b'{"a":%s,"z":1}' % text.encode()


def _arrays(levels: int, inside: str = "") -> str:
    return "[" * levels + inside + "]" * levels


def _objects(levels: int, inside: str) -> str:
    return '{"a":' * levels + inside + "}" * levels


def _braced(members: str) -> str:
    return "{" + members + "}"


def _same_width() -> str:
    """Names of one width with the same first and last letters: what a lookup may look at first."""
    return "{" + ",".join(f'"n{number:05}n":{number}' for number in range(_MANY)) + "}"


class Anything:
    """Equal to any row: what is asked is only whether it is there."""

    def __eq__(self, other: object) -> bool:
        return other is not None

    __hash__ = None  # type: ignore[assignment]


def _bombs() -> Iterator[tuple[str, str, bytes, Any]]:
    """Name, type of the column `a`, message, and what comes of it: the column's value or an error, `re.Pattern`."""
    levels, digits = re.compile(_LEVELS), re.compile(_DIGITS)
    for kind in ("INT", "STRING", "ARRAY<STRING>", "MAP<STRING, STRING>", _NESTED):
        short = kind[:12]
        yield f"a megabyte of [ / {short}", kind, b"[" * 2**20, re.compile("levels|cannot read")
        yield f"a megabyte of [ in a member / {short}", kind, b'{"a":' + b"[" * 2**20, re.compile("levels|cannot read")
        yield f"a megabyte of names / {short}", kind, b'{"a":' * (2**20 // 5), levels
        yield f"a megabyte of other names / {short}", kind, b'{"b":' * (2**20 // 5), levels
        yield f"a number of 1001 digits / {short}", kind, _value("9" * 1001), re.compile(f"{_DIGITS}|cannot read")
        yield f"a megabyte of digits / {short}", kind, _value("9" * 2**20), re.compile(f"{_DIGITS}|cannot read")
        yield f"a skipped number of 1001 digits / {short}", kind, b'{"x":' + b"9" * 1001 + b"}", digits
        yield f"a skipped megabyte of digits / {short}", kind, b'{"x":0.' + b"9" * 2**20 + b"}", digits
        yield f"999 skipped levels / {short}", kind, b'{"x":%s}' % _arrays(999).encode(), None
        yield f"1000 skipped levels / {short}", kind, b'{"x":%s}' % _arrays(1000).encode(), levels
        yield f"999 skipped objects / {short}", kind, b'{"x":%s}' % _objects(999, "1").encode(), None
        yield f"1000 skipped objects / {short}", kind, b'{"x":%s}' % _objects(1000, "1").encode(), levels
        yield f"many skipped members / {short}", kind, b'{"x":%s}' % _same_width().encode(), None
    yield "1000 digits", "STRING", _value("9" * 1000), "9" * 1000
    yield (
        "ten megabytes of escapes",
        "STRING",
        _value('"' + "\\u0041" * (10 * 2**20 // 6) + '"'),
        "A" * (10 * 2**20 // 6),
    )
    yield "escapes, skipped", "INT", b'{"x":"' + b"\\u0041" * (10 * 2**20 // 6) + b'"}', None
    yield "escapes, no number", "INT", _value('"' + "\\u0041" * (10 * 2**20 // 6) + '"'), re.compile('cannot read "AAA')
    yield "a name of escapes", "INT", b'{"' + b"\\u0061" * 10**6 + b'":1,"\\u0061":7}', 7
    yield "999 levels of text", "STRING", _value(_arrays(999)), _arrays(999)
    yield "1000 levels of text", "STRING", _value(_arrays(1000)), levels
    yield "998 levels of text in an array", "ARRAY<STRING>", _value(f"[{_arrays(998)}]"), [_arrays(998)]
    yield "999 levels of text in an array", "ARRAY<STRING>", _value(f"[{_arrays(999)}]"), levels
    nested: Any = 5
    for _ in range(30):
        nested = {"a": nested}
    yield "30 typed levels", _NESTED, _value(_objects(30, "5")), nested
    yield (
        "999 levels, 31 of them typed",
        _NESTED,
        _value(_objects(30, _arrays(969))),
        re.compile("cannot read an array"),
    )
    yield "1000 levels, 31 of them typed", _NESTED, _value(_objects(30, _arrays(970))), re.compile("levels|cannot read")
    last = f'"x":{_arrays(969)}'
    yield "999 levels beside typed ones", _NESTED, _value(_objects(29, "{" + last + "}")), Anything()
    yield "1000 levels beside typed ones", _NESTED, _value(_objects(29, "{" + last.replace("[]", "[[]]") + "}")), levels

    yield "a name again and again", "BIGINT", b"{" + b'"a":1,' * _MANY + b'"a":2}', 2
    yield "texts of a name", "STRING", b"{" + b'"a":"some text",' * _MANY + b'"a":"b"}', "b"
    yield "rows of a name", "ROW<b STRING>", b"{" + b'"a":{"b":"c","b":null},' * _MANY + b'"a":{"b":"d"}}', {"b": "d"}
    members = ",".join(f'"{name}":{number}' for number, name in enumerate(_NAMES))
    again = ",".join(f'"{name}":{number}' for number, name in enumerate(_NAMES[: _MANY // 2] * 2))
    kept = ",".join(f'"{name}":{number + _MANY // 2}' for number, name in enumerate(_NAMES[: _MANY // 2]))
    same = ",".join(f'"k":{number}' for number in range(_MANY))
    pairs = [(name, number) for number, name in enumerate(_NAMES)]
    yield "an object as text", "STRING", _value(_braced(members)), _braced(members)
    yield "an object of repeated names as text", "STRING", _value(_braced(again)), _braced(kept)
    yield "an object of one name as text", "STRING", _value(_braced(same)), f'{{"k":{_MANY - 1}}}'
    yield "a map", "MAP<STRING, INT>", _value(_braced(members)), pairs
    yield (
        "a map of repeated names",
        "MAP<STRING, INT>",
        _value(_braced(again)),
        [(name, number + _MANY // 2) for number, name in enumerate(_NAMES[: _MANY // 2])],
    )
    yield "a map of one name", "MAP<STRING, INT>", _value(_braced(same)), [("k", _MANY - 1)]
    yield "a multiset of one name", "MULTISET<STRING>", _value(_braced(same)), [("k", _MANY - 1)]
    yield "names of one width", "MAP<STRING, INT>", _value(_same_width()), [(f"n{n:05}n", n) for n in range(_MANY)]
    yield "a false object", "BOOLEAN", b'{"a":{%s}}' % members.encode(), False
    yield (
        "objects in an array",
        "ARRAY<ROW<b INT>>",
        _value("[" + "{}," * _MANY + "null]"),
        [{"b": None}] * _MANY + [None],
    )
    yield "elements", "ARRAY<INT>", _value("[" + "1," * (_MANY * 5) + "null]"), [1] * (_MANY * 5) + [None]
    yield "a text of many digits", "DECIMAL(38, 0)", _value('"' + "9" * 2**20 + '"'), None
    yield "blanks", "INT", b'{"a"' + b" " * 2**20 + b":" + b"\n" * 2**20 + b"7" + b"\t" * 2**20 + b"}", 7

    refused = re.compile("cannot read 1e999999999 as")
    for kind in _NUMERIC:
        yield f"a huge exponent / {kind}", kind, _value("1e999999999"), refused
        yield f"a huge exponent in quotes / {kind}", kind, _value('"1e999999999"'), re.compile("cannot read|^None$")
    for kind in ("FLOAT", "DOUBLE"):
        yield f"a huge exponent / {kind}", kind, _value("1e999999999"), float("inf")
        yield f"a huge negative number / {kind}", kind, _value("-1e999999999"), float("-inf")
        yield f"a tiny number / {kind}", kind, _value("1e-999999999"), 0.0
    yield "a huge exponent / STRING", "STRING", _value("1e999999999"), "1e999999999"
    for kind in ("INT", "BIGINT", "INTERVAL YEAR TO MONTH"):
        yield f"a tiny number / {kind}", kind, _value("1e-999999999"), 0


_BOMBS = {name: (kind, message, wanted) for name, kind, message, wanted in _bombs()}
_PATIENCE = 50_000
"""Bytes of a message that the source reads, too."""
_GOOD = b'{"a":null,"z":9}'


def _is_as_wanted(answer: Any, error: str | None, wanted: Any) -> bool:
    if isinstance(wanted, re.Pattern):
        return wanted.search(str(error if error is not None else answer)) is not None
    return error is None and bool(wanted == answer)


@pytest.mark.parametrize("name", _BOMBS)
def test_hostile_messages_get_the_right_answer(name: str) -> None:
    kind, message, wanted = _BOMBS[name]
    if KERNEL == "python" and len(message) > _PATIENCE:
        pytest.skip("the source takes its time")
    schema = f"a {kind}, z INT"
    with cost.at_most(30):
        batches = [
            get_format("json", options).decode_batch(pa.array([_GOOD, message, _GOOD], pa.binary()), schema)
            for options in ({}, {"decode.json-parser.enabled": "false"}, {"ignore-parse-errors": "true"})
        ]
    for batch, is_lenient in zip(batches, (False, False, True), strict=True):
        batch.rows.validate(full=True)
        errors = batch.errors.to_pylist() if batch.errors is not None else [None] * 3
        assert (errors[0], errors[2]) == (None, None)
        assert all(error is None or len(error) < 300 for error in errors)
        assert batch.rows[0].as_py() == batch.rows[2].as_py() == [{"a": None, "z": 9}]
        assert not is_lenient or batch.errors is None
        if not is_lenient and (batch is batches[0] or "STRING" not in kind or "exponent" not in name):
            (answer,) = (batch.rows[1].values.field("a") if batch.rows[1].is_valid else pa.nulls(1)).to_pylist()
            assert _is_as_wanted(answer, errors[1], wanted), (str(answer)[:200], errors[1])


@pytest.mark.parametrize("format", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_hostile_rows_of_change_messages_cost_little_time(format: str) -> None:
    around = {
        "debezium-json": b'{"before":null,"after":%s,"op":"c"}',
        "ogg-json": b'{"before":null,"after":%s,"op_type":"I"}',
        "maxwell-json": b'{"data":%s,"type":"insert"}',
        "canal-json": b'{"data":[%s],"type":"INSERT"}',
    }[format]
    for kind, message, _ in _BOMBS.values():
        if KERNEL == "python" and len(message) > _PATIENCE:
            continue
        array = pa.array([around % row for row in (_GOOD, message, _GOOD)], pa.binary())
        with cost.at_most(20):
            batch = get_format(format).decode_batch(array, f"a {kind}, z INT")
        assert batch.errors is None or (batch.errors[0].as_py(), batch.errors[2].as_py()) == (None, None)
        assert batch.rows[0].as_py() == batch.rows[2].as_py() == [{"a": None, "z": 9}]
        batch.rows.validate(full=True)


# --- bugs that were found -------------------------------------------------------------------------------


@pytest.mark.parametrize("message", ["[世]", "[\ufeff{}]", "[x]", "[1e]", "[tru]", '["a]', "[", '[{"a":1},x]', "[NaN]"])
def test_an_array_of_what_is_no_value_is_not_json(message: str) -> None:
    for options in ({}, {"decode.json-parser.enabled": "false"}):
        answer = alone(get_format("json", options), [message.encode()], "a INT")[0]
        assert answer.error is not None
        assert answer.error.startswith("not JSON: "), answer.error


@pytest.mark.parametrize("before", range(12))
def test_a_fault_beside_a_character_of_several_bytes_is_an_error_of_the_message(before: int) -> None:
    messages = [f'{{"a":{constant}{"x" * before}é"}}'.encode() for constant in ("N", "I", "NaN", "Infinity")]
    number = '{"a":1e99999999999,"b":"' + "x" * (2000 - 20 - before)
    messages += [f'{number}é"}}'.encode(), f'{number}世"}}'.encode()]
    for answer in alone(get_format("json", {"decode.json-parser.enabled": "false"}), messages, "a DECIMAL(5, 2)"):
        assert answer.error is not None
        assert answer.error.startswith("not JSON: "), answer.error


@pytest.mark.parametrize("levels", [997, 998, 999])
def test_an_operation_of_many_levels_is_an_error_of_the_message(levels: int) -> None:
    message = b'{"after":{"id":1},"op":' + b"[" * levels + b"]" * levels + b"}"
    answer = alone(get_format("debezium-json"), [message], "id INT")[0]
    assert answer.error is not None
    assert alone(get_format("debezium-json", {"ignore-parse-errors": "true"}), [message], "id INT")[0].error is None


# --- metadata is written once ---------------------------------------------------------------------------

_ONCE = """
import contextlib, json, resource, sys
import pyarrow as pa
from kvformat.registry import get_format

# a limit, so that a test that fails does not take the machine with it
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
resident = 0
table, names, rows = (int(argument) for argument in sys.argv[1:4])
key = sys.argv[4]
good = b'{"data":[{"id":7}],"type":"INSERT","table":"t","pkNames":["id"]}'
value = {"table": "t" * table, "pkNames": [""] * names}
bad = b'{"data":[' + b",".join([b"{}"] * rows) + b'],"type":"INSERT",' + json.dumps(value).encode()[1:]
format = get_format("canal-json")
batch = format.decode_batch(pa.array([good, bad, good], pa.binary()), "id INT", metadata=[key])
batch.rows.validate(full=True)
with contextlib.suppress(OSError), open("/proc/self/status") as status:  # what getrusage says is the parent's, too
    resident = 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({
    "size": len(bad),
    "errors": batch.errors.to_pylist() if batch.errors is not None else None,
    "first": repr(batch.rows[0].as_py()),
    "last": repr(batch.rows[2].as_py()),
    "rows": len(batch.rows[1].values) if batch.rows[1].is_valid else None,
    "different": len(set(map(str, batch.rows[1].values.field(1).to_pylist()))) if batch.rows[1].is_valid else None,
    "longest": max(len(text) for text in batch.rows.values.field(1).to_pylist()),
    "peak": pa.default_memory_pool().max_memory(),
    "resident": resident,
}))
"""


def _once(table: int, names: int, rows: int, key: str) -> Any:
    arguments = [sys.executable, "-c", textwrap.dedent(_ONCE), *map(str, (table, names, rows)), key]
    process = subprocess.run(arguments, cwd=_ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout)


@_unsanitized
def test_long_metadata_of_many_rows_is_an_error_of_the_message() -> None:
    found = _once(300_000, 0, 40_000, "table")
    assert 400_000 < found["size"] < 450_000
    assert found["errors"][0] is found["errors"][2] is None
    assert re.search(r"metadata of this message has 300\d\d\d bytes, and each of its 40000 rows", found["errors"][1])
    assert found["first"] == found["last"] == "[{'id': 7, 'table': 't'}]"
    assert found["rows"] is None
    assert max(found["peak"], found["resident"]) < 400 * 2**20, found


@_unsanitized
def test_metadata_of_a_message_beyond_the_limit_is_an_error_where_the_batch_has_room() -> None:
    """300 MB, of which a batch may have 2 GB."""
    found = _once(30_000, 0, 10_000, "table")
    assert found["errors"][0] is found["errors"][2] is None
    assert "each of its 10000 rows" in found["errors"][1]


@_unsanitized
def test_short_metadata_of_many_rows_is_in_each_of_them() -> None:
    found = _once(3, 0, 40_000, "table")
    assert (found["errors"], found["rows"], found["different"], found["longest"]) == (None, 40_000, 1, 3)
    assert max(found["peak"], found["resident"]) < 400 * 2**20, found


@_unsanitized
def test_metadata_of_many_elements_of_many_rows_is_an_error_of_the_message() -> None:
    found = _once(1, 20_000, 40_000, "pk-names")
    assert found["errors"][0] is found["errors"][2] is None
    assert "40000 rows" in found["errors"][1]
    assert max(found["peak"], found["resident"]) < 400 * 2**20, found


def test_the_metadata_of_a_batch_is_limited_message_by_message() -> None:
    """Each has less than a message may have; together they would have more than Arrow's offsets reach."""
    rows, name = 2_500, 100_000
    message = b'{"data":[' + b",".join([b"{}"] * rows) + b'],"type":"INSERT","table":"' + b"t" * name + b'"}'
    for count in (1, 2):
        batch = decoded(get_format("canal-json"), [message] * count, "id INT", metadata=["table"])
        assert batch.errors is None
        assert len(batch.rows.values) == rows * count


# --- columns are equally long ---------------------------------------------------------------------------

_MEMBERS = (
    *('"x":1', '"x":null', '"x":"bad"', '"x":[]', '"y":"t"', '"y":{"a":1}', '"y":null', '"w":5', '"w":[{}]'),
    *('"n":{"x":1}', '"n":{"x":1,"x":2}', '"n":{}', '"n":null', '"n":5', '"n":{"x":"bad","y":"t"}', '"n":{"l":[{}]}'),
    *(
        '"l":[]',
        '"l":[{"x":1},{"x":2,"x":3},{},null]',
        '"l":[{"x":"bad"}]',
        '"l":[5,{"x":1}]',
        '"l":{"x":1}',
        '"l":null',
    ),
    *('"m":{}', '"m":{"k":{"x":1}}', '"m":{"k":{"x":1},"k":{"x":2},"j":{}}', '"m":{"k":5}', '"m":{"k":{"x":"bad"}}'),
    *('"m":[]', '"\\u0078":7', '"\\u006e":{"\\u0078":8}'),
)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ignore-parse-errors": "true"},
        {"decode.json-parser.enabled": "false"},
        {"decode.json-parser.enabled": "false", "ignore-parse-errors": "true"},
        {"fail-on-missing-field": "true"},
    ],
    ids=str,
)
def test_columns_are_equally_long_whatever_is_repeated_missing_or_bad(options: dict[str, str]) -> None:
    rng = random.Random(str(options))
    inner = "x INT, y STRING, l ARRAY<ROW<x INT, y STRING>>"
    schema = f"x INT, y STRING, n ROW<{inner}>, l ARRAY<ROW<x INT, n ROW<x INT>>>, m MAP<STRING, ROW<x INT, y STRING>>"
    messages = []
    for _ in range(case_count(quick=1000, night=3000)):
        objects = [
            "{" + ",".join(rng.choices(_MEMBERS, k=rng.randrange(9))) + "}" for _ in range(rng.choice([1, 1, 3]))
        ]
        messages.append((objects[0] if len(objects) == 1 else f"[{','.join(objects)}]").encode())
    format = get_format("json", options)
    got = answers(decoded(format, messages, schema))
    assert got == alone(format, messages, schema)
    failed = sum(answer.error is not None for answer in got)
    assert failed == 0 if "ignore-parse-errors" in options else failed > len(messages) // 6


# --- columns by themselves ------------------------------------------------------------------------------

_TEXTS: dict[str, list[tuple[str, Any]]] = {  # of a type, values as JSON and as Python has them
    "BOOLEAN": [("true", True), ("false", False), ('"true"', True)],
    "TINYINT": [("-128", -128), ('"127"', 127)],
    "INT": [("2147483647", 2**31 - 1), ("-7.9", -7), ('" 5 "', 5)],
    "BIGINT": [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1), ("0", 0)],
    "FLOAT": [("0.5", 0.5), ("1e39", float("inf"))],
    "DOUBLE": [("0.1", 0.1), ("1e23", 1e23), ("123456789012345678901", 123456789012345678901.0)],
    "DECIMAL(10, 2)": [("1.005", Decimal("1.01")), ("-99999999.99", Decimal("-99999999.99")), ("1e9", None)],
    "DECIMAL(38, 18)": [("-12345678901234567890.5", Decimal("-12345678901234567890.500000000000000000"))],
    "STRING": [
        ('"é"', "é"),
        ('"' + "x" * 500 + '"', "x" * 500),
        ('"\\n"', "\n"),
        ("[1, {}]", "[1,{}]"),
        ("true", "true"),
    ],
    "BYTES": [('"AAH/"', b"\0\1\xff"), ('""', b"")],
    "ARRAY<INT>": [("[]", []), ("[1,null,3]", [1, None, 3]), (f"[{','.join('7' * 40)}]", [7] * 40)],
    "MAP<STRING, INT>": [("{}", []), ('{"a":1,"b":null}', [("a", 1), ("b", None)]), ('{"a":1,"a":2}', [("a", 2)])],
    "ROW<x INT, y ARRAY<STRING>>": [
        ('{"x":1,"y":["a"]}', {"x": 1, "y": ["a"]}),
        ("{}", {"x": None, "y": None}),
        ('{"y":["b","c"],"y":[]}', {"x": None, "y": []}),
    ],
}
_UNREADABLE = {
    "ARRAY<INT>": '[1,2,"x"]',
    "MAP<STRING, INT>": '{"a":1,"b":"x"}',
    "ROW<x INT, y ARRAY<STRING>>": '{"y":["a"],"x":[]}',
}


_BAD = {"STRING": "tru", "BOOLEAN": "nul"}


def _bad_value(kind: str) -> str:
    return _UNREADABLE.get(kind) or _BAD.get(kind) or '"no value"'


@pytest.mark.parametrize("kind", _TEXTS)
def test_columns_grow_and_forget_what_failed(kind: str) -> None:
    """Batch after batch with one reader, rows and nulls; of a message that fails at its end nothing stays."""
    rng = random.Random(kind)
    format, values = get_format("json"), [*_TEXTS[kind], ("null", None)]
    for count in (3, 700, 40, 700):
        messages, wanted = [], []
        for _ in range(count):
            drawn = rng.choices(values, k=rng.choice([1, 1, 2, 30]))
            rows = [f'{{"c":{text}}}' for text, _ in drawn]
            end = rng.choice(
                ["", "", "", f'{{"c":{_bad_value(kind)}}}', '{"c":', "{", '{"c":"\\x"}', "[]", '{"c":null,}']
            )
            messages.append(f"[{','.join([*rows, end] if end else rows)}]".encode())
            wanted.append(None if end else [{"c": value} for _, value in drawn])
        batch = decoded(format, messages, f"c {kind}")
        assert batch.rows.to_pylist() == wanted
        assert batch.rows.values.field(0).null_count == sum(row["c"] is None for rows in wanted for row in rows or ())


def test_arrays_stay_as_they_were_when_their_reader_goes_on() -> None:
    for kind, texts in _TEXTS.items():
        format = get_format("json")
        messages = [f'{{"c":{text}}}'.encode() for text, _ in texts] * 20
        first = decoded(format, messages, f"c {kind}").rows
        before = first.to_pylist()
        for _ in range(3):
            decoded(format, [b'{"c":null}'] * 100 + messages[::-1], f"c {kind}")
        assert first.to_pylist() == before


_by_itself = pytest.mark.skipif(KERNEL == "compiled", reason="compiled, the kernel's methods are not for Python")


def _column(text: str) -> tuple[Reader, Column]:
    schema = JsonSchema(FlinkType("ROW", fields=(FlinkField("c", parse_type(text)),)), ReadSettings())
    return schema.reader(), schema.column(parse_type(text))


@_by_itself
@pytest.mark.parametrize("kind", _TEXTS)
def test_a_column_by_itself_is_a_list(kind: str) -> None:
    """Values, nulls, what can't be read and is taken back, and going back to any length."""
    rng = random.Random(kind)
    reader, column = _column(kind)
    for most in (3, 600, 600):
        column.start(1)
        model: list[Any] = []
        for _ in range(most):
            step = rng.random()
            text, value = rng.choice([*_TEXTS[kind], ("null", None)])
            if step < 0.1:
                column.null()
                model.append(None)
            elif step < 0.2:
                length = rng.randrange(len(model) + 1) if rng.random() < 0.1 else max(len(model) - 2, 0)
                column.truncate(length)
                del model[length:]
            elif step < 0.3:
                reader.open_message(_bad_value(kind).encode())
                assert column.read_value(reader, 0) < 0
                column.truncate(len(model))
            else:
                reader.open_message(text.encode())
                assert column.read_value(reader, 0) == len(text.encode())
                model.append(value)
            assert column.length == len(model)
        array = column.finish()
        array.validate(full=True)
        assert array.to_pylist() == model
        assert array.null_count == model.count(None)


def _repeated(rows: int, table: int, database: int = 0) -> bytes:
    """Return a message of so many rows with metadata of so many bytes."""
    names = f'"table":"{"t" * table}","database":"{"d" * database}"'
    return f'{{"data":[{",".join(["{}"] * rows)}],"type":"INSERT",{names}}}'.encode()


def _accepted(format: Format, messages: list[bytes]) -> list[bool]:
    return [a.error is None for a in answers(decoded(format, messages, "id INT", metadata=["table", "database"]))]


@_by_itself
def test_the_limit_of_a_message_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_metadata, "MOST_OF_A_MESSAGE", 1000)
    sizes = {(0, 2000): True, (1, 2000): True, (2, 500): True, (2, 501): False, (3, 333): True, (3, 334): False}
    messages = [_repeated(rows, size) for rows, size in sizes]
    assert _accepted(get_format("canal-json"), [*messages, *messages]) == [*sizes.values(), *sizes.values()]
    both = [_repeated(2, 300, 200), _repeated(2, 300, 201), _repeated(2, 201, 300)]
    assert _accepted(get_format("canal-json"), both) == [True, False, False]


@_by_itself
def test_the_limit_of_a_batch_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_metadata, "MOST_OF_A_BATCH", 1000)
    sizes = {200: True, 199: True, 201: False, 50: True, 61: False, 40: True, 11: True, 1: False, 0: True}
    messages, wanted = [_repeated(2, size) for size in sizes], [*sizes.values()]
    messages += [_repeated(0, 2000), _repeated(2, 0), _repeated(1, 2000), _repeated(2, 1)]  # one row is not repeated
    format = get_format("canal-json")
    for _ in range(2):
        assert _accepted(format, messages) == [*wanted, True, True, True, False]


@_by_itself
def test_bytes_and_hashes_by_themselves_grow() -> None:
    out, data = Bytes(1), random.Random(1).randbytes(5000)
    for start in range(0, 5000, 7):
        memory.append_bytes(out, data[start : start + 7])
    assert out.to_bytes() == data
    for number in (0, 9, 10, 65536, 2**31):
        size = out.size
        out.number(number)
        assert out.to_bytes()[size:] == b"%d" % number
    for code in (0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF):
        size = out.size
        memory.append_character(out, code)
        assert out.to_bytes()[size:] == chr(code).encode(errors="surrogatepass")
    hashes = Hashes()
    names = [f"name {n}".encode() for n in range(3000)]
    joined = memoryview(b"".join(names))
    place = 0
    for name in names:
        hashes.push(joined, place, place + len(name))
        place += len(name)
    for first in (0, 2990):
        assert not hashes.repeated(first)
    hashes.push(joined, 0, len(names[0]))
    assert hashes.repeated(0)
    assert not hashes.repeated(1)


# --- the source -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(KERNEL == "python", reason="all of this run reads with the source")
def test_the_source_answers_as_flink() -> None:
    """The vectors of the JSON formats, and the tests that compiled modules can't run, in a process with the source."""
    code = (
        "import sys, pytest; from kvformat.codecs import KERNEL; assert KERNEL == 'python';"
        "from kvformat.codecs._kernel import reader; assert reader.__file__.endswith('.py');"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]]))"
    )
    recorded = [
        f"tests/codecs/test_vectors.py::test_results_equal_flink[{'-'.join(group)}]"
        for group in vectors.groups()
        if group[0] in vectors.JSON_FORMATS and group[1] == "decode"
    ]
    own = [name for name in globals() if re.match("test_.*_by_(itself|themselves)", name)]
    itself = [f"tests/codecs/kernel/test_kernel.py::{name}" for name in own]
    process = subprocess.run(
        [sys.executable, "-c", code, *recorded, *itself],
        cwd=_ROOT, env=_environment("python"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-2000:]
    passed = re.search(r"(\d+) passed", process.stdout)
    assert passed is not None
    assert int(passed[1]) == len(recorded) + len(own) - 1 + len(_TEXTS)  # one of `own` runs once for each type
    assert "skipped" not in process.stdout


# --- round trips of random types ------------------------------------------------------------------------

_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_MICROS = st.integers(-62135596800 * 10**6, 253402300799 * 10**6)
_MILLIS = st.integers(-62135596800 * 10**3, 253402300799 * 10**3).map(lambda ms: ms * 1000)


def _signless(value: float) -> float:
    return value + 0.0  # the tree reader turns -0.0 into 0.0 where the schema has a DECIMAL, as Flink's does


def _digits(precision: int, scale: int) -> st.SearchStrategy[Any]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale))


_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False).map(_signless),
    "DOUBLE": st.floats(allow_nan=False).map(_signless),
    "DECIMAL(5, 2)": _digits(5, 2),
    "DECIMAL(18, 18)": _digits(18, 18),
    "DECIMAL(28, 9)": _digits(28, 9),
    "STRING": _TEXT,
    "CHAR(3)": _TEXT,
    "BYTES": st.binary(max_size=12),
    "DATE": st.integers(-719162, 2932896),
    "TIME(3)": st.integers(0, 86_399_999).map(lambda ms: ms * 10**6),
    "TIMESTAMP(3)": _MILLIS,
    "TIMESTAMP(6)": _MICROS,
    "TIMESTAMP_LTZ(6)": _MICROS,
    "INTERVAL YEAR TO MONTH": st.integers(-(2**31), 2**31 - 1),
    "INTERVAL DAY TO SECOND": st.integers(-(2**62) // 1000, 2**62 // 1000).map(lambda ms: ms * 1000),
    "MULTISET<STRING>": st.dictionaries(_TEXT, st.integers(0, 99), max_size=3).map(lambda d: list(d.items())),
}


def _named(types: list[FlinkType], names: list[str]) -> FlinkType:
    return FlinkType("ROW", fields=tuple(map(FlinkField, names, types)))


_NAMED = st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=9).filter(str.strip), min_size=4, max_size=4, unique=True
)
_TYPES = st.recursive(
    st.sampled_from(sorted(_LEAVES)).map(parse_type),
    lambda inner: st.one_of(
        inner.map(lambda t: FlinkType("ARRAY", fields=(FlinkField("element", t),))),
        inner.map(lambda t: FlinkType("MAP", fields=(FlinkField("key", parse_type("STRING")), FlinkField("value", t)))),
        st.builds(_named, st.lists(inner, min_size=1, max_size=4), _NAMED),
    ),
    max_leaves=6,
)


def _values(t: FlinkType) -> st.SearchStrategy[Any]:
    """Canonical values (`vectors.to_arrow`) of a type, and None."""
    if t.root == "ROW":
        found: st.SearchStrategy[Any] = st.tuples(*(_values(field.type) for field in t.fields))
    elif t.root == "ARRAY":
        found = st.lists(_values(t.fields[0].type), max_size=3)
    elif t.root == "MAP":
        found = st.dictionaries(_TEXT, _values(t.fields[1].type), max_size=3).map(lambda d: list(d.items()))
    else:
        found = _LEAVES[next(text for text in _LEAVES if parse_type(text) == t)]
    return st.none() | found


@st.composite
def _tables(draw: st.DrawFn) -> tuple[FlinkType, list[Any]]:
    """The type of a table, and rows of it."""
    row = _named(draw(st.lists(_TYPES, min_size=1, max_size=4)), draw(_NAMED))
    return row, draw(st.lists(st.tuples(*(_values(field.type) for field in row.fields)), max_size=5))


@settings(max_examples=200, deadline=None)
@given(
    _tables(),
    st.sampled_from(["SQL", "ISO-8601"]),
    st.sampled_from(["true", "false"]),
    st.sampled_from(["json", "debezium-json", "canal-json", "maxwell-json", "ogg-json"]),
)
def test_rows_of_any_type_are_read_as_they_were_written(
    table: tuple[FlinkType, list[Any]], standard: str, streaming: str, name: str
) -> None:
    row, rows = table
    schema = str(row)[4:-1]
    assert nullable(parse_schema(schema)) == nullable(row)
    options = {"timestamp-format.standard": standard}
    format = get_format(name, options | ({"decode.json-parser.enabled": streaming} if name == "json" else {}))
    array = vectors.to_arrow(rows, row)
    encoded = format.encode_batch(array, schema)
    assert encoded.errors is None
    batch = decoded(format, encoded.messages, schema)
    assert batch.errors is None
    got = [vectors.from_arrow(value, row) for value in batch.rows.values]
    assert all(vectors.same(a, b, row) for a, b in zip(got, rows, strict=True)), (got, rows)
