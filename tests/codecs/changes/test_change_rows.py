"""The rows of change messages: which come out, of what kind, in what order, and with whose values.

Each message stands between two others: a whole one, and one that omits a column. It gets the same answer by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kvformat.registry import get_format
from tests.support.decoding import alone, answers, decoded, readable_rows

_COLUMNS = "id INT, name STRING"
_WRAPPED, _FLAT, _LENIENT = {"schema-include": "true"}, {"flattened": "true"}, {"ignore-parse-errors": "true"}
_UPSERT, _READ_ALL = {"changelog.mode": "upsert"}, {"other-messages": "skip-all"}


class Case(NamedTuple):
    """A message, and its rows with their kinds or the beginning of its error."""

    format: str
    options: dict[str, str]
    message: str
    wanted: list[tuple[Any, ...]] | str


def _cases(format: str, options: dict[str, str], wanted: dict[str, list[tuple[Any, ...]] | str]) -> list[Case]:
    return [Case(format, options, message, rows) for message, rows in wanted.items()]


_NO_OLD, _NO_NEW = "is missing or null, but an update needs it", "is missing or null, but an insert needs it"
_DEBEZIUM: dict[str, list[tuple[Any, ...]] | str] = {
    '{"op":"c","after":{"id":1,"name":"a"}}': [("+I", 1, "a")],
    '{"after":{"id":1,"name":"a"},"op":"r","before":null}': [("+I", 1, "a")],
    '{"before":{"id":2,"name":"b"},"after":{"id":1,"name":"a"},"op":"c"}': [("+I", 1, "a")],
    '{"before":{"id":2,"name":"b"},"after":{"id":1,"name":"a"},"op":"d"}': [("-D", 2, "b")],
    '{"op":"d","before":{"id":2}}': [("-D", 2, None)],
    '{"before":{"id":2,"name":"b"},"after":{"id":1,"name":"a"},"op":"u"}': [("-U", 2, "b"), ("+U", 1, "a")],
    '{"after":{"id":1,"name":"a"},"before":{"id":2,"name":"b"},"op":"u"}': [("-U", 2, "b"), ("+U", 1, "a")],
    '{"op":"u","before":{"id":2,"name":"b"},"after":{"id":1}}': [("-U", 2, "b"), ("+U", 1, None)],
    '{"op":"u","before":{"name":"b"},"after":{"id":1}}': [("-U", None, "b"), ("+U", 1, None)],
    '{"op":"u","before":{},"after":{"id":1,"name":"a"}}': [("-U", None, None), ("+U", 1, "a")],
    '{"op":"u","before":{"id":1,"name":"a"},"after":{}}': [("-U", 1, "a"), ("+U", None, None)],
    '{"op":"c","after":{"id":1},"after":{"name":"a"}}': [("+I", None, "a")],
    '{"op":"c","op":"d","before":{"id":2},"after":{"id":1}}': [("-D", 2, None)],
    '{"op":"u","before":{"id":2},"after":{"id":1},"before":{"id":3}}': [("-U", 3, None), ("+U", 1, None)],
    '{"\\u006fp":"\\u0075","before":{"id":2},"after":{"\\u0069d":1}}': [("-U", 2, None), ("+U", 1, None)],
    '[{"op":"u","before":{"id":2},"after":{"id":1}}]': [("-U", 2, None), ("+U", 1, None)],
    '{"op":"c","source":{"table":"t1"},"after":{"id":"x","id":1}}': [("+I", 1, None)],
    '{"op":"u","before":{"id":"x","id":2},"source":{"table":"t1"},"after":{"id":"x","name":"a","id":1}}': [
        ("-U", 2, None),
        ("+U", 1, "a"),
    ],
    '[null,{"op":"c","after":{"id":1}},null]': [("+I", 1, None)],
    '[7,{"op":"c","after":{"id":1}}]': "expected one JSON object, found an array of 2",
    '[{"op":"c","after":{"id":1}},{"op":"c","after":{"id":2}}]': "expected one JSON object, found an array of 2",
    "[null]": "expected one JSON object, found an array of 0",
    "[7]": "expected a JSON object, found 7",
    '[{"op":"c","after":{"id":1}}': "not JSON",
    '[{"op":"c","after":{"id":1}}] x': "not JSON",
    '{"op":"u","after":{"id":1}}': f"field 'before': {_NO_OLD}",
    '{"op":"u","before":{"id":1},"after":null}': f"field 'after': {_NO_OLD}",
    '{"op":"c","before":{"id":1}}': f"field 'after': {_NO_NEW}",
    '{"op":"d","after":{"id":1}}': "field 'before': is missing or null, but a deletion needs it",
    '{"op":"u","before":{"id":2,"name":"b"},"after":{"name":"a","id":"x"}}': "field 'after.id': cannot read \"x\"",
    '{"op":"u","before":{"name":"b","id":"x"},"after":{"id":1,"name":"a"}}': "field 'before.id': cannot read \"x\"",
    '{"op":"c","before":{"name":"b","id":"x"},"after":{"id":1,"name":"a"}}': "field 'before.id': cannot read \"x\"",
    '{"op":"d","before":{"id":2,"name":"b"},"after":{"name":"a","id":"x"}}': "field 'after.id': cannot read \"x\"",
    '{"op":"u","before":{"id":2,"name":"b"},"after":[]}': "field 'after': cannot read ",
    '{"op":"C","after":{"id":1,"name":"a"}}': "field 'op': unknown value \"C\"",
    '{"op":"u","before":{"id":2,"name":"b"},"after":{"id":1,"name":"a"}': "not JSON",
    '{"op":"u","before":{"id":2,"name":"b"},"after":{"id":1,"name":"a"},}': "not JSON",
}
_CANAL: dict[str, list[tuple[Any, ...]] | str] = {
    '{"type":"INSERT","data":[{"id":1,"name":"a"},{"id":2},{"name":"c"}]}': [
        ("+I", 1, "a"),
        ("+I", 2, None),
        ("+I", None, "c"),
    ],
    '{"data":[{"id":1,"name":"a"},{"id":2}],"type":"DELETE"}': [("-D", 1, "a"), ("-D", 2, None)],
    '{"type":"INSERT","data":[]}': [],
    '{"type":"UPDATE","data":[],"old":null}': [],
    '{"type":"CREATE","data":[{"id":1}]}': [],
    '{"type":"INSERT","data":[{"id":1}],"old":[{"id":2}]}': [("+I", 1, None)],
    '{"type":"DELETE","data":[{"id":1}],"old":[{"id":2}]}': [("-D", 1, None)],
    '{"type":"UPDATE","data":[{"id":1,"name":"a"},{"id":2,"name":"b"}],"old":[{"name":"x"},{"id":7}]}': [
        ("-U", 1, "x"),
        ("+U", 1, "a"),
        ("-U", 7, "b"),
        ("+U", 2, "b"),
    ],
    '{"old":[{"name":"x"},{}],"data":[{"id":1},{"id":2,"name":"b"}],"type":"UPDATE"}': [
        ("-U", 1, "x"),
        ("+U", 1, None),
        ("-U", 2, "b"),
        ("+U", 2, "b"),
    ],
    '{"data":[{"id":1,"name":"a"}],"old":[{"name":null}],"type":"UPDATE"}': [("-U", 1, None), ("+U", 1, "a")],
    '{"data":[{"id":1,"name":"a"}],"old":[{"name":"x"}],"type":"UPDATE"}': [("-U", 1, "x"), ("+U", 1, "a")],
    '{"data":[{"id":1,"name":"a"}],"old":[{"other":5}],"type":"UPDATE"}': [("-U", 1, "a"), ("+U", 1, "a")],
    '{"data":[{"id":1}],"old":[{"name":"x"},{"name":"y"}],"type":"UPDATE"}': [("-U", 1, "x"), ("+U", 1, None)],
    '{"data":[{"id":1}],"data":[{"id":2},{"id":3}],"type":"INSERT"}': [("+I", 2, None), ("+I", 3, None)],
    '{"data":[{"id":1}],"old":[{"id":5}],"old":[{"id":6}],"type":"UPDATE"}': [("-U", 6, None), ("+U", 1, None)],
    '{"data":[{"id":1},{"id":"x","id":2}],"table":"t1","type":"INSERT"}': [("+I", 1, None), ("+I", 2, None)],
    '{"table":"t1","data":[{"id":1},{"id":"x","id":2}],"old":[{},{"id":"y","id":3}],"type":"UPDATE"}': [
        ("-U", 1, None),
        ("+U", 1, None),
        ("-U", 3, None),
        ("+U", 2, None),
    ],
    '{"data":[{"id":1},{"id":2}],"old":[{"id":5}],"type":"UPDATE"}': "field 'old': has 1 rows, but 'data' has 2",
    '{"data":[{"id":1}],"old":null,"type":"UPDATE"}': f"field 'old': {_NO_OLD}",
    '{"data":[{"id":1},{"id":2}],"old":[{},null],"type":"UPDATE"}': f"field 'old[1]': {_NO_OLD}",
    '{"data":[{"id":1},null],"old":[{},{}],"type":"UPDATE"}': f"field 'data[1]': {_NO_OLD}",
    '{"data":[{"id":1},null],"type":"INSERT"}': f"field 'data[1]': {_NO_NEW}",
    '{"data":null,"type":"INSERT"}': f"field 'data': {_NO_NEW}",
    '{"data":[{"id":1,"name":"a"},{"name":"b","id":"x"}],"type":"INSERT"}': "field 'data[1].id': cannot read \"x\"",
    '{"data":[{"id":1},{"id":2}],"old":[{},{"name":"b","id":"x"}],"type":"UPDATE"}': "field 'old[1].id': cannot read",
    '{"data":[{"id":1},{"id":"x"}],"old":[{},{"name":"b","id":2}],"type":"UPDATE"}': "field 'data[1].id': cannot read",
    '{"old":[{},{"name":"b"}],"data":[{"id":1},{"id":"x"}],"type":"UPDATE"}': "field 'data[1].id': cannot read",
    '{"data":[{"id":1}],"old":[{},{"id":"x"}],"type":"UPDATE"}': "field 'old[1].id': cannot read",
    '{"data":[{"id":1}],"old":[{},{"id":"x"}],"type":"INSERT"}': "field 'old[1].id': cannot read",
    '{"data":[],"old":[{"id":"x"}],"type":"UPDATE"}': "field 'old[0].id': cannot read",
    '{"data":[],"old":7,"type":"UPDATE"}': "field 'old': cannot read 7",
    '{"data":[{"id":1},7],"type":"INSERT"}': "field 'data[1]': cannot read 7",
    '{"data":{"id":1},"type":"INSERT"}': "field 'data': cannot read ",
}
_CANAL_LENIENT: dict[str, list[tuple[Any, ...]] | str] = {
    '{"data":[{"id":1,"name":"a"},{"name":"b","id":"x"}],"type":"INSERT"}': [("+I", 1, "a"), ("+I", None, "b")],
    '{"data":[{"id":1},{"id":2}],"old":[{"id":5}],"type":"UPDATE"}': [("-U", 5, None), ("+U", 1, None)],
    '{"data":[{"id":1},null,{"id":3}],"type":"INSERT"}': [("+I", 1, None)],  # complete rows before stay, as in Flink
    '{"data":[{"id":1},{"id":2}],"old":[{},{"id":"x"}],"type":"UPDATE"}': [
        ("-U", 1, None),
        ("+U", 1, None),
        ("-U", None, None),
        ("+U", 2, None),
    ],
    '{"data":[{"id":1}],"old":[{},7],"type":"UPDATE"}': [("-U", 1, None), ("+U", 1, None)],
    '{"data":[],"old":7,"type":"UPDATE"}': [],
    '{"data":[{"id":1},{"id":2}],"type":"INSERT"': [],
    '{"data":[{"id":1}],"old":[7],"type":"INSERT"}': [("+I", 1, None)],
    '{"data":[{"id":1}],"old":7,"type":"DELETE"}': [("-D", 1, None)],
    '{"data":[{"id":1},7],"type":"INSERT"}': [("+I", 1, None)],
    '{"data":7,"type":"INSERT"}': [],
}
_MAXWELL: dict[str, list[tuple[Any, ...]] | str] = {
    '{"type":"insert","data":{"id":1,"name":"a"},"old":{"id":2}}': [("+I", 1, "a")],
    '{"type":"delete","data":{"id":1},"old":{"name":"x"}}': [("-D", 1, None)],
    '{"type":"update","data":{"id":1,"name":"a"},"old":{"name":"x"}}': [("-U", 1, "x"), ("+U", 1, "a")],
    '{"old":{"name":"x"},"data":{"id":1},"type":"update"}': [("-U", 1, "x"), ("+U", 1, None)],
    '{"data":{"id":1,"name":"a"},"old":{"name":null},"type":"update"}': [("-U", 1, None), ("+U", 1, "a")],
    '{"data":{"id":1,"name":"a"},"old":{"id":2,"name":"x"},"type":"update"}': [("-U", 2, "x"), ("+U", 1, "a")],
    '{"data":{"id":1,"name":"a"},"old":{},"type":"update"}': [("-U", 1, "a"), ("+U", 1, "a")],
    '{"data":{},"old":{"id":2},"type":"update"}': [("-U", 2, None), ("+U", None, None)],
    '{"data":{"id":"x","id":1},"table":"t1","old":{"id":"y","id":2},"type":"update"}': [
        ("-U", 2, None),
        ("+U", 1, None),
    ],
    '{"data":{"id":1},"type":"update"}': f"field 'old': {_NO_OLD}",
    '{"old":{"id":1},"type":"update"}': f"field 'data': {_NO_OLD}",
    '{"data":{"id":1,"name":"a"},"old":{"name":"b","id":"x"},"type":"update"}': "field 'old.id': cannot read \"x\"",
    '{"data":{"name":"b","id":"x"},"old":{"id":2},"type":"update"}': "field 'data.id': cannot read \"x\"",
    '{"old":{"name":"b"},"data":{"id":"x"},"type":"update"}': "field 'data.id': cannot read \"x\"",
    '{"data":{"id":1},"old":{"name":"b","id":"x"},"type":"insert"}': "field 'old.id': cannot read \"x\"",
    '{"data":{"id":1},"type":"bootstrap-insert"}': "field 'type': unknown value",
}
_FLATTENED: dict[str, list[tuple[Any, ...]] | str] = {
    '{"id":1,"name":"a","__op":"c"}': [("+I", 1, "a")],
    '{"id":1,"__op":"u","__deleted":"false"}': [("+U", 1, None)],
    '{"name":"a","__deleted":"true","__op":"c"}': [("-D", None, "a")],
    '{"id":1,"id":2,"__op":"c","__op":"d"}': [("-D", 2, None)],
    '{"id":"x","id":1,"__table":"t1","__op":"c"}': [("+I", 1, None)],
    "{}": [("+U", None, None)],
    '{"name":"a","id":"x"}': "field 'id': cannot read \"x\"",
}
CASES = [
    *_cases("debezium-json", {}, _DEBEZIUM),
    *(
        Case("debezium-json", _WRAPPED, f'{{"schema":{{}},"payload":{message}}}', wanted)
        for message, wanted in _DEBEZIUM.items()
        if isinstance(wanted, list) and message.startswith("{")
    ),
    Case(
        "debezium-json", _WRAPPED, '{"payload":{"op":"c","after":{"id":"x"}}}', "field 'payload.after.id': cannot read"
    ),
    Case(
        "debezium-json",
        _WRAPPED,
        '{"payload":{"op":"c","after":{"id":1,"name":"a"}},"payload":{"op":"d","before":{"id":2}}}',
        [("-D", 2, None)],
    ),
    Case("debezium-json", _UPSERT, '{"op":"u","before":{"id":"x"},"after":{"id":1}}', [("+U", 1, None)]),
    Case("debezium-json", _UPSERT, '{"op":"d","before":{"id":2},"after":{"id":1}}', [("-D", 2, None)]),
    Case(
        "debezium-json",
        _LENIENT,
        '{"op":"u","before":{"id":"x"},"after":{"id":1}}',
        [("-U", None, None), ("+U", 1, None)],
    ),
    Case("debezium-json", _LENIENT, '{"op":"u","before":{"id":2},"after":null}', []),
    Case("debezium-json", _LENIENT, '{"op":"c","before":7,"after":{"id":1}}', [("+I", 1, None)]),
    Case("debezium-json", _LENIENT, '{"op":"c","after":7}', []),
    Case("debezium-json", _WRAPPED | _LENIENT, '{"payload":7}', []),
    Case(
        "debezium-json", _WRAPPED | _LENIENT, '{"payload":{"op":"d","before":{"id":2},"after":[]}}', [("-D", 2, None)]
    ),
    Case("debezium-json", _WRAPPED, '{"payload":7}', "field 'payload': cannot read 7"),
    Case("debezium-json", _LENIENT, '[7,{"op":"c","after":{"id":1}},null,"x"]', [("+I", 1, None)]),
    Case("debezium-json", _LENIENT, '[{"op":"c","after":{"id":1}},{"op":"c","after":{"id":2}}]', []),
    *_cases("debezium-json", _FLAT, _FLATTENED),
    *_cases("canal-json", {}, _CANAL),
    *_cases("canal-json", _LENIENT, _CANAL_LENIENT),
    Case(
        "canal-json",
        _UPSERT,
        '{"data":[{"id":1,"name":"a"},{"id":2,"name":"b"}],"old":[{"name":"x"},{"id":7}],"type":"UPDATE","pkNames":["id"]}',
        [("+U", 1, "a"), ("-D", 7, "b"), ("+U", 2, "b")],
    ),
    *_cases("maxwell-json", {}, _MAXWELL),
    Case("maxwell-json", _READ_ALL, '{"data":{"id":1},"type":"bootstrap-insert"}', [("+I", 1, None)]),
    Case(
        "maxwell-json",
        _LENIENT,
        '{"data":{"id":1},"old":{"id":"x"},"type":"update"}',
        [("-U", None, None), ("+U", 1, None)],
    ),
    *(
        Case(
            "ogg-json",
            {},
            message.replace('"source":{"table":"t1"}', '"table":"t1"')
            .replace('"op":"', '"op_type":"')
            .replace(f'"{op}"', f'"{op_type}"'),
            wanted,
        )
        for message, wanted in _DEBEZIUM.items()
        for op, op_type in (("c", "I"), ("u", "U"), ("d", "D"))
        if isinstance(wanted, list) and f'"op":"{op}"' in message and message.count('"op"') == 1
    ),
]
_AROUND: dict[str, tuple[str, str]] = {  # a whole row, and a row without a name
    "debezium-json": ('{"after":{"id":8,"name":"z"},"op":"c","source":{"table":"t8"}}', '{"before":{"id":9},"op":"d"}'),
    "ogg-json": ('{"after":{"id":8,"name":"z"},"op_type":"I","table":"t8"}', '{"before":{"id":9},"op_type":"D"}'),
    "canal-json": (
        '{"data":[{"id":8,"name":"z"}],"old":null,"type":"INSERT","table":"t8"}',
        '{"data":[{"id":9}],"old":null,"type":"DELETE"}',
    ),
    "maxwell-json": ('{"data":{"id":8,"name":"z"},"type":"insert","table":"t8"}', '{"data":{"id":9},"type":"delete"}'),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.format} {' '.join(case.options)} {case.message}")
def test_a_message_gives_the_rows_of_its_operation(case: Case) -> None:
    whole, omitting = _AROUND[case.format]
    if case.options == _FLAT:
        whole, omitting = '{"id":8,"name":"z","__table":"t8"}', '{"id":9,"__deleted":true}'
    elif case.options.keys() & _WRAPPED.keys():
        whole, omitting = f'{{"payload":{whole}}}', f'{{"schema":null,"payload":{omitting}}}'
    format, metadata = get_format(case.format, case.options), ["table"]
    if case.format == "debezium-json":
        metadata = ["source.table"]
    messages = [text.encode() for text in (whole, case.message, omitting, case.message, case.message, whole)]
    batch = decoded(format, messages, _COLUMNS, metadata=metadata)
    assert answers(batch) == alone(format, messages, _COLUMNS, metadata=metadata)
    first, found, sparse, *_ = readable_rows(batch)
    assert (first[0][1:], sparse[0][1:]) == ((8, "z", "t8"), (9, None, None))
    if isinstance(case.wanted, str):
        assert found[: len(case.wanted)] == case.wanted
    else:
        table = "t1" if '"t1"' in case.message else None
        assert found == [(*row, table) for row in case.wanted]
