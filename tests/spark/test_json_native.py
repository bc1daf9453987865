"""The native engine of json writes the same bytes as the Arrow engine, for random rows and types and all options.

Rows are sent to Spark as messages, which `decode` converts to typed columns.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kvformat.codecs.json.native import json_text
from kvformat.codecs.json.settings import WriteSettings
from kvformat.registry import get_format
from kvformat.registry.contract.ddl import parse_schema
from kvformat.registry.contract.schemas import arrow_schema, spark_schema
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.numbers import double_text, double_text_java17

pytestmark = pytest.mark.spark

_OPTIONS: list[dict[str, str]] = [
    {},
    {"timestamp-format.standard": "ISO-8601", "encode.ignore-null-fields": "true"},
    {"encode.decimal-as-plain-number": "true", "map-null-key.mode": "DROP"},
    {"encode.decimal-as-plain-number": "true", "encode.ignore-null-fields": "true", "map-null-key.mode": "LITERAL"},
]
_SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.caseSensitive": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
}
_DECIMALS = (
    (1, 0),
    (2, 0),
    (3, 2),
    (5, 5),
    (10, 2),
    (12, 8),
    (18, 0),
    (18, 6),
    (19, 0),
    (20, 1),
    (38, 0),
    (38, 18),
    (38, 38),
)
_SCALARS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "CHAR(3)", "VARCHAR(9)", "STRING", "BYTES",
    "BINARY(2)", "DATE", "TIME(0)", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)",
    "TIMESTAMP_LTZ(6)", "INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND",
    *(f"DECIMAL({precision}, {scale})" for precision, scale in _DECIMALS),
)  # fmt: skip
_CHARACTERS = (
    'aé/"\\\n\t\b\f\r\x00\x01\x1f\x7f\x85\u2028\ud7ff\ue000\uffff\U00010000\U0001f600\U0010ffff{}[]:,_ud83d 10E+2'
)
_ODD_SCHEMAS = [
    "a INT, A STRING, r ROW<x DECIMAL(4, 1), X ARRAY<STRING>>",
    "`n😀` INT, r ROW<`😀` DECIMAL(4, 1), s STRING>",
    "a ARRAY<ARRAY<ROW<s STRING, m MAP<STRING, ARRAY<STRING>>>>>",
    ", ".join(f"d{i} DECIMAL(20, 4), s{i} STRING, t{i} TIMESTAMP(3)" for i in range(8)),
]
_Cases = Sequence[tuple[str, pa.StructArray]]
_EDGES = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000)


# --- random schemas and rows ---------------------------------------------------------------------------


def _type(rng: random.Random, depth: int) -> str:
    kind = rng.random() if depth else 1
    if kind < 0.12:
        return f"ARRAY<{_type(rng, depth - 1)}>"
    if kind < 0.2:
        return f"MAP<STRING, {_type(rng, depth - 1)}>"
    if kind < 0.23:
        return "MULTISET<STRING>"
    if kind < 0.4:
        return f"ROW<{_columns(rng, rng.randint(1, 4), depth - 1)}>"
    return rng.choice(_SCALARS)


def _columns(rng: random.Random, count: int, depth: int) -> str:
    names = rng.sample(
        ["a", "B", "_", "__", "_1", "value", "é", "x y", 'q"', "f0", "n\n", "t"] + [f"c{i}" for i in range(count)],
        count,
    )
    return ", ".join(f"`{name}` {_type(rng, depth)}" for name in names)


def _value(rng: random.Random, t: FlinkType) -> Any:
    if rng.random() < 0.12:
        return None
    if t.root == "ROW":
        return {f.name: _value(rng, f.type) for f in t.fields}
    if t.root == "ARRAY":
        return [_value(rng, t.fields[0].type) for _ in range(rng.randrange(4))]
    if t.root == "MAP":
        return [(key, _value(rng, t.fields[1].type)) for key in {_text(rng) for _ in range(rng.randrange(4))}]
    if t.root == "MULTISET":
        return [(key, rng.randint(1, 9)) for key in {_text(rng) for _ in range(rng.randrange(4))}]
    if t.root == "DECIMAL":
        return _decimal(rng, t.precision or 0, t.scale or 0)
    if t.root == "TIME":
        return _moment(rng).time().replace(microsecond=rng.choice((0, 1000, 120_000, 999_000)) if t.precision else 0)
    return _VALUES[t.root](rng)


def _text(rng: random.Random) -> str:
    characters = rng.choice((_CHARACTERS, "abc", "aé"))
    return "".join(rng.choice(characters) for _ in range(rng.randrange(8)))


def _integer(bits: int) -> Callable[[random.Random], int]:
    most = 2 ** (bits - 1)
    return lambda rng: rng.choice((0, 1, -1, 10, -most, most - 1, rng.randrange(-most, most)))


def _decimal(rng: random.Random, precision: int, scale: int) -> Decimal:
    """Return a random decimal: round, tiny, zero, with all digits, or with trailing zeros."""
    digits = rng.randint(1, precision)
    unscaled = rng.choice((0, 1, 10**digits - 1, 10 ** (digits - 1), rng.randrange(10**digits)))
    if rng.random() < 0.3:
        unscaled -= unscaled % 10 ** rng.randint(0, digits)
    return Decimal((int(rng.random() < 0.4 and unscaled > 0), tuple(map(int, str(unscaled))), -scale))


def _double(rng: random.Random) -> float:
    """Return a number without a redundant digit in Java 17, so that the test does not depend on Java's version."""
    while True:
        number = rng.choice(
            (0.0, -0.0, 0.1, 1e7, 1e-3, 123456.75, 4.9e-324, float("nan"), float("-inf"), rng.gauss(0, 1e3))
        )
        number *= rng.choice((1, 1, 1e15, 1e-9))
        if double_text(number) == double_text_java17(number):
            return number


