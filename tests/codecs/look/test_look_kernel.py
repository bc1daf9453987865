"""The kernel's check of messages and the Python rule give the same answers, for generated and mutated messages."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs.changes import discover as change_data
from kvformat.codecs.json import discover as json_rows
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_type
from kvformat.registry.contract.look import Looked, LookRequest
from tests.support.looking import Known, as_bytes, look, merged, table, types_of

_VALUES = [
    "null", "true", "false", "0", "-1", "5", "32768", "2147483648", "-9223372036854775808", "9223372036854775807",
    "9223372036854775808", "18446744073709551616", "1.5", "-0.25", "1e5", "1E400", "12.345", "0.1", "1.123456789", "01",
    '"x"', '""', '"5"', '"-7"', '"1.25"', '"1e3"', '"0"', '"1"', '"true"', '"\\u0031"', '"abcdef"', '"\u00e9"',
    '"\u20ac"', '"\\ud800"', '"2024-02-29"', '"2023-02-29"', '"0000-01-01"', '"2024-02-29 12:00:00"',
    '"2024-02-29 12:00:00.123"', '"2024-02-29 12:00:00.1234567"', '"2024-02-29 12:00:00Z"', '"2024-02-29T12:00:00Z"',
    '"2024-02-29T12:00"', '"12:00:00"', '"12:00:00.123"', '"24:00:00"', "{}", '{"a":1}', "[]", "[1,null]", "[", "nul",
    '["2024-02-29"]', '[["x"],[]]', '{"a":"5","b":[1.5]}', '{"a":1,"b":null,"a":true}', '{"a" : 7 }', '[{"a":1}]',
    '"YWJj"', '"__debezium_unavailable_value"',
]  # fmt: skip
_TYPES = (
    "BIGINT", "INT", "SMALLINT", "DOUBLE", "FLOAT", "DECIMAL(10, 2)", "DECIMAL(20, 0)", "BOOLEAN", "STRING",
    "VARCHAR(3)", "DATE", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIME(3)", "BYTES",
    "ARRAY<INT>", "ARRAY<ARRAY<STRING>>", "ARRAY<DATE>", "ROW<a INT, b ARRAY<DOUBLE>>", "MAP<STRING, BIGINT>",
    "MAP<STRING, STRING>", "ARRAY<ROW<a DECIMAL(10, 2), b ARRAY<VARCHAR(2)>>>",
)  # fmt: skip
_NULL = "nothing"
"""A column that has no value."""
_NAMES = ["a", "b", "c", "d", "long_name", "\u00e9", 'q"x']
_MYSQL = ("int(11)", "bigint(20) unsigned", "tinyint(1)", "decimal(10,2)", "datetime(3)", "timestamp", "varchar(3)",
          "blob", "date", "time(3)", "float", "double", "text", "json")  # fmt: skip
_CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "json": ("json", {}, {}),
    "json, ISO-8601": ("json", {"timestamp-format.standard": "ISO-8601"}, {}),
    "json, strings": ("json", {}, {"infer-schema.primitive-as-string": True}),
    "debezium": ("debezium-json", {}, {}),
    "debezium, schemas": ("debezium-json", {"schema-include": "true"}, {}),
    "debezium, types": ("debezium-json", {"schema-include": "true", "types": "debezium"}, {}),
    "canal": ("canal-json", {}, {}),
    "canal, filter": ("canal-json", {"table.include": "t"}, {}),
    "canal, mysql": ("canal-json", {"bytes.encoding": "ISO-8859-1"}, {"infer-schema.strategy": "MYSQL_TYPE"}),
    "canal, jdbc": ("canal-json", {}, {"infer-schema.strategy": "SQL_TYPE"}),
    "maxwell": ("maxwell-json", {}, {}),
    "maxwell, mysql": ("maxwell-json", {"types": "mysql"}, {}),
    "ogg": ("ogg-json", {}, {}),
}


def _row(chance: random.Random, values: list[str]) -> str:
    names = chance.sample(_NAMES, chance.randint(0, 4))
    if chance.random() < 0.05:
        names += names[:1]
    blank = chance.choice(["", "", "", " "])
    members = [f"{json.dumps(n, ensure_ascii=False)}:{blank}{chance.choice(values)}" for n in names]
    if chance.random() < 0.1:
        members.append(f'"{_NULL}": null')
    return "{" + ",".join(members) + "}"


def _message(case: str, chance: random.Random, values: list[str], tables: list[str]) -> str:
    format, table = case.partition(",")[0], chance.choice(tables)
    row = _row(chance, values)
    image = chance.choice([row, row, "null"])
    if format == "json":
        return row if chance.random() < 0.9 else f"[{row},{_row(chance, values)}]"
    if format == "debezium":
        schema = chance.choice(["", "", ',"schema":null', ',"schema":"s"'])
        position = chance.choice(["7", "1000", '"x"', "null", "{}", "-"])
        source = f'{{"db":"d"{schema},"pos":{position},"table":"{table}","lsn":[1,{{}}]}}'
        text = f'{{"before":{image},"after":{row},"source":{source},"op":"{chance.choice("ccuudr")}","ts_ms":1}}'
        if "s" in case.partition(",")[2]:
            types = ["int32", "int64", "string", "boolean", "float64"]
            fields = [{"type": chance.choice(types), "field": name} for name in _NAMES[: chance.choice([4, 7])]]
            block = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
            text = f'{{"schema":{json.dumps(block)},"payload":{text}}}'
        return text
    if format == "ogg":
        return f'{{"table":"S.{table}","op_type":"{chance.choice("IUD")}","primary_keys":["a"],"after":{row}}}'
    if format == "maxwell":
        kind = chance.choice(["insert", "update", "delete", "bootstrap-insert"])
        key = chance.choice(["", ',"primary_key_columns":["a"]'])
        return f'{{"database":"d","table":"{table}","type":"{kind}"{key},"data":{row},"old":{image}}}'
    types = {name: chance.choice(_MYSQL) for name in _NAMES[:5]}
    jdbc = {name: chance.choice([-5, 4, 12, 93, 3]) for name in _NAMES[:5]}
    key = chance.choice(["null", '["a"]', '["a"]', '["a","b"]'])
    return (
        f'{{"data":[{row},{_row(chance, values)}],"old":[{image}],"type":"{chance.choice(["INSERT", "UPDATE"])}",'
        f'"isDdl":false,"database":"d","table":"{table}","pkNames":{key},"mysqlType":{json.dumps(types)},'
        f'"sqlType":{json.dumps(jdbc)}}}'
    )


def _mutated(message: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(message))
    how = chance.randrange(6)
    if how == 0:
        return message[:at]
    if how == 1:
        return message[:at] + bytes([chance.randrange(256)]) + message[at + 1 :]
    if how == 2:
        return message[:at] + message[at + 1 :]
    if how == 3:
        other = chance.randrange(len(message))
        return message[:at] + message[min(at, other) : max(at, other)] + message[at:]
    if how == 4:
        return message.replace(b'":', b'" :', 1)
    return message + chance.choice([b" ", b"x", b"{}", b"\0"])


def _known(chance: random.Random, names: list[tuple[str, ...]]) -> Known:
    known = {}
    for name in names:
        some = chance.sample(_NAMES[:6], chance.randint(1, 6))
        columns = ", ".join(f"`{column}` {chance.choice(_TYPES)}" for column in some)
        key = chance.choice([None, ("a",)])
        known[name] = table(columns, as_text=[c for c in some if chance.random() < 0.3], key=key)
    return known


def _answer(looked: Looked) -> Any:
    """Return the answer without the order of tables and types, which merging does not need."""
    tables = [None if i is None else looked.tables[i] for i in looked.indices.to_pylist()]
    columns = {(c.table, c.name, c.message, c.place, frozenset(c.types), c.as_text) for c in looked.columns}
    return tables, columns, set(looked.keys), dict(looked.changes), dict(looked.errors)


def _with_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the kernel even if it is not compiled: then its source runs."""
    monkeypatch.setattr(json_rows, "COMPILED", True)
    monkeypatch.setattr(change_data, "COMPILED", True)


