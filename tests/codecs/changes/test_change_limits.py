"""Limits of change messages at their boundary: levels, rows and members, and what earlier messages leave to later ones.

Each message is read with and without a message before it, because the reader compares messages with the one before.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kvformat.registry import get_format
from kvformat.registry.contract.cells import CELLS_PER_BYTE
from tests.support.decoding import Answer, alone, answers, decoded

_COLUMNS = "id INT, name STRING"
_LEVELS = 1000
_COMPARED = 8  # objects and arrays of a message that the reader compares with those of the message before
_WRAPPED, _FLAT, _LENIENT = {"schema-include": "true"}, {"flattened": "true"}, {"ignore-parse-errors": "true"}


def _read(format: str, options: dict[str, str], *messages: str, metadata: tuple[str, ...] = ()) -> list[Answer]:
    """Decode messages in a batch, and check that each has the same answer by itself."""
    made, given = get_format(format, options), [message.encode() for message in messages]
    found = answers(decoded(made, given, _COLUMNS, metadata=metadata))
    assert found == alone(get_format(format, options), given, _COLUMNS, metadata=metadata)
    return found


# format, options, message with a value at %, metadata
_PLACES: list[tuple[str, dict[str, str], str, tuple[str, ...]]] = [
    ("debezium-json", {}, '{"after":{"name":%},"op":"c"}', ()),
    ("debezium-json", {}, '{"op":"u","before":{},"after":{"name":%}}', ()),
    ("debezium-json", {}, '{"after":{"name":"x"},"before":{"x":%},"op":"c"}', ()),  # no row is read from it
    ("debezium-json", {}, '{"x":%,"after":{"id":1},"op":"c"}', ()),
    ("debezium-json", {}, '{"after":{"id":1},"op":"c","source":{"x":%}}', ("source.properties",)),
    ("debezium-json", {}, '{"before":{"id":1},"after":{"id":1},"source":{"x":%},"op":"u"}', ()),
    ("debezium-json", {}, '[{"after":{"name":%},"op":"c"}]', ()),
    ("debezium-json", {}, '[{"after":{"id":1},"x":%,"op":"c"}]', ()),
    ("debezium-json", {}, '[{"after":{"id":1},"op":"c","source":{"x":%}}]', ("source.properties",)),
    ("debezium-json", _WRAPPED, '{"payload":{"after":{"name":%},"op":"c"}}', ()),
    ("debezium-json", _WRAPPED, '{"payload":{"after":{"id":1},"op":"c","x":%},"schema":{}}', ()),
    ("debezium-json", _WRAPPED, '{"payload":{"after":{"id":1},"op":"c"},"schema":%}', ("schema",)),
    ("debezium-json", _WRAPPED, '{"schema":%,"payload":{"after":{"id":1},"op":"c"}}', ("schema",)),
    ("debezium-json", _WRAPPED, '{"payload":{"x":1},"payload":{"after":{"id":1},"op":"c"},"y":%}', ()),
    ("debezium-json", _WRAPPED, '[{"payload":{"after":{"name":%},"op":"c"}}]', ()),
    ("debezium-json", _FLAT, '{"id":1,"name":%,"__op":"c"}', ()),
    ("debezium-json", _FLAT, '{"id":1,"x":%}', ()),
    ("debezium-json", _FLAT | _WRAPPED, '{"payload":{"id":1,"name":%,"__op":"c"}}', ()),
    ("canal-json", {}, '{"data":[{"name":%}],"type":"INSERT"}', ()),
    ("canal-json", {}, '{"data":[{"id":1},{"name":%}],"type":"INSERT"}', ()),
    ("canal-json", {}, '{"data":[{"id":1},{"id":2}],"old":[{},{"name":%}],"type":"UPDATE"}', ()),
    ("canal-json", {}, '{"data":[{"id":1}],"old":[{},{"x":%}],"type":"UPDATE"}', ()),
    ("canal-json", {}, '{"data":[{"id":1}],"old":[{"x":%}],"type":"INSERT"}', ()),
    ("maxwell-json", {}, '{"data":{"id":1},"old":{"name":%},"type":"update"}', ()),
    ("maxwell-json", {}, '{"data":{"id":1,"x":%},"old":{"name":"a"},"type":"update"}', ()),
    ("ogg-json", {}, '{"before":{"name":%},"after":{},"op_type":"U"}', ()),
]


@pytest.mark.parametrize(("format", "options", "message", "metadata"), _PLACES, ids=lambda value: str(value)[:60])
@pytest.mark.parametrize("lenient", [False, True])
def test_a_message_may_have_exactly_1000_levels(
    format: str, options: dict[str, str], message: str, metadata: tuple[str, ...], lenient: bool
) -> None:
    before = message[: message.index("%")]
    levels = _LEVELS - sum(before.count(c) for c in "[{") + sum(before.count(c) for c in "]}")
    good, bad = (message.replace("%", "[" * n + "]" * n) for n in (levels, levels + 1))
    found = _read(format, options | (_LENIENT if lenient else {}), good, bad, good, metadata=metadata)
    assert (found[0].error, found[0].rows != "[]") == (None, True)
    assert found[2] == found[0]
    if lenient:
        assert (found[1].error, found[1].rows) == (None, "[]")
    else:
        assert (found[1].error or "").startswith(f"not JSON: more than {_LEVELS} levels at character")


def test_a_value_like_that_of_the_message_before_may_be_too_deep_in_this_message() -> None:
    levels = _LEVELS - 2
    value = '{"x":' + "[" * levels + "]" * levels + "}"
    plain = f'{{"source":{value},"after":{{"id":1}},"op":"c"}}'
    good, bad, again = _read("debezium-json", {}, plain, f"[{plain}]", plain)
    assert (good.error, again) == (None, good)
    assert "more than 1000 levels" in (bad.error or "")


@pytest.mark.parametrize("options", [{}, _LENIENT], ids=["strict", "lenient"])
@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        ('{"data":[%],"type":"INSERT"}', ("+I",)),
        ('{"data":[%],"type":"DELETE","old":[{}]}', ("-D",)),
        ('{"data":[%],"type":"UPDATE","old":[%]}', ("-U", "+U")),
    ],
)
def test_the_number_of_rows_in_a_message_is_not_limited_by_the_levels(
    message: str, kinds: tuple[str, ...], options: dict[str, str]
) -> None:
    count = _LEVELS + 100
    rows = ",".join(f'{{"id":{n},"name":[[]]}}' for n in range(count))
    (found,) = _read("canal-json", options, message.replace("%", rows))
    assert found.error is None
    assert found.kinds == kinds * count
    assert f"'id': {count - 1}," in str(found.rows)


@pytest.mark.parametrize("count", [_COMPARED - 1, _COMPARED, _COMPARED + 1, 30])
def test_a_message_may_have_more_objects_than_are_compared_with_the_message_before(count: int) -> None:
    def message(number: int) -> str:
        others = ",".join(f'"o{n}":{{"a":"{"x" * 40}","b":{number + n}}}' for n in range(count))
        return f'{{{others},"after":{{"id":{number}}},"op":"c","source":{{"a":"{"y" * 40}","db":"d{number}"}}}}'

    bad = message(5).replace('"b":7', '"b":07') if count > 2 else "{"
    metadata = ("source.database",)
    found = _read("debezium-json", {}, *map(message, (1, 2, 3)), bad, *map(message, (4, 10)), metadata=metadata)
    rows = [f"[{{'id': {n}, 'name': None, 'source.database': 'd{n}'}}]" for n in (1, 2, 3, 4, 10)]
    assert [answer.rows for answer in found] == [*rows[:3], None, *rows[3:]]


_PROPERTIES = ("source.database", "source.properties")


def _debezium() -> Any:
    return get_format("debezium-json")


_SOURCE = '{"version":"3.0","name":"a name of some length","n":%s,"db":%s,"list":[%s]}'


def test_values_that_differ_from_those_of_the_message_before_are_read_from_their_own_message() -> None:
    """Values become longer and shorter, and differ only in the first or last character, or only in their type."""
    values = ["1", "2", "12", "123", "13", "3", "null", "true", "-1", "1.5", "1.25", '"1"', '""', '"12"', '"\\u0031"']
    values += ['"x}"', '"x]"', '"x\\""', '"x,"', '"é"', '"\U0001f600"', "1e5", "10", "100", "0"]
    texts, expected = [], []
    for at, one in enumerate(values):
        for other in (values[at - 1], values[at - 7]):
            for n, db, element in ((one, other, "1"), ("1", one, other), (other, "1", one), (one, one, one)):
                source = _SOURCE % (n, db, element)
                texts.append(f'{{"after":{{"id":1}},"op":"c","source":{source}}}')
                expected.append(alone(_debezium(), [texts[-1].encode()], _COLUMNS, metadata=_PROPERTIES)[0])
    made = _debezium()
    for before, text, wanted in zip([texts[-1], *texts], texts, expected, strict=False):
        # a batch of two: after many different values, the reader stops comparing in a batch
        pair = [before.encode(), text.encode()]
        assert answers(decoded(made, pair, _COLUMNS, metadata=_PROPERTIES))[1] == wanted, pair
    assert len(texts) == 200
    assert len({answer.rows for answer in expected}) > 100


def test_values_that_are_not_json_are_errors_after_a_message_with_the_same_beginning() -> None:
    good = '{"after":{"id":1},"op":"c","source":' + _SOURCE % (17, '"shop"', "1,2") + "}"
    start, compared = good.index("source"), 0
    wrong = []
    for at in range(start, len(good)):
        wrong += [good[:at] + good[at + 1 :]]
        wrong += [good[:at] + other + good[at + 1 :] for other in '},]:"0\\x']
        wrong += [good[:at] + other + good[at:] for other in ',"}']
    made, messages = _debezium(), [text.encode() for text in wrong]
    for message, wanted in zip(messages, alone(made, messages, _COLUMNS, metadata=_PROPERTIES), strict=True):
        batch = [good.encode(), message, good.encode()]
        first, found, last = answers(decoded(made, batch, _COLUMNS, metadata=_PROPERTIES))
        assert (found, last) == (wanted, first), message
        compared += found.error is not None
    print(f"{len(wrong)} changed messages, of which {compared} are errors")
    assert compared > 500


@pytest.mark.parametrize("count", [63, 64, 65, 130])  # 64 scalars of a value are compared
def test_any_number_of_values_may_differ_from_those_of_the_message_before(count: int) -> None:
    def message(change: int) -> bytes:
        numbers = ",".join(f'"n{n}":{n + 100 * (n == change)}' for n in range(count))
        return f'{{"source":{{{numbers}}},"after":{{"id":{change + 1}}},"op":"c"}}'.encode()

    changes = [*range(-1, count), -1, count - 1, 0]
    shorter = b'{"source":{"n0":0,"a name of some length":1},"after":{"id":1},"op":"c"}'
    batch = _debezium().decode_batch(
        pa.array([shorter, *map(message, changes)], pa.binary()), "id INT", metadata=["source.properties"]
    )
    assert batch.errors is None
    for change, row in zip(changes, batch.rows.values.to_pylist()[1:], strict=True):
        assert row["id"] == change + 1
        assert dict(row["source.properties"]) == {f"n{n}": str(n + 100 * (n == change)) for n in range(count)}


_WIDE = 2000
_WIDE_COLUMNS = f"r ROW<{', '.join(f'c{number} INT' for number in range(_WIDE))}>"
_CELLS = _WIDE + 2
"""The cells of a row of that table: the row, its column, and the columns in that."""


def _wide_row(count: int) -> str:
    """Return a row whose value comes `count` times more, and takes the cells of its columns each time."""
    return "{" + ",".join(['"r":{}'] * (count + 1)) + "}"


def _allowed(message: str, most: int) -> int:
    """Return the cells that a message may have. Those of two rows are free, since each change may have two."""
    return 2 * _CELLS + most + CELLS_PER_BYTE * len(message)


@pytest.mark.parametrize(
    ("format", "options", "message"),
    [
        ("debezium-json", {}, '{"after":%,"op":"c"}'),
        ("debezium-json", {}, '{"before":null,"after":%,"op":"c"}'),
        ("debezium-json", {}, '{"after":%,"before":null,"op":"r"}'),
        ("debezium-json", {}, '{"before":%,"after":null,"op":"d"}'),
        ("debezium-json", {}, '[{"before":null,"after":%,"op":"c"}]'),
        ("debezium-json", _WRAPPED, '{"payload":{"before":null,"after":%,"op":"c"}}'),
        ("maxwell-json", {}, '{"data":%,"type":"insert"}'),
        ("maxwell-json", {}, '{"data":%,"old":null,"type":"insert"}'),
        ("maxwell-json", {}, '{"data":%,"old":null,"type":"delete"}'),
        ("canal-json", {}, '{"data":[%],"old":null,"type":"INSERT"}'),
        ("canal-json", {}, '{"data":[%],"old":[null,null],"type":"INSERT"}'),
        ("ogg-json", {}, '{"before":null,"after":%,"op_type":"I"}'),
    ],
)
def test_a_row_that_is_missing_or_null_has_no_cells(
    format: str, options: dict[str, str], message: str, cell_limits: tuple[int, int]
) -> None:
    count = 1
    while _CELLS + count * (_WIDE + 1) <= _allowed(message.replace("%", _wide_row(count)), cell_limits[0]):
        count += 1
    most, more = (message.replace("%", _wide_row(n)).encode() for n in (count - 1, count))
    found = decoded(get_format(format, options), [most, more], _WIDE_COLUMNS)
    assert found.codes is not None
    assert found.codes.to_pylist() == [None, "TOO_LARGE"]


def test_a_payload_that_a_later_one_replaces_has_no_cells(cell_limits: tuple[int, int]) -> None:
    """So a batch may have as many such messages as messages with one payload."""
    of_message, of_batch = cell_limits
    payload = f'"payload":{{"after":{_wide_row(of_message * 2 // 5 // (_WIDE + 1))},"op":"c"}}'
    cells = _CELLS + (payload.count('"r"') - 1) * (_WIDE + 1)
    message = f"{{{payload},{payload}}}"
    charged = cells - 2 * _CELLS - CELLS_PER_BYTE * len(message)
    count = of_batch // charged
    found = decoded(get_format("debezium-json", _WRAPPED), [message.encode()] * (count + 1), _WIDE_COLUMNS)
    assert found.codes is not None
    assert found.codes.to_pylist() == [None] * count + ["TOO_LARGE"]


_OUT_OF_RANGE = "9223372036854775807"


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(
    ("times", "micros"),
    [
        (("1", _OUT_OF_RANGE), None),
        ((_OUT_OF_RANGE, "1"), "1000"),
        ((_OUT_OF_RANGE, "2", "null"), "None"),
        ((_OUT_OF_RANGE, '"x"', "3"), "3000"),
        (("1", "2"), "2000"),
    ],
)
def test_of_repeated_times_of_metadata_only_the_last_may_be_out_of_range(
    times: tuple[str, ...], micros: str | None, lenient: bool
) -> None:
    """Metadata is no part of the row: with `ignore-parse-errors` the message is skipped, and the time is not null."""
    source = ",".join(f'"ts_ms":{time}' for time in times)
    message = f'{{"after":{{"id":1}},"op":"c","source":{{{source}}}}}'
    good = '{"after":{"id":1},"op":"c","source":{"ts_ms":1}}'
    options = _LENIENT if lenient else {}
    found = _read("debezium-json", options, good, message, good, metadata=("source.timestamp",))
    assert found[0] == found[2]
    assert (found[1].error is None) == (micros is not None or lenient)
    if micros is not None:
        assert f"'source.timestamp': {micros}}}" in (found[1].rows or "")
    elif lenient:
        assert found[1].rows == "[]"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_schema_at_the_place_of_another_batchs_or_encodings_schema_is_read_by_itself(encoding: str) -> None:
    """Schemas that are equal to that of the message before are skipped, in the same data only."""
    format = get_format("debezium-json", _WRAPPED)
    for sizes in ([300], [400], [300, 260], [500, 500], [259, 700]):
        texts = [
            f'{{"schema":{{"x":"{"s" * size}"}},"payload":{{"after":{{"id":{size}}},"op":"c"}}}}' for size in sizes
        ]
        messages = [text.encode(encoding if place % 2 else "utf-8") for place, text in enumerate(texts)]
        for batch in [messages] if encoding == "utf-8" else [messages, messages[::-1]]:
            found = decoded(format, batch, _COLUMNS)
            assert found.errors is None
            assert {row[0]["id"] for row in found.rows.to_pylist()} == {*sizes}
    broken = f'{{"schema":{{"x":"{"s" * 200}" {"s" * 500}}},"payload":{{"after":{{"id":1}},"op":"c"}}}}'
    assert decoded(format, [broken.encode()], _COLUMNS).errors is not None


@pytest.mark.parametrize(
    ("payloads", "rows"),
    [
        (['{"after":{"id":1},"op":"c"}', '{"after":{"id":2},"op":"c"}'], "[{'id': 2, 'name': None}]"),
        (['{"before":{},"after":{"id":1},"op":"u"}', '{"after":{"id":2},"op":"r"}'], "[{'id': 2, 'name': None}]"),
        (["null", '{"before":{"id":3},"op":"d"}'], "[{'id': 3, 'name': None}]"),
        (['{"after":{"id":1},"op":"c"}', '{"op":"d","before":{"id":2}}'] * 2, "[{'id': 2, 'name': None}]"),
    ],
)
def test_of_several_payloads_the_last_one_has_the_rows(payloads: list[str], rows: str) -> None:
    members = ",".join(f'"payload":{payload}' for payload in payloads)
    message = f"{{{members}}}"
    good = '{"payload":{"after":{"id":9},"op":"c"}}'
    found = _read("debezium-json", _WRAPPED, good, message, good)
    assert found[0] == found[2]
    assert (found[1].error, found[1].rows) == (None, rows)