def _float(rng: random.Random) -> float:
    """Return a multiple of 1/16 below 16,384, which Java 17 writes without a redundant digit."""
    numbers = (0.0, -0.0, 0.1, 1e7, 1e-3, 1e-9, 1e22, 123456.75, 3.4028235e38, float("nan"), float("-inf"))
    number: float = pa.scalar(rng.choice((*numbers, rng.randrange(-(2**18), 2**18) / 16)), pa.float32()).as_py()
    return number


def _moment(rng: random.Random) -> datetime.datetime:
    """Return a time from year 1 to 9999, including local times that do not exist in New York."""
    gap = datetime.datetime(2024, 3, 10, 2, 30), datetime.datetime(2024, 11, 3, 1, 30), datetime.datetime(1582, 10, 7)
    moment = rng.choice((*_EDGES, *gap, _EDGES[0] + (_EDGES[1] - _EDGES[0]) * rng.random()))
    return moment.replace(microsecond=rng.choice((0, 1, 500_000, 123_000, 999_999, 120)))


def _interval(rng: random.Random) -> datetime.timedelta:
    """Return a positive or negative duration in milliseconds, also of days across a change of the clock."""
    days = rng.choice((0, 1, 69, 307, 850, 100_000, rng.randrange(10_000)))
    return rng.choice((1, -1)) * datetime.timedelta(
        days=days, milliseconds=rng.choice((0, 1, rng.randrange(86_400_000)))
    )


_VALUES: dict[str, Callable[[random.Random], Any]] = {
    "BOOLEAN": lambda rng: rng.random() < 0.5,
    "TINYINT": _integer(8),
    "SMALLINT": _integer(16),
    "INT": _integer(32),
    "BIGINT": _integer(64),
    "FLOAT": _float,
    "DOUBLE": _double,
    "CHAR": _text,
    "VARCHAR": _text,
    "BINARY": lambda rng: rng.randbytes(rng.randrange(6)),
    "VARBINARY": lambda rng: rng.randbytes(rng.randrange(6)),
    "DATE": lambda rng: _moment(rng).date(),
    "TIMESTAMP": _moment,
    "TIMESTAMP_LTZ": lambda rng: _moment(rng).replace(tzinfo=datetime.UTC),
    "INTERVAL YEAR TO MONTH": _integer(20),
    "INTERVAL DAY TO SECOND": _interval,
}


