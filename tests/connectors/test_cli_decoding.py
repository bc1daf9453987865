"""What `decode` shows of each record: its number, its metadata, and computed columns, which need no Spark."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvformat.connectors.cli import _framing
from tests.support.cli import lines, run


@pytest.fixture
def decoded(tmp_path: Path) -> Callable[..., tuple[list[Any], list[Any]]]:
    """Return a function that decodes records of a table with these columns; it returns the rows and the errors."""

    def run_(columns: str, *records: dict[str, Any], format: str = "json", more: tuple[str, ...] = ()) -> Any:
        file = tmp_path / "t.sql"
        file.write_text(
            f"CREATE TABLE t ({columns}) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = '{format}', "
            "'properties.bootstrap.servers' = 'b:9', 'scan.startup.mode' = 'earliest-offset')"
        )
        result = run("decode", "--ddl", file, *more, given="\n".join(map(json.dumps, records)))
        return lines(result.stdout), [json.loads(line) for line in result.stderr.splitlines() if line[0] == "{"]

    return run_


@pytest.mark.parametrize("framing", ["lines", "length", "records"])
@pytest.mark.parametrize("size", [1, 20, 1 << 18])
def test_messages_are_numbered_over_batches_and_files(framing: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_framing, "_CHUNK", size)
    one = {"lines": b"x\n", "length": b"\0\0\0\1x", "records": b'{"value":"x"}\n'}[framing]
    batches = [*_framing.read_messages([io.BytesIO(one * 5), io.BytesIO(one), io.BytesIO(one * 3)], framing)]
    assert [batch.first + place for batch in batches for place in range(len(batch.values))] == [*range(1, 10)]


def test_messages_after_a_bad_one_are_not_counted_if_it_stops() -> None:
    given = ("decode", "--json", "-f", "json", "-s", "a INT")
    result = run(*given, "--errors", "stop", given=b'{"a":1}\n{"a":"x"}\n{"a":2}\n{"a":"y"}\n')
    assert lines(result.stdout) == [{"a": 1}]
    assert lines(result.stderr)[-1] == {"messages": 2, "rows": 1, "skipped": 0, "bad": 1}


def test_a_hint_at_other_framings_is_only_for_the_default() -> None:
    given = ("decode", "-f", "avro", "-s", "id INT, name STRING")
    assert "perhaps another --framing" in run(*given, given=b"\x02\x02\xff\n").stderr
    assert "perhaps another --framing" not in run(*given, "--framing", "lines", given=b"\x02\x02\xff\n").stderr


def test_a_list_of_headers_has_each_header_and_a_map_the_last_ones(decoded: Any) -> None:
    columns = "id INT, l ARRAY<ROW<key STRING, `value` BYTES>> METADATA FROM 'header-list' VIRTUAL"
    record = {"value": "{}", "headers": ["h", "a", "n", None, "h", "b"]}
    rows, _ = decoded(columns, record, {"value": "{}"}, more=("-m", "headers"))
    entries = [{"key": "h", "value": "YQ=="}, {"key": "n", "value": None}, {"key": "h", "value": "Yg=="}]
    assert rows[0] == {"id": None, "l": entries, "headers": {"h": "Yg==", "n": None}}
    assert rows[1] == {"id": None, "l": None, "headers": None}


def test_a_line_of_a_record_has_only_what_is_known() -> None:
    assert _framing.record_of(None, b"", {"headers": []}) == {"key": None, "value": ""}
    about = {"partition": 0, "offset": 0, "timestamp-type": "CreateTime", "timestamp": 0, "headers": [("h", None)]}
    assert _framing.record_of(b"", None, about) == {
        **{"partition": 0, "offset": 0, "tstype": "create", "ts": 0, "headers": ["h", None]},
        **{"key": "", "value": None},
    }


@pytest.mark.parametrize(
    ("name", "bits"), [("partition", 31), ("offset", 63), ("ts", 63), ("timestamp", 63)], ids=lambda value: str(value)
)
def test_a_number_that_kafka_cannot_have_is_a_fault_of_its_record(name: str, bits: int, decoded: Any) -> None:
    columns = "p INT METADATA FROM 'partition' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL, x AS p + o, id INT"
    numbers = (2**bits - 1, 2**bits, -(2**bits) - 1, 10**30)
    rows, faults = decoded(columns, *({"value": "{}", name: number} for number in numbers))
    assert len(rows) == 1
    assert [fault["message"] for fault in faults] == [2, 3, 4]
    assert {fault["reason"] for fault in faults} == {
        f"the line is not a record: '{name}' is beyond the range of Kafka's"
    }


# --- computed columns ------------------------------------------------------------------------------------------


def test_computed_columns_use_the_metadata_of_the_record(decoded: Any) -> None:
    columns = """ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, later AS ts + INTERVAL '1' SECOND,
        k STRING METADATA FROM '__raw_key__' VIRTUAL, v STRING METADATA FROM '__raw_value__' VIRTUAL, kv AS k || v,
        m MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL, mh AS m['h'],
        l ARRAY<ROW<key STRING, `value` BYTES>> METADATA FROM 'header-list' VIRTUAL, lh AS CARDINALITY(l), id INT"""
    record = {"key": "k", "value": '{"id":1}', "ts": 1500, "headers": ["h", "a", "h", "b"]}
    rows, faults = decoded(columns, record, {"value": "{}"}, {"value": "{}", "ts": 2**62})
    computed = [[row[name] for name in ("later", "kv", "mh", "lh")] for row in rows]
    assert computed[0] == ["1970-01-01T00:00:02.5Z", 'k{"id":1}', "Yg==", 2]
    assert computed[1:] == [[None] * 4, [None] * 4], "a timestamp of more than 64 bits in microseconds is unknown"
    assert faults == []


def test_the_time_of_now_is_that_of_the_clock(decoded: Any) -> None:
    before = dt.datetime.now(dt.UTC)
    ((row,), _) = decoded("id INT, seen AS CURRENT_TIMESTAMP", {"value": "{}"})
    seen = dt.datetime.fromisoformat(row["seen"])
    assert before - dt.timedelta(milliseconds=1) <= seen <= dt.datetime.now(dt.UTC)


def _change(before: Any, after: Any, offset: int) -> dict[str, Any]:
    return {"value": json.dumps({"before": before, "after": after, "op": "u" if before else "c"}), "offset": offset}


def test_metadata_belongs_to_each_row_of_its_record(decoded: Any) -> None:
    """A tombstone has no row, an update two."""
    columns = "id INT, o BIGINT METADATA FROM 'offset' VIRTUAL, after_ AS o + 1"
    records = [{"value": None, "offset": 10}, _change({"id": 1}, {"id": 2}, 20), _change(None, {"id": 3}, 30)]
    rows, _ = decoded(columns, *records, format="debezium-json")
    assert [[*change["row"].values()] for change in rows] == [[1, 20, 21], [2, 20, 21], [3, 30, 31]]


def test_a_record_with_two_failing_rows_has_the_reason_of_the_first(decoded: Any) -> None:
    columns = "id INT, v STRING, x AS 10 / id, y AS CAST(v AS INT)"
    change = _change({"id": 0, "v": "1"}, {"id": 1, "v": "z"}, 7)
    rows, (fault,) = decoded(columns, change, format="debezium-json")
    assert (rows, fault["offset"]) == ([], 7)
    assert fault["reason"].endswith("/: division by zero")
