"""The texts of a STRING column can be used in a Python UDF, in pandas, and with Spark's `encode` and `decode`."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from kvformat.registry import KeyValueFormat, get_format
from kvformat.registry.contract.errors import KvFormatError

pytestmark = pytest.mark.spark

_VALUES = [b"good", b"a\xff", None, "é".encode(), b"\xed\xa0\x80"]
_NAMES = ["good", None, None, "é", None]


def _frame(spark: Any) -> Any:
    return spark.createDataFrame(list(enumerate(_VALUES)), "n INT, value BINARY")


def _used(texts: Any) -> list[list[Any]]:
    """Return the texts from a Python UDF, from pandas and from Spark's functions, in the order of `n`."""
    twice = F.udf(lambda text: None if text is None else text * 2, "STRING")
    found = texts.select("n", "s", twice("s").alias("t"), F.decode(F.encode("s", "UTF-8"), "UTF-8").alias("d"))
    table = found.toPandas().sort_values("n")
    columns = [[value if isinstance(value, str) else None for value in table[name]] for name in ("s", "t", "d")]
    return [*columns, [row["s"] for row in sorted(texts.collect(), key=lambda row: row["n"])]]


@pytest.mark.parametrize("options", [{}, {"invalid-text": "replace"}])
def test_text_of_raw_can_be_used(spark: Any, options: dict[str, str]) -> None:
    column = get_format("raw", options).decode("value", "s STRING", errors="capture").alias("v")
    rows = _frame(spark).select("n", column)
    names = ["good", "a\ufffd", None, "é", "\ufffd"] if options else _NAMES
    twice = [name and name * 2 for name in names]
    assert _used(rows.select("n", "v.row.s")) == [names, twice, names, names]
    kept = sorted(rows.where("v.error IS NOT NULL").select("n", "v.error.message", "v.error.code").collect())
    wrong = [] if options else [(1, bytearray(b"a\xff"), "WRONG_CHARSET"), (4, _VALUES[4], "WRONG_CHARSET")]
    assert [tuple(row) for row in kept] == wrong


def test_kept_bytes_are_written_unchanged(spark: Any) -> None:
    raw = get_format("raw", {"invalid-text": "keep"})
    rows = _frame(spark).select("n", raw.decode("value", "s STRING").alias("o"))
    again = rows.select("n", F.col("o.s").cast("binary").alias("b"), raw.encode("o", "s STRING").alias("m"))
    table = again.toArrow().sort_by("n")
    assert table["b"].to_pylist() == _VALUES
    assert table["m"].to_pylist() == _VALUES


def test_a_message_of_any_text_can_be_quoted(spark: Any) -> None:
    """The message may be a STRING column with any bytes."""
    frame = _frame(spark).select("n", F.col("value").cast("string").alias("value"))
    for format, schema in (("raw", "s STRING"), ("json", "s STRING"), ("raw", "s INT")):
        with pytest.raises(Exception, match=f"format '{format}' cannot decode a message") as caught:
            frame.where("n = 1").select(get_format(format).decode("value", schema)).collect()
        assert isinstance(caught.value, KvFormatError) or r"b'a\xff'" in str(caught.value)
        captured = frame.select("n", get_format(format).decode("value", schema, errors="capture").alias("v"))
        found = captured.where("n = 1").select("v.error.message").collect()
        assert [bytes(row["message"]) for row in found] == [b"a\xff"]


def test_text_computed_from_bytes_can_be_used(spark: Any) -> None:
    table = KeyValueFormat.from_ddl(
        "CREATE TABLE t (n INT, payload BYTES, s AS CAST(payload AS STRING), h AS CAST(UNHEX('61FF') AS STRING)) "
        "WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:1', "
        "'scan.startup.mode' = 'earliest-offset', 'key.format' = 'raw', "
        "'key.fields' = 'n', 'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY')"
    )
    keys = _frame(spark).select(get_format("raw").encode(F.struct("n"), "n INT").alias("key"), "value")
    names = ["good", "a\ufffd", None, "é", "\ufffd"]  # Java replaces an encoded surrogate once
    assert _used(table.decode(keys).select("n", "s"))[0] == names
    assert {row["h"] for row in table.decode(keys).select("h").collect()} == {"a\ufffd"}