# --- the comparison ------------------------------------------------------------------------------------


def _rows(schema: str, values: list[Any]) -> pa.StructArray:
    fields = arrow_schema(parse_schema(schema))
    return pa.array(values, pa.struct(list(fields)))


def _frame(spark: Any, cases: _Cases) -> Any:
    """Return a frame with the rows of each case as a column `row0`, `row1`, ..., and their number `n`."""
    fmt = get_format("json")
    columns = []
    for schema, rows in cases:
        batch = fmt.encode_batch(rows, schema)
        assert batch.errors is None
        columns.append(batch.messages.to_pylist())
    messages = [(n, *values) for n, values in enumerate(itertools.zip_longest(*columns))]
    names = [f"value{i}" for i in range(len(cases))]
    frame = spark.createDataFrame(messages, ", ".join(["n INT", *(f"{name} BINARY" for name in names)]))
    rows_of = (fmt.decode(name, cases[i][0]).alias(f"row{i}") for i, name in enumerate(names))
    return frame.coalesce(1).select("n", *rows_of)


def _expect_bytes_of_the_kernel(
    spark: Any, *schemas: tuple[str, list[Any]], options: Sequence[dict[str, str]] = _OPTIONS
) -> None:
    """Compare both engines for schemas with rows. Runs one job for each combination of options."""
    cases = [(schema, _rows(schema, values)) for schema, values in schemas]
    frame = _frame(spark, cases)
    for chosen in options:
        fmt = get_format("json", chosen)
        columns: dict[tuple[str, int], Any] = {}
        for i, (schema, _) in enumerate(cases):
            columns["arrow", i] = fmt.encode(f"row{i}", schema, engine="arrow")
            native = json_text(F.col(f"row{i}"), parse_schema(schema), WriteSettings.of(fmt.options))
            if native is not None:
                columns["native", i] = native
        named = [column.alias(f"{engine}{i}") for (engine, i), column in columns.items()]
        got = frame.select("n", *named).toArrow().sort_by("n")
        for engine, i in columns:
            schema, rows = cases[i]
            found = got[f"{engine}{i}"].to_pylist()[: len(rows)]
            wanted = fmt.encode_batch(rows, schema).messages.to_pylist()
            different = [(a, b) for a, b in zip(found, wanted, strict=True) if a != b]
            assert not different[:1], f"{engine}, {fmt}, {schema}"


def _random_rows(rng: random.Random, schema: str, count: int) -> list[Any]:
    row = parse_schema(schema)
    return [{f.name: _value(rng, f.type) for f in row.fields} for _ in range(count)]