@pytest.mark.slow
@pytest.mark.parametrize("case", _CASES)
def test_the_kernel_and_the_rule_agree(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_kernel(monkeypatch)
    format, given, options = _CASES[case]
    compared = fitting = noted = 0
    for seed in range(50):
        chance = random.Random(f"{case} {seed}")
        values = chance.sample(_VALUES[:-8], chance.randint(2, 12)) if seed % 3 else ["null", "5", '"x"', '"5"']
        tables = ["t", "u", "t u"][: chance.randint(1, 3)]
        texts = [_message(case, chance, values, tables).encode() for _ in range(40)]
        messages = [m if chance.random() < 0.9 else _mutated(m, chance) for m in texts]
        names = (
            [("topic",)]
            if format == "json"
            else [("S", t) if format == "ogg-json" else ("d", t) for t in ("t", "u", "t u")]
        )
        known = _known(chance, names) if seed % 2 else {}
        nulls = [_NULL, *chance.sample(_NAMES, seed % 4)] if seed % 5 else []
        for _ in range(2):
            found = look(format, messages, given=given, known=known, nulls=nulls, **options)
            with monkeypatch.context() as slow:
                slow.setattr(json_rows, "COMPILED", False)
                slow.setattr(change_data, "COMPILED", False)
                expected = look(format, messages, given=given, known=known, nulls=nulls, **options)
            one, other = merged(known, found), merged(known, expected)
            assert {n: t.nulls for n, t in one.items() if t.nulls} == {n: t.nulls for n, t in other.items() if t.nulls}
            noted += sum(len(t.nulls) for t in one.values())
            assert {n: t for n, t in types_of(one).items() if t} == {n: t for n, t in types_of(other).items() if t}
            assert _answer(found)[0] == _answer(expected)[0], messages
            assert _answer(found)[2:] == _answer(expected)[2:], messages
            compared += len(messages)
            fitting += not found.columns
            known = other
    print(f"{case}: {compared} messages compared, {fitting} batches fit")
    assert compared == 4_000
    assert fitting > 5
    assert noted > 20 or options


def test_messages_that_fit_are_not_looked_at_closer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many messages that fit, Python sees only the first of each table."""
    _with_kernel(monkeypatch)
    seen = []
    usual = change_data.ChangeLooker._look_at

    def counted(self: Any, *arguments: Any) -> Any:
        seen.append(arguments[0])
        return usual(self, *arguments)

    monkeypatch.setattr(change_data.ChangeLooker, "_look_at", counted)
    types = {"id": "bigint(20)", "at": "datetime(3)", "v": "decimal(10,2)"}
    row = {"id": "7", "at": "2024-02-29 12:00:00.123", "v": "1.25"}
    envelope = {"type": "INSERT", "isDdl": False, "database": "d", "pkNames": ["id"], "mysqlType": types, "old": None}
    canal = [as_bytes({**envelope, "table": f"t{i % 3}", "data": [row, row]}) for i in range(3000)]
    assert len(look("canal-json", canal, infer_schema__strategy="MYSQL_TYPE").columns) == 9
    assert len(seen) == 3
    seen.clear()
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [
        {"field": "id", "type": "int64"}, {"field": "v", "type": "string"}]}]}  # fmt: skip
    for given in ({}, {"schema-include": "true"}, {"schema-include": "true", "types": "debezium"}):
        payloads = [
            {"before": None, "after": {"id": i, "v": "x"}, "op": "c", "source": {"db": "d", "table": f"t{i % 3}"}}
            for i in range(3000)
        ]
        messages = [{"schema": schema, "payload": payload} if given else payload for payload in payloads]
        assert len(look("debezium-json", messages, given=given).columns) == 6
        assert len(seen) == 3
        seen.clear()


@pytest.mark.parametrize(
    ("t", "number", "fits"),
    [
        ("BIGINT", 5, True),
        ("BIGINT", "5", False),  # a value has this type only if it is a number
        ("DOUBLE", 1.5, True),
        ("DOUBLE", "1.5", False),
        ("DECIMAL(20, 0)", "5", False),
        ("INT", "5", True),
        ("DECIMAL(10, 2)", "1.25", True),
        ("FLOAT", "1.5", True),
    ],
)
def test_the_kernel_takes_all_numbers_that_a_column_reads(
    monkeypatch: pytest.MonkeyPatch, t: str, number: Any, fits: bool
) -> None:
    """A column whose type is fixed for all tables reads every text of a number, and then no value is looked at."""
    _with_kernel(monkeypatch)
    seen: list[Any] = []
    usual = json_rows.JsonLooker._look_at
    monkeypatch.setattr(json_rows.JsonLooker, "_look_at", lambda self, *a: (seen.append(a[0]), usual(self, *a))[1])
    messages = [{"a": number, "b": "x"}] * 3
    for fixed in ({}, {"a": parse_type(t)}):
        known = {("topic",): table(f"a {t}, b STRING")}
        first = look("json", messages, known=known, fixed=fixed)
        assert [str(found) for column in first.columns for found in column.types] == (
            [] if fits or fixed else ["STRING"]
        )
        if fits or fixed:
            seen.clear()
            assert not look("json", messages, known=merged(known, first), fixed=fixed).columns
            assert not seen


def test_a_wanted_name_that_comes_with_null_is_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the kernel takes its nulls, and only a value is looked at closer. Other nulls are never looked at."""
    _with_kernel(monkeypatch)
    seen: list[int] = []
    usual = change_data.ChangeLooker._look_at
    monkeypatch.setattr(change_data.ChangeLooker, "_look_at", lambda self, *a: (seen.append(a[0]), usual(self, *a))[1])
    source = {"db": "d", "table": "t"}
    rows: list[dict[str, Any]] = [
        {"id": 1},
        {"id": 2, "n": None},
        {"id": 3, "a": None},
        {"id": 4, "a": None},
        {"id": 5},
    ]
    messages = [{"before": None, "after": row, "op": "c", "source": source} for row in [*rows, {"id": 6, "a": "x"}]]
    first = look("debezium-json", messages[:-1], nulls=["a", "b", "id"])
    assert seen == [0, 2]
    assert [(c.name, c.types, c.message) for c in first.columns if not c.types] == [("a", (), 2)]
    known = merged({}, first)
    assert known["d", "t"].nulls == {"a"}
    seen.clear()
    second = look("debezium-json", messages, known=known, nulls=["a", "b", "id"])
    assert seen == [0, 5]
    assert [(c.name, str(c.types[0])) for c in second.columns] == [("a", "STRING")]
    assert not look("debezium-json", messages[1:3]).columns[1:]  # nobody asks
    assert [c.name for c in look("json", [{"a": None, "c": 1}], nulls=["a"]).columns] == ["a", "c"]


_NESTED_TYPES = {
    "ARRAY<INT>": 5, "ARRAY<DOUBLE>": 9, "ARRAY<DECIMAL(4, 2)>": 9, "ARRAY<BOOLEAN>": 4, "ARRAY<DATE>": 3,
    "ARRAY<TIMESTAMP(3)>": 3, "ARRAY<STRING>": 20, "ARRAY<ARRAY<DOUBLE>>": 2, "MAP<STRING, BIGINT>": 5,
    "MAP<STRING, ARRAY<INT>>": 2, "ROW<a INT, b STRING>": 4, "ROW<a ARRAY<ROW<a INT>>>": 2,
}  # fmt: skip
"""Types of columns, and the least number of values below that fit them."""


def test_the_kernel_and_the_rule_agree_on_nested_values(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_kernel(monkeypatch)
    inner = [value for value in _VALUES if value not in ("[", "nul", "01")]
    values = [*inner, *(f"[{v}]" for v in inner), *(f"[1,{v}]" for v in inner), *(f"[[{v}]]" for v in inner)]
    values += [f'{{"{name}":{v}}}' for v in inner for name in ("a", "b", "c")]
    values += [f'{{"a":[{{"a":{v}}}]}}' for v in inner] + [
        "[" * 1100 + "]" * 1100,
        "[1,]",
        "[1 2]",
        '{"a":1,}',
        '{"a"}',
    ]
    seen: list[int] = []
    usual = json_rows.JsonLooker._look_at
    monkeypatch.setattr(json_rows.JsonLooker, "_look_at", lambda self, *a: (seen.append(a[0]), usual(self, *a))[1])
    for columns, least in _NESTED_TYPES.items():
        known = {("topic",): table(f"c {columns}")}
        fitting = 0
        for value in values:
            seen.clear()
            found = look("json", [f'{{"c":{value}}}'.encode()], known=known)
            if not seen:
                fitting += 1
                monkeypatch.setattr(json_rows, "COMPILED", False)
                expected = look("json", [f'{{"c":{value}}}'.encode()], known=known)
                monkeypatch.setattr(json_rows, "COMPILED", True)
                assert _answer(found) == _answer(expected), (columns, value)
        print(f"{columns}: {fitting} of {len(values)} values fit")
        assert fitting >= least + 1  # and null


_SOURCE = '"source":{"name":"a name of some length","db":"d","schema":null,"pos":7,"table":"goods"}'
_BLOCK = (
    '{"type":"struct","fields":[{"type":"struct","field":"after","fields":'
    '[{"type":"int64","field":"a"},{"type":"int64","field":"b"}]}]}'
)
_ENVELOPES = {
    "debezium": f'{{"before":null,"after":{{"a":5,"b":6}},{_SOURCE},"op":"c","ts_ms":1}}',
    "debezium, schemas": f'{{"schema":{_BLOCK},"payload":{{"before":null,"after":{{"a":5}},{_SOURCE},"op":"c"}}}}',
    "canal, mysql": '{"data":[{"a":"5"}],"old":null,"type":"INSERT","isDdl":false,"database":"d","table":"goods",'
    '"pkNames":["a"],"mysqlType":{"a":"bigint(20)"},"sqlType":{"a":-5},"ts":1}',
    "maxwell": '{"database":"d","table":"goods","type":"insert","primary_key_columns":["a"],'
    '"data":{"a":5,"b":6},"ts":1}',
    "ogg": '{"table":"S.goods","op_type":"I","primary_keys":["a"],"after":{"a":5,"b":6},"pos":"1"}',
}
_ODD: dict[str, list[tuple[str, str]]] = {
    "debezium": [
        ('"op":"c"', '"op":"c","op":"t"'),
        ('"op":"c"', '"op":"t"'),
        ('"op":"c"', '"op":"cr"'),
        ('"op":"c"', '"op":""'),
        ('"op":"c"', '"op":null'),
        ('"op":"c",', ""),
        ('"before":null', '"before":{"a":"x"}'),
        ('"before":null', '"before":{"a":5},"before":{"b":"x"}'),
        ('"before":null', '"before":5'),
        ('{"a":5,"b":6}', '{"a":5,"b":"x"}'),
        ('{"a":5,"b":6}', '{"a":5,"c":6}'),
        ('{"a":5,"b":6}', "null"),
        ('{"a":5,"b":6}', "[]"),
        ('"table":"goods"', '"table":"goods","table":"u"'),
        ('"table":"goods"', '"table":"u"'),
        ('"table":"goods"', '"table":"g\\u006fods"'),
        ('"table":"goods"', '"table":""'),
        ('"table":"goods"', '"table":null'),
        ('"table":"goods"', '"table":5'),
        (',"table":"goods"', ""),
        ('"db":"d"', '"db":null'),
        ('"db":"d"', '"db":""'),
        ('"db":"d"', '"db":"e"'),
        ('"db":"d",', ""),
        ('"schema":null', '"schema":"s"'),
        ('"schema":null', '"schema":{}'),
        ('"schema":null,"pos":7,"table":"goods"', '"schema":"goods","pos":7,"table":null'),
        (_SOURCE, '"source":null'),
        (_SOURCE, '"source":{}'),
        (f",{_SOURCE}", ""),
        (_SOURCE, f'{_SOURCE},"source":{{"db":"d","table":"u"}}'),
        (_SOURCE, f'{_SOURCE},"ddl":"DROP TABLE goods","databaseName":"d"'),
        ('"ts_ms":1}', '"ts_ms":1}}'),
        ('"ts_ms":1}', '"ts_ms":1} x'),
        ('"ts_ms":1}', '"ts_ms":1'),
    ],
    "debezium, schemas": [
        ('"op":"c"}}', '"op":"c"},"payload":null}'),
        ('"op":"c"}}', '"op":"c"},"x":1}'),
        ('"op":"c"}}', '"op":"c"},"schema":null}'),
        ('"op":"c"}}', '"op":"c"}'),
        ('{"type":"int64","field":"b"}', '{"type":"string","field":"b"}'),
        (f'"schema":{_BLOCK},', ""),
        (_BLOCK, "null"),
        ('"after":{"a":5}', '"after":{"a":5,"b":"x"}'),
    ],
    "canal, mysql": [
        ('"pkNames":["a"]', '"pkNames":["b"]'),
        ('"pkNames":["a"]', '"pkNames":null'),
        ('"pkNames":["a"],', ""),
        ('"mysqlType":{"a":"bigint(20)"}', '"mysqlType":{"a":"varchar(9)"}'),
        ('"mysqlType":{"a":"bigint(20)"}', '"mysqlType":{"a":"bigint(20)","b":"int"}'),
        ('"mysqlType":{"a":"bigint(20)"}', '"mysqlType":null'),
        ('"mysqlType":{"a":"bigint(20)"},', ""),
        ('"isDdl":false', '"isDdl":true'),
        ('"isDdl":false,', ""),
        ('"type":"INSERT"', '"type":"INSERTED"'),
        ('"type":"INSERT"', '"type":"TRUNCATE"'),
        ('"data":[{"a":"5"}]', '"data":[{"a":"5"},{"a":"x"}]'),
        ('"data":[{"a":"5"}]', '"data":[{"a":"5"},null,{"b":"6"}]'),
        ('"data":[{"a":"5"}]', '"data":{"a":"x"}'),
        ('"old":null', '"old":[{"a":"x"}]'),
        ('"database":"d"', '"database":null'),
    ],
    "maxwell": [
        ('"primary_key_columns":["a"]', '"primary_key_columns":["a","b"]'),
        ('"primary_key_columns":["a"],', ""),
        ('"type":"insert"', '"type":"bootstrap-insert"'),
        ('"type":"insert"', '"type":"table-drop"'),
        ('"data":{"a":5,"b":6}', '"data":{"a":5,"b":6},"old":{"a":"x"}'),
        ('"table":"goods",', ""),
    ],
    "ogg": [
        ('"table":"S.goods"', '"table":"S.u"'),
        ('"table":"S.goods"', '"table":"S..goods"'),
        ('"primary_keys":["a"]', '"primary_keys":["b"]'),
        ('"after":{"a":5,"b":6}', '"after":{"a":5,"b":6},"before":{"a":"x"}'),
        ('"op_type":"I"', '"op_type":"T"'),
    ],
}


def _lengthened(text: str, count: int) -> str:
    """Return an envelope with one more member at its end."""
    return re.sub(r"(\}+)$", rf',"x":"{"x" * count}"\1', text)


@pytest.mark.parametrize("case", _ODD)
def test_the_kernel_and_the_rule_agree_on_odd_messages_among_those_that_fit(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one table, and of so many tables that the kernel guesses them, or reads the rows after their table."""
    format, given, options = _CASES[case]
    usual = _ENVELOPES[case]
    for old, new in _ODD[case]:
        assert usual.count(old) == 1, old
        odd = usual.replace(old, new)
        tables = [usual.replace("goods", f"goods{number % 7}") for number in range(18)]
        longer = [_lengthened(text, 17 * number % 100) for number, text in enumerate(tables)]
        for texts in (
            [usual, usual, odd, odd, usual, odd],
            [*tables, usual, odd, *tables[:3], odd],
            [*longer, usual, _lengthened(odd, 70)],
        ):
            with monkeypatch.context() as slow:
                slow.setattr(change_data, "COMPILED", False)
                expected = look(format, [text.encode() for text in texts], given=given, **options)
            with monkeypatch.context() as fast:
                _with_kernel(fast)
                found = look(format, [text.encode() for text in texts], given=given, **options)
            assert types_of(merged({}, found)) == types_of(merged({}, expected)), odd
            assert _answer(found)[0] == _answer(expected)[0], odd
            assert _answer(found)[2:] == _answer(expected)[2:], odd


@pytest.mark.parametrize("case", _ENVELOPES)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_second_look_at_the_same_messages_finds_the_same(
    case: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one may not have been stored: then a batch is looked at again, and by the same looker."""
    monkeypatch.setattr(change_data, "COMPILED", compiled)
    format, given, options = _CASES[case]
    looker = get_format(format, given).looker(LookRequest(options=options))
    text = _ENVELOPES[case]
    texts = [one for number in range(3) for one in (text, text.replace("goods", f"goods{number}"))]
    messages = pa.array([one.encode() for one in (*texts, text)])  # the first one is of the last one's table
    topics = pa.array(["topic"] * len(messages))
    first, second = (looker.look(messages, topics) for _ in range(2))
    assert first.columns
    assert _answer(first) == _answer(second)
