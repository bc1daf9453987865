"""How Spark's settings change the cost of the transport to Python and back.

    scripts/benchmark transport
    scripts/benchmark transport --only messages --records 100000

Five parts, each with its figures in `results/transport.json`. Each compares some settings with Spark's defaults:

    messages    sends posts of 3 KB and users of 240 bytes (`_records.py`) to Python and returns their lengths: as a
                Column (`arrow_udf`) and as a table (`mapInArrow`)
    decode      decodes these messages with the settings that `recommended_settings()` returns
    rows        sends orders of nine columns to Python and returns a null for each; encodes them with engine="arrow"
    lz4         sends posts compressed with lz4; only a few, because this codec is very slow
    sockets     sends messages of 0.2 to 4 KB to Python and back through TCP and through Unix sockets, and decodes them;
                each in sessions of its own, because a session fixes this setting when it starts

`--records` is the number of users. The posts have as many bytes in total. The number of orders is half of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from _measure import Speed, Task, grid, grid_table, measure, run
from _orders import SCHEMA as ORDERS
from _orders import chunks
from _records import SEED, Kind, record_kinds
from _spark import cached_frame, discard_columns, discard_rows, identity, lengths, null_per_row, tables

from kvformat.registry import KeyValueFormat, get_format, recommended_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Settings = Mapping[str, str]
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BUFFER = "spark.sql.execution.python.udf.buffer.size"
_CONCURRENCY = "spark.sql.execution.pythonUDF.arrow.concurrency.level"
_CODEC = "spark.sql.execution.arrow.compression.codec"
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_NO_LIMIT = str(2**31 - 1)
_DEFAULT = "Spark's own"
_TIMES = 4  # how often a job reads the cached messages

_OF_MESSAGES: dict[str, Settings] = {
    _DEFAULT: {},
    "maxBytesPerBatch 256 KB": {_BYTES: str(2**18)},
    "maxBytesPerBatch 1 MB": {_BYTES: str(2**20)},
    "maxBytesPerBatch 2 MB": {_BYTES: str(2**21)},
    "maxBytesPerBatch 4 MB": {_BYTES: str(2**22)},
    "maxBytesPerBatch without limit": {_BYTES: _NO_LIMIT},
    "maxRecordsPerBatch 1000": {_RECORDS: "1000"},
    "python.udf.buffer.size 1 MB": {_BUFFER: str(2**20)},
    "arrow.concurrency.level 2": {_CONCURRENCY: "2"},
    "arrow.compression.codec zstd": {_CODEC: "zstd"},
}
_OF_ROWS: dict[str, Settings] = {
    _DEFAULT: {},
    "maxBytesPerBatch 1 MB": {_BYTES: str(2**20)},
    "maxBytesPerBatch without limit": {_BYTES: _NO_LIMIT},
    "without limit, maxRecordsPerBatch 2000": {_BYTES: _NO_LIMIT, _RECORDS: "2000"},
}
_OF_CODEC: dict[str, Settings] = {_DEFAULT: {}, "arrow.compression.codec lz4": {_CODEC: "lz4"}}


def measure_messages(records: int, rounds: int) -> dict[str, Any]:
    """Send large and small messages to Python."""

    def ways(kind: Kind, frame: DataFrame) -> dict[str, Task]:
        by_column, by_table = lengths(frame, "value")
        return {"Column": discard_rows(by_column), "table": discard_rows(by_table)}

    measured = _of_kinds(ways, _OF_MESSAGES, records, rounds)
    return _document("messages to Python, records per CPU-second", measured, records)


def measure_decode(records: int, rounds: int) -> dict[str, Any]:
    """Decode large and small messages."""

    def ways(kind: Kind, frame: DataFrame) -> dict[str, Task]:
        decoded = get_format("json", kind.options).decode("value", kind.schema)
        table = KeyValueFormat(kind.schema, {"format": "json"}).decode(frame)
        return {"decode": discard_columns(frame, decoded), "KeyValueFormat.decode": discard_rows(table)}

    settings = {_DEFAULT: {}, "recommended_settings()": recommended_settings()}
    measured = _of_kinds(ways, settings, records // 2, rounds)
    return _document("decode, records per CPU-second", measured, records // 2)


def _of_kinds(
    ways: Callable[[Kind, DataFrame], dict[str, Task]], settings: Mapping[str, Settings], records: int, rounds: int
) -> dict[str, dict[str, Speed]]:
    """Measure both kinds of messages, with the same number of bytes, and return the speeds by setting and task."""
    measured: dict[str, dict[str, Speed]] = {}
    for kind in record_kinds():
        if kind.name in ("posts", "users"):
            messages = kind.draw(records / _TIMES * 240 / 1e6)
            with cached_frame(tables(messages), times=_TIMES) as frame:
                found = _measured(frame, ways(kind, frame), settings, _TIMES * len(messages), rounds)
            for setting, speeds in found.items():
                measured.setdefault(setting, {}).update({f"{kind.name}, {way}": speed for way, speed in speeds.items()})
    return measured


def measure_rows(records: int, rounds: int) -> dict[str, Any]:
    """Send rows of nine columns, some of them nested, to Python."""
    from pyspark.sql import functions as F

    records //= 2  # each takes more time
    with cached_frame(pa.Table.from_struct_array(rows) for rows in chunks(records)) as frame:
        by_column, by_table = null_per_row(frame)
        encoded = get_format("json").encode(F.struct(*frame.columns), ORDERS, engine="arrow")
        ways = {
            "Column": discard_rows(by_column),
            "table": discard_rows(by_table),
            "encode, engine='arrow'": discard_columns(frame, encoded),
        }
        measured = _measured(frame, ways, _OF_ROWS, records, rounds)
    return _document("rows to Python, records per CPU-second", measured, records)


def measure_lz4(records: int, rounds: int) -> dict[str, Any]:
    """Send compressed messages to Python. Spark compresses batches with Arrow for Java, whose lz4 is plain Java."""
    posts = record_kinds()[0]
    messages = posts.draw(records / 20 * 240 / 1e6)
    with cached_frame(tables(messages)) as frame:
        by_column, _ = lengths(frame, "value")
        measured = _measured(frame, {"Column": discard_rows(by_column)}, _OF_CODEC, len(messages), rounds)
    return _document("posts to Python, compressed, records per CPU-second", measured, len(messages))


def measure_sockets(records: int, rounds: int) -> dict[str, Any]:
    """Send messages to Python and back through TCP and through Unix sockets, and decode them.

    A session fixes the kind of sockets when it starts, so sessions of both kinds take turns in one JVM.
    """
    sessions: dict[str, Settings] = {_DEFAULT: {}, "unix.domain.socket.enabled": {_UNIX_SOCKETS: "true"}}
    measured: dict[str, dict[str, Speed]] = {setting: {} for setting in sessions}
    for kind in record_kinds():
        if kind.name not in ("posts", "catalog", "users"):
            continue
        messages = kind.draw(records / _TIMES * 240 / 1e6)
        found: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for setting, values in sessions.items():
                with cached_frame(tables(messages), {**values, **recommended_settings()}, times=_TIMES) as frame:
                    decoded = get_format("json", kind.options).decode("value", kind.schema)
                    table = KeyValueFormat(kind.schema, {"format": "json"}).decode(frame)
                    ways = {
                        "identity": discard_columns(frame, identity("value")),
                        "decode": discard_columns(frame, decoded),
                        "KeyValueFormat.decode": discard_rows(table),
                    }
                    for way, speed in measure(ways, records=_TIMES * len(messages), rounds=2).items():
                        found.setdefault((setting, f"{kind.name}, {way}"), []).extend(speed.rounds)
        for (setting, way), speeds in found.items():
            measured[setting][way] = Speed(tuple(speeds))
    return _document("messages to Python and back, records per CPU-second", measured, records)


def _measured(
    frame: DataFrame, ways: Mapping[str, Task], settings: Mapping[str, Settings], records: int, rounds: int
) -> dict[str, dict[str, Speed]]:
    """Measure every task with every setting, in turns. Spark reads the settings when a job starts."""
    conf = frame.sparkSession.conf
    names = {name for values in settings.values() for name in values}

    def with_settings(values: Settings, way: Task) -> Task:
        def task() -> None:
            for name in names:
                conf.unset(name)
            for name, value in values.items():
                conf.set(name, value)
            way()

        return task

    tasks = {(s, w): with_settings(values, way) for s, values in settings.items() for w, way in ways.items()}
    speeds = measure({f"{s}: {w}": task for (s, w), task in tasks.items()}, records=records, rounds=rounds)
    found: dict[str, dict[str, Speed]] = {}
    for setting, way in tasks:
        found.setdefault(setting, {})[way] = speeds[f"{setting}: {way}"]
    return found


def _document(title: str, measured: Mapping[str, Mapping[str, Speed]], records: int) -> dict[str, Any]:
    def compared(row: str, column: str) -> tuple[str, str, str] | None:
        return None if row == _DEFAULT else (_DEFAULT, column, _DEFAULT)

    found = grid("settings", measured, compared, {})
    found["records"] = records
    print(grid_table(title, found))
    return found


if __name__ == "__main__":
    run(
        "transport",
        __doc__ or "",
        {
            "messages": measure_messages,
            "decode": measure_decode,
            "rows": measure_rows,
            "lz4": measure_lz4,
            "sockets": measure_sockets,
        },
        {"seed": SEED, "recommended": {way: recommended_settings(way) for way in ("decode", "encode", "start")}},
        records=1_000_000,
    )