def _plan(frame: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        frame.explain()
    return out.getvalue()


@pytest.fixture(autouse=True)
def classic(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--spark-mode") == "connect":
        pytest.skip("Connect's server runs the same expressions; test_columns.py holds both to one answer")


@pytest.fixture
def other_settings(spark: Any) -> Iterator[None]:
    """Settings of the session that change the output of `to_json` and casts."""
    before = {name: spark.conf.get(name) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.slow
def test_random_rows_of_random_types(spark: Any, time_zone: str) -> None:
    rng = random.Random(time_zone)
    schemas = [_columns(rng, 9, 3) for _ in range(2)]
    _expect_bytes_of_the_kernel(spark, *((schema, _random_rows(rng, schema, 60)) for schema in schemas))


@pytest.mark.slow
def test_every_type_alone_and_in_containers(spark: Any, time_zone: str) -> None:
    """Each time zone is tested with half of the options."""
    schema = ", ".join(
        f"s{n} {t}, a{n} ARRAY<{t}>, m{n} MAP<STRING, ROW<v {t}>>" for n, t in enumerate(_SCALARS) if n % 3 != 2
    )
    options = _OPTIONS[::2] if time_zone == "UTC" else _OPTIONS[1::2]
    _expect_bytes_of_the_kernel(spark, (schema, _random_rows(random.Random(99), schema, 40)), options=options)


@pytest.mark.slow
@pytest.mark.usefixtures("other_settings")
def test_settings_of_the_session_do_not_change_the_output(spark: Any) -> None:
    schema = ", ".join(f"s{n} {t}" for n, t in enumerate(_SCALARS))
    _expect_bytes_of_the_kernel(spark, (schema, _random_rows(random.Random(7), schema, 40)))


@pytest.mark.parametrize("types", [_DECIMALS[:4], _DECIMALS[4:8], _DECIMALS[8:]])
def test_decimals_at_every_power_of_ten(spark: Any, types: Sequence[tuple[int, int]]) -> None:
    """There are no nulls, so only one option has an effect."""
    schemas = []
    for precision, scale in types:
        t = f"DECIMAL({precision}, {scale})"
        units = {sign * (10**power + step) for power in range(precision) for step in (-1, 0, 1) for sign in (1, -1)}
        units |= {7 * 10**power for power in range(precision - 1)} | {12 * 10**power for power in range(precision - 2)}
        numbers = [Decimal(unit).scaleb(-scale) for unit in units]
        schemas.append((f"d {t}, m MAP<STRING, {t}>", [{"d": n, "m": [("k", n)]} for n in numbers]))
    _expect_bytes_of_the_kernel(spark, *schemas, options=_OPTIONS[1:3])


def test_texts_with_the_prefixes_of_numbers_are_written_unchanged(spark: Any) -> None:
    """Numbers with an exponent are passed through `to_json` as texts with special prefixes of underscores."""
    disguise = '{"_0":0,"_1":"12E+1","_2":0}'
    texts = [f"{'_' * n}{i}" for n in range(1, 4) for i in range(3)] + [disguise, disguise.replace("_", "__")]
    schema = (
        "p DECIMAL(10, 2), s STRING, m MAP<STRING, STRING>, n MAP<STRING, DECIMAL(10, 2)>, d MAP<STRING, DOUBLE>, "
        "`_1` INT, `_` ROW<`__2` STRING, `_3` DECIMAL(4, 0)>, l ROW<`__0` INT, `__1` STRING, `__2` INT>"
    )
    values = [
        {
            "p": Decimal(price), "s": text, "m": [(t, "12E+1") for t in texts], "n": [(t, Decimal(120)) for t in texts],
            "d": [(t, 0.0) for t in texts], "_1": 0, "_": {"__2": "12E+1", "_3": Decimal(1200)},
            "l": {"__0": 0, "__1": "12E+1", "__2": 0},
        }
        for text in texts
        for price in ("120", "1.5")
    ]  # fmt: skip
    _expect_bytes_of_the_kernel(spark, (schema, values))


def test_nulls_names_that_differ_in_case_only_and_characters_above_u_ffff_in_nested_places(spark: Any) -> None:
    schema = (
        "a INT, A DECIMAL(4, 1), r ROW<x DECIMAL(4, 1), X TIMESTAMP(3), s STRING>, l ARRAY<ROW<t DATE>>, "
        "m MAP<STRING, ROW<d DECIMAL(3, 0), s STRING>>, k MAP<STRING, INT>, u MULTISET<STRING>"
    )
    day, at = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12)
    whole = {
        "a": 1, "A": Decimal(120), "r": {"x": Decimal(120), "X": at, "s": "😀"}, "l": [{"t": day}, {"t": None}],
        "m": [("k", {"d": Decimal(120), "s": "😀"}), ("l", {"d": None, "s": None})], "k": [("k", 1), ("l", None)],
        "u": [("e", 2)],
    }  # fmt: skip
    values = [whole, *({**whole, name: None} for name in whole)]
    values += [whole | {"r": {"x": None, "X": None, "s": None}}, whole | {"l": [None], "m": [("k", None)]}]
    plain = dict.fromkeys(whole)
    values += [plain, *(plain | {name: [("😀", None if name != "u" else 1)]} for name in "mku")]
    _expect_bytes_of_the_kernel(spark, (schema, values), options=_OPTIONS[:1])


@pytest.mark.slow
def test_unusual_names_nested_texts_and_many_columns(spark: Any) -> None:
    rng = random.Random(5)
    _expect_bytes_of_the_kernel(spark, *((schema, _random_rows(rng, schema, 30)) for schema in _ODD_SCHEMAS))


def test_values_that_only_spark_can_hold(spark: Any) -> None:
    """Bytes that are not UTF-8, times with microseconds, and timestamps before year 1."""
    row = spark.sql(
        "SELECT named_struct('s', CAST(X'61FF62F09F9880' AS STRING), 't', TIME'10:11:12.123456', "
        "'d', DATE'-0044-03-15', 'z', timestamp_micros(-67768040609740800), "
        "'n', TIMESTAMP_NTZ'+12020-01-02 03:04:05', "
        "'a', array(CAST(X'61F0' AS STRING), NULL, CAST(X'F09F9880' AS STRING))) AS row"
    )
    schema = "s STRING, t TIME(6), d DATE, z TIMESTAMP_LTZ(6), n TIMESTAMP(6), a ARRAY<STRING>"
    wanted = (
        '{"s":"a\ufffdb\\uD83D\\uDE00","t":"10:11:12.123","d":"-0044-03-15","z":"-0178-07-08 16:16:30.2592Z",'
        '"n":"+12020-01-02 03:04:05","a":["a\ufffd",null,"\\uD83D\\uDE00"]}'
    )
    fmt = get_format("json")
    array = fmt.encode(F.struct("row.a"), "a ARRAY<STRING>", engine="native")
    encoded = row.select(fmt.encode("row", schema, engine="native").alias("row"), array.alias("array")).toArrow()
    assert encoded["row"].to_pylist() == [wanted.encode()]
    assert encoded["array"].to_pylist() == ['{"a":["a\ufffd",null,"\\uD83D\\uDE00"]}'.encode()]


@pytest.mark.parametrize("options", _OPTIONS)
def test_the_native_plan_is_used_for_the_declared_types(spark: Any, options: dict[str, str]) -> None:
    schema = "a INT, p DECIMAL(38, 18), t TIMESTAMP(3), m MAP<STRING, ARRAY<STRING>>"
    fmt, struct = get_format("json", options), spark_schema(parse_schema(schema))
    frame = spark.createDataFrame([((1, Decimal(100), None, {}),)], T.StructType([T.StructField("row", struct)]))
    assert "ArrowEvalPython" not in _plan(frame.select(fmt.encode("row", schema)))
    assert "ArrowEvalPython" not in _plan(frame.select(fmt.encode("row", schema, engine="native")))
    for by_arrow in (
        fmt.encode("row", schema, engine="arrow"),
        fmt.encode("row"),
        fmt.encode("row", schema.replace("a INT", "a BIGINT")),
    ):
        assert "ArrowEvalPython" in _plan(frame.select(by_arrow))
    with pytest.raises(Exception, match="the row does not have the declared types"):
        frame.select(fmt.encode("row", schema.replace("a INT", "a BIGINT"), engine="native")).collect()


@pytest.mark.parametrize(("schema", "options", "native"), [
    ("a DECIMAL(4, 2), b ARRAY<DECIMAL(4, 2)>", {}, False),
    ("a DECIMAL(4, 2), b ARRAY<DECIMAL(4, 2)>", {"encode.decimal-as-plain-number": "true"}, True),
    (", ".join(f"s{i} STRING" for i in range(24)), {}, True),
    (", ".join(f"s{i} STRING" for i in range(25)), {}, False),
])  # fmt: skip
def test_the_faster_engine_is_used(spark: Any, schema: str, options: dict[str, str], native: bool) -> None:
    fmt, struct = get_format("json", options), spark_schema(parse_schema(schema))
    frame = spark.createDataFrame([(None,)], T.StructType([T.StructField("row", struct)]))
    assert ("ArrowEvalPython" in _plan(frame.select(fmt.encode("row", schema)))) is not native
