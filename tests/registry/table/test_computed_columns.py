"""Computed columns without Spark: what they may use, rows that fail, and columns that are left out."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from kvformat.registry import ConfigurationError, KeyValueFormat
from kvformat.registry.contract.types import FlinkType, arrow_type
from kvformat.registry.expressions.bound import Bound
from kvformat.registry.expressions.rows import Rows
from kvformat.registry.expressions.vectors import Vector
from kvformat.registry.format import Errors
from kvformat.registry.table import computed_columns
from kvformat.registry.table.decode_records import decode_records
from kvformat.registry.table.record_decoding import KAFKA_TYPES

_WITH = """WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b',
    'properties.group.id' = 'g', 'format' = '{}')"""


def _table(columns: str, format: str = "json") -> KeyValueFormat:
    return KeyValueFormat.from_ddl(f"CREATE TABLE shop ({columns}) {_WITH.format(format)}")


def test_a_column_has_the_declared_type_of_the_metadata_that_it_uses() -> None:
    table = _table(
        "sent TIMESTAMP(0) METADATA FROM 'timestamp', part STRING METADATA FROM 'partition', "
        "x AS CAST(sent AS STRING), y AS part || '!', z AS part = '7'"
    )
    computed = table.computed_columns("America/New_York")
    assert computed is not None
    assert pickle.loads(pickle.dumps(computed)) == computed
    assert computed.inputs == ("sent", "part")
    at = pa.array([1_700_000_000_999_000], pa.timestamp("us", "UTC"))
    found, failed = computed.evaluate([at, pa.array([7], pa.int32())], 1, 0)
    assert [column.to_pylist() for column in found] == [["2023-11-14 17:13:20"], ["7!"], [True]]
    assert failed == {}


def test_a_failed_row_has_null_in_its_columns_and_the_first_reason() -> None:
    computed = _table("a INT, x AS 10 / a, y AS CAST(CAST(a AS STRING) || 'z' AS INT), w AS a + 1").computed_columns()
    assert computed is not None
    found, failed = computed.evaluate([pa.array([5, 0, None], pa.int32())], 3, 0)
    assert [column.to_pylist() for column in found] == [[2, None, None], [None] * 3, [6, 1, None]]
    assert failed == {
        0: "computed column 'y' of table 'shop': CAST to INT: '5z' is not a whole number",
        1: "computed column 'x' of table 'shop': /: division by zero",
    }


def test_an_unexpected_exception_only_fails_the_rows_that_cause_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(rows: Rows) -> Vector:
        given = rows.column("a")
        if any(value is not None and value % 10 == 7 for value in given.values()):
            raise KeyError("seven")
        return given

    monkeypatch.setattr(computed_columns, "_bind_all", lambda *_: (Bound(FlinkType("INT"), evaluate),))
    computed = _table("a INT, x AS a + 0").computed_columns()
    assert computed is not None
    given = [None, *range(30)]
    found, failed = computed.evaluate([pa.array(given, pa.int32())], len(given), 0)
    assert found[0].to_pylist() == [None if value in (7, 17, 27) else value for value in given]
    words = "computed column 'x' of table 'shop' failed with KeyError: 'seven'"
    assert failed == {8: words, 18: words, 28: words}


def test_the_current_date_and_times_are_arrays_of_their_types() -> None:
    computed = _table(
        "a INT, d AS CURRENT_DATE, t AS LOCALTIME, ts AS LOCALTIMESTAMP, i AS NOW(), s AS UNIX_TIMESTAMP()"
    ).computed_columns("Asia/Kolkata")
    assert computed is not None
    now = 1_700_000_000_123_456
    found, failed = computed.evaluate([pa.array([1, 2], pa.int32())], 2, now)
    assert failed == {}
    for array, type_ in zip(found, computed.types, strict=True):
        assert array.type == arrow_type(type_)
        array.validate(full=True)
    texts = [array.cast(pa.string()).to_pylist()[:1] for array in found]
    assert texts == [
        ["2023-11-15"],
        ["03:43:20.000000000"],
        ["2023-11-15 03:43:20.123000"],
        ["2023-11-14 22:13:20.123000Z"],
        ["1700000000"],
    ]


def test_the_rows_of_a_record_with_a_failed_row_are_all_left_out() -> None:
    table = _table("id INT, n INT, x AS 10 / n", "debezium-json")
    plan, computed = table._plan("decode"), table.computed_columns()
    assert computed is not None
    update = b'{"before":{"id":1,"n":%d},"after":{"id":1,"n":%d},"op":"u"}'
    values = pa.array([update % (2, 5), update % (2, 0), update % (0, 2)], pa.binary())
    for capture in (False, True):
        rows = decode_records(
            plan.layout,
            None,
            values,
            capture=capture,
            failed_rows=lambda rows: computed.evaluate(rows.columns, int(rows.counts.sum()), 0)[1],
        )
        assert rows.counts.tolist() == [2, *[int(capture)] * 2]
        assert rows.codes is not None
        assert rows.parts is not None
        assert rows.codes.to_pylist() == [None, "COMPUTED_COLUMN", "COMPUTED_COLUMN"]
        assert rows.parts.to_pylist() == [None, "record", "record"]


def test_an_error_of_the_value_comes_before_that_of_a_computed_column() -> None:
    table = _table("n INT, x AS 10 / COALESCE(n, 0)")
    plan, computed = table._plan("decode"), table.computed_columns()
    assert computed is not None
    rows = decode_records(
        plan.layout,
        None,
        pa.array([b"{", b'{"n":0}'], pa.binary()),
        capture=True,
        failed_rows=lambda rows: computed.evaluate(rows.columns, int(rows.counts.sum()), 0)[1],
    )
    assert rows.codes is not None
    assert rows.parts is not None
    assert rows.codes.to_pylist() == ["MALFORMED", "COMPUTED_COLUMN"]
    assert rows.parts.to_pylist() == ["value", "record"]


def test_of_several_failed_rows_the_first_one_gives_the_reason_of_its_record() -> None:
    table = _table("n INT, m INT, x AS 10 / n, y AS 10 / m", "debezium-json")
    plan, computed = table._plan("decode"), table.computed_columns()
    assert computed is not None
    rows = decode_records(
        plan.layout,
        None,
        pa.array([b'{"before":{"n":1,"m":0},"after":{"n":0,"m":1},"op":"u"}'], pa.binary()),
        failed_rows=lambda rows: computed.evaluate(rows.columns, int(rows.counts.sum()), 0)[1],
    )
    assert rows.reasons is not None
    assert "computed column 'y'" in rows.reasons[0].as_py()


@pytest.mark.parametrize(("errors", "kept"), [("raise", [0, 3]), ("capture", [0, None, None, 3])])
def test_computed_columns_are_those_of_the_rows_without_the_failed_ones(errors: Errors, kept: list[int | None]) -> None:
    drops = {"ingestion.ignore-errors": "true"} if errors == "raise" else {}
    table = _table("n INT, x AS 10 / n, y AS n + 1").with_options(drops)
    decoding = table.record_decoding(metadata=None, errors=errors, row_index=False, zone="UTC")
    values = pa.array([b'{"n":5}', b'{"n":0}', b"{", b'{"n":2}'])
    columns = [values if name == "value" else pa.nulls(len(values), t) for name, t in KAFKA_TYPES.items()]
    records = pa.RecordBatch.from_arrays(columns, list(KAFKA_TYPES))
    rows = decoding.decoder.decoded(decoding.input.of(records, 0), 0)
    whole = {"n": [5, None, None, 2], "x": [2, None, None, 5], "y": [6, None, None, 3]}
    for name, expected in whole.items():
        assert rows.column(name).to_pylist() == [None if at is None else expected[at] for at in kept]


def test_a_branch_is_only_evaluated_for_the_rows_that_need_it() -> None:
    computed = _table(
        "a INT, s STRING, x AS CASE WHEN a <> 0 THEN 10 / a ELSE 0 END, y AS a = 0 OR 10 / a > 1, "
        "z AS a <> 0 AND 10 / a > 1, v AS COALESCE(TRY_CAST(s AS INT), CAST(s AS INT), 10 / a)"
    ).computed_columns()
    assert computed is not None
    inputs = [pa.array([0, 5], pa.int32()), pa.array(["7", None])]
    found, failed = computed.evaluate(inputs, 2, 0)
    assert [column.to_pylist() for column in found] == [[0, 2], [True, True], [False, True], [7, 2]]
    assert failed == {}


def test_columns_can_be_left_out() -> None:
    table = _table("a INT, x AS NOPE(a), y AS a + 1")
    with pytest.raises(
        ConfigurationError, match=r"computed column 'x' of table 'shop' .*NOPE: .*skip_computed"
    ) as caught:
        table.computed_columns()
    assert caught.value.field == "x"
    left = table.without_computed("x")
    assert [column.name for column in left.columns] == ["a", "y"]
    computed = left.computed_columns()
    assert computed is not None
    assert computed.columns == (("y", "a + 1"),)
    with pytest.raises(ConfigurationError, match=r"no computed column 'xx'\. Did you mean 'x'"):
        table.without_computed("xx")
    with pytest.raises(ConfigurationError, match="has no computed column 'a'"):
        table.without_computed("a")
    timed = _table("n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts")
    with pytest.raises(ConfigurationError, match="the WATERMARK of table 'shop' needs column 'ts'"):
        timed.without_computed("ts")


@pytest.mark.parametrize(
    ("zone", "text"), [("UTC", "2023-11-14 22:13:20.000"), ("Asia/Kolkata", "2023-11-15 03:43:20.000")]
)
def test_records_are_decoded_in_the_given_time_zone(zone: str, text: str) -> None:
    table = _table("seen TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', x AS CAST(seen AS STRING)")
    at = {"value": pa.array([b"{}"]), "timestamp": pa.array([1_700_000_000_000_000], KAFKA_TYPES["timestamp"])}
    columns = [at.get(name, pa.nulls(1, t)) for name, t in KAFKA_TYPES.items()]
    records = pa.RecordBatch.from_arrays(columns, list(KAFKA_TYPES))
    for decoding in (table.record_decoding(zone=zone), table.decode_stage(zone=zone)):
        assert decoding.decoder.decoded(decoding.input.of(records, 0), 0).column("x").to_pylist() == [text]


@pytest.mark.parametrize(
    "column", ["id INT NOT NULL", "r ROW<id INT NOT NULL>", "id INT NOT NULL METADATA FROM 'partition'"]
)
def test_a_column_may_be_null_in_an_expression_whatever_the_table_declares(column: str) -> None:
    """A message may lack any column, so that what needs a value is refused when the table is read."""
    name = "r.id" if column.startswith("r ") else "id"
    table = _table(f"{column}, m AS MAP[{name}, 1]")
    with pytest.raises(ConfigurationError, match=r"'m' of table 'shop' .*a key may be NULL.*skip_computed"):
        table.computed_columns()
    assert _table(f"{column}, m AS MAP[COALESCE({name}, 0), 1]").computed_columns() is not None


def test_an_unknown_time_zone_of_the_session_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"time zone 'Europe/Berlino' is not known.*Did you mean"):
        _table("a INT, x AS a + 1").computed_columns("Europe/Berlino")


@pytest.mark.parametrize("zone", ["UTC", "Z", "GMT+01:00", "+05:30", "Europe/Berlin", "Etc/GMT-3", "US/Pacific"])
def test_names_of_zones_that_spark_allows_are_known(zone: str) -> None:
    computed = _table("a INT, x AS CAST(TO_TIMESTAMP_LTZ(a, 0) AS STRING)").computed_columns(zone)
    assert computed is not None
    (found,), failed = computed.evaluate([pa.array([0], pa.int32())], 1, 0)
    assert (found[0].as_py()[:2], failed) == ("19", {})
